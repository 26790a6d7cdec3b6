"""A source is written in one way, and names items that can be counted."""

import pytest

from dynascope.experiments.sources import Source


def test_text():
    assert str(Source("layerwise", equation="5.5, B.26", figure="5.1(b)")) == "layerwise (5.5), (B.26), Figure 5.1(b)"
    assert str(Source("elastic", theorem="Theorem 2.1", place="footnote 5")) == "elastic Theorem 2.1, footnote 5"
    assert str(Source("deep-linear", section="4.1", figure="6–8")) == "deep-linear Figure 6–8, Section 4.1"
    assert str(Source("layerwise")) == "layerwise"


def test_items():
    found = list(Source("layerwise", equation="A.9–A.11", theorem="Proposition 2.5.1, Lemma 3").items())
    assert found == [
        ("equation", "A.9"),
        ("equation", "A.10"),
        ("equation", "A.11"),
        ("proposition", "2.5.1"),
        ("lemma", "3"),
    ]


@pytest.mark.parametrize("wrong", ["6–4", "A.1–B.2", "a–b"])
def test_ranges_that_do_not_run(wrong):
    with pytest.raises(ValueError, match="a range must run between"):
        list(Source("elastic", equation=wrong).items())


def test_unknown_papers():
    with pytest.raises(ValueError, match="paper must be one of spring-block, elastic"):
        Source("physics")
