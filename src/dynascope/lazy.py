"""Names that are loaded on first use, so that importing a package stays quick.

Such a package types its public names once, in the stub `__init__.pyi`, as imports that type checkers and editors
follow. Its `__init__.py` reads the same file:

    __getattr__, __dir__, __all__ = attach(__name__, __file__)
"""

import ast
import importlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from dynascope.deprecation import warn_renamed
from dynascope.optional import explain

NONE: Mapping[str, str] = MappingProxyType({})


def attach(
    package: str, file: str, *, former: Mapping[str, str] = NONE
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package whose stub says where its names live.

    `from HOME import name as name` in the stub is a public name. `from PACKAGE import part as part` is a module of the
    package that can be reached as an attribute without an import of its own; it is not in `__all__`.

    former: name of the version before -> what it is called now, in full; it works for one version more, with a warning.

    >>> from dynascope import measure
    >>> look_up, names, public = attach("dynascope.measure", measure.__file__)
    >>> "cka" in public, look_up("cka").__module__
    (True, 'dynascope.measure.spectrum')
    """
    homes, parts = _read(package, Path(file).with_suffix(".pyi"))
    public = sorted(homes)

    def look_up(name: str) -> object:
        if name in parts:
            return _load(f"{package}.{name}", f"{package}.{name}")
        if name in former:
            warn_renamed(f"{package}.{name}", former[name])
            home, _, new = former[name].rpartition(".")
            return getattr(importlib.import_module(home), new)
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(_load(homes[name], f"{package}.{name}"), name)

    def list_names() -> list[str]:
        return sorted({*public, *(name for name in vars(sys.modules[package]) if name.startswith("__"))})

    return look_up, list_names, public


def _read(package: str, stub: Path) -> tuple[dict[str, str], set[str]]:
    """Name -> home of the public names, and the modules of the package, of a stub."""
    homes: dict[str, str] = {}
    parts: set[str] = set()
    for node in ast.parse(stub.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            names = {alias.name for alias in node.names}
            if node.module == package:
                parts |= names
            else:
                homes |= dict.fromkeys(names, node.module)
    return homes, parts


def _load(module: str, what: str) -> object:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise explain(error, what) from error
