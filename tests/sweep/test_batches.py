"""Batches: results come back as they were, whatever lay beside them, and damage is never taken for a result."""

import bisect
import hashlib
import json
import random
import struct
import tracemalloc
import zlib

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from small_experiments import digests, fragile, walk

from dynascope import digest
from dynascope.sweep import gather, pack_runner, sweep
from dynascope.sweep.batches import Batch, append, as_batch, scan
from dynascope.sweep.folder import SweepFolder
from dynascope.sweep.plan import Task
from dynascope.sweep.stacks import Failure, Gathering


def batch_of(datasets, first=0):
    found = Gathering("code")
    for number, dataset in enumerate(datasets, first):
        found.add(Task({"x": number, "name": "é"}, f"{number:x}"), dataset)
    return as_batch(found, 1.0)


def records(batch):
    return {key: stack.record(row) for stack in batch.stacks() for row, key in enumerate(stack.keys)}


def read(path):
    return {key: record for batch in scan(path) for key, record in records(batch).items()}


def kinds():
    """Results of every kind: types, empty and long dimensions, words, attributes, coordinates."""
    times = {"time": [0.5, 1.0]}
    return [
        xr.Dataset({"y": ("time", [1.0, np.nan])}, coords=times, attrs={"seed": "1", "wall_time": "0.5"}),
        xr.Dataset({"y": ("time", [3.0, -0.0])}, coords=times, attrs={"seed": "2", "wall_time": "0.7"}),
        xr.Dataset({"y": ("time", [3.0, 4.0])}, coords={"time": [0.5, 2.0]}),
        xr.Dataset({"y": ("time", np.float32([3.0]), {"unit": "s"})}),
        xr.Dataset({"flag": True, "small": np.int8(-3), "big": np.uint64(2**63), "word": "straße"}),
        xr.Dataset({"flag": False, "small": np.int8(5), "big": np.uint64(1), "word": ""}),
        xr.Dataset({"words": (("a", "b"), [["x", "yy"], ["", "z"]]), "none": ("c", np.zeros(0))}, coords={"depth": 3}),
        xr.Dataset({"train/loss": (("a", "b"), np.arange(6).reshape(2, 3)[:, ::-1])}, coords={"a": ["u", "v"]}),
        xr.Dataset({"swapped": ("x", np.array([1.0, 2.0], ">f8"))}),
        xr.Dataset(),
    ]


def test_results_come_back_as_they_were_whatever_lay_beside_them(tmp_path):
    together, alone = tmp_path / "together.bin", tmp_path / "alone.bin"
    append(together, batch_of(kinds())[1])
    for number, dataset in enumerate(kinds()):
        append(alone, batch_of([dataset], number)[1])
    first, second = read(together), read(alone)
    assert len(first) == len(kinds())
    for number, dataset in enumerate(kinds()):
        found = first[f"{number:x}"]
        assert digest(found) == digest(second[f"{number:x}"])
        own = {"address": f"{number:x}", "code": "code", "configuration": {"name": "é", "x": number}}
        assert json.loads(found.attrs["sweep"]) == own
        assert digest(found.drop_attrs(deep=False).assign_attrs(dataset.attrs)) == digest(dataset)
        assert set(found.coords) == set(dataset.coords)


def test_results_that_differ_in_values_only_are_stacked():
    found = Gathering("code")
    for number in range(1000):
        found.add(Task({"x": number}, f"{number:x}"), walk(drift=number, seed=number).assign_attrs(seed=str(number)))
    (stack,) = found.stacks()
    assert stack.columns["position"].values.shape == (1000, 5)
    assert stack.columns["time"].values.shape == (1, 5), "what is the same in all is kept once"
    assert len(as_batch(found, 1.0)[1]) < 1000 * 150


@pytest.mark.parametrize(
    ("outcome", "message"),
    [
        (xr.Dataset({"z": 1j}), "variable 'z' has the type complex128"),
        (xr.Dataset(attrs={"seed": 7}), "attribute 'seed' of the dataset must be text"),
        (xr.Dataset({"word": "\ud800"}), "surrogates not allowed"),
        (xr.Dataset(attrs={"word": "\ud800"}), "surrogates not allowed"),
        (Failure("cannot open \udcff", "here"), "cannot open ?"),
    ],
)
def test_what_cannot_be_kept_is_a_failure_of_its_task_alone(tmp_path, outcome, message):
    path = tmp_path / "batches.bin"
    append(path, batch_of([xr.Dataset({"y": 1.0}), outcome])[1])
    (batch,) = scan(path)
    assert batch.head.keys == ["0"]
    assert message in batch.head.failures["1"].error
    assert batch.head.failures["1"].configuration == {"x": 1, "name": "é"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A file of three batches, where they end, and digests of what they hold."""
    path = tmp_path_factory.mktemp("whole") / "batches.bin"
    for first in range(3):
        append(path, batch_of([xr.Dataset({"y": float(number)}) for number in range(2)], 2 * first)[1])
    truth = [{key: digest(record) for key, record in records(batch).items()} for batch in scan(path)]
    return path.read_bytes(), [batch.end for batch in scan(path)], truth


@given(places=st.sets(st.integers(0, 10_000), min_size=1, max_size=3), bit=st.integers(0, 7))
def test_flipped_bits_never_make_a_result_and_cost_their_own_batch_only(tmp_path_factory, whole, places, bit):
    content, ends, truth = whole
    spoiled = bytearray(content)
    hit = {place % len(content) for place in places}
    for place in hit:
        spoiled[place] ^= 1 << bit
    path = tmp_path_factory.mktemp("flipped") / "batches.bin"
    path.write_bytes(spoiled)
    found = []
    for part in scan(path):
        try:
            found.append({key: digest(record) for key, record in records(part).items()})
        except (AttributeError, ValueError):
            continue
    lost = {bisect.bisect(ends, place) for place in hit}
    assert found == [held for number, held in enumerate(truth) if number not in lost]


BODIES = [
    b"",
    b"not compressed",
    zlib.compress(b"short"),
    zlib.compress(b"\xff" * 40),
    zlib.compress((2).to_bytes(8, "little") + b"{}"),
    *(
        zlib.compress(len(layout).to_bytes(8, "little") + layout)
        for layout in (
            json.dumps([{"code": "", "configurations": [{}], "attributes": [{}], "columns": {"y": column}}]).encode()
            for column in (
                {"dims": [], "attrs": {}, "coordinate": False, "type": "|O8", "shape": [1], "texts": []},
                {"dims": [], "attrs": {}, "coordinate": False, "type": "<f8", "shape": [2**40], "texts": []},
                {"dims": [], "attrs": {}, "coordinate": False, "type": "<f8", "shape": [-1], "texts": []},
                {"dims": [], "attrs": {}, "coordinate": False, "type": "text", "shape": [1], "texts": ["a", "b"]},
                {"dims": [], "attrs": {}, "coordinate": False, "type": "text", "shape": [2], "texts": ["a", "b"]},
            )
        )
    ),
]


def forged(path, body, **more):
    """A batch of any content, whose sums are right."""
    head = json.dumps({"keys": ["a1"], "failures": {}, "seconds": 1.0, "ended": 0.0} | more).encode()
    sums = [hashlib.blake2b(body, digest_size=16).digest()]
    sums.append(hashlib.blake2b(struct.pack("<Q", len(body)) + sums[0] + head, digest_size=16).digest())
    path.write_bytes(struct.pack("<8sIQ16s16s", b"\x89DSB\r\n\x1a\n", len(head), len(body), *sums) + head + body)
    (batch,) = scan(path)
    return batch


@pytest.mark.parametrize("body", BODIES)
def test_a_batch_whose_sums_are_right_and_whose_content_is_not_is_refused(tmp_path, body):
    batch = forged(tmp_path / "batches.bin", body)
    assert batch.head.keys == ["a1"]
    with pytest.raises(ValueError, match=r"batches\.bin"):
        batch.stacks()


def test_a_body_is_never_unpacked_into_more_than_its_head_says(tmp_path, monkeypatch):
    """A bomb of 100 kB that would become 100 MB takes as much memory as the head admits, and no more."""
    layout = b"[]"
    bomb = zlib.compress(len(layout).to_bytes(8, "little") + layout + bytes(10**8))
    assert len(bomb) < 10**5 + 1000
    monkeypatch.setattr("dynascope.sweep.batches.UNSAID", 10**6)
    for said in ({"size": 1000}, {}):
        batch = forged(tmp_path / "batches.bin", bomb, **said)
        tracemalloc.start()
        with pytest.raises(ValueError, match=r"batches\.bin.*does not end after 10+ bytes, as it says"):
            batch.stacks()
        assert tracemalloc.get_traced_memory()[1] < 5e6
        tracemalloc.stop()
    assert forged(tmp_path / "batches.bin", bomb, size=10**8 + 10).stacks() == []
    with pytest.raises(MemoryError, match=r"batches\.bin.*needs 1e\+06 GB of memory, and .* GB are free"):
        forged(tmp_path / "batches.bin", bomb, size=10**15).stacks()


def test_bytes_of_any_kind_are_no_batch(tmp_path):
    path = tmp_path / "batches.bin"
    draw = random.Random(0)
    whole = batch_of([xr.Dataset({"y": 1.0})])[1]
    for content in (b"", b"\0" * 200, whole[:8] * 50, whole[:52], draw.randbytes(3000), whole[8:] + whole[:8]):
        path.write_bytes(content)
        assert not [part for part in scan(path) if isinstance(part, Batch)]
        append(path, whole)
        assert len([part for part in scan(path) if isinstance(part, Batch)]) == 1
    assert list(scan(tmp_path / "nowhere")) == []


def test_batching_changes_neither_results_nor_the_table(tmp_path, monkeypatch):
    def run(name, seconds, **options):
        monkeypatch.setattr(pack_runner, "BATCH_SECONDS", seconds)
        with pytest.warns(RuntimeWarning, match="4 of 16 tasks failed"):
            table = sweep(fragile, {"x": [2.0, 1.0, 3.0, -1.0]}, tmp_path / name, seeds=4, scheduler="here", **options)
        return digest(table), digests(tmp_path / name), len(list(scan(SweepFolder(tmp_path / name).batches)))

    *one, batches = run("one", 60.0)
    *many, small = run("many", 0.0)
    assert (batches, small) == (1, 16)
    assert one == many


def test_many_small_tasks_make_few_small_files(tmp_path):
    sweep(shifted, {"x": np.arange(400) / 7}, tmp_path, seeds=10, scheduler="here")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.name for path in files} == {"sweep.json", "batches.bin", ".lock"}
    assert sum(path.stat().st_size for path in files) < 4000 * 250
    assert gather(tmp_path)["y"].sel(seed=3).values.tolist() == (np.arange(400) / 7 + 3).tolist()


def shifted(x, seed=0):
    return {"y": x + seed}


def test_results_of_several_shapes_in_several_batches_make_one_table(tmp_path, monkeypatch):
    grid, points = {"steps": [5, 3, 4], "drift": [0.0, 1.0]}, [(3, 0.0), (5, 1.0), (4, 1.0)]
    tables = []
    for seconds in (0.0, 60.0):
        monkeypatch.setattr(pack_runner, "BATCH_SECONDS", seconds)
        tables.append(sweep(walk, grid, tmp_path / f"{seconds:g}", seeds=3, scheduler="here"))
    assert digest(tables[0]) == digest(tables[1]) == digest(gather(tmp_path / "0"))
    for steps, drift in points:
        found = tables[0]["position"].sel(steps=steps, drift=drift, seed=2).dropna("time")
        np.testing.assert_array_equal(found, walk(drift=drift, steps=steps, seed=2)["position"])
