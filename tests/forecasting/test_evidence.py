"""How candidates are weighed, and whether what comes out is a distribution whose bands hold."""

from dataclasses import replace

import jax.numpy as jnp
import msgspec
import numpy as np
import pytest

from dynascope.experiments.forecasts.sets import planted
from dynascope.forecasting import learning
from dynascope.forecasting.candidates import CANDIDATES
from dynascope.forecasting.evidence import LEVELS, NUMBERS, PRIOR, TOLD, Mixture, load_prior, read_levels
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


def test_levels_move_until_bands_hold(lesson):
    prior = learning.learn(lesson, np.ones(len(lesson.last)), steps=2)
    rng = np.random.default_rng(0)
    big = lesson.take(rng.integers(0, len(lesson.last), 20_000))
    too_narrow = np.clip(0.5 + 2 * (rng.random(20_000) - 0.5), 0, 1)  # what happens lies in the tails far too often
    honest = rng.random(20_000)
    for below, expected in ((honest, LEVELS), (too_narrow, 0.5 + 2 * (np.array(LEVELS) - 0.5))):
        moved = learning.calibrated(prior, below, big, np.ones(20_000))
        levels = read_levels(moved, 2.0, np.array([0.05]))[0]
        np.testing.assert_allclose(levels, np.clip(expected, 0, 1), atol=0.03)
    far = read_levels(moved, 1e6, np.array([1e9, 1e-9]))  # beyond the table: its edge
    assert np.isfinite(far).all()


def test_groups_teach_the_same_together_and_alone():
    groups = [replace(each, kind=Kind(told)) for each, told in zip(planted(3)[:2], (1.0, -1.0), strict=True)]
    together, alone = learning.rows(groups, (0.3,)), [learning.rows([each], (0.3,)) for each in groups]
    for number, each in enumerate(alone):
        mine = together.take(together.group == number)
        np.testing.assert_allclose(mine.given.own, each.given.own, rtol=1e-9)
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
    assert PRIOR.stat().st_size < 16_000
    for table in np.array(prior.levels):
        assert (np.diff(table, axis=-1) > 0).all()
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"made": 3}', type=type(prior))
