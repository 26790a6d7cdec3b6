"""The source of an experiment as a digest, so that a result is found again only under the code that made it.

What counts: the experiment's function, and every function, class and constant that it uses from its own folder, however
far down; not comments elsewhere in these files, nor functions that only draw. Of other packages only the version of
dynascope counts.
"""

import ast
import dis
import functools
import hashlib
import inspect
import json
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType

import numpy as np

from dynascope import __version__
from dynascope.records import Json


def source_digest(experiment: object) -> str:
    """SHA-256 of the source of a function, class or callable object and of what it uses from its own folder.

    >>> def double(x):
    ...     return 2 * x
    >>> def treble(x):
    ...     return 3 * x
    >>> source_digest(double) == source_digest(double) != source_digest(treble)
    True
    """
    home = _folder(sys.modules.get(home_module(experiment)))
    found: dict[str, str] = {}
    _collect(experiment, home, found, type(experiment).__name__)
    content = {"dynascope": __version__, "source": found}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def home_module(experiment: object) -> str:
    """Name of the module where a function, class or callable object is defined.

    >>> home_module(functools.partial(home_module, int))
    'dynascope.sweep.source'
    """
    while isinstance(experiment, functools.partial):
        experiment = experiment.func
    return getattr(experiment, "__module__", None) or ""


def _folder(module: ModuleType | None) -> str | None:
    file = getattr(module, "__file__", None)
    return None if file is None else str(Path(file).resolve().parent)


def _collect(value: object, home: str | None, found: dict[str, str], label: str) -> None:
    """Add the text of a value, and of what it uses, under names that say where it is defined or used."""
    value = inspect.unwrap(value) if isinstance(value, FunctionType) else value
    if isinstance(value, MethodType):
        _collect(value.__func__, home, found, label)
        _collect(value.__self__, home, found, f"{label} self")
    elif isinstance(value, functools.partial):
        for part, name in ((value.func, "of"), (value.args, "args"), (value.keywords, "keywords")):
            _collect(part, home, found, f"{label} {name}")
    elif isinstance(value, FunctionType | type):
        name = f"{value.__module__.rpartition('.')[2]}.{value.__qualname__}"
        if name in found or _folder(sys.modules.get(value.__module__)) != home:
            return
        found[name] = _text(value)
        for used_as, used in _used(value, home):
            _collect(used, home, found, f"{name} {used_as}")
    elif (plain := _plain_text(value)) is not None:
        found[label] = plain
    elif isinstance(value, dict):  # of functions, for instance
        for name, part in value.items():
            _collect(part, home, found, f"{label} {name}")
    elif callable(inner := getattr(value, "__wrapped__", None)):  # compiled functions of JAX
        _collect(inner, home, found, label)
    elif _folder(sys.modules.get(type(value).__module__)) == home is not None and label not in found:
        found[label] = f"an object of {type(value).__qualname__}"
        _collect(type(value), home, found, label)
        for name, part in sorted(getattr(value, "__dict__", {}).items()):
            _collect(part, home, found, f"{type(value).__qualname__} {name}")


def _text(value: FunctionType | type) -> str:
    """Source text; the compiled form where there is none, as for a function typed at a prompt."""
    try:
        text = textwrap.dedent(inspect.getsource(value))
        first = ast.parse(text).body[0]
        if getattr(first, "name", None) == value.__name__:
            return text
    except (OSError, TypeError, SyntaxError, IndexError):
        pass
    return "\n".join(_compiled(code) for code in _codes(value))


def _compiled(code: CodeType) -> str:
    steps = [
        f"{step.opname} {step.argrepr if step.opname != 'LOAD_CONST' else ''}" for step in dis.get_instructions(code)
    ]
    constants = [repr(each) for each in code.co_consts if not isinstance(each, CodeType)]
    return "\n".join([code.co_name, *steps, *constants])


def _codes(value: FunctionType | type) -> Iterator[CodeType]:
    """Code of a function, of all methods of a class, and of what is defined inside."""
    functions = [value] if isinstance(value, FunctionType) else list(vars(value).values())
    waiting = [each.__code__ for each in map(_bare, functions) if isinstance(each, FunctionType)]
    while waiting:
        code = waiting.pop()
        yield code
        waiting += [each for each in code.co_consts if isinstance(each, CodeType)]


def _bare(value: object) -> object:
    """The function behind a property, static or class method."""
    value = getattr(value, "fget", value)
    return getattr(value, "__func__", value)


def _used(value: FunctionType | type, home: str | None) -> Iterator[tuple[str, object]]:
    """Globals, and attributes of neighbouring modules, that the code names; values it closes over; bases of a class."""
    names = sorted({name for code in _codes(value) for name in code.co_names})
    known = value.__globals__ if isinstance(value, FunctionType) else vars(sys.modules.get(value.__module__, object))
    for name in names:
        if name in known and name != "__builtins__":
            yield name, known[name]
            if isinstance(known[name], ModuleType) and _folder(known[name]) == home is not None:
                yield from (
                    (f"{name}.{each}", getattr(known[name], each)) for each in names if hasattr(known[name], each)
                )
    if isinstance(value, FunctionType):
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            yield name, cell.cell_contents
    else:
        yield from (("base", base) for base in value.__bases__)


def _plain_text(value: object) -> str | None:
    """JSON of a constant, None for what is none."""
    try:
        return json.dumps(value, sort_keys=True, default=_array)
    except (TypeError, ValueError):
        return None


def _array(value: object) -> Json:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError
