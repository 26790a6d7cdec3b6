"""Every code block of README and docs is run."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dynascope import cli, report
from dynascope.experiments import registry

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def _blocks(page, kind):
    return [text for language, text in BLOCK.findall(page.read_text()) if language == kind]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_run(page, tmp_path, monkeypatch):
    """The blocks of a page run one after another, as a reader would run them."""
    monkeypatch.chdir(tmp_path)
    names = {"__name__": page.stem}
    for text in _blocks(page, "python"):
        exec(compile(text, str(page), "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_console_blocks_run(page, tmp_path, monkeypatch):
    """Commands are run at the smallest scale; make targets must exist."""
    monkeypatch.chdir(tmp_path)
    # claims are run one by one in tests/experiments: here the last of a family shows that the command works
    monkeypatch.setattr(report, "names", lambda family=None: registry.names(family)[-1:])
    done_before = []
    for line in "".join(_blocks(page, "console")).splitlines():
        words = shlex.split(re.sub(r"--scale \w+", "", line), comments=True)
        if not words or words in done_before:
            continue
        done_before.append(words)
        if words[0] == "make":
            assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE), line
            continue
        assert words[0] == "dynascope", line
        if {"verify", "reproduce"} & set(words) and "--list" not in words:
            words += ["--scale", "smoke"]
        done = CliRunner().invoke(cli.app, words[1:])
        # claims that are not reproduced end in 1, which tests/experiments judges; errors end in 2
        assert done.exit_code <= ("verify" in words), (line, done.output, done.exception)


def test_every_block_has_a_language_and_links_lead_somewhere():
    for page in PAGES:
        text = page.read_text()
        assert text.count("```") == 2 * len(BLOCK.findall(text)), page
        for target in re.findall(r"\]\((?!http)([^)#]+)", text):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_readme_stays_short():
    assert len((ROOT / "README.md").read_text().splitlines()) < 60
