"""After fuzzing: how many inputs were given, and what became of them."""

import promise


def pytest_terminal_summary(terminalreporter):
    """Print the table of what this process has counted."""
    if promise.COUNTS:
        terminalreporter.write_line(promise.table())
