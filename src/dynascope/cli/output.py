"""What commands do with a record: describe it, draw it, write it."""

import warnings
from pathlib import Path

import numpy as np
import xarray as xr

import dynascope
from dynascope import plots
from dynascope.monitor.journal import watched
from dynascope.records import Json, attribute, check_writable, digest, save, to_json, write_text


def describe(record: xr.Dataset) -> dict[str, Json]:
    """What a record holds and where it comes from, as plain values.

    >>> describe(xr.Dataset({"a": 1.0}))["variables"]["a"]["mean"]
    1.0
    """
    return {
        "digest": digest(record),
        "provenance": {str(name): attribute(record, str(name)) for name in record.attrs},
        "variables": {
            str(name): {"dimensions": {str(dim): size for dim, size in array.sizes.items()}} | _range(array)
            for name, array in record.data_vars.items()
        },
    }


def _range(array: xr.DataArray) -> dict[str, float]:
    if array.dtype.kind not in "biuf" or array.size == 0:
        return {}
    values = array.to_numpy()  # xarray's own reductions import Dask where it is installed
    axes = tuple(range(array.ndim))
    with warnings.catch_warnings(action="ignore"):  # a variable may be NaN throughout
        least, mean, greatest = (float(each(values, axis=axes)) for each in (np.nanmin, np.nanmean, np.nanmax))
    return {"least": least, "mean": mean, "greatest": greatest}


def check_picture(path: Path) -> None:
    """Refuse a name that is no picture's, or a place that cannot be written.

    >>> check_picture(Path("a.pdf"))
    Traceback (most recent call last):
    ValueError: out must end in .png, .svg or .html for a picture, got 'a.pdf'
    """
    if path.suffix not in (".png", ".svg", ".html"):
        raise ValueError(f"out must end in .png, .svg or .html for a picture, got {path.name!r}")
    check_writable(path)


def draw(record: xr.Dataset, out: Path) -> None:
    """Draw the picture that suits a record, or a page about it."""
    if watched(record):
        if out.suffix == ".html":
            write_text(out, dynascope.report.watch_report(record))
        else:
            plots.save_figure(plots.plot_watched(record), out)
        return
    figure = plots.plot_forecast(record) if record.attrs.get("model") == '"forecast"' else plots.plot_run(record)
    if out.suffix == ".html":
        write_text(out, dynascope.report.html_report(str(attribute(record, "model")), record, figure=figure))
    else:
        plots.save_figure(figure, out)


def check_place(out: Path | None, name: str) -> None:
    """Refuse, before any work, a file that cannot be written or drawn."""
    if out is not None and out.suffix != ".nc":
        check_picture(out)
    check_writable(out or Path("results") / f"{name}.nc")


def write(run: xr.Dataset, path: Path, *, as_json: bool) -> None:
    """Write the record, and a picture where the name asks for one; say where."""
    record = path if path.suffix == ".nc" else path.with_suffix(".nc")
    save(run, record)
    if path != record:
        draw(run, path)
    if as_json:
        print(to_json({"record": str(record), **describe(run)}))
    else:
        print(f"record: {record}" + (f"\npicture: {path}" if path != record else ""))
