"""Run experiments to files: record, picture, claims and a report in one HTML file."""

import base64
import html
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import xarray as xr
from matplotlib.figure import Figure

from dynascope.experiments.claims import Finding, summary
from dynascope.experiments.registry import find, names, output_folder
from dynascope.imitation.summary import EXPLAINED, HEAD, sentences
from dynascope.imitation.summary import table as imitation_table
from dynascope.monitor.health import examine
from dynascope.monitor.judging import verdicts
from dynascope.monitor.tables import LAYER_HEAD, asides, heading, over_layers, remark
from dynascope.plots import save_figure, save_small
from dynascope.plots.watch import plot_watched
from dynascope.records import attribute, check_writable, digest, save, to_json, write_text
from dynascope.results import PICTURE, finished, markdown_table, result_of, save_result


@dataclass(frozen=True)
class Reproduction:
    """What one run of an experiment left behind."""

    name: str
    scale: str
    claims: tuple[Finding, ...]
    files: dict[str, Path]


def reproduce(name: str, scale: str = "laptop", root: str | Path = "results") -> Reproduction:
    """Run an experiment and write its record, pictures, claims and report below `root`.

    Each file is written as soon as it can be, so that a claim or a picture that fails does not lose the run.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sorted(reproduce("spring_block/left_friction", "smoke", folder).files)
    ['claims', 'picture', 'record', 'report', 'result', 'small_picture', 'table', 'vector_picture']
    """
    experiment = find(name)
    folder = output_folder(Path(root), name, scale)
    config = experiment.settings(scale)  # bad names and places are refused before the work
    check_writable(folder / "record.nc")
    record = experiment.at(scale)
    files = {"record": save(record, folder / "record.nc")}
    claims = experiment.judge(record)
    files["claims"] = write_text(folder / "claims.json", claims_json(claims))
    files["table"] = write_text(folder / "claims.md", claims_markdown(f"{experiment.title} ({name})", record, claims))
    figure = experiment.picture(record)
    files["picture"] = save_figure(figure, folder / "figure.png")
    files["small_picture"] = save_small(files["picture"], folder / PICTURE)
    figure.set_layout_engine("none")  # everything has its place by now
    files["vector_picture"] = save_figure(figure, folder / "figure.svg")
    page = html_report(
        experiment.title,
        record,
        figure=files["picture"],
        claims=claims,
        settings=asdict(config),
        source=str(experiment.source),
    )
    files["report"] = write_text(folder / "report.html", page)
    files["result"] = save_result(result_of(name, scale, record, claims), folder)  # last: it says that all is there
    return Reproduction(name, scale, claims, files)


def verify(
    family: str | None = None, scale: str = "laptop", *, figures: bool = True, root: str | Path | None = None
) -> Iterator[tuple[str, tuple[Finding, ...]]]:
    """Run the experiments of a family (all if none is named) and yield each one's name and judged claims.

    With `figures=False` only the equations are run; claims of figures are yielded as `not run`, and so are those of
    experiments whose data or libraries are not here. With `root` every experiment leaves its files there as `reproduce`
    does, and those that the same commit has left there before are read instead of run.

    >>> name, claims = next(verify("spring_block", "smoke"))
    >>> name, claims[0].verdict
    ('spring_block/equilibrium', 'reproduced')
    """
    for name in names(family):
        experiment = find(name)
        if not figures and experiment.is_figure:
            yield name, experiment.unjudged("figures were left out")
            continue
        try:
            yield name, _claims(name, scale, root)
        except (FileNotFoundError, ImportError) as error:
            yield name, experiment.unjudged(str(error))


def _claims(name: str, scale: str, root: str | Path | None) -> tuple[Finding, ...]:
    if root is None:
        return find(name).evaluate(scale)[1]
    earlier = finished(Path(root), name, scale)
    return earlier.claims if earlier else reproduce(name, scale, root).claims


def claims_json(claims: Sequence[Finding]) -> str:
    r"""Write claims as JSON text; numbers that are not finite become null.

    >>> claims_json([Finding("a", "elastic (1)", "x is 1")])[:9]
    '[\n  {\n   '
    """
    return to_json([claim.to_json() for claim in claims])


_HEAD = ("verdict", "claim", "kind", "source", "statement", "measured against expected", "note")


def _cells(claim: Finding) -> tuple[str, ...]:
    return claim.id, claim.kind, claim.source, claim.statement, summary(claim), claim.note


def claims_markdown(title: str, record: xr.Dataset, claims: Sequence[Finding]) -> str:
    r"""Claims as a Markdown table below a line that says what made the record, for pages that people read.

    >>> text = claims_markdown("A run", xr.Dataset(), [Finding("a", "elastic (1)", "|x| is 1")])
    >>> print(text.splitlines()[-1])
    | not run | a | printed | elastic (1) | \|x\| is 1 | — |  |
    """
    known = {
        name: attribute(record, name) for name in ("device", "wall_time", "commit", "date") if name in record.attrs
    }
    made_by = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in known.items())
    rows = [(claim.verdict, *_cells(claim)) for claim in claims]
    return "\n\n".join([f"# {title}", f"![{title}](figure.png)", made_by, markdown_table(_HEAD, rows)]) + "\n"


_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
img { max-width: 100%; } table { border-collapse: collapse; margin: 1rem 0; }
th, td { text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid #ddd; }
code { font-size: .9em; } .reproduced { color: #00664b; } .erratum { color: #8a5a00; }
.not-reproduced { color: #b00020; font-weight: bold; } .not-determined { color: #b00020; } .not-run { color: #666; }
"""


def html_report(
    title: str,
    record: xr.Dataset,
    *,
    figure: Figure | Path,
    claims: Sequence[Finding] = (),
    settings: Mapping[str, object] | None = None,
    source: str = "",
    findings: Sequence[str] = (),
    table: Sequence[Sequence[str]] = (),
) -> str:
    """One self-contained page: picture, parameters, claims and provenance. It loads nothing from elsewhere.

    figure: to draw, or a PNG that is drawn. findings: sentences above the picture. table: rows below it, the first one
    is its head.

    >>> from dynascope import SpringBlock
    >>> from dynascope.plots import plot_run
    >>> run = SpringBlock().simulate(duration=1.0, trials=2, save_points=3)
    >>> html_report("A run", run, figure=plot_run(run)).startswith("<!doctype html>")
    True
    """
    picture = base64.b64encode(figure.read_bytes() if isinstance(figure, Path) else _drawn(figure)).decode()
    rows = [
        [
            f'<span class="{claim.verdict.replace(" ", "-")}">{claim.verdict}</span>',
            *map(_text, _cells(claim)),
        ]
        for claim in claims
    ]
    provenance = {**{key: str(value) for key, value in record.attrs.items()}, "digest": digest(record)}
    parts = [
        f"<h1>{_text(title)}</h1>",
        f"<p>Source: {_text(source)}</p>" if source else "",
        "<h2>Findings</h2><ul>" + "".join(f"<li>{_text(each)}</li>" for each in findings) + "</ul>" if findings else "",
        f'<img alt="{_text(title)}" src="data:image/png;base64,{picture}">',
        _table(table[0], [[_text(cell) for cell in row] for row in table[1:]]) if table else "",
        "<h2>Claims</h2>" + _table(_HEAD, rows) if rows else "",
        "<h2>Settings</h2>" + _pairs(settings) if settings else "",
        "<h2>Provenance</h2>" + _pairs(provenance),
    ]
    body = "\n".join(part for part in parts if part)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{_text(title)}</title>'
        f"<style>{_STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


def _drawn(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150)
    return buffer.getvalue()


def watch_report(record: xr.Dataset, title: str = "A training run") -> str:
    """One page about a run that was watched: what it shows, what was not measured, pictures, and a table of layers.

    >>> run = xr.Dataset({"loads": (("step", "layer"), [[2.0, 1.0]])}, coords={"step": [0], "layer": ["input", "fc"]})
    >>> "<img" in watch_report(run)
    True
    """
    health = examine(record)
    sentences = [f"health: {health.line}", *(each.sentence for each in health.findings), heading(record)]
    sentences += filter(None, [remark(record)])
    sentences += [f"{each.subject}: {each.sentence}" for each in verdicts(record)]
    sentences += asides(record)
    rows = over_layers(record)[0]
    table = [LAYER_HEAD, *rows] if rows else []
    return html_report(title, record, figure=plot_watched(record), findings=sentences, table=table)


def imitation_report(result: xr.Dataset, *, figure: Figure | Path, title: str = "Networks and their imitation") -> str:
    """One page about an imitation: what it shows, networks and model together, differences beside their baselines.

    >>> from dynascope import LocallyElastic, imitate
    >>> from dynascope.plots import plot_imitation
    >>> run = LocallyElastic(noise=0.01).simulate(duration=20.0, samples=4, trials=6)
    >>> result = imitate(run, resamples=20)
    >>> "noise floor" in imitation_report(result, figure=plot_imitation(result))
    True
    """
    rows = [HEAD, *imitation_table(result)]
    return html_report(title, result, figure=figure, findings=[*sentences(result), EXPLAINED], table=rows)


def _text(value: object) -> str:
    return html.escape(str(value))


def _pairs(values: Mapping[str, object]) -> str:
    return _table(("name", "value"), [(f"<code>{_text(key)}</code>", _text(value)) for key, value in values.items()])


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Cells of `rows` are HTML already."""
    top = "".join(f"<th>{_text(cell)}</th>" for cell in head)
    lines = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>\n" for row in rows)
    return f"<table><tr>{top}</tr>\n{lines}</table>"
