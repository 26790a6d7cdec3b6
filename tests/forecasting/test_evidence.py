"""How candidates are weighed, and whether what comes out is a distribution whose bands hold."""

from dataclasses import replace

import jax.numpy as jnp
import msgspec
import numpy as np
import pytest
from scipy.special import ndtri

from dynascope.experiments.forecasts.sets import planted
from dynascope.forecasting import calibrating, evidence, learning
from dynascope.forecasting.candidates import CANDIDATES
from dynascope.forecasting.evidence import BANDS, LEVELS, NUMBERS, PRIOR, SORTS, TOLD, Mixture, bands, load_prior
from dynascope.forecasting.seen import Kind


@pytest.fixture(scope="module")
def lesson():
    return learning.rows(planted(12), (0.3, 0.6))


def test_quantiles_of_a_mixture_are_those_of_its_draws():
    rng = np.random.default_rng(0)
    weight, mean, width = np.array([0.2, 0.5, 0.3]), np.array([-1.0, 0.0, 4.0]), np.array([0.1, 1.0, 0.5])
    part = rng.choice(3, 200_000, p=weight)
    draws = mean[part] + width[part] * rng.standard_normal(len(part))
    found = Mixture(weight[None], mean[None], width[None])
    np.testing.assert_allclose(found.quantile(np.array(LEVELS))[0], np.quantile(draws, LEVELS), atol=0.03)
    assert found.below(np.array([0.5]))[0] == pytest.approx((draws < 0.5).mean(), abs=0.005)


def test_crps_is_its_integral():
    weight, mean, width = (np.array([each]) for each in ([0.4, 0.6], [0.0, 2.0], [0.5, 1.0]))
    mixed = Mixture(weight, mean, width)
    grid = np.linspace(-8, 12, 20_001)
    below = np.array([mixed.below(np.array([each]))[0] for each in grid])
    expected = np.trapezoid((below - (grid > 1.3)) ** 2, grid)
    assert float(learning.crps(weight, mean, width, jnp.array([1.3]))[0]) == pytest.approx(expected, abs=1e-3)


@pytest.mark.ci
def test_what_is_trained_is_what_forecasts(lesson):
    prior = learning.learn(lesson, np.ones(len(lesson.last)), steps=3)
    mixed = lesson.forecast(prior)
    ours = learning.crps(mixed.weight, mixed.mean, mixed.width, jnp.asarray(lesson.happened))
    numbers = {name: jnp.asarray(getattr(prior, name)) for name in NUMBERS}
    clues = lesson.given
    given = (clues.own, clues.common, np.nan_to_num(clues.place), np.isfinite(clues.place), clues.noise)
    shrunk = learning._DECAY * sum((numbers[name] ** 2).sum() for name in learning.SHRUNK)
    loss = learning._loss(numbers, *map(jnp.asarray, given), jnp.asarray(lesson.happened), jnp.ones(len(ours)))
    assert float(loss - shrunk) == pytest.approx(float(ours.mean()), rel=1e-4)


@pytest.mark.ci
def test_learning_makes_forecasts_better(lesson):
    weight = np.ones(len(lesson.last))

    def score(steps):
        mixed = lesson.forecast(learning.learn(lesson, weight, steps=steps))
        return float(learning.crps(mixed.weight, mixed.mean, mixed.width, jnp.asarray(lesson.happened)).mean())

    assert score(200) < 0.75 * score(1)


@pytest.mark.ci
@pytest.mark.parametrize("tasks", [6, 40])
def test_bands_hold_on_new_tasks(lesson, tasks, monkeypatch):
    """Tasks whose curves move by 2 times what was forecast, more in some tasks, less in others."""
    monkeypatch.setattr(calibrating, "_RATIOS", (1.9, 2.1))
    monkeypatch.setattr(calibrating, "_UNITS", (0.01, 0.1))
    rng = np.random.default_rng(tasks)
    prior = learning.learn(lesson, np.ones(len(lesson.last)), steps=2)
    rows = lesson.take(rng.integers(0, len(lesson.last), 200 * tasks))
    rows = replace(rows, ratio=np.full(len(rows.last), 2.0))
    normal = np.broadcast_to(ndtri(np.array(LEVELS)), (len(rows.last), len(LEVELS)))
    inside = []
    for _ in range(20):
        task = np.arange(len(rows.last)) % tasks
        scale = 2 * np.exp(0.5 * rng.standard_normal(tasks))
        known = replace(rows, happened=scale[task] * rng.standard_normal(len(task)))
        moved = calibrating.calibrated(prior, normal, known, np.ones(len(task)), task)
        given = rows.take(np.arange(500))
        one = np.ones((500, 1))
        found = bands(Mixture(one, 0 * one, one), given.given, given.last, moved, 2.0)
        new = 2 * np.exp(0.5 * rng.standard_normal(500)) * rng.standard_normal(500)
        inside.append([((found[:, low] <= new) & (new <= found[:, -1 - low])).mean() for low in (2, 1, 0)])
    np.testing.assert_allclose(np.mean(inside, 0), BANDS, atol=0.04)


def test_bands_of_smooth_and_of_noisy_curves_are_calibrated_apart(lesson, monkeypatch):
    """Smooth curves err by half of what is forecast, noisy ones by twice as much."""
    monkeypatch.setattr(calibrating, "_RATIOS", (1.5, 2.0))
    monkeypatch.setattr(calibrating, "_UNITS", (0.01, 0.1))
    monkeypatch.setattr(calibrating, "_NOISES", (0.01, 0.6))
    rng = np.random.default_rng(0)
    rows = lesson.take(rng.integers(0, len(lesson.last), 8000))
    noisy = np.arange(8000) % 2 == 1
    given = replace(rows.given, noise=np.where(noisy, 0.6, 0.01))
    happened = np.where(noisy, 2.0, 0.5) * rng.standard_normal(8000)
    rows = replace(rows, given=given, happened=happened, ratio=np.full(8000, 2.0))
    normal = np.broadcast_to(ndtri(np.array(LEVELS)), (8000, len(LEVELS)))
    prior = learning.learn(lesson, np.ones(len(lesson.last)), steps=1)
    moved = calibrating.calibrated(prior, normal, rows, np.ones(8000), np.arange(8000) // 2 % 40)
    one = np.ones((8000, 1))
    found = bands(Mixture(one, 0 * one, one), rows.given, rows.last, moved, 2.0)
    inside = (found[:, 1] <= happened) & (happened <= found[:, -2])
    np.testing.assert_allclose([inside[noisy].mean(), inside[~noisy].mean()], 0.8, atol=0.04)


def _planted_rows(lesson, count, told, happened, noise=0.1):
    """Rows of one sort, all as far ahead, and what happened."""
    rng = np.random.default_rng(0)
    rows = lesson.take(rng.integers(0, len(lesson.last), count))
    common = rows.given.common.copy()
    common[:, TOLD] = told
    given = replace(rows.given, common=common, noise=np.broadcast_to(noise, count))
    return replace(rows, given=given, happened=happened, ratio=np.full(count, 2.0))


@pytest.mark.parametrize(("goes", "kept"), [(0.6, 60), (1.5, 100), (-0.5, 0)])
def test_only_so_much_of_the_way_is_believed_as_was_gone(lesson, goes, kept):
    """What happens is a share of what was said, and some curves break; never is more believed than was said."""
    rng = np.random.default_rng(1)
    said = 3 + rng.standard_normal(4000)
    happened = np.where(rng.random(4000) < 0.02, 1e3, goes * said + 0.1 * rng.standard_normal(4000))
    rows = _planted_rows(lesson, 4000, 1.0, happened)
    prior = learning.learn(lesson, np.ones(len(lesson.last)), steps=1)
    quantiles = said[:, None] + ndtri(np.array(LEVELS))
    found = calibrating.calibrated(prior, quantiles, rows, np.ones(4000), np.arange(4000) % 20)
    assert found.kept[2] == pytest.approx(kept, abs=2)
    assert found.kept[1] == 100  # of what no name tells
    one = np.ones((4000, 1))
    middle = bands(Mixture(one, rows.last[:, None] + said[:, None], one), rows.given, rows.last, found, 2.0)[:, 3]
    np.testing.assert_allclose(middle - rows.last, found.kept[2] / 100 * said, atol=1e-6)


def test_bands_of_what_a_name_tells_hold_where_curves_near_differ(lesson):
    """Errors grow with noise, faster than a table of few noises can follow."""
    rng = np.random.default_rng(2)
    noise = np.exp(rng.uniform(np.log(0.01), np.log(0.6), 8000))
    happened = noise**1.5 * rng.standard_normal(8000)
    normal = np.broadcast_to(ndtri(np.array(LEVELS)), (8000, len(LEVELS)))
    prior = learning.learn(lesson, np.ones(len(lesson.last)), steps=1)
    one, inside = np.ones((8000, 1)), []
    for told in (-1.0, 0.0):
        rows = _planted_rows(lesson, 8000, told, happened, noise)
        found = calibrating.calibrated(prior, normal, rows, np.ones(8000), np.arange(8000) % 40)
        band = bands(Mixture(one, rows.last[:, None], one), rows.given, rows.last, found, 2.0) - rows.last[:, None]
        inside.append(((band[:, 1] <= happened) & (happened <= band[:, -2])).mean())
    assert inside[0] == pytest.approx(0.8, abs=0.02)
    assert inside[1] > inside[0] + 0.02


def test_bands_of_curves_whose_rate_changes_are_calibrated_apart(lesson):
    """Where nothing is said of them: with a learning rate that changes they err by half, others by twice as much."""
    rng = np.random.default_rng(3)
    paced = np.arange(8000) % 2 == 1
    happened = np.where(paced, 0.5, 2.0) * rng.standard_normal(8000)
    normal = np.broadcast_to(ndtri(np.array(LEVELS)), (8000, len(LEVELS)))
    prior = learning.learn(lesson, np.ones(len(lesson.last)), steps=1)
    rows = _planted_rows(lesson, 8000, 0.0, happened)
    rows.given.common[:, evidence._PACED] = paced
    found = calibrating.calibrated(prior, normal, rows, np.ones(8000), np.arange(8000) // 2 % 40)
    one = np.ones((8000, 1))
    band = bands(Mixture(one, rows.last[:, None], one), rows.given, rows.last, found, 2.0) - rows.last[:, None]
    inside = (band[:, 1] <= happened) & (happened <= band[:, -2])
    np.testing.assert_allclose([inside[paced].mean(), inside[~paced].mean()], 0.8, atol=0.04)


def test_wider_bands_stay_wider():
    """Factors that would make all bands one leave what errors that are spread evenly have."""
    quantiles = np.array([[-30.0, -2.0, -1.0, 0.0, 1.0, 2.0, 30.0]])
    found = evidence.widened(quantiles, np.array([[1.0, 0.1, 0.01]]))
    np.testing.assert_allclose(found, [[-1.9, -1.6, -1.0, 0.0, 1.0, 1.6, 1.9]])
    np.testing.assert_array_equal(evidence.widened(quantiles, np.ones((1, 3))), quantiles)


def test_what_candidates_doubt_widens_their_part_of_the_forecast_alone(lesson):
    given = lesson.given
    doubted = replace(given, doubt=np.where(np.arange(len(CANDIDATES)) == 3, 4.0, 0.0) + 0 * given.doubt)
    plain, wide = (evidence.mixture(each, lesson.last, load_prior()) for each in (given, doubted))
    others = np.arange(len(CANDIDATES) + 1) != 3
    np.testing.assert_array_equal(wide.width[:, others], plain.width[:, others])
    np.testing.assert_allclose(wide.width[:, 3], np.hypot(plain.width[:, 3], 4 * given.unit))
    np.testing.assert_array_equal(wide.weight, plain.weight)
    again = replace(lesson, given=doubted).forecast(load_prior())  # as it is calibrated
    np.testing.assert_array_equal(again.width, lesson.forecast(load_prior()).width)


def test_bands_beyond_the_table_are_those_of_its_edge(lesson):
    prior = load_prior()
    one = np.ones((len(lesson.last), 1))
    mixed = Mixture(one, 0 * one, one)
    far, edge = (bands(mixed, lesson.given, lesson.last, prior, each) for each in (1e6, prior.ratios[-1]))
    np.testing.assert_array_equal(far, edge)
    assert (np.diff(far, axis=1) > 0).all()


def test_groups_teach_the_same_together_and_alone():
    groups = [replace(each, kind=Kind(told)) for each, told in zip(planted(3)[:2], (1.0, -1.0), strict=True)]
    together, alone = learning.rows(groups, (0.3,)), [learning.rows([each], (0.3,)) for each in groups]
    for number, each in enumerate(alone):
        mine = together.take(together.group == number)
        np.testing.assert_allclose(mine.given.own, each.given.own, rtol=1e-6)  # fits stop where sums are rounded
        np.testing.assert_array_equal(mine.given.common[:, TOLD], groups[number].kind.told)
        np.testing.assert_array_equal(mine.happened, each.happened)


def test_names_of_every_other_curve_are_forgotten():
    rows = learning.rows([replace(planted(4)[0], kind=Kind(1.0))], (0.3,))
    told = rows.forgetting().given.common[:, TOLD]
    np.testing.assert_array_equal(told, rows.curve % 2)
    assert (rows.given.common[:, TOLD] == 1).all()


def test_what_ships_suits_the_candidates_and_stays_small():
    prior = load_prior()
    assert len(prior.candidates) == len(CANDIDATES)
    assert PRIOR.stat().st_size < 18_000
    assert np.shape(prior.factors) == (SORTS, len(BANDS), *map(len, (prior.noises, prior.units, prior.ratios)))
    assert (np.array(prior.factors) > 0).all()
    assert len(prior.kept) == SORTS
    assert 0 < min(prior.kept) <= max(prior.kept) <= 100
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"made": 3}', type=type(prior))
