"""Measures against what scikit-learn computes on its own terms."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.covariance import empirical_covariance
from sklearn.linear_model import LinearRegression
from sklearn.metrics import calinski_harabasz_score, mean_squared_error
from sklearn.metrics.pairwise import cosine_similarity, linear_kernel
from sklearn.neighbors import NearestCentroid
from sklearn.preprocessing import KernelCenterer

from dynascope.measure import data_separation, minimum_feature_distance, neural_collapse


def _clouds(seed, samples=120, features=7, classes=4):
    random = np.random.default_rng(seed)
    labels = random.integers(classes, size=samples)
    labels[: 3 * classes] = np.arange(3 * classes) % classes
    return random.normal(size=(samples, features)) + 2 * random.normal(size=(classes, features))[labels], labels


@given(st.integers(0, 10**6))
def test_load_is_the_calinski_harabasz_index(seed):
    x, labels = _clouds(seed)
    index = calinski_harabasz_score(x, labels)  # (tr Sb/(K − 1))/(tr Sw/(n − K))
    assert float(data_separation(x, labels)) == pytest.approx(np.log((120 - 4) / (4 - 1) / index), abs=1e-10)


@given(st.integers(0, 10**6))
def test_regression_load_is_what_a_linear_fit_leaves(seed):
    x, _ = _clouds(seed)
    y = np.random.default_rng(seed + 1).normal(size=(120, 2)) + x[:, :2]
    left = mean_squared_error(y, LinearRegression().fit(x, y).predict(x)) * y.shape[1]
    assert float(data_separation(x, y, kind="regression")) == pytest.approx(np.sqrt(left / 2), abs=1e-9)


@given(st.integers(0, 10**6))
def test_distance_from_minimal_features_is_one_minus_centred_kernel_alignment(seed):
    x, labels = _clouds(seed)
    outputs = x @ np.random.default_rng(seed).normal(size=(7, 4)) + np.eye(4)[labels]
    projector = LinearRegression(fit_intercept=False).fit(outputs, np.eye(120)).predict(outputs)
    centred = [KernelCenterer().fit_transform(kernel) for kernel in (linear_kernel(x), projector)]
    alignment = cosine_similarity(*(each.reshape(1, -1) for each in centred)).item()
    assert float(minimum_feature_distance(x, outputs)) == pytest.approx(1 - alignment, abs=1e-8)


@given(st.integers(0, 10**6))
def test_nearest_class_means_decide_as_the_nearest_centroid_classifier(seed):
    x, labels = _clouds(seed)
    random = np.random.default_rng(seed)
    weight, bias = random.normal(size=(4, 7)), random.normal(size=4)
    nearest = NearestCentroid().fit(x, labels).predict(x)
    disagree = (nearest != (x @ weight.T + bias).argmax(axis=1)).mean()
    assert float(neural_collapse(x, labels, weight, bias)["nc4"]) == pytest.approx(disagree)


@given(st.integers(0, 10**6))
def test_spread_within_classes_by_fitted_covariances(seed):
    x, labels = _clouds(seed)
    shares = np.bincount(labels) / len(labels)
    within = sum(p * empirical_covariance(x[labels == k]) for k, p in enumerate(shares))
    between = empirical_covariance(x) - within  # the law of total covariance
    expected = np.log(np.trace(within @ np.linalg.pinv(between, rcond=1e-9)))
    assert float(data_separation(x, labels, kind="pinv")) == pytest.approx(expected, abs=1e-7)
