"""The ways to step all trials give the same training; the fastest is found once."""

from contextlib import nullcontext
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import count

import numpy as np
import pytest
import torch

from dynascope.networks import (
    CNN,
    MLP,
    Ensemble,
    LeNet,
    ResNet18,
    VisionTransformer,
    adam,
    capture,
    choice,
    draws,
    regions,
    training,
    ways,
)
from dynascope.networks.settings import Settings
from dynascope.networks.training import Trainer
from dynascope.networks.ways import WAYS, worth_trying
from dynascope.records import attribute, digest

RNG = np.random.default_rng(0)
SMALL, Y = RNG.standard_normal((20, 1, 8, 8)), np.arange(20) % 3
DROPOUT = {"vary": {"dropout": np.array([0.1, 0.5, 0.0])}}
CASES = {
    "fully connected": (MLP((1, 8, 8), 3, width=6, depth=3, batch_norm=True, slope=0.1), DROPOUT),
    "plain sgd": (MLP((1, 8, 8), 3, width=6, depth=2), {}),
    "convolutions": (CNN((1, 8, 8), 3, channels=4, depth=3, input_norm=True), DROPOUT),
    "lenet": (LeNet(3, 1), {}),
    "residual": (ResNet18(3, 1, width=2, size=8), {}),
    "transformer": (VisionTransformer(3, 1, size=8, width=8, heads=2, layers=2), {"optimizer": "adamw"}),
}
OTHERS = ["unfolded", "in turn", "in turn, channels last"]


def trained(case: str, way: str, precision: str, **more: object) -> torch.Tensor:
    """Outputs after some steps."""
    network, options = CASES[case]
    x = SMALL if case != "lenet" else np.pad(SMALL, ((0, 0), (0, 0), (12, 12), (12, 12)))
    # weights before a batch norm have gradients of rounding, which Adam makes steps of: momentum does not
    given = {"momentum": np.full(3, 0.9)} if case != "plain sgd" else {}
    settings = Settings(
        np.arange(3), np.full(3, 0.01), 5, precision=precision, way=way, **{**given, **options, **more}
    )  # fmt: skip
    trainer = Trainer(network, settings, x, Y)
    trainer.advance(6)
    return trainer.outputs(x)


@pytest.fixture
def quick_compiler(monkeypatch):
    """The compiler without the part that writes kernels, which takes a minute on a CPU."""
    kept = (regions._compiled, adam._compiled)
    for each in kept:
        each.cache_clear()
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager"))
    yield
    for each in kept:
        each.cache_clear()


@pytest.mark.filterwarnings("ignore:TF32 acceleration")
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("way", OTHERS)
def test_every_way_gives_the_same_training(case, way):
    """Up to rounding, which a network with many layers and batch norms magnifies, in both precisions alike."""
    right = trained(case, "stacked", "float64")
    rounding = (trained(case, "stacked", "float32") - right).abs().max() + 1e-7
    safe = torch.backends.mkldnn.flags(enabled=False) if "channels last" in way else nullcontext()  # `ways.possible`
    with safe:
        for precision, finer in (("float32", 1.0), ("float64", 2.0**-29)):
            assert (trained(case, way, precision) - right).abs().max() < 8 * finer * rounding


@pytest.mark.ci
@pytest.mark.parametrize("case", CASES)
def test_regions_give_the_same_training(case, quick_compiler):
    right = trained(case, "stacked", "float64")
    torch.testing.assert_close(trained(case, "compiled", "float64"), right, rtol=1e-10, atol=1e-10)


@pytest.mark.ci
def test_equal_regions_are_compiled_once(quick_compiler, monkeypatch):
    number = count()
    compiler = torch.compile
    monkeypatch.setattr(torch, "compile", lambda *given, **options: next(number) * 0 or compiler(*given, **options))
    trained("fully connected", "compiled", "float32")
    assert next(number) == 2  # the first layer, and the two others
    trained("fully connected", "compiled", "float32")
    assert next(number) == 3  # nothing anew


@pytest.mark.ci
def test_a_compiled_way_takes_the_same_steps_of_adam(quick_compiler):
    shapes, ends = [(3, 4, 5), (3, 4)], []
    for way in ("stacked", "compiled"):
        own = torch.Generator().manual_seed(7)
        held = [[torch.rand(shape, generator=own, dtype=torch.float64) for shape in shapes] for _ in range(4)]
        held[0] = [each.requires_grad_() for each in held[0]]
        for step in range(3):
            with torch.no_grad():
                adam.adam_of(way)(*held, torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64), torch.tensor([step]))
        ends.append([each.detach() for kind in held for each in kind])
    assert adam.adam_of("compiled") is not adam.adam_of("stacked")
    torch.testing.assert_close(ends[1], ends[0], rtol=1e-12, atol=0.0)


@pytest.mark.ci
@pytest.mark.skipif(find_spec("triton") is None, reason="no Triton: kernels of our own cannot be made")
def test_own_kernels_convolve(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    convolve = import_module("dynascope.networks.kernels.convolution").convolve
    x = torch.randn(2, 3, 4, 6, 5, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(2, 7, 5, 3, 3, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(2, 7, dtype=torch.float64, requires_grad=True)
    layer = partial(torch.nn.functional.conv2d, padding=1)
    right = torch.func.vmap(layer)(x.movedim(-1, 2), weight, bias).movedim(2, -1)
    slope = torch.randn_like(right)
    given = [each.detach().float().requires_grad_() for each in (x, weight, bias)]
    found = convolve(*given, rounded=False)
    torch.testing.assert_close(found.double(), right, rtol=1e-5, atol=1e-5)
    wanted = torch.autograd.grad(right, (x, weight, bias), slope)
    for mine, his in zip(torch.autograd.grad(found, given, slope.float()), wanted, strict=True):
        torch.testing.assert_close(mine.double(), his, rtol=1e-5, atol=1e-5)


@pytest.mark.ci
@pytest.mark.skipif(find_spec("triton") is None, reason="no Triton: kernels of our own cannot be made")
@pytest.mark.parametrize("dropout", [None, 0.3])
def test_own_kernels_normalise_and_drop(monkeypatch, dropout):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    activate = import_module("dynascope.networks.kernels.activation").activate
    given = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in ((2, 7, 5), (2, 5), (2, 5))]
    slope, key = torch.tensor([0.0, 0.2]), torch.tensor([3, -8])
    drops = {} if dropout is None else {"dropout": torch.tensor([dropout, 0.0]), "key": key}

    def one(x, weight, bias, slope, place):
        x = torch.nn.functional.batch_norm(x, None, None, weight, bias, training=True)
        x = torch.nn.functional.leaky_relu(x, slope)
        if dropout is None:
            return x
        kept = draws.at_least(drops["dropout"][place], key[place], x.shape)
        return x * kept / (1 - drops["dropout"][place])

    right = torch.stack([one(*(each[place] for each in given), float(slope[place]), place) for place in range(2)])
    change = torch.randn_like(right)
    mine = [each.detach().float().requires_grad_() for each in given]
    found, mean, variance = activate(*mine, slope, eps=1e-5, **drops)
    torch.testing.assert_close(found.double(), right, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(mean.double(), given[0].mean(1), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(variance.double(), given[0].var(1, correction=0), rtol=1e-5, atol=1e-5)
    wanted = torch.autograd.grad(right, given, change)
    for own, his in zip(torch.autograd.grad(found, mine, change.float()), wanted, strict=True):
        torch.testing.assert_close(own.double(), his, rtol=1e-5, atol=1e-5)


@pytest.mark.ci
@pytest.mark.skipif(find_spec("triton") is None, reason="no Triton: kernels of our own cannot be made")
@pytest.mark.parametrize("share", [0.3, 0.0])
def test_own_kernels_give_the_same_training(monkeypatch, share):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    dropout = {"vary": {"dropout": np.array([0.1, 0.5, 0.0]) * share}}
    right, stacked = (trained("fully connected", "stacked", kind, **dropout) for kind in ("float64", "float32"))
    rounding = (stacked - right).abs().max()
    own = trained("fully connected", "compiled, own kernels", "float32", **dropout)
    assert (own - right).abs().max() < 8 * rounding + 1e-6


# --- the choice -----------------------------------------------------------------------------------------------------


def chosen(folder, times, *, steps=100, facts=None, wrong=(), off=1.1, rounding=0.0):
    """The way that is chosen, and those that were tried for it."""
    tried = []

    def attempt(way: str, products: str | None = None) -> tuple[float, torch.Tensor]:
        if products == "full":
            if rounding is None:
                raise torch.cuda.OutOfMemoryError("no room")
            return 1.0, torch.ones(3) * (1.001 + rounding)
        tried.append(way)
        if times[way] is None:
            raise torch.cuda.OutOfMemoryError("no room")
        return times[way], torch.ones(3) * (off if way in wrong else 1.001)

    return choice.fastest(list(times), attempt, steps=steps, facts=facts or {"trials": 3}, folder=folder), tried


def test_the_fastest_way_is_found_once(tmp_path):
    times = {"stacked": 0.3, "in turn": 0.2}
    assert chosen(tmp_path, times) == ("in turn", ["stacked", "in turn"])
    assert chosen(tmp_path, times) == ("in turn", [])
    assert chosen(tmp_path, times, facts={"trials": 4}) == ("in turn", ["stacked", "in turn"])
    (tmp_path / "ways.json").write_text("damaged")
    assert chosen(tmp_path, times) == ("in turn", ["stacked", "in turn"])


def test_compiling_is_tried_where_it_can_pay(tmp_path):
    times = {"stacked": 0.3, "compiled, own kernels": 0.2, "compiled": 0.1}
    assert chosen(tmp_path, times, steps=20) == ("stacked", ["stacked"])
    own, usual = "compiled, own kernels", "stacked"  # which is stepped again to compare with
    assert chosen(tmp_path, times, steps=200) == (own, [own, usual])
    assert chosen(tmp_path, times, steps=2000) == ("compiled", ["compiled", usual])
    assert chosen(tmp_path, times, steps=20) == ("compiled", [])
    assert chosen(tmp_path / "new", times, steps=0) == ("stacked", ["stacked"])  # how many need not be known


def test_a_way_that_fails_is_none(tmp_path):
    with pytest.warns(RuntimeWarning, match="not stepped stacked: no room"):
        assert chosen(tmp_path, {"stacked": None, "in turn": 0.2}) == ("in turn", ["stacked", "in turn"])
    with pytest.warns(RuntimeWarning, match="stacked"), pytest.raises(torch.cuda.OutOfMemoryError):
        chosen(tmp_path / "new", {"stacked": None, "in turn": None})


def test_a_way_that_steps_otherwise_is_none(tmp_path):
    times = {"stacked": 0.3, "unfolded": 0.1, "in turn": 0.2}
    with pytest.warns(RuntimeWarning, match=r"not stepped unfolded: its step differs from the usual one by 0\.099"):
        assert chosen(tmp_path, times, wrong=("unfolded",))[0] == "in turn"
    with pytest.warns(RuntimeWarning, match="not stepped unfolded"):  # nor is it the next time, when others are known
        assert chosen(tmp_path, times, wrong=("unfolded",)) == ("in turn", ["unfolded", "stacked"])
    with pytest.warns(RuntimeWarning, match="not stepped unfolded"):
        assert chosen(tmp_path / "b", times, wrong=("unfolded",), rounding=0.03)[0] == "in turn"
    with pytest.warns(RuntimeWarning, match="not stepped unfolded"):  # products in full cannot be had
        assert chosen(tmp_path / "c", times, wrong=("unfolded",), rounding=None)[0] == "in turn"


def test_a_way_may_differ_as_rounding_makes_steps_differ(tmp_path):
    times = {"stacked": 0.3, "unfolded": 0.1, "in turn": 0.2}
    assert chosen(tmp_path, times, wrong=("unfolded",), rounding=0.04)[0] == "unfolded"
    with pytest.warns(RuntimeWarning, match="not stepped unfolded"):  # however large it is, not without a step
        assert chosen(tmp_path / "b", times, wrong=("unfolded",), off=0.0, rounding=0.9)[0] == "in turn"


def test_times_need_no_folder_to_write_to(tmp_path):
    (tmp_path / "file").write_text("")
    assert chosen(tmp_path / "file", {"stacked": 0.3})[0] == "stacked"


def test_only_ways_that_differ_are_tried():
    assert worth_trying(MLP(), 100, "float32")[:1] == ["stacked"]
    assert "unfolded" not in worth_trying(MLP(), 8, "float32")
    assert "in turn" not in worth_trying(CNN(), 100, "float32")
    assert set(worth_trying(CNN(), 8, "float32")) >= {"stacked", *OTHERS}


def test_own_kernels_are_tried_first_and_for_convolutions_nothing_else_is_compiled(monkeypatch):
    monkeypatch.setattr(ways, "can_compile", lambda: True)
    compiled = {kind: [w for w in worth_trying(CNN(), 8, kind) if "compiled" in w] for kind in ("float32", "float64")}
    assert compiled == {"float32": ["compiled, own kernels"], "float64": ["compiled"]}
    normed, plain = (worth_trying(MLP(batch_norm=each), 100, "float32") for each in (True, False))
    assert (normed[1:], plain[1:]) == (["compiled, own kernels", "compiled"], ["compiled"])


def test_a_way_is_found_once_even_where_settings_change_on_the_way(monkeypatch):
    asked = []
    monkeypatch.setattr(Trainer, "_fastest", lambda self: asked.append(self.steps_done) or "in turn")
    network, options = CASES["fully connected"]
    later = {2: {"dropout": np.array([0.3, 0.3, 0.3])}}
    trainer = Trainer(network, Settings(np.arange(3), np.full(3, 0.01), 5, later=later, **options), SMALL, Y)
    trainer.asked = "auto"
    trainer.advance(4)
    assert (asked, trainer.way) == ([0], "in turn")


# --- what a record says ---------------------------------------------------------------------------------------------


def test_a_record_says_the_way_and_does_not_depend_on_it():
    x, y = SMALL.astype(np.float32), Y
    runs = {
        way: Ensemble(MLP((1, 8, 8), 3, width=4, depth=1), trials=2, way=way).train(x, y, 3)
        for way in ("auto", "in turn")
    }
    assert [attribute(run, "way") for run in runs.values()] == ["stacked", "in turn"]
    assert "way" not in attribute(runs["auto"], "parameters")
    assert digest(runs["auto"].assign_attrs(way="1")) == digest(runs["auto"])


def test_less_exact_products_are_said_and_are_less_exact():
    def run(products: str):
        return Ensemble(MLP((1, 8, 8), 3, width=4, depth=1), trials=2, products=products).train(SMALL, Y, 3)

    usual, full, half = run("usual"), run("full"), run("bfloat16")
    np.testing.assert_array_equal(usual["loss"], full["loss"])
    gap = abs(half["train_loss"] - full["train_loss"]).max()
    assert 1e-6 < gap < 0.02
    assert "products" not in attribute(usual, "parameters")
    assert attribute(half, "parameters")["products"] == attribute(half, "products") == "bfloat16"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"way": "fast"}, "way must be one of auto, stacked"),
        ({"products": "half"}, "products must be one of usual, full, tf32, bfloat16"),
        ({"products": "bfloat16", "precision": "float64"}, "products must be one of usual, full"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        Ensemble(MLP(), **options)


def test_all_ways_have_a_case():
    assert {"stacked", *OTHERS, "compiled", "compiled, own kernels"} == set(WAYS)


def test_a_way_is_tried_on_batches_that_were_drawn(monkeypatch):
    """However many samples a step takes, as many steps are drawn at a time as a trial of a way replays."""
    monkeypatch.setattr(training, "_BLOCK_DRAWS", 1)
    made = Trainer(CASES["plain sgd"][0], Settings(np.arange(3), np.full(3, 0.01), 5), SMALL, Y)
    replayed = 0

    class Graph:
        def replay(self) -> None:
            nonlocal replayed
            made.order[replayed]
            replayed += 1

    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "device", nullcontext)
    capture.timed(Graph(), 0, [made.position], list(made.parameters.values()))
    assert replayed == len(made.order)
