"""Results of experiments: written beside each run, taken up again, and gathered into one page."""

import dataclasses
import json
import math
from collections import Counter

import pytest

from dynascope import report, results
from dynascope.experiments import registry
from dynascope.experiments.claims import Finding
from dynascope.experiments.experiment import Experiment

NAME = "spring_block/left_friction"
CLAIM = Finding(
    "x",
    "spring-block (1)",
    "x is 1",
    "=",
    (1.0, 1.0),
    (1.0, math.nan),
    (0.1, 0.1),
    verdict="not determined",
    note="|x|",
)


def result(**changes):
    usual = {"name": NAME, "title": "A title", "source": "spring-block Figure S2", "scale": "smoke", "claims": (CLAIM,)}
    return results.Result(**usual | changes)


@pytest.fixture(scope="module")
def run(tmp_path_factory, smoke):
    root = tmp_path_factory.mktemp("results")
    done = smoke(NAME)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Experiment, "evaluate", lambda self, scale: done)
        return root, report.reproduce(NAME, "smoke", root)


def test_a_result_survives_storage(tmp_path):
    again = results.load_result(results.save_result(result(seconds=2.5, seed=3), tmp_path))
    assert again.claims[0].measured[0] == 1.0
    assert math.isnan(again.claims[0].measured[1])
    same = dataclasses.replace(again.claims[0], measured=CLAIM.measured)
    assert dataclasses.replace(again, claims=(same,)) == result(seconds=2.5, seed=3)


def test_a_run_leaves_what_a_page_needs(run):
    _, done = run
    found = results.load_result(done.files["result"])
    assert found.name == NAME
    assert found.scale == "smoke"
    assert found.seconds > 0
    assert found.seed is not None
    assert "cores" in found.hardware
    assert [claim.verdict for claim in found.claims] == [claim.verdict for claim in done.claims]
    assert done.files["small_picture"].stat().st_size <= 150_000


def test_the_larger_scale_and_the_later_run_count(tmp_path):
    runs = {
        "a": result(scale="paper", date="2026-01-01"),
        "b": result(scale="paper", date="2026-01-02", seed=7),
        "c": result(scale="laptop", date="2026-01-03"),
    }
    for folder, each in runs.items():
        results.save_result(each, tmp_path / folder)
    assert results.collect_results([tmp_path])[NAME].seed == 7
    assert results.collect_results([tmp_path / "c", tmp_path / "a"])[NAME].date == "2026-01-01"


def test_the_page_has_every_claim_and_the_pictures(run, tmp_path):
    root, done = run
    page = results.publish_results([root], tmp_path / "page")
    text = page.read_text()
    for name in registry.names():
        for claim in registry.find(name).claims:
            assert f"| {claim.id} |" in text, claim.id
    counts = Counter(claim.kind for claim in done.claims)
    for kind, number in counts.items():  # reproduced, errata, not reproduced, not determined
        assert f"| spring-block | {kind} | {number} | 0 | 0 | 0 |" in text
    assert f"| {done.claims[0].verdict} | {done.claims[0].id} |" in text
    assert 'src="spring_block-left_friction.png" width="260">](spring_block-left_friction.svg)' in text
    shown = (tmp_path / "page" / "gallery.md").read_text()
    assert f"[![{registry.find(NAME).title}](spring_block-left_friction.png)](spring_block-left_friction.svg)" in shown
    assert (tmp_path / "page" / "spring_block-left_friction.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (tmp_path / "page" / "spring_block-left_friction.svg").read_bytes()
    widths = {line.replace(r"\|", "").count("|") for line in text.split("## Claims")[1].splitlines() if line}
    assert widths == {8}  # no cell breaks the table


def test_a_page_keeps_its_results_and_a_later_run_of_another_experiment_adds_to_them(run, tmp_path):
    root, done = run
    results.publish_results([root], tmp_path)
    other = registry.find("spring_block/equilibrium")
    claims = tuple(dataclasses.replace(each, verdict="erratum") for each in other.unjudged())
    results.save_result(result(name=other.name, claims=claims), tmp_path / "new")
    results.save_result(result(claims=(), date="2020-01-01"), tmp_path / "new" / "older")
    text = results.publish_results([tmp_path / "new"], tmp_path).read_text()
    assert f"| erratum | {claims[0].id} |" in text
    assert f"| {done.claims[0].verdict} | {done.claims[0].id} |" in text


def test_a_page_is_written_again_from_what_it_keeps(run, tmp_path):
    root, _ = run
    page = results.publish_results([root], tmp_path)
    before = page.read_text()
    page.write_text("")
    assert results.publish_results([], tmp_path).read_text() == before
    with pytest.raises(ValueError, match="folders must hold results"):
        results.publish_results([], tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_a_failure_within_its_tolerance_is_told_from_one_beyond_it():
    """Of the first claim of the papers that fails in print."""
    name = "elastic/network_course"
    claim = next(each for each in registry.find(name).claims if each.kind == "printed")
    for measured, told in ((0.1, True), (-0.3, False)):
        numbers = {"relation": ">", "expected": (0.0,), "measured": (measured,), "tolerance": (0.2,)}
        found = Finding(claim.id, "elastic", claim.statement, verdict="not reproduced", settles_at="smoke", **numbers)
        page = results.results_page({name: result(name=name, scale="paper", claims=(found,))}, ())
        row = next(line for line in page.splitlines() if line.startswith(f"| {claim.id} |"))
        assert ("within its tolerance" in row) == told


def test_numbers_of_a_former_judge_say_so():
    known = registry.find(NAME).unjudged()[0]
    done = dataclasses.replace(known, expected=(0.0,), measured=(1.0,), tolerance=(0.1,), verdict="reproduced")
    for former in ((), (done.id,)):
        page = results.results_page({NAME: result(claims=(done,), former=former, commit="a" * 40, judged="b" * 40)}, ())
        (row,) = (line for line in page.splitlines() if line.startswith(f"| reproduced | {done.id} |"))
        assert ("by its former judge" in row) == bool(former)
        assert f"{'a' * 10}, judged by {'b' * 10}" in page


def test_a_claim_that_was_restated_counts_as_not_run():
    now = registry.find(NAME).unjudged()
    old = [dataclasses.replace(each, verdict="reproduced") for each in now]
    old[0] = dataclasses.replace(old[0], statement="something else")
    page = results.results_page({NAME: result(claims=tuple(old))}, ())
    (row,) = (line for line in page.splitlines() if line.startswith(f"| not run | {now[0].id} |"))
    assert "| claimed since the experiment was run |" in row
    assert f"| reproduced | {now[1].id} |" in page


def test_a_claim_that_a_larger_scale_settles_counts_as_not_run():
    name = "phases/depth"
    judged = tuple(dataclasses.replace(each, verdict="not reproduced") for each in registry.find(name).unjudged())
    later = [each.id for each in judged if not each.settled_at("smoke")]
    assert later
    page = results.results_page({name: result(name=name, scale="smoke", claims=judged)}, ())
    for each in judged:
        assert f"| {'not run' if each.id in later else 'not reproduced'} | {each.id} |" in page
    page = results.results_page({name: result(name=name, scale="paper", claims=judged)}, ())
    assert f"| not reproduced | {later[0]} |" in page


def test_what_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(ValueError, match="folders must be folders with results, got"):
        results.collect_results([tmp_path / "nothing"])
    with pytest.raises(ValueError, match="folders must hold results that `dynascope reproduce` wrote"):
        results.publish_results([tmp_path], tmp_path)
    (tmp_path / "result.json").write_text('{"name": 1}')
    with pytest.raises(ValueError, match=r"result.json' is not the result of an experiment"):
        results.collect_results([tmp_path])


@pytest.fixture
def runs(monkeypatch, smoke):
    """One experiment, of a commit that can be chosen; how often it was run."""
    done = []
    record, _ = smoke(NAME)

    def at(self, scale):
        done.append(scale)
        return record.assign_attrs(commit=json.dumps(results.source_commit()))

    monkeypatch.setattr(Experiment, "at", at)
    monkeypatch.setattr(report, "names", lambda family=None: [NAME])
    return done


def test_verify_goes_on_where_it_stopped(runs, monkeypatch, tmp_path):
    monkeypatch.setattr(results, "source_commit", lambda: "abc")
    first = list(report.verify(scale="smoke", root=tmp_path))
    again = list(report.verify(scale="smoke", root=tmp_path))
    assert len(runs) == 1
    assert [c.verdict for _, claims in again for c in claims] == [c.verdict for _, claims in first for c in claims]
    monkeypatch.setattr(results, "source_commit", lambda: "def")
    list(report.verify(scale="smoke", root=tmp_path))
    assert len(runs) == 2


@pytest.mark.parametrize("commit", ["abc-dirty", "unknown"])
def test_what_unknown_code_left_is_run_again(runs, monkeypatch, tmp_path, commit):
    monkeypatch.setattr(results, "source_commit", lambda: commit)
    for _ in range(2):
        list(report.verify(scale="smoke", root=tmp_path))
    assert len(runs) == 2


def test_missing_data_are_not_run(monkeypatch):
    def at(self, scale):
        raise FileNotFoundError("cifar10 needs a file")

    monkeypatch.setattr(Experiment, "at", at)
    judged = dict(report.verify("features", "smoke"))
    assert set(judged) == set(registry.names("features"))
    for claims in judged.values():
        assert {(claim.verdict, claim.note) for claim in claims} == {("not run", "cifar10 needs a file")}


@pytest.mark.ci
def test_the_commands(runs, command, tmp_path):
    status, out, _ = command("verify", "--all", "--scale", "smoke", "--keep", "kept")
    assert status == 0
    assert "reproduced, in " in out
    status, out, err = command("results", "kept", "--out", "page")
    assert status == 0, err
    assert (tmp_path / "page/README.md").exists()
    assert command("results", "--out", "page")[1] == "page: page/README.md\n"  # written again
    status, _, err = command("verify", "elastic", "--all")
    assert status == 2
    assert "leave out 'elastic' or --all" in err
