"""The law of control: what it rests at, that the number of measurements does not matter, and its limits."""

import numpy as np
import pytest

from dynascope.monitor.beliefs import Signal
from dynascope.steering import other_layers
from dynascope.steering.law import CONVEX, GAIN, SWIFT, Law, Place, place_of, value_of
from dynascope.steering.other_layers import DOUBTED, KEPT, SLOWEST, beginning, law_for


def _seen(bend, *, width=0.0, ready=True, fit=1.0, doubt=0.0, contradicted=None, beside=None):
    bend = np.atleast_1d(np.asarray(bend, float))
    full = np.ones_like(bend)
    firm, other = (None if each is None else each * full for each in (contradicted, beside))
    ends = (bend - width, bend + width)
    return Signal(bend, *ends, fit * full, doubt * full, full, np.full(bend.shape, ready), firm, other)


def _rate(seen, before=()):
    """Of a network that contradicted such shares of its labels before."""
    place = Place.at(0.0)
    for step, share in before:
        place = Law().turn(place, step, _seen(0.0, contradicted=share))
    return float(Law().rate(seen, place.after(10_000, seen))[0])


def _followed(law, steps, start=0.0, response=lambda u: 1.5 - 4 * u, width=0.0):
    """A network whose bend answers at once."""
    place = Place.at(start)
    for step in steps:
        place = law.turn(place, step, _seen(response(place.u), width=width))
    return place.u


def test_it_rests_at_the_target():
    found = _followed(Law(gain=0.5, target=-0.5), range(20, 200_000, 20))
    assert found == pytest.approx(0.5, abs=1e-3)  # 1.5 − 4·0.5 = −0.5


def test_wrong_labels_are_to_be_kept_out():
    before = [(100, 0.2), (1000, 0.2)]
    assert _rate(_seen(-0.5, contradicted=0.2), before) == 0.0  # noise enough, and not too much
    assert _rate(_seen(CONVEX - 0.2, contradicted=0.2), before) < 0
    assert _rate(_seen(-0.5, contradicted=0.1), before) == pytest.approx(SWIFT * GAIN, rel=0.01)  # half taken back
    assert _rate(_seen(0.5, contradicted=0.2), before) == pytest.approx(0.5 * GAIN)
    few = [(100, 0.08), (1000, 0.08)]
    assert _rate(_seen(-0.5, contradicted=0.0), few) == pytest.approx(-0.5 * GAIN)  # may be its own errors


def test_what_is_learnt_by_heart_beside_wrong_labels_asks_for_more_noise():
    assert _rate(_seen(0.0, beside=1.0)) == 0.0
    assert _rate(_seen(0.0, beside=0.96)) == pytest.approx(GAIN)
    assert _rate(_seen(0.0, beside=0.92)) == pytest.approx(4 * GAIN)
    assert _rate(_seen(0.5, fit=0.7, beside=1.0)) == 0.0  # three in ten labels are left open
    assert _rate(_seen(-0.5, fit=0.7, beside=1.0)) == pytest.approx(-0.5 * GAIN)
    assert _rate(_seen(0.5, fit=0.7)) == pytest.approx(0.5 * GAIN)


def _unlike(most, now):
    """What a network of convolutions asks for that doubted its labels so much, for long, and does so much now."""
    law, place = law_for(["", "Conv2d", "Conv2d"], GAIN, None, None), Place.at(0.0)
    for step in (100, 100_000):
        place = law.turn(place, step, _seen(2.0, doubt=most, fit=0.9))
    seen = _seen(2.0, doubt=now, fit=1.0 - now)
    return float(law.rate(seen, place.after(1_000_000_000, seen, law.memory, law.lasting))[0]) / GAIN


def test_networks_of_other_layers_go_by_what_is_left_of_their_doubts():
    assert _unlike(0.12, 0.12) == pytest.approx(SLOWEST)  # nothing is believed yet, whatever the bend
    assert _unlike(0.12, KEPT * 0.12) == pytest.approx(0.0, abs=1e-6)
    assert _unlike(0.12, 0.0) == pytest.approx(other_layers.SWIFT)  # all is learnt by heart
    assert _unlike(sum(DOUBTED) / 2, 0.0) == pytest.approx(other_layers.SWIFT / 2)
    assert _unlike(0.9 * DOUBTED[0], 0.0) == 0.0  # labels were hardly doubted


def test_networks_of_other_layers_go_by_inputs_beside_where_there_are_some():
    law = law_for(["", "Conv2d"], GAIN, None, None)
    place = law.turn(Place.at(0.5), 100, _seen(2.0, doubt=0.12, contradicted=0.2))  # which then count no more
    for beside, asked in ((0.98, 0.0), (0.97, 1.0), (0.95, 9.0), (0.5, 20.0), (0.99, -1.0), (1.0, SLOWEST)):
        seen = _seen(2.0, beside=beside)
        assert law.rate(seen, place)[0] == pytest.approx(GAIN * asked, abs=1e-9)
    for beside, asked in ((0.95, 4.5), (1.0, SLOWEST / 2)):  # three in ten labels are left open: both count by half
        assert law.rate(_seen(2.0, fit=0.7, beside=beside), place)[0] == pytest.approx(GAIN * asked)


@pytest.mark.parametrize(("later", "asked"), [(0.0, other_layers.SWIFT), (0.12, SLOWEST)])
def test_networks_of_other_layers_stop_where_labels_are_left_open(later, asked):
    law, place = law_for(["", "Conv2d"], GAIN, None, None), Place.at(0.0)
    for step in (100, 100_000):
        place = law.turn(place, step, _seen(2.0, doubt=0.12))
    for left_open, share in ((0.1, 1.0), (0.15, 0.5), (0.3, 0.0)):
        seen = _seen(2.0, fit=1 - left_open - 2 * later, doubt=later)
        after = place.after(1_000_000_000, seen, law.memory, law.lasting)
        assert law.rate(seen, after)[0] == pytest.approx(share * GAIN * asked)


def test_doubts_of_a_moment_do_not_count_for_networks_of_other_layers():
    law = law_for(["", "Conv2d"], GAIN, None, None)
    found = []
    for doubted in (50, 400):  # up to this step it doubts, from then on it believes
        place = Place.at(0.2)
        for step in range(40, 1000, 20):
            place = law.turn(place, step, _seen(2.0, doubt=0.12 if step < doubted else 0.02))
        found.append(float(place.u[0]))
    assert found[0] == 0.2
    assert found[1] > 0.5


def test_contradictions_that_are_missing_for_a_moment_do_not_count_for_networks_of_other_layers():
    law = law_for(["", "Conv2d"], GAIN, None, None)
    found = []
    for missing in (range(220, 240), range(220, 400)):
        place = Place.at(0.2)
        for step in range(40, 400, 20):
            shares = {"doubt": 0.07, "contradicted": 0.09} if step in missing else {"doubt": 0.15, "contradicted": 0.15}
            place = law.turn(place, step, _seen(2.0, fit=0.8, **shares))
        found.append(float(place.u[0]))
    assert 0.2 <= found[0] < 0.21
    assert found[1] > 0.3


def test_networks_of_other_layers_never_get_less_noise_than_they_began_with():
    law = law_for(["", "Conv2d"], GAIN, None, None)
    for beside in (None, 1.0):  # all is doubted as ever, or as sure beside as on the probe
        place = Place.at(0.3)
        for step in (100, 1000, 10_000):
            place = law.turn(place, step, _seen(2.0, doubt=0.12, fit=0.8, beside=beside))
        assert place.u == 0.3
    raised = law.turn(place, 20_000, _seen(2.0, beside=0.5))
    assert raised.u > 0.3
    assert law.turn(raised, 30_000, _seen(2.0, doubt=0.12, beside=1.0)).u < raised.u  # what was added is taken back
    assert Law().turn(place, 20_000, _seen(-1.0)).u < 0.3


def test_dropout_of_other_layers_begins_where_some_of_the_signal_is_left_unless_it_began_elsewhere():
    other, linear = law_for(["", "Conv2d"], GAIN, None, None), law_for(["", "Linear"], GAIN, None, None)

    def begins(law, value=0.0, most=0.6, knob="dropout", *, passed=1):
        return beginning(law, knob, value, most, lambda: passed)

    assert begins(other) == 0.6
    for layers in (2, 3, 6, 20):
        assert (1 - begins(other, passed=layers)) ** layers == pytest.approx(0.4)
    assert begins(other, passed=None) == 0.1  # it cannot be told
    assert begins(other, most=0.05) == begins(other, most=0.05, passed=None) == 0.05
    assert begins(other, most=0.9, passed=1) == 0.6
    assert begins(other, 0.02) == 0.02
    assert begins(other, knob="weight_decay") == 0.0
    assert begins(linear) == 0.0
    assert begins(law_for(["", "Conv2d"], 0.0, None, None)) == 0.0  # leaves all alone
    assert begins(law_for(["", "Conv2d"], GAIN, 0.0, None)) == 0.0  # holds a bend


def test_a_target_that_is_given_is_held_by_any_network():
    seen = _seen(2.0, fit=0.5)
    assert law_for(["", "Conv2d"], GAIN, 0.0, None).rate(seen, Place.at(0.0))[0] == GAIN
    assert law_for(["", "Conv2d"], GAIN, None, None).rate(seen, Place.at(0.0))[0] == 0.0


def test_a_place_of_a_version_that_knew_no_contradictions_is_read():
    old = Place.from_json({"u": [0.3], "since": [40]})
    assert (old.u.tolist(), old.since.tolist(), old.most.tolist()) == ([0.3], [40], [0.0])


def test_the_number_of_measurements_does_not_matter():
    few, many = (_followed(Law(), np.geomspace(20, 5000, number).astype(int).tolist()) for number in (40, 400))
    assert few == pytest.approx(many, abs=0.01)


def test_it_approaches_at_the_rate_that_is_derived():
    gain, slope = 0.2, 4.0
    found = _followed(Law(gain, -0.5), np.unique(np.geomspace(100, 800, 400).astype(int)).tolist(), start=0.3)
    assert (found - 0.5) / (0.3 - 0.5) == pytest.approx((800 / 100) ** (-gain * slope), rel=0.02)


def test_nothing_happens_within_the_interval_or_before_the_network_is_ready():
    law, place = Law(target=0.0), Place.at(0.2)
    for step in (20, 40, 80):
        place = law.turn(place, step, _seen(0.3, width=0.4))
        assert place.u == 0.2
    asleep = Place.at(0.2)
    for step in (20, 40):
        asleep = law.turn(asleep, step, _seen(2.0, ready=False))
    assert asleep.u == 0.2
    assert asleep.since == 0


def test_limits_hold_and_nothing_winds_up():
    law, place = Law(gain=1.0, target=0.0), Place.at(0.9)
    for step in (10, 100, 1000):
        place = law.turn(place, step, _seen(3.0))
    assert place.u == 1.0
    place = law.turn(place, 2000, _seen(-0.5))
    assert place.u == pytest.approx(1 - 0.5 * np.log(2))


def test_the_end_of_a_run_of_known_length_settles():
    law, place = Law(steps=1000), Place.at(0.1)
    place = law.turn(place, 800, _seen(1.0))
    turned = law.turn(place, 900, _seen(1.0))
    assert turned.u > 0.1
    assert law.turn(turned, 950, _seen(1.0)).u == turned.u


def test_many_knobs_are_turned_as_each_alone():
    law, together = Law(), Place.at(np.array([0.1, 0.5]))
    alone = [Place.at(0.1), Place.at(0.5)]
    for step in (20, 40, 60):
        together = law.turn(together, step, _seen([1.0, -2.0]))
        alone = [law.turn(each, step, _seen(bend)) for each, bend in zip(alone, (1.0, -2.0), strict=True)]
    assert together.u.tolist() == [each.u[0] for each in alone]


@pytest.mark.parametrize(("scale", "noise"), [("linear", 1), ("log", 1), ("log", -1)])
def test_a_place_and_its_value_say_the_same(scale, noise):
    for u in (0.0, 0.3, 1.0):
        assert place_of(value_of(u, (0.5, 8.0), scale, noise), (0.5, 8.0), scale, noise) == pytest.approx(u)
    assert value_of(1.0, (0.5, 8.0), scale, noise) == pytest.approx(8.0 if noise > 0 else 0.5)
