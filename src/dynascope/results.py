"""Finished experiments, gathered from one machine or several into one page: claims, numbers, hardware, pictures."""

import html
import math
import os
import platform
import re
import shutil
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import xarray as xr

from dynascope.experiments.claims import KINDS, SCALES, VERDICTS, Finding, summary
from dynascope.experiments.registry import find, names, output_folder
from dynascope.experiments.sources import OWN, PAPERS
from dynascope.progress import duration
from dynascope.records import Json, attribute, source_commit, to_json, write_text, write_whole
from dynascope.schema import as_kind, read_json, with_sum

FILE, PICTURE, VECTOR_PICTURE = "result.json", "small.png", "figure.svg"
KEPT = "kept"  # folder of results beside the pages that were made from them


@dataclass(frozen=True)
class Result:
    """What one run of an experiment gave, and what made it: all that a page about it needs."""

    name: str
    title: str
    source: str
    scale: str
    claims: tuple[Finding, ...]
    seed: int | None = None
    hardware: str = ""
    seconds: float = 0.0
    commit: str = ""
    date: str = ""
    adapted: str | None = None  # how the settings differ from the paper's; None in files of version 0.1.0
    judged: str = ""  # commit whose claims judged the record, if later than that of the run
    former: tuple[str, ...] = ()  # claims that are judged more strictly now, when the record is not at hand any more


def result_of(name: str, scale: str, record: xr.Dataset, claims: Sequence[Finding]) -> Result:
    """Gather what a record and its claims say.

    >>> result_of("spring_block/left_friction", "smoke", xr.Dataset(attrs={"wall_time": "2.5"}), ()).seconds
    2.5
    """
    experiment = find(name)
    known = {
        key: attribute(record, key) for key in ("seed", "device", "wall_time", "commit", "date") if key in record.attrs
    }
    return Result(
        name,
        experiment.title,
        str(experiment.source),
        scale,
        tuple(claims),
        seed=known.get("seed"),
        hardware=hardware(known.get("device", "cpu")),
        seconds=known.get("wall_time", 0.0),
        commit=known.get("commit", ""),
        date=known.get("date", ""),
        adapted=experiment.adapted_at(scale),
    )


def hardware(device: str) -> str:
    """What computed: the name of the accelerator, or of the processor with its cores.

    >>> hardware("NVIDIA H200")
    'NVIDIA H200'
    """
    if device.lower() not in ("cpu", ""):
        return device
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    processor = found[1].strip() if found else platform.processor() or platform.machine()
    return f"{processor}, {os.cpu_count()} cores"


def save_result(result: Result, folder: Path) -> Path:
    """Write a result beside the other files of its run."""
    return write_text(folder / FILE, with_sum(to_json(asdict(result))))


def load_result(path: Path) -> Result:
    """Read a result that `save_result` wrote; numbers that were not finite become NaN.

    >>> load_result(Path("nowhere/result.json"))
    Traceback (most recent call last):
    ValueError: 'nowhere/result.json' is not the result of an experiment: there is no file 'nowhere/result.json'
    """
    try:
        content = read_json(path, dict[str, Any])
        return as_kind(
            content | {"claims": [_with_gaps(each) for each in content.get("claims", [])]}, Result, str(path)
        )
    except (OSError, TypeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValueError(f"{str(path)!r} is not the result of an experiment: {reason}") from error


def _with_gaps(claim: Json) -> Json:
    """Numbers that were not finite."""
    if not isinstance(claim, dict):
        return claim
    return {
        key: [math.nan if each is None else each for each in value] if isinstance(value, list) else value
        for key, value in claim.items()
    }


def finished(root: Path, name: str, scale: str) -> Result | None:
    """The result of an earlier run below `root`, if it is whole and the same commit made it, without changes on top.

    >>> finished(Path("nowhere"), "spring_block/left_friction", "smoke") is None
    True
    """
    path = output_folder(root, name, scale) / FILE
    if not path.exists():
        return None
    try:
        result, now = load_result(path), source_commit()
    except ValueError as error:
        warnings.warn(f"{error}; {name} is run again", RuntimeWarning, stacklevel=2)
        return None
    same = result.commit == now and now != "unknown" and not now.endswith("-dirty")
    return result if same else None


def collect_results(folders: Iterable[str | Path]) -> dict[str, Result]:
    """Read all results below some folders; of several runs of an experiment the largest scale, then the latest.

    >>> collect_results([])
    {}
    """
    return {name: result for name, (result, _) in _collect(folders).items()}


def _collect(folders: Iterable[str | Path]) -> dict[str, tuple[Result, Path]]:
    """(result, its folder) by the experiment's name, in the order of the registry."""
    best: dict[str, tuple[Result, Path]] = {}
    for folder in map(Path, folders):
        if not folder.is_dir():
            raise ValueError(f"folders must be folders with results, got {str(folder)!r}")
        for path in sorted(folder.rglob(FILE)):
            found = load_result(path)
            for picture in (path.with_name(PICTURE), path.with_name(VECTOR_PICTURE)):
                if picture.exists() and not picture.is_file():
                    raise ValueError(f"{str(picture)!r} must be a picture, it is no file")
            if found.name not in best or _rank(found) > _rank(best[found.name][0]):
                best[found.name] = found, path.parent
    return {name: best[name] for name in names() if name in best}


def _rank(result: Result) -> tuple[int, str]:
    return SCALES.index(result.scale) if result.scale in SCALES else -1, result.date


def publish_results(folders: Sequence[str | Path], out: str | Path) -> Path:
    """Write README.md, one page over all papers, gallery.md and the pictures of the runs, into the folder `out`.

    The results themselves stay there too, so that a later call adds to them or replaces them; one without folders
    writes the page again. Experiments without a result, and claims made or changed since, are listed as not run.
    """
    found, place = _collect(folders), Path(out)
    kept = {result.name: result for result in map(load_result, (place / KEPT).glob("[!.]*.json"))}
    if not found and (folders or not kept):
        raise ValueError(
            f"folders must hold results that `dynascope reproduce` wrote, got none in {list(map(str, folders))}"
        )
    place.mkdir(parents=True, exist_ok=True)
    for name, (result, folder) in found.items():
        if name in kept and _rank(kept[name]) > _rank(result):
            continue
        kept[name] = result
        write_text(place / KEPT / f"{_stem(name)}.json", with_sum(to_json(asdict(result))))
        for made, suffix in ((PICTURE, ".png"), (VECTOR_PICTURE, ".svg")):
            if (folder / made).exists():
                write_whole(place / f"{_stem(name)}{suffix}", partial(shutil.copyfile, folder / made))
    results = {name: kept[name] for name in names() if name in kept}
    pictures = {path.name for path in place.iterdir()}
    write_text(place / "gallery.md", gallery_page(results, pictures))
    return write_text(place / "README.md", results_page(results, pictures))


def results_page(results: Mapping[str, Result], pictures: Collection[str]) -> str:
    """One Markdown page: how many claims hold, what was run where, and every claim with its numbers.

    >>> "| not run |" in results_page({}, ())
    True
    """
    complete = [_as_declared(results[name]) if name in results else _not_run(name) for name in names()]
    rows = [(result, claim) for result in complete for claim in result.claims]
    parts = [
        "# Results",
        "Written by `dynascope results FOLDER … --out docs/results` from what `dynascope reproduce --out` and "
        "`dynascope verify --keep` left in folders. "
        "A claim that does not reproduce stays in the table; so does one that was not run. "
        "Numbers *by its former judge* are of a run from before a claim was judged as strictly as it is now, whose "
        "record is not at hand any more: the verdict is what today's judge makes of these; the next run tells.",
        _counts(rows),
        "## Printed claims that do not reproduce",
        "A claim reproduces where it holds by more than its tolerance, which is three standard errors of these runs "
        "and a stated bound. One that fails *within its tolerance* is not contradicted either: what it says is too "
        "small to be told from nothing here, or too variable.",
        _causes(rows),
        "## Runs",
        _runs([result for result in complete if result.scale], pictures),
        "## Claims",
        markdown_table(
            ("verdict", "claim", "kind", "source", "statement", "measured against expected", "experiment"),
            [
                (
                    claim.verdict,
                    claim.id,
                    claim.kind,
                    claim.source,
                    claim.statement,
                    _measured(result, claim),
                    _experiment(result),
                )
                for paper in (*PAPERS, OWN)
                for result, claim in rows
                if _paper(claim) == paper
            ],
        ),
    ]
    return "\n\n".join(parts) + "\n"


def gallery_page(results: Mapping[str, Result], pictures: Collection[str]) -> str:
    """One Markdown page with the picture of every run, which leads to the largest one there is.

    pictures: names of the files beside the page

    >>> run = Result("spring_block/left_friction", "Friction", "spring-block Figure 5(b)", "laptop", ())
    >>> page = gallery_page({run.name: run}, ["spring_block-left_friction.png", "spring_block-left_friction.svg"])
    >>> page.splitlines()[-1]
    '[![Friction to the left alone](spring_block-left_friction.png)](spring_block-left_friction.svg)'
    """
    parts = [
        "# Pictures",
        "One picture of every experiment, at the largest scale that was run. A picture leads to its vector form, or to "
        "itself where only the small one was kept; `dynascope reproduce NAME --scale SCALE` draws it again.",
    ]
    family = ""
    for name, run in results.items():
        small = f"{_stem(name)}.png"
        if small not in pictures:
            continue
        if name.split("/")[0] != family:
            family = name.split("/")[0]
            parts.append(f"## {family}")
        experiment = find(name)
        parts += [f"### {experiment.title}", f"`{name}`, {experiment.source}, scale {_scale(run)}"]
        parts.append(_linked(f"![{experiment.title}]({small})", name, pictures))
    return "\n\n".join(parts) + "\n"


def _stem(name: str) -> str:
    return name.replace("/", "-")


def _linked(shown: str, name: str, pictures: Collection[str]) -> str:
    """What is shown of a picture, as a link to the largest there is."""
    full = f"{_stem(name)}.svg"
    return f"[{shown}]({full if full in pictures else f'{_stem(name)}.png'})"


def _not_run(name: str) -> Result:
    experiment = find(name)
    return Result(name, experiment.title, str(experiment.source), "", experiment.unjudged("not run yet"))


def _as_declared(result: Result) -> Result:
    """A result with the claims of today: source and kind as declared.

    Not run is what was stated since, and what a larger scale settles: at a smaller one either verdict is chance.
    """
    experiment = find(result.name)
    found = {(claim.id, claim.statement): claim for claim in result.claims}
    claims = []
    for today in experiment.unjudged():
        run = found.get((today.id, today.statement))
        if run is None:
            claims.append(replace(today, note="claimed since the experiment was run"))
        elif today.settled_at(result.scale):
            claims.append(replace(run, source=today.source, kind=today.kind))
        else:
            claims.append(replace(today, note=f"settled by scale {today.settles_at}"))
    adapted = experiment.adapted_at(result.scale) if result.adapted is None else result.adapted
    return replace(
        result,
        title=experiment.title,
        source=str(experiment.source),
        claims=tuple(claims),
        adapted=html.escape(adapted, quote=False),
        hardware=html.escape(result.hardware, quote=False),
        commit=html.escape(result.commit, quote=False),
        judged=html.escape(result.judged, quote=False),
    )


def _measured(result: Result, claim: Finding) -> str:
    """Numbers of a claim, or why it was not run."""
    if claim.verdict == "not run" and claim.note:
        return html.escape(claim.note, quote=False)
    return summary(claim) + ("; by its former judge" if claim.id in result.former else "")


def _paper(claim: Finding) -> str:
    return claim.source.split(" ")[0]


def _experiment(result: Result) -> str:
    return f"{result.name}, {_scale(result)}" if result.scale else result.name


def _scale(result: Result) -> str:
    return f"{result.scale}, adapted" if result.adapted else result.scale


def _counts(rows: Sequence[tuple[Result, Finding]]) -> str:
    """How many claims have which verdict, by paper and by who states them."""
    count = Counter((paper, claim.kind, claim.verdict) for _, claim in rows for paper in (_paper(claim), "all"))
    body = [
        (paper, kind, *(str(count[paper, kind, verdict]) for verdict in VERDICTS))
        for paper in (*PAPERS, OWN, "all")
        for kind in KINDS
        if any(count[paper, kind, verdict] for verdict in VERDICTS)
    ]
    return markdown_table(("paper", "kind", *VERDICTS), body)


def _causes(rows: Sequence[tuple[Result, Finding]]) -> str:
    """Each printed claim that fails, and the claims that show why, with their verdicts."""
    verdicts = {claim.id: claim.verdict for _, claim in rows}
    body = []
    for result, claim in rows:
        if claim.kind == "printed" and claim.verdict == "not reproduced":
            own = next(each for each in find(result.name).claims if each.id == claim.id)
            shown = [f"{why}: {cause} ({verdicts.get(cause, 'not claimed')})" for cause, why in own.causes.items()]
            found = summary(claim) + ("" if claim.contradicted() else "; within its tolerance")
            body.append((claim.id, claim.source, claim.statement, found, "; ".join(shown)))
    return markdown_table(("claim", "source", "statement", "measured against expected", "why"), body)


def _runs(results: Sequence[Result], pictures: Collection[str]) -> str:
    rows = []
    for run in results:
        small = f"{_stem(run.name)}.png"
        shown = f'<img alt="{run.title}" src="{small}" width="260">'
        facts = (
            f"{run.scale}, adapted: {run.adapted}" if run.adapted else run.scale,
            run.hardware,
            duration(run.seconds),
            "" if run.seed is None else str(run.seed),
            run.commit[:10]
            + (" with changes" if run.commit.endswith("-dirty") else "")
            + (f", judged by {run.judged[:10]}" if run.judged else ""),
        )
        picture = _linked(shown, run.name, pictures) if small in pictures else ""
        rows.append((picture, f"{run.title}<br>`{run.name}`<br>{run.source}", *facts))
    return markdown_table(("picture", "experiment", "scale", "hardware", "time", "seed", "commit"), rows)


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    r"""Write rows of text as a Markdown table.

    >>> print(markdown_table(("a", "b"), [("1", "|x|")]))
    | a | b |
    | --- | --- |
    | 1 | \|x\| |
    """
    lines = [" | ".join(" ".join(cell.split()).replace("|", r"\|") for cell in row) for row in (head, *rows)]
    return "\n".join([f"| {lines[0]} |", "|" + " --- |" * len(head), *(f"| {line} |" for line in lines[1:])])


def verdict_counts(claims: Sequence[Finding]) -> str:
    """How many claims have which verdict.

    >>> verdict_counts([Finding("a", "elastic (1)", "x is 1", verdict="reproduced")])
    '1 claim: 1 reproduced'
    """
    count = Counter(claim.verdict for claim in claims)
    parts = ", ".join(f"{count[verdict]} {verdict}" for verdict in VERDICTS if count[verdict])
    return f"{len(claims)} claim{'' if len(claims) == 1 else 's'}: {parts}"
