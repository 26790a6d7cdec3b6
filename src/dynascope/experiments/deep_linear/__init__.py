"""Claims and figures of deep linear networks; files named mode_… concern the one-mode equation."""
