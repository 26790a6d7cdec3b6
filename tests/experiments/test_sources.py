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


@pytest.mark.parametrize(
    "source",
    [
        Source("layerwise", equation="5.5, A.9–A.11, B.26", figure="5.1(b), C.1", table="4.1", section="3.5.2"),
        Source("elastic", theorem="Theorem 3.1, Proposition 3.4", place="proof, part (1)"),
        Source("deep-linear", theorem="Assumption A1", section="G", figure="6–8", place="(ii)"),
        Source("spring-block", equation="S2–S5", place="above (7)"),
        Source("elastic-slides"),
    ],
    ids=str,
)
def test_what_is_written_is_read(source):
    assert Source.read(str(source)) == source


@pytest.mark.parametrize("text", ["spring-block FIG. 3", "elastic section 2", "layerwise (1.29) to (1.34)"])
def test_other_forms_are_read_as_a_place_without_a_number(text):
    assert list(Source.read(text).items()) == []
