"""The commands by name, and what happens to their errors."""

import ast
import sys
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
    "verify",
    "reproduce",
    "results",
    "show",
    "runs",
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


def main() -> None:
    """Run the command line; errors of use are one sentence and exit status 2."""
    try:
        app()
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
