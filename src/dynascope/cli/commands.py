"""The commands by name, and what happens to their errors."""

import ast
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from dynascope import __version__
from dynascope.optional import MissingPackageError

# in the order in which they are listed; each is a file beside this one
COMMANDS = (
    "imitate",
    "forecast",
    "verify",
    "reproduce",
    "results",
    "show",
    "runs",
    "live",
    "advise",
    "report",
    "where",
    "cite",
    "simulate",
    "estimate",
    "data",
    "sweep",
)


class _OnCall(TyperCommand):
    """A command whose file is imported when it is called; until then it only knows its name and its help."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        application = import_module(f"dynascope.cli.{self.name}").app
        return typer.main.get_command(application).make_context(info_name, args, parent=parent, **extra)


class _Commands(TyperGroup):
    """Lists the commands from the texts of their files."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {name: _OnCall(name) for name in COMMANDS}

    def list_commands(self, ctx: Any) -> list[str]:
        for name, command in self.commands.items():
            command.help = _help(name)
        return list(self.commands)


def _help(name: str) -> str | None:
    """The docstring of the function that bears the command's name, read without importing its file."""
    content = ast.parse(Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8"))
    functions = (node for node in content.body if isinstance(node, ast.FunctionDef))
    return next(ast.get_docstring(node) for node in functions if node.name == name)


app = typer.Typer(
    help="See, model and forecast how neural networks learn.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    cls=_Commands,
)


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        print(__version__)
        raise typer.Exit


class Stopped(BaseException):
    """A signal asked this program to end: no error, and not typer's to handle."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.status = 128 + number


def _stop(number: int, _frame: object) -> None:
    signal.signal(number, signal.SIG_DFL)  # the second one ends it at once
    raise Stopped(number)


def _ask_again(lost: Any) -> None:
    """A signal that comes while Python collects garbage is lost there: send it again a moment later."""
    if not isinstance(lost.exc_value, Stopped):
        sys.__unraisablehook__(lost)
        return
    number = lost.exc_value.status - 128
    signal.signal(number, _stop)
    threading.Timer(0.05, os.kill, (os.getpid(), number)).start()


@contextmanager
def _stoppable() -> Iterator[None]:
    """Let what is open be closed where a signal ends the program."""
    if threading.current_thread() is not threading.main_thread():  # where handlers cannot be set
        yield
        return
    before = {number: signal.signal(number, _stop) for number in (signal.SIGINT, signal.SIGTERM)}
    hook, sys.unraisablehook = sys.unraisablehook, _ask_again
    try:
        yield
    finally:
        sys.unraisablehook = hook
        for number, handler in before.items():
            signal.signal(number, handler)


def main() -> None:
    """Run the command line; errors of use are one sentence and exit status 2, signals end it with 130 or 143."""
    try:
        with _stoppable():
            app()
    except Stopped as stop:  # here, since a signal may come before the block is entered, or while it is left
        name = signal.Signals(stop.status - 128).name
        typer.echo(f"stopped by {name}: what is finished is kept, and the same command goes on", err=True)
        sys.exit(stop.status)
    except (ValueError, FloatingPointError, OSError, MissingPackageError) as error:
        _complain(str(error))
    except _memory_errors() as error:
        _complain(f"the run does not fit into memory; ask for fewer trials, grid points or saved times ({error})")


def _memory_errors() -> tuple[type[BaseException], ...]:
    """JAX has one of its own, which can only have been raised if JAX is loaded: asking must not load it."""
    jax = sys.modules.get("jax")
    return (MemoryError, jax.errors.JaxRuntimeError) if jax else (MemoryError,)


def _complain(sentence: str) -> None:
    typer.secho("error:", fg="red", bold=True, nl=False, err=True)
    typer.echo(f" {' '.join(sentence.split())}", err=True)
    sys.exit(2)
