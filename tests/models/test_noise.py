import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax.extend.random import threefry_2x32
from scipy import stats

from dynascope.models import noise

words = st.integers(0, 2**32 - 1)


@given(words, words, words, words)
def test_bits_are_those_of_jax(k0, k1, c0, c1):
    key, counter = jnp.array([k0, k1], jnp.uint32), jnp.array([c0, c1], jnp.uint32)
    ours = noise.threefry(key, counter[:1], counter[1:])
    np.testing.assert_array_equal(np.concatenate(ours), threefry_2x32(key, counter))


@pytest.mark.parametrize(("dtype", "error"), [(np.float64, 1e-14), (np.float32, 3e-6)])
def test_logarithm_and_cosine(dtype, error):
    u = np.concatenate([np.geomspace(2.0**-41, 1, 100_001), [1.0, 0.5, np.sqrt(0.5), np.nextafter(1, 0)]]).astype(dtype)
    v = np.linspace(-0.5, 0.5, 100_001).astype(dtype)
    with jax.enable_x64(True):
        log, cosine = jax.jit(noise._log)(jnp.asarray(u)), jax.jit(noise._cosine_of_turns)(jnp.asarray(v))
    np.testing.assert_allclose(log, np.log(u.astype(np.float64)), rtol=error / 10, atol=error)
    np.testing.assert_allclose(cosine, np.cos(2 * np.pi * v.astype(np.float64)), rtol=0, atol=error)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_noise_is_standard_normal_and_independent(dtype):
    with jax.enable_x64(True):
        z = np.asarray(noise.normals(3, 100, steps=200, elements=5, trials=1000, dtype=dtype)[:, :, 0], np.float64)
    count = z.size
    assert abs(z.mean()) < 3 / np.sqrt(count)
    assert abs((z**2).mean() - 1) < 3 * np.sqrt(2 / count)
    assert abs((z**4).mean() - 3) < 3 * np.sqrt(96 / count)
    assert stats.kstest(z.ravel(), "norm").pvalue > 0.001
    for axis in range(3):  # neighbours in step, element and trial
        a, b = np.delete(z, -1, axis).ravel(), np.delete(z, 0, axis).ravel()
        assert abs((a * b).mean()) < 3 / np.sqrt(a.size)
        assert abs((a**2 * b**2).mean() - 1) < 3 * np.sqrt(8 / a.size)


def test_extreme_words_stay_finite():
    extreme = jnp.array([0, 1, 2**31, 2**32 - 1], jnp.uint32)
    with jax.enable_x64(True):
        for dtype, largest in ((jnp.float64, 7.5), (jnp.float32, 6.8)):
            first, second = jnp.meshgrid(extreme, extreme)
            z = np.asarray(noise.box_muller(first, second, dtype=np.dtype(dtype)))
            assert np.isfinite(z).all()
            assert np.abs(z).max() < largest


@pytest.mark.parametrize("bound", [0.5, 2.0, 5.0])
def test_truncated_noise_follows_the_conditioned_law(bound):
    with jax.enable_x64(True):
        z = np.asarray(noise.normals(1, 0, steps=100, elements=4, trials=512, bound=bound))
        free = np.asarray(noise.normals(1, 0, steps=100, elements=4, trials=512))
    assert np.abs(z).max() <= bound
    assert stats.kstest(z.ravel(), stats.truncnorm(-bound, bound).cdf).pvalue > 0.001
    assert np.all(np.sign(z) == np.sign(free))
    order = np.argsort(np.abs(free.ravel()))
    assert np.all(np.diff(np.abs(z.ravel())[order]) >= 0)


def test_wide_bounds_leave_float32_noise_alone():
    noise_in = jnp.array([-6.0, -5.3, -1.0, 0.0, 0.5, 4.0, 5.5, 6.5], jnp.float32)
    np.testing.assert_allclose(noise.truncate_normal(noise_in, np.float32(50.0)), noise_in, atol=1e-4)


def test_float32_draws_do_not_depend_on_where_they_begin():
    whole = np.asarray(noise.normals(5, 0, steps=12, elements=2, trials=16, dtype="float32"))
    for first in range(5):
        part = np.asarray(noise.normals(5, first, steps=7, elements=2, trials=16, dtype=np.float32))
        np.testing.assert_array_equal(part, whole[first : first + 7])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_stride_keeps_noise_when_elements_and_first_trial_change(dtype):
    with jax.enable_x64(True):
        whole = np.asarray(noise.normals(5, 2, steps=4, elements=6, trials=9, stride=64, dtype=dtype))
        part = np.asarray(noise.normals(5, 2, steps=4, elements=3, trials=4, first_trial=5, stride=64, dtype=dtype))
        dense = np.asarray(noise.normals(5, 2, steps=4, elements=6, trials=9, stride=6, dtype=dtype))
        default = np.asarray(noise.normals(5, 2, steps=4, elements=6, trials=9, dtype=dtype))
    np.testing.assert_array_equal(part, whole[:, :3, :, 5:])
    np.testing.assert_array_equal(dense, default)


def test_seeds_give_different_noise():
    draws = [
        np.asarray(noise.normals(s, 0, steps=4, elements=2, trials=16, dtype="float32"))
        for s in (0, 1, 2**32, 2**64 - 1)
    ]
    assert len({d.tobytes() for d in draws}) == 4


@pytest.mark.parametrize("seed", [-1, 2**64, 1.5, "1", None, True])
def test_bad_seeds(seed):
    with pytest.raises(ValueError, match="seed must be an integer"):
        noise.seed_key(seed)
