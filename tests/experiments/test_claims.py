"""The machinery of claims and experiments."""

import dataclasses
import json
import math

import numpy as np
import pytest
import xarray as xr

from dynascope.experiments import registry
from dynascope.experiments.claims import SCALES, Claim, above, below, corrected, equal, not_run, summary
from dynascope.experiments.elastic import course_claims
from dynascope.experiments.experiment import Experiment, settings
from dynascope.experiments.sources import Source
from dynascope.report import claims_json
from dynascope.statistics.errors import Estimate, over_trials


def test_equality():
    assert equal([1.0, 1.1], 1.0, 0.2).verdict == "reproduced"
    assert equal([1.0, 1.3], 1.0, 0.2).verdict == "not reproduced"


def test_an_estimate_adds_its_errors():
    runs = np.array([[0.0, 1.0, 2.0], [1.0, 2.0, 3.0]])
    found = over_trials(runs)
    np.testing.assert_allclose(found.error, runs.std(axis=1, ddof=1) / np.sqrt(3))
    alone = equal(Estimate(found.mean[:1], found.error[:1]), 0.0, 0.5)
    np.testing.assert_allclose(alone.tolerance, 3 * found.error[0] + 0.5)
    assert equal(found, 0.0).tolerance[0] > 3 * found.error[0]  # two cases share one chance of a false alarm
    assert above(found, 0.0).verdict == "not reproduced"


def test_what_has_no_number_is_not_determined():
    assert equal(math.nan, 1.0, 0.2).verdict == "not determined"
    assert below([math.nan, -1.0], 0.0).verdict == "not determined"
    assert above([math.nan, -1.0], 0.0).verdict == "not reproduced"  # a case that was measured decides
    assert corrected(math.nan, 1.0, 0.1, published=2.0, error=0.01, note="n").verdict == "not determined"
    assert equal(Estimate(1.0, math.nan), 1.0, 0.1, rival=2.0).verdict == "not determined"
    assert above(1.0, 0.0, math.inf).verdict == equal(3.0, 1.0, math.inf).verdict == "not determined"  # any error
    assert above([1.0, -1.0], 0.0, [math.inf, 0.1]).verdict == "not reproduced"


def test_a_measurement_that_cannot_tell_rivals_apart_reproduces_nothing():
    assert equal(1.0, 1.0, 0.3, rival=2.0, error=0.1).verdict == "reproduced"
    vague = equal(1.0, 1.0, 0.9, rival=2.0, error=0.3)
    assert vague.verdict == "not reproduced"
    assert "too large to tell" in vague.note
    with pytest.raises(ValueError, match="error must be given"):
        equal(1.0, 1.0, 0.3, rival=2.0)


def test_inequalities():
    assert above(1.0, 0.0, 0.5).verdict == "reproduced"
    assert above([1.0, 0.4], 0.0, 0.5).verdict == "not reproduced"
    assert below(-1.0, 0.0, 0.5).verdict == "reproduced"


def test_corrections():
    assert corrected(1.0, 1.01, 0.1, published=2.0, error=0.01, note="n").verdict == "erratum"
    assert corrected(1.0, 1.01, 0.1, published=1.05, error=0.001, note="n").verdict == "not reproduced"
    assert corrected(1.5, 1.01, 0.1, published=2.0, error=0.01, note="n").verdict == "not reproduced"


def test_summary_shows_the_worst_case():
    assert summary(not_run("no data")) == "—"
    assert summary(above([3.0, 1.0], 0.0, 0.5)) == "1 > 0 + 0.5 (worst of 2)"
    assert "printed 2" in summary(corrected(1.0, 1.0, 0.1, published=2.0, error=0.01, note="n"))


def test_claims_need_cases():
    with pytest.raises(ValueError, match="at least one case"):
        equal([], [], [])


@dataclasses.dataclass(frozen=True)
class Config:
    """A tiny experiment's."""

    value: float = 1.0
    seed: int = 3


def tiny(judge, **changes):
    usual = {"model": "Tiny", "paper": {"value": 2.0}} | changes
    claims = (Claim("x", "x is 1", judge, settles_at="laptop"),)
    source = Source("elastic", equation="1")
    return Experiment(source, Config(), lambda c: xr.Dataset({"x": c.value}), claims, lambda record: None, **usual)


def test_the_harness_stamps_what_made_a_record():
    record, (finding,) = tiny(lambda r: equal(r["x"], 1.0, 0.1), name="elastic/tiny").evaluate("laptop")
    assert {key: json.loads(record.attrs[key]) for key in ("experiment", "scale", "model", "seed")} == {
        "experiment": "elastic/tiny",
        "scale": "laptop",
        "model": "Tiny",
        "seed": 3,
    }
    assert json.loads(record.attrs["wall_time"]) >= 0
    assert vars(settings(record)) == {"value": 1.0, "seed": 3}
    assert (finding.source, finding.kind, finding.verdict) == ("elastic (1)", "printed", "reproduced")


def test_a_claim_fails_where_the_scale_can_settle_it():
    (finding,) = tiny(lambda r: equal(r["x"], 5.0, 0.1)).evaluate("smoke")[1]
    assert finding.verdict == "not reproduced"
    assert [finding.fails(scale) for scale in SCALES] == [False, True, True]


@pytest.mark.parametrize(("value", "note"), [(1.0, "n"), (5.0, "n. Why: b, x is not 5; c, nor 6"), (math.nan, "n")])
def test_a_claim_that_fails_names_what_shows_why(value, note):
    claim = Claim("a", "x is as told", lambda r: equal(r["x"], value, 0.1, note="n"), why=("b, x is not 5", "c, nor 6"))
    experiment = dataclasses.replace(tiny(equal), claims=(claim,))
    (finding,) = experiment.evaluate("laptop")[1]
    assert finding.note.startswith(note)
    assert ("Why" in finding.note) == (finding.verdict == "not reproduced")


def test_scales_that_differ_from_the_paper_say_so():
    assert [tiny(equal).adapted_at(scale) for scale in SCALES] == ["value", "value", ""]
    assert tiny(equal, adapted="other data").adapted_at("paper") == "other data"


def test_what_an_experiment_needs_is_named_with_the_command_that_installs_it():
    absent = tiny(equal, needs=("torch", "sklearn"), name="elastic/tiny")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dynascope.optional.find_spec", lambda name: None)
        with pytest.raises(ImportError, match=r"elastic/tiny needs PyTorch: pip install 'dynascope\[torch\]'"):
            absent.record(Config())


def test_json_has_no_nan():
    (finding,) = tiny(lambda r: equal(math.nan, 1.0, 0.2)).evaluate("smoke")[1]
    assert json.loads(claims_json([finding]))[0]["measured"] == [None]


def test_names_are_known_and_unknown_ones_refused():
    with pytest.raises(ValueError, match="family must be one of"):
        registry.names("nothing")
    with pytest.raises(ValueError, match="name must be one of"):
        registry.find("spring_block/nothing")
    with pytest.raises(ValueError, match="scale must be one of smoke, laptop, paper"):
        registry.find("spring_block/phase_diagram").settings("huge")


def test_every_experiment_is_declared_in_one_way():
    experiments = [registry.find(name) for name in registry.names()]
    ids = [claim.id for experiment in experiments for claim in experiment.claims]
    assert len(ids) == len(set(ids))
    whys = [why for experiment in experiments for claim in experiment.claims for why in claim.why]
    assert {why.partition(", ")[0] for why in whys} <= set(ids)
    assert all(why.partition(", ")[2] for why in whys)
    on_data = (*course_claims.GEOMNIST, *course_claims.CIFAR)  # where those on other data are left out
    assert {why.partition(", ")[0] for claim in on_data for why in claim.why} <= {claim.id for claim in on_data}
    for experiment in experiments:
        source, title = registry.headline(experiment.name)
        assert source == str(experiment.source), experiment.name
        assert title == experiment.title
        assert all(dataclasses.is_dataclass(experiment.settings(scale)) for scale in SCALES)
