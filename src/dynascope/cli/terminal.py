"""What commands say to a person."""

from rich.console import Console


def plain_console(*, stderr: bool = False) -> Console:
    """A console that prints text as it is: brackets in names, which may come from any file, are no markup.

    >>> plain_console().print("[/bold]")
    [/bold]
    """
    return Console(markup=False, stderr=stderr)


def say(line: str) -> None:
    """What is going on, for a person at a terminal."""
    console = plain_console(stderr=True)
    if console.is_terminal:
        console.print(line, style="dim", highlight=False)
