"""Packages that dynascope can do without, and the line that installs them."""

from importlib.util import find_spec

# package -> (its name in a sentence, the extra of dynascope that brings it)
_EXTRAS = {
    "bokeh": ("Bokeh", "live"),
    "dask": ("Dask", "sweep"),
    "distributed": ("Dask", "sweep"),
    "sklearn": ("scikit-learn", "data"),
    "torch": ("PyTorch", "torch"),
    "tornado": ("Bokeh", "live"),
}


class MissingPackageError(ImportError):
    """What was asked for needs a package that is not installed; the message says how to install it."""

    def __init__(self, package: str, what: str) -> None:
        title, extra = _EXTRAS[package]
        super().__init__(f"{what} needs {title}: pip install 'dynascope[{extra}]'", name=package)


def require(package: str, what: str) -> None:
    """Refuse to go on without a package, which is not imported.

    >>> require("torch", "this experiment")
    """
    if find_spec(package) is None:
        raise MissingPackageError(package, what)


def explain(error: ImportError, what: str) -> ImportError:
    """Name the line that installs what an import did not find; an error of another kind comes back as it is.

    >>> explain(ModuleNotFoundError(name="torch"), "dynascope.networks.MLP")
    MissingPackageError("dynascope.networks.MLP needs PyTorch: pip install 'dynascope[torch]'")
    """
    package = (error.name or "").partition(".")[0]
    known = package in _EXTRAS and not isinstance(error, MissingPackageError)
    return MissingPackageError(package, what) if known else error
