"""Grids become tasks, tasks become packs; both depend on what is asked for and on nothing else."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_experiments import PACKED, fragile, walk

from dynascope.sweep.plan import Task, address, make_packs, make_plan
from dynascope.sweep.workload import Workload, as_workload

WALK = as_workload(walk)


def test_all_combinations_in_the_order_of_the_grid_with_defaults_filled_in():
    plan = make_plan(WALK, {"noise": [1, 2], "drift": np.array([0.0, 0.5])}, seeds=[3, 1], fixed={"steps": 9})
    assert plan.axes == {"noise": [1.0, 2.0], "drift": [0.0, 0.5], "seed": [3, 1]}
    first, *_, last = (task.configuration for task in plan.tasks)
    assert first == {"drift": 0.0, "noise": 1.0, "steps": 9, "seed": 3, "pause": 0.0, "log": ""}
    assert (last["noise"], last["drift"], last["seed"]) == (2.0, 0.5, 1)
    assert plan.fixed == {"steps": 9, "pause": 0.0, "log": ""}


def test_a_list_of_configurations():
    plan = make_plan(WALK, [{"noise": 2.0}, {"drift": 1.0, "steps": 3}], seeds=2)
    assert plan.axes == {"configuration": [0, 1], "seed": [0, 1]}
    assert [task.configuration["steps"] for task in plan.tasks] == [5, 5, 3, 3]


def test_an_address_is_of_values_not_of_how_they_were_written():
    def keys(grid, **options):
        return [task.key for task in make_plan(WALK, grid, **options).tasks]

    plain = keys({"drift": [0.0, 1.0]})
    assert plain == keys({"drift": [0, 1]}) == keys({"drift": np.linspace(0, 1, 2)})
    assert plain == keys([{"drift": 0}, {"drift": 1}]) == keys({"drift": (0, 1)}, fixed={"steps": 5})
    assert keys({"drift": [1.0]}, seeds=[0]) == plain[1:]
    assert not set(plain) & set(keys({"drift": [0.0, 1.0]}, fixed={"steps": 6}))
    assert not set(plain) & set(keys({"drift": [0.0, 1.0]}, seeds=[1]))
    assert address("a", "code", {"x": 1}) != address("a", "other code", {"x": 1})


@pytest.mark.parametrize(
    ("grid", "options", "message"),
    [
        ({}, {}, "grid must name at least one parameter out of drift, noise"),
        ([], {}, "grid must hold at least one configuration"),
        ({"drift": []}, {}, r"grid\['drift'\] must hold at least one value"),
        ({"drift": 1.0}, {}, r"grid\['drift'\] must be a list of values, got 1.0; fixed"),
        ({"drift": "high"}, {}, r"grid\['drift'\] must be a list of values"),
        ({"wind": [1.0]}, {}, "grid must name parameters of walk: drift, noise, steps, seed, pause, log; got 'wind'"),
        ([{"drift": 1.0}, {"wind": 1.0}], {}, r"grid\[1\] must name parameters of walk"),
        ("drift", {}, "grid must map parameters to lists of values, or be a list of configurations, got str"),
        ({"drift": [1.0, 1.0]}, {}, "each configuration once"),
        ({"drift": [1.0]}, {"fixed": {"drift": 2.0}}, "drift must be given in the grid or in fixed, not in both"),
        ({"drift": [1.0]}, {"fixed": {"wind": 2.0}}, "fixed must name parameters of walk"),
        ({"drift": [1.0]}, {"fixed": 3}, "fixed must map parameters to values, got int"),
        ({"drift": [1.0]}, {"seeds": 0}, "seeds must be a whole number of at least 1, got 0"),
        ({"drift": [1.0]}, {"seeds": [1, 1]}, "seeds must be a number, or a list of different numbers"),
        ({"seed": [1, 2]}, {"seeds": 2}, "seeds must be left out where the grid or fixed holds `seed`"),
        ({"drift": range(1001), "noise": range(1000)}, {}, "grid must have at most 1000000 points, got 1001000"),
        ({"drift": [object()]}, {}, "a configuration must hold numbers, text"),
    ],
)
def test_bad_grids_are_refused_before_any_work(grid, options, message):
    with pytest.raises(ValueError, match=message):
        make_plan(WALK, grid, **options)


def test_what_has_no_default_must_be_given_and_seeds_need_a_seed():
    with pytest.raises(ValueError, match="x must be given in the grid or in fixed: fragile has no default for it"):
        make_plan(as_workload(fragile), {"seed": [1]})
    with pytest.raises(ValueError, match="seeds must be left out: half has no parameter `seed`"):
        make_plan(Workload(lambda pack: pack, {"x": 1.0}, name="half"), {"x": [1.0]}, seeds=3)
    with pytest.raises(ValueError, match="shared must name parameters out of x, got 'y'"):
        Workload(lambda pack: pack, {"x": 1.0}, shared=("y",))
    with pytest.raises(ValueError, match="experiment must be a function"):
        as_workload(3)


@given(
    steps=st.lists(st.integers(1, 3), min_size=1, max_size=60),
    costs=st.lists(st.floats(0.01, 50.0), min_size=3, max_size=3),
    length=st.floats(1.0, 100.0),
)
def test_packs_hold_every_task_once_share_what_is_shared_and_last_as_long_as_asked(steps, costs, length):
    tasks = [Task({"steps": each, "seed": index}, str(index)) for index, each in enumerate(steps)]
    able = Workload(len, {"steps": 1, "seed": 0}, shared=("steps",), seconds=lambda each: costs[each["steps"] - 1])
    packs = make_packs(able, tasks, length)
    assert sorted(int(task.key) for pack in packs for task in pack) == list(range(len(steps)))
    for pack in packs:
        (kind,) = {task.configuration["steps"] for task in pack}
        assert len(pack) == 1 or len(pack) * costs[kind - 1] <= length + costs[kind - 1]
    for kind in set(steps):
        sizes = [len(pack) for pack in packs if pack[0].configuration["steps"] == kind]
        assert max(sizes) - min(sizes) <= 1
        assert len(sizes) <= np.ceil(sum(sizes) * costs[kind - 1] / length)


def test_a_pack_is_one_configuration_where_the_cost_is_unknown():
    tasks = make_plan(WALK, {"drift": [0.0, 1.0]}).tasks
    assert make_packs(WALK, tasks, 30.0) == [[tasks[0]], [tasks[1]]]
    with pytest.raises(ValueError, match="seconds of walk_packs must be a number above 0, got 0"):
        make_packs(Workload(PACKED.run, PACKED.defaults, seconds=0), tasks, 30.0)
