"""Figures, labels and colours that all pictures share.

Figures are made without pyplot, so that a user's matplotlib state and backend stay untouched. Colours come
from the Okabe-Ito palette and from cividis, readable for colour-blind eyes and in grey.
"""

import io
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import xarray as xr
from matplotlib import colormaps
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from PIL import Image

from dynascope.records import write_whole

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


def cividis(values: np.ndarray) -> np.ndarray:
    """Colours for numbers from 0 to 1.

    >>> cividis(np.zeros(2)).shape
    (2, 4)
    """
    return np.asarray(colormaps["cividis"](values))


def shades(count: int) -> list[str]:
    """Colours for as many ordered things, the first dark, the last light.

    >>> shades(8)[0]
    '#00224e'
    """
    return [to_hex(each) for each in cividis(np.linspace(0, 0.9, count))]


def new_figure(
    columns: int = 1, rows: int = 1, *, width: float = 4.2, height: float = 3.4
) -> tuple[Figure, np.ndarray]:
    """Make a figure and an array of axes, shaped (rows, columns).

    >>> figure, axes = new_figure(columns=2)
    >>> axes.shape
    (1, 2)
    """
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def save_figure(figure: Figure, path: Path) -> Path:
    """Write a picture whole or not at all; the suffix (.png or .svg) decides the format.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_figure(new_figure()[0], Path(folder) / "empty.svg").name
    'empty.svg'
    """
    kind = path.suffix.removeprefix(".").lower()
    if kind not in ("png", "svg"):
        raise ValueError(f"a picture's name must end in .png or .svg, got {path.name!r}")
    with warnings.catch_warnings():  # about the place of a legend, where a busy machine takes long to find it
        warnings.filterwarnings("ignore", "Creating legend", UserWarning)
        return write_whole(path, lambda place: figure.savefig(place, format=kind, dpi=150))


def save_small(picture: Path, path: Path, limit: int = 150_000) -> Path:
    """Write a PNG that was drawn before as one that a page can show: at most 900 pixels wide and `limit` bytes large.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     large = save_figure(new_figure()[0], Path(folder) / "large.png")
    ...     save_small(large, Path(folder) / "small.png").stat().st_size <= 150_000
    True
    """
    with Image.open(picture) as opened:
        large = opened.convert("RGB")
    for width in (900, 720, 540, 360):
        share = min(1.0, width / large.width)
        size = (max(1, round(share * large.width)), max(1, round(share * large.height)))
        content = io.BytesIO()
        small = large.resize(size, Image.Resampling.LANCZOS)
        # the usual way has colours for what most pixels show: thin curves of two colours would become one
        small.quantize(256, Image.Quantize.MAXCOVERAGE, kmeans=1).save(content, "png", optimize=True)
        if len(content.getbuffer()) <= limit:
            break
    return write_whole(path, lambda place: place.write_bytes(content.getbuffer()))


def axis_label(array: xr.DataArray) -> str:
    """Read a label from an array's attributes.

    >>> axis_label(xr.DataArray(0.0, name="time", attrs={"long_name": "time", "units": "model time"}))
    'time (model time)'
    """
    text = str(array.attrs.get("long_name", str(array.name).replace("_", " ")))
    return f"{text} ({array.attrs['units']})" if "units" in array.attrs else text


def short(value: object) -> str:
    """A label's value in three digits.

    >>> short(0.123456), short("a")
    ('0.123', 'a')
    """
    return f"{value:.3g}" if isinstance(value, float | np.floating) else str(value)


def require_variable(run: xr.Dataset, name: str, dims: Sequence[str], *, at_most: int) -> None:
    """Refuse a record that lacks what a picture needs, or has more grid dimensions than it can show.

    >>> require_variable(xr.Dataset({"load": 1.0}), "load", ("time",), at_most=0)
    Traceback (most recent call last):
    ValueError: the record must hold 'load' over time for this picture, it holds {}
    """
    if name not in run or not set(dims) <= set(run[name].dims):
        raise ValueError(
            f"the record must hold {name!r} over {', '.join(dims)} for this picture, it holds {dict(run.sizes)}"
        )
    extra = [dim for dim in run[name].dims if dim not in dims]
    if len(extra) > at_most:
        raise ValueError(
            f"this picture shows at most {at_most} grid dimensions, the record has {extra}; choose with .isel(…)"
        )
