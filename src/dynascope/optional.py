"""Packages that dynascope can do without, and the line that installs them."""

# package -> (its name in a sentence, the extra of dynascope that brings it)
_EXTRAS = {
    "dask": ("Dask", "sweep"),
    "distributed": ("Dask", "sweep"),
    "sklearn": ("scikit-learn", "data"),
    "torch": ("PyTorch", "torch"),
}


class MissingPackageError(ImportError):
    """What was asked for needs a package that is not installed; the message says how to install it."""


def explain(error: ImportError, what: str) -> ImportError:
    """Name the line that installs what an import did not find; an error of another kind comes back as it is.

    >>> explain(ModuleNotFoundError(name="torch"), "dynascope.networks.MLP")
    MissingPackageError("dynascope.networks.MLP needs PyTorch: pip install 'dynascope[torch]'")
    """
    package = (error.name or "").partition(".")[0]
    if isinstance(error, MissingPackageError) or package not in _EXTRAS:
        return error
    title, extra = _EXTRAS[package]
    return MissingPackageError(f"{what} needs {title}: pip install 'dynascope[{extra}]'", name=package)
