"""Every code block of README, docs and the tutorial is run; what pages name is there; docstrings stay short."""

import ast
import json
import re
import shlex
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from typer.testing import CliRunner

from dynascope import cli, report, results
from dynascope.experiments import registry
from dynascope.experiments.claims import VERDICTS

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
TUTORIAL = ROOT / "docs" / "tutorial.ipynb"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
OUTCOME = "|".join(sorted(VERDICTS, key=len, reverse=True))
STAND_IN = "spring_block/left_friction"
# their blocks take seconds: run in CI
LONG = {"deep-linear", "elastic", "imitate", "layerwise", "mode-equation", "multilinear", "networks", "phases"}
LONG |= {"findings", "spring-block", "sweep", "watch"}


def _blocks(page):
    """(language, text) of every block of a page, or of every cell of a notebook."""
    if page.suffix == ".md":
        return BLOCK.findall(page.read_text())
    cells = ["".join(cell["source"]) for cell in json.loads(page.read_text())["cells"] if cell["cell_type"] == "code"]
    commands = "%%bash\n"
    return [("console", c.removeprefix(commands)) if c.startswith(commands) else ("python", c) for c in cells]


@pytest.fixture
def quick(monkeypatch, tmp_path, smoke):
    """Commands run in an empty folder; what runs an experiment runs one that takes a second, once for all pages.

    Every experiment is run, and its claims are judged, in tests/experiments: here names and options are what counts.
    """
    monkeypatch.chdir(tmp_path)
    experiment, done = registry.find(STAND_IN), smoke(STAND_IN)
    monkeypatch.setattr(type(experiment), "evaluate", lambda self, scale: done)
    monkeypatch.setattr(report, "find", lambda name: registry.find(name) and experiment)
    monkeypatch.setattr(report, "names", lambda family=None: registry.names(family)[-1:])


def _run_command(line):
    words = shlex.split(line, comments=True)
    if words[0] == "make":
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE), line
        return
    assert words[0] == "dynascope", line
    done = CliRunner().invoke(cli.app, words[1:])
    # claims that are not reproduced end in 1, errors in 2
    assert done.exit_code <= ("verify" in words), (line, done.output, done.exception)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.name, marks=[pytest.mark.ci] if page.stem in LONG else [])
        for page in (*PAGES, TUTORIAL)
    ],
)
def test_blocks_run(page, quick):
    """The blocks of a page run one after another, as a reader would run them."""
    names, done_before = {"__name__": page.stem}, set()
    for language, text in _blocks(page):
        if language == "python":
            exec(compile(text, str(page), "exec"), names)
        elif language == "console":
            lines = [line for line in text.splitlines() if line.strip() and line not in done_before]
            done_before.update(lines)
            for line in lines:
                _run_command(line)
    plt.close("all")


def test_every_block_has_a_language_and_links_lead_somewhere():
    for page in [*PAGES, *(ROOT / "docs" / "results").glob("*.md")]:
        text = page.read_text()
        assert text.count("```") == 2 * len(BLOCK.findall(text)), page
        for target in re.findall(r"\]\((?!http)([^)#]+)", text):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_are_named_exist(page):
    """`models/spring_block/chain.py` and the like; FAMILY stands for any family, a bare name for a file anywhere."""
    named = re.findall(r"`((?:[\w.-]+/)+|(?:[\w.-]+/)*[\w-]+\.(?:py|md|toml|bib|yml))`", page.read_text())
    here = ("", "src/", "src/dynascope/", "docs/")
    for name in set(named) - WRITTEN:
        pattern = name.replace("FAMILY", "*")
        found = any(any(ROOT.glob(place + pattern)) for place in here)
        assert found or ("/" not in name and any((ROOT / "src").rglob(name))), f"{page.name} names {name}"


# what a command leaves behind
WRITTEN = {"README.md", "claims.md", "gallery.md", "site/"}


def test_readme_keeps_to_one_screen():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 45


def test_the_tutorial_is_stored_with_what_it_prints_and_draws():
    cells = [cell for cell in json.loads(TUTORIAL.read_text())["cells"] if cell["cell_type"] == "code"]
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert {"error"}.isdisjoint(output["output_type"] for output in outputs)
    assert not any("stderr" in output.values() for output in outputs)
    assert sum("image/png" in output.get("data", {}) for output in outputs) >= 2
    assert TUTORIAL.stat().st_size < 300_000


def _docstrings():
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield path, getattr(node, "name", ""), ast.get_docstring(node) or ""


def test_a_docstring_is_a_contract_and_the_rest_a_page():
    """At most 250 words beside the example; pages that docstrings name are there."""
    for path, name, text in _docstrings():
        words = len(text.split("\n>>> ")[0].split())
        assert words <= 250, f"{path.relative_to(ROOT)}: {name} has {words} words"
        for page in re.findall(r"\bdocs/[\w-]+\.md", text):
            assert (ROOT / page).exists(), f"{path.relative_to(ROOT)}: {name} names {page}"


def _told():
    """Verdicts by claim, as the page of results tells them."""
    page = (ROOT / "docs" / "results" / "README.md").read_text()
    return {name: verdict for verdict, name in re.findall(rf"^\| ({OUTCOME}) \| ([^ ]+) \|", page, re.MULTILINE)}


def test_the_page_of_results_is_that_of_the_claims_of_today():
    """After a change to claims: `dynascope results --out docs/results`."""
    folder = ROOT / "docs" / "results"
    kept = {each.name: each for each in map(results.load_result, (folder / results.KEPT).glob("*.json"))}
    ordered = {name: kept.pop(name) for name in registry.names() if name in kept}
    assert not kept, "results of experiments that are no more"
    pictures = {path.name for path in folder.iterdir()}
    assert (folder / "README.md").read_text() == results.results_page(ordered, pictures)
    assert (folder / "gallery.md").read_text() == results.gallery_page(ordered, pictures)


def test_findings_have_the_verdicts_of_the_results_a_picture_and_a_command():
    found, page = _told(), (ROOT / "docs" / "findings.md").read_text()
    told = re.findall(rf"`([a-z0-9.-]+)`\s+({OUTCOME})", page)
    assert len(told) > 50
    assert [each for each in told if found.get(each[0]) != each[1]] == []
    for section in page.split("\n## ")[1:]:
        assert "![" in section, section
        assert "```console" in section, section


def test_printed_claims_that_fail_have_a_cause_that_stands():
    found = _told()
    declared = [claim for name in registry.names() for claim in registry.find(name).claims]
    fails = [claim for claim in declared if claim.kind == "printed" and found[claim.id] == "not reproduced"]
    for claim in fails:
        assert claim.causes, f"nothing shows why {claim.id} fails"
        assert {found[cause] for cause in claim.causes} <= {"reproduced", "erratum"}, claim.id
    page = (ROOT / "docs" / "results" / "README.md").read_text().split("\n## ")[1]
    assert re.findall(r"^\| ([^ ]+-[^ ]+) \|", page, re.MULTILINE)[1:] == [claim.id for claim in fails]
