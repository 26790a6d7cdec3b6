"""What commands say to a person."""

from rich.console import Console


def say(line: str) -> None:
    """What is going on, for a person at a terminal."""
    console = Console(stderr=True)
    if console.is_terminal:
        console.print(line, style="dim", highlight=False, markup=False)
