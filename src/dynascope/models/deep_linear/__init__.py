"""Deep linear networks under gradient noise, followed mode by mode."""

CITE = "corlouer2026saddle"
