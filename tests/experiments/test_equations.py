"""The index of equations is up to date, complete, and leads somewhere."""

import ast
import importlib.util
import json
import random
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dynascope import cli
from dynascope.experiments import registry
from dynascope.experiments.equations import INDEX, find_item, items, write_index
from dynascope.experiments.sources import PAPERS, Source

ROOT = Path(__file__).parents[2]
ALL = [item for paper in PAPERS for item in items(paper)]
KNOWN = {(item.paper, item.kind, item.number) for item in ALL}


@cache
def _writer():
    """The script that writes the page."""
    spec = importlib.util.spec_from_file_location("write_equations", ROOT / "docs" / "write_equations.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def _page():
    return (ROOT / "docs" / "equations.md").read_text()


def test_index_and_page_are_up_to_date():
    found = _writer().find_all()
    assert write_index(found) == INDEX.read_text(), "run `make equations`"
    assert _writer().page(found) == _page(), "run `make equations`"


def test_every_item_is_on_the_page_once():
    assert len(KNOWN) == len(ALL)
    anchors = re.findall(r'<a id="([^"]+)"></a>', _page())
    assert sorted(anchors) == sorted(item.anchor for item in ALL)
    assert len(set(anchors)) == len(anchors)
    for item in ALL:
        assert f'<a id="{item.anchor}"></a>{item} | ' in _page()


def test_every_item_has_a_function_a_claim_or_a_reason():
    assert not [str(item) for item in ALL if not (item.functions or item.claims or item.unchecked)]


def test_what_the_code_has_is_tested():
    assert not [str(item) for item in ALL if (item.functions or item.claims) and not item.tests]


def test_what_a_reason_calls_checked_has_a_claim_or_a_test():
    anchors = {str(item): item.anchor for item in ALL}
    tested = {item.anchor for item in ALL if item.claims or item.tests}
    for item in ALL:
        if "is checked" in item.unchecked:
            assert set(re.findall(r"\]\(#([^)]+)\)", _writer().reason(item, anchors))) & tested, str(item)


def test_sources_of_claims_name_items_that_exist():
    for name in registry.names():
        experiment = registry.find(name)
        for source in {experiment.source, *(claim.source for claim in experiment.claims if claim.source)}:
            assert Source.read(str(source)) == source, name
            wrong = [item for item in source.items() if item[0] != "section" and (source.paper, *item) not in KNOWN]
            assert not wrong, f"{name} names {wrong} of {source.paper}"


def test_sources_in_docstrings_name_items_that_exist():
    found = list(_writer().citations())
    assert len(found) > 150
    for each in found:
        wrong = [i for i in each.source.items() if i[0] != "section" and (each.source.paper, *i) not in KNOWN]
        assert not wrong, f"{each.name} names {wrong} of {each.source.paper}"


def test_docstrings_write_sources_in_one_form():
    """A part of the sentence that names a paper is what `str` makes of its source; nothing else names one."""
    for part in _writer().PARTS:
        for path in (ROOT / "src" / "dynascope" / part).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                text = ast.get_docstring(node) or "" if isinstance(node, ast.FunctionDef | ast.ClassDef) else ""
                sentences = _writer().SENTENCE.findall(text)
                assert len(sentences) == text.count("Source: "), (
                    f"{path}: {node.name}: end the paragraph with the source"
                )
                for each in " ".join(" ".join(sentences).split()).split("; "):
                    plain = each.removeprefix("derived from ")
                    assert not re.search(r"\bFIG|\bFig\.|spring–block|locally elastic", each), f"{path}: {each}"
                    if plain.startswith(PAPERS):
                        source = Source.read(plain)
                        assert str(source) == plain, f"{path}: write {source}"
                        assert not re.match(r"[(\d]", source.place), f"{path}: {plain} is not a list of items"


def test_links_lead_somewhere():
    anchors = set(re.findall(r'<a id="([^"]+)"></a>', _page()))
    for target in re.findall(r"\]\(([^)]+)\)", _page()):
        file, _, anchor = target.partition("#")
        if not file:
            assert anchor in anchors, target
            continue
        path = ROOT / "docs" / file
        assert path.is_file(), target
        if anchor:  # a function or a method
            assert re.search(rf"^\s*(def|class) {anchor.split('.')[-1]}\b", path.read_text(), re.MULTILINE), target


def test_ten_items_drawn_at_random_are_found_in_one_step():
    for item in random.Random(14).sample(ALL, 10):
        word = "" if item.kind == "equation" else f"{item.kind.capitalize()} "
        assert find_item(item.paper, f"{word}{item.number}") == item
        done = CliRunner().invoke(cli.app, ["where", item.paper, *f"{word}{item.number}".split()])
        assert done.exit_code == 0, done.output
        assert done.output.startswith(f"{item}: {item.says}")
        for place in (*item.functions, *item.claims, *item.tests, *item.pictures, item.unchecked):
            assert place in done.output


def test_a_figure_names_its_panels():
    done = CliRunner().invoke(cli.app, ["where", "layerwise", "Figure", "7.2"])
    assert "layerwise Figure 7.2(a): the lowest learning rate" in done.output
    assert "panel" not in CliRunner().invoke(cli.app, ["where", "layerwise", "Figure", "7.2(a)"]).output
    told = CliRunner().invoke(cli.app, ["where", "layerwise", "Figure", "7.2", "--json"])
    assert json.loads(told.output)["panels"] == ["layerwise Figure 7.2(a)", "layerwise Figure 7.2(b)"]


@pytest.mark.parametrize(
    ("number", "expected"),
    [("(6)", "(6)"), ("s2", None), ("S2", "(S2)"), ("figure 3", "Figure 3"), ("1(c)", "Figure 1(c)"), ("99", None)],
)
def test_numbers_as_people_write_them(number, expected):
    if expected is None:
        with pytest.raises(ValueError, match="number must be that of an item of spring-block"):
            find_item("spring-block", number)
    else:
        assert str(find_item("spring-block", number)) == f"spring-block {expected}"


def test_a_number_of_several_kinds_needs_its_word():
    with pytest.raises(
        ValueError, match=r"must say which of layerwise Corollary B\.1\.1, layerwise Proposition B\.1\.1"
    ):
        find_item("layerwise", "B.1.1")
    assert find_item("layerwise", "Proposition B.1.1").kind == "proposition"


def test_where_is_light():
    """Neither JAX nor xarray is loaded to look an item up."""
    code = (
        "import sys; sys.argv = ['dynascope', 'where', 'spring-block', '6', '--json']\n"
        "from dynascope.cli import main\n"
        "try: main()\n"
        "finally: assert not {'jax', 'xarray', 'torch', 'numpy'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["claims"][0] == "spring_block/equilibrium:eq6-all-move"
