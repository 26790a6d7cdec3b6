"""Where the time of large ensembles goes on a GPU, and what other ways of stepping them would take.

Without arguments: every part below in a process of its own, some at a time; they compile side by side and take turns on
the clock. `python benchmarks/limit_profile.py PART` runs one.
"""

import fcntl
import math
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
import torch._dynamo.utils
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, vmap

from dynascope.networks import CNN, MLP, ResNet18, VisionTransformer, draws, training
from dynascope.networks.recording import Course
from dynascope.networks.training import Settings, Trainer

ON = "cuda" if torch.cuda.is_available() else "cpu"
SMALL = ON == "cpu"  # only to see that it runs
BATCH = 50 if SMALL else 2560
TRIALS = 3 if SMALL else 240  # of the dropout diagram's 960
STEPS = 1 if SMALL else 8


def say(*words: object) -> None:
    print(*words, flush=True)


def wait() -> None:
    if ON == "cuda":
        torch.cuda.synchronize()


@contextmanager
def alone() -> Iterator[None]:
    with open(os.path.join(tempfile.gettempdir(), "limit_profile.lock"), "w") as lock:
        wait()
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
        wait()


def clock(call: Callable[[], object], times: int = STEPS) -> float:
    """Milliseconds of one call."""
    with alone():
        call()
        wait()
        begun = time.perf_counter()
        for _ in range(times):
            call()
        wait()
        return (time.perf_counter() - begun) / times * 1e3


def top(call: Callable[[], object], many: int = 12) -> None:
    """The kernels that take longest in one call."""
    if SMALL:
        call()
        return
    kinds = [torch.profiler.ProfilerActivity.CUDA]
    with alone(), torch.profiler.profile(activities=kinds) as seen:
        call()
        wait()
    spent, calls = Counter(), Counter()
    for event in seen.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            spent[event.name] += event.time_range.elapsed_us() / 1e3
            calls[event.name] += 1
    total = sum(spent.values())
    say(f"    {total:.2f} ms in {sum(calls.values())} kernels:")
    for name, each in spent.most_common(many):
        say(f"    {each:8.2f} ms {100 * each / total:4.0f} % {calls[name]:5d} × {name[:110]}")


# --- the ensembles --------------------------------------------------------------------------------------------------


def images(*shape: int, classes: int = 10) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.standard_normal(shape).astype(np.float32), rng.integers(classes, size=shape[0])


def settings(trials: int, batch: int, *, drops: bool, **more: object) -> Settings:
    vary = {"dropout": np.linspace(0, 0.3, trials)} if drops else {}
    rate = np.full(trials, 1e-3)
    return Settings(np.arange(trials), rate, batch, optimizer="adam", vary=vary, sampling="shuffled", device=ON, **more)


def mlp(trials: int = TRIALS) -> Trainer:
    network = MLP((1, 10, 10), 10, width=100, depth=7, batch_norm=True, slope=0.3)
    return Trainer(network, settings(trials, BATCH, drops=True), *images(BATCH, 1, 10, 10))


def cnn(figure: str) -> Trainer:
    trials, channels, depth, colours = {"5c": (30, 20, 7, 3), "6": (20, 16, 6, 1)}[figure]
    network = CNN((colours, 10, 10), channels=channels, depth=2 if SMALL else depth, input_norm=True)
    given = settings(2 if SMALL else trials, BATCH, drops=True)
    return Trainer(network, given, *images(BATCH, colours, 10, 10))


def resnet() -> Trainer:
    batch, width = (4, 4) if SMALL else (128, 64)
    given = settings(2 if SMALL else 8, batch, drops=False)
    return Trainer(ResNet18(width=width), given, *images(4 * batch, 3, 32, 32))


def transformer() -> Trainer:
    batch = 4 if SMALL else 128
    given = settings(2 if SMALL else 16, batch, drops=False)
    return Trainer(VisionTransformer(size=16, channels=1), given, *images(4 * batch, 1, 16, 16))


# --- ways of the forward pass ----------------------------------------------------------------------------------------


def one_of(trainer: Trainer) -> Callable[..., dict[str, Tensor]]:
    def one(parameters: dict[str, Tensor], buffers: dict[str, Tensor], x: Tensor) -> dict[str, Tensor]:
        return {"logits": functional_call(trainer.network, (parameters, buffers), (x,))}

    return one


def serial(trainer: Trainer, streams: int = 1, each: Callable[..., dict[str, Tensor]] | None = None) -> None:
    one, pool = each or one_of(trainer), []

    def run(held: dict[str, Tensor], buffers: dict[str, Tensor], x: Tensor) -> dict[str, Tensor]:
        if streams > 1 and ON == "cuda":
            pool or pool.extend(torch.cuda.Stream() for _ in range(streams))
            main, found = torch.cuda.current_stream(), []
            for i in range(len(x)):
                own = pool[i % streams]
                own.wait_stream(main)
                with torch.cuda.stream(own):
                    found.append(one({n: t[i] for n, t in held.items()}, {n: t[i] for n, t in buffers.items()}, x[i]))
            for own in pool:
                main.wait_stream(own)
        else:
            split = {n: t.unbind(0) for n, t in held.items()}
            own = [{n: t[i] for n, t in split.items()} for i in range(len(x))]
            found = [one(own[i], {n: t[i] for n, t in buffers.items()}, x[i]) for i in range(len(x))]
        return {"logits": torch.stack([f["logits"] for f in found])}

    trainer._pass = run


class Unfolded(nn.Conv2d):
    def forward(self, x: Tensor) -> Tensor:
        n, channels, rows, columns = x.shape
        patches = F.pad(x, (1, 1, 1, 1)).unfold(2, 3, 1).unfold(3, 3, 1)  # (n, c, h, w, 3, 3)
        flat = patches.permute(0, 2, 3, 1, 4, 5).reshape(n * rows * columns, channels * 9)
        return (flat @ self.weight.flatten(1).mT + self.bias).view(n, rows, columns, -1).permute(0, 3, 1, 2)


def unfold(trainer: Trainer) -> None:
    for layer in trainer.network.modules():
        if type(layer) is nn.Conv2d:
            layer.__class__ = Unfolded


def per_element(share: Tensor, key: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The numbers of draws.at_least, each made where it is used."""
    place = torch.arange(math.prod(shape), device=key.device).view(shape) ^ 0
    bits = draws.mix(key + ((place >> 2) + 1) * draws._GOLDEN)
    return (bits >> ((place & 3) * 16)).to(torch.int16) >= (share * 2**16).round() - 2**15


def lower(how: str) -> None:
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = how != "float32"


def cast(trainer: Trainer, how: str) -> None:
    inner = trainer._pass
    if how == "bfloat16":

        def run(*given: object) -> dict[str, Tensor]:
            with torch.autocast(ON, torch.bfloat16):
                return {n: t.float() for n, t in inner(*given).items()}

        trainer._pass = run


def stand(name: str, trainer: Trainer, *, kernels: bool = True) -> None:
    """Print how long the first step, a step with its draws, and a replayed step take."""
    begun = time.perf_counter()
    trainer.advance(1)
    wait()
    first = time.perf_counter() - begun
    whole = clock(lambda: trainer.advance(1))
    step = trainer._graph.replay if trainer._graph is not None else trainer._step
    memory = torch.cuda.max_memory_allocated() / 2**30 if ON == "cuda" else 0
    say(f"{name:48s} {clock(step):8.2f} ms a step, {whole:8.2f} with batches; first {first:5.1f} s, {memory:.0f} GiB")
    found = torch._dynamo.utils.counters
    if found["stats"]:
        say("   ", dict(found["stats"]), dict(found["graph_break"]))
    if kernels:
        top(step)


# --- parts -----------------------------------------------------------------------------------------------------------


def mlp_today() -> None:
    begun = time.perf_counter()
    trainer = mlp()
    wait()
    say(f"mlp: trainer made in {time.perf_counter() - begun:.2f} s for {TRIALS} trials")
    stand("mlp today", trainer)
    say(f"mlp: batches {clock(lambda: trainer.batches(7, 1)):.2f} ms")
    top(lambda: trainer.batches(7, 1), 4)
    few = max(1, TRIALS // 4)
    x, y = images(10000 if not SMALL else 60, 1, 10, 10)
    part = mlp(few)
    part.advance(1)
    course = Course(probes={}, record_at=[1], measures=("load", "load_pinv"))
    seen = part.inputs(x), part.labels(y)
    for names in (("load",), ("load_pinv",)):
        course.measures = names
        with torch.no_grad():
            say(f"mlp: {names} of {few} trials, 10000 samples: {clock(lambda: course._look(part, *seen), 1):.1f} ms")
            top(lambda: course._look(part, *seen), 5)
    for size in (16, 64):
        stand(f"mlp today, stack of {size}", mlp(min(size, TRIALS)), kernels=False)


def mlp_compiled(how: str = "float32", *, element: bool = True) -> None:
    lower(how)
    if element:
        keys, share = draws.keys(torch.arange(3, device=ON), 5), torch.full((3,), 0.3, device=ON)
        old = vmap(lambda key, share: draws.at_least(share, key, (BATCH, 100)))(keys, share)
        new = torch.compile(vmap(lambda key, share: per_element(share, key, (BATCH, 100))))(keys, share)
        say(f"draws per element differ at {int((old != new).sum())} places of {old.numel()}")
        draws.at_least = per_element
    trainer = mlp()
    trainer._pass = torch.compile(vmap(one_of(trainer)))
    cast(trainer, how)
    stand(f"mlp compiled, {how}, draws per element {element}", trainer)


def block(h: Tensor, gain: Tensor, shift: Tensor, slope: Tensor, share: Tensor, key: Tensor) -> Tensor:
    """Batch norm, leaky ReLU, dropout of all trials (trial, draw, unit)."""
    variance, mean = torch.var_mean(h, 1, correction=0, keepdim=True)
    h = (h - mean) * torch.rsqrt(variance + 1e-5) * gain[:, None] + shift[:, None]
    h = torch.where(h > 0, h, slope[:, None, None] * h)
    place = torch.arange(h[0].numel(), device=h.device).view(h.shape[1:]) ^ 0
    bits = draws.mix(key[:, None, None] + ((place >> 2) + 1) * draws._GOLDEN)
    kept = (bits >> ((place & 3) * 16)).to(torch.int16) >= (share * 2**16).round()[:, None, None] - 2**15
    return h * (kept.to(h.dtype) / (1 - share[:, None, None]))


def mlp_region(how: str) -> None:
    """Only what follows a product is compiled, once for all layers."""
    lower(how)
    trainer = mlp()
    own = torch.compile(block)
    p, b = trainer.parameters, trainer.buffers

    def run(held: dict[str, Tensor], buffers: dict[str, Tensor], x: Tensor) -> dict[str, Tensor]:
        h = x.flatten(2)
        variance, mean = torch.var_mean(h, 1, correction=0, keepdim=True)
        h = (h - mean) * torch.rsqrt(variance + 1e-5)
        for k in range(1, 8):
            h = torch.baddbmm(held[f"stages.linear_{k}.bias"][:, None], h, held[f"stages.linear_{k}.weight"].mT)
            key = draws.keys(buffers[f"stages.drop_{k}.key"], 1 + k)
            norm = [held[f"stages.norm_{k}.{n}"] for n in ("weight", "bias")]
            h = own(h, *norm, b[f"stages.act_{k}.slope"], b[f"stages.drop_{k}.dropout"], key)
        weight = held["stages.linear_8.weight"]
        return {"logits": torch.baddbmm(held["stages.linear_8.bias"][:, None], h, weight.mT)}

    for name in list(p):
        if "norm_0" in name:
            trainer.trained.pop(name)
    trainer._pass = run
    cast(trainer, how)
    stand(f"mlp region compiled, {how}", trainer)


def cnn_part(figure: str, way: str, how: str = "float32") -> None:
    lower(how)
    trainer = cnn(figure)
    if "element" in way:
        draws.at_least = per_element
    if "unfolded" in way:
        unfold(trainer)
    if "serial" in way:
        one = one_of(trainer)
        serial(trainer, 4 if "streams" in way else 1, torch.compile(one) if "compiled" in way else one)
    elif "compiled" in way:
        trainer._pass = torch.compile(vmap(one_of(trainer)))
    else:
        trainer._pass = vmap(one_of(trainer))
    cast(trainer, how)
    stand(f"cnn {figure} {way}, {how}", trainer)


def others(make: Callable[[], Trainer], name: str) -> None:
    for how in ("float32", "tf32", "bfloat16"):
        lower(how)
        for way in ("stacked", "serial", "serial streams"):
            try:
                trainer = make()
                trainer._pass = vmap(one_of(trainer))
                if way != "stacked":
                    serial(trainer, 4 if "streams" in way else 1)
                cast(trainer, how)
                stand(f"{name} {way}, {how}", trainer, kernels=way != "serial streams" and how == "float32")
            except Exception as error:
                say(f"{name} {way}, {how}: {type(error).__name__} {str(error)[:200]}")
            del trainer
            torch.cuda.empty_cache()


def unfolded_layer(x: Tensor, w: Tensor) -> Tensor:
    """(trial, n, c, h, w), (trial, o, c, 3, 3)."""
    t, n, c, rows, columns = x.shape
    patches = F.pad(x, (1, 1, 1, 1)).unfold(3, 3, 1).unfold(4, 3, 1)
    flat = patches.permute(0, 1, 3, 4, 2, 5, 6).reshape(t, n * rows * columns, c * 9)
    return torch.bmm(flat, w.flatten(2).mT).view(t, n, rows, columns, -1).permute(0, 1, 4, 2, 3)


def layers() -> None:
    """One convolution of all trials, forward and backward, in every form."""
    for t, c in ((20, 16), (30, 20)):
        t, n = (2, 5) if SMALL else (t, 2560)
        x, w = torch.randn(t, n, c, 10, 10, device=ON), torch.randn(t, c, c, 3, 3, device=ON) / c**0.5
        flat = x.transpose(0, 1).reshape(n, t * c, 10, 10)
        last = flat.contiguous(memory_format=torch.channels_last)
        each = [x[i].clone() for i in range(t)]
        each_last = [e.contiguous(memory_format=torch.channels_last) for e in each]
        grouped = w.flatten(0, 1)
        grouped_last = grouped.contiguous(memory_format=torch.channels_last)

        def turns(xs: list[Tensor]) -> Callable[[], Tensor]:
            return lambda: torch.stack([F.conv2d(a.requires_grad_(), k, padding=1) for a, k in zip(xs, w, strict=True)])

        forms: dict[str, tuple[Callable[[], Tensor], list[Tensor]]] = {
            "grouped": (lambda: F.conv2d(flat, grouped, padding=1, groups=t), [flat, grouped]),
            "grouped, last": (lambda: F.conv2d(last, grouped_last, padding=1, groups=t), [last, grouped_last]),
            "in turn": (turns(each), [*each, w]),
            "in turn, last": (turns(each_last), [*each_last, w]),
            "unfolded": (lambda: unfolded_layer(x, w), [x, w]),
        }
        for how in ("float32", "tf32", "bfloat16"):
            lower(how)
            for search in (False, True):
                torch.backends.cudnn.benchmark = search
                for name, (forward, leaves) in forms.items():
                    if search and name == "unfolded":
                        continue
                    try:
                        for leaf in leaves:
                            leaf.requires_grad_()

                        def both(forward: Callable[[], Tensor] = forward, leaves: list[Tensor] = leaves) -> None:
                            with torch.autocast(ON, torch.bfloat16, enabled=how == "bfloat16"):
                                out = forward()
                            torch.autograd.grad(out, leaves, torch.ones_like(out))

                        ahead = clock(forward, 4)
                        say(f"layer {t}×{c}: {name:16s} {how:9s} search {search!s:5}: forward {ahead:6.2f}, both {clock(both, 4):6.2f} ms")
                        if not search and how != "bfloat16" and "in turn" not in name:
                            top(both, 4)
                    except Exception as error:
                        say(f"layer {t}×{c} {name} {how}: {type(error).__name__} {str(error)[:150]}")
        torch.backends.cudnn.benchmark = False
        with torch.no_grad():
            say(f"layer {t}×{c}: a copy {clock(lambda: x.clone(), 10):.3f} ms")


def own_kernels() -> None:
    from limit_kernels import convolve, weight_gradient

    for t, c in ((20, 16), (30, 20)):
        n = 5 if SMALL else 2560
        t = 2 if SMALL else t
        x, w = torch.randn(t, n, c, 10, 10, device=ON), torch.randn(t, c, c, 3, 3, device=ON) / c**0.5
        lower("float32")
        torch.backends.cudnn.allow_tf32 = False
        right = vmap(lambda x, w: F.conv2d(x, w, padding=1))(x.double(), w.double())
        slope = torch.randn_like(x)
        right_w = vmap(lambda x, s: torch.nn.grad.conv2d_weight(x, (c, c, 3, 3), s, padding=1))(x[:1].double(), slope[:1].double())
        for how in ("ieee", "tf32x3", "tf32"):
            for size, warps in ((32, 4), (64, 4), (128, 4), (128, 8))[c > 16 :]:
                try:
                    out = convolve(x, w, how, size, warps)
                    gap = float((out - right).abs().max() / right.abs().max())
                    took = clock(lambda how=how, size=size, warps=warps: convolve(x, w, how, size, warps), 4)
                    say(f"own forward {t}×{c} {how:7s} block {size:3d} warps {warps}: {took:6.3f} ms, error {gap:.1e}")
                except Exception as error:
                    say(f"own forward {t}×{c} {how} {size}: {type(error).__name__} {str(error)[-200:]}")
            for size, warps in ((32, 4), (64, 4), (64, 8))[c > 16 :]:
                try:
                    out = weight_gradient(x, slope, how, size, warps)
                    gap = float((out[:1] - right_w).abs().max() / right_w.abs().max())
                    took = clock(lambda how=how, size=size, warps=warps: weight_gradient(x, slope, how, size, warps), 4)
                    say(f"own weights {t}×{c} {how:7s} block {size:3d} warps {warps}: {took:6.3f} ms, error {gap:.1e}")
                except Exception as error:
                    say(f"own weights {t}×{c} {how} {size}: {type(error).__name__} {str(error)[-200:]}")


def products() -> None:
    """The products of one layer of the dropout diagram."""
    t = TRIALS
    x, w = torch.randn(t, BATCH, 100, device=ON), torch.randn(t, 100, 100, device=ON)
    for how in ("float32", "tf32"):
        lower(how)
        kinds = {
            "x Wᵀ": lambda: x @ w.mT,
            "(W xᵀ)ᵀ": lambda: (w @ x.mT).mT,
            "xᵀ x": lambda: x.mT @ x,
            "a pass": lambda: x + 1.0,
            "a pass over both layouts": lambda: x + x.mT.contiguous().mT,
        }
        say(f"products {how}: " + ", ".join(f"{name} {clock(call):.2f}" for name, call in kinds.items()) + " ms")
    n = 960 if not SMALL else 4
    with torch.no_grad():
        small = torch.randn(n, 10, 100, dtype=torch.float64, device=ON)
        say(f"svd of {n} (10, 100): {clock(lambda: torch.linalg.svd(small, full_matrices=False), 1):.1f} ms")
        say(f"qr of {n} (100, 10): {clock(lambda: torch.linalg.qr(small.mT), 1):.1f} ms")
        gram = small @ small.mT
        say(f"eigh of {n} (10, 10): {clock(lambda: torch.linalg.eigh(gram), 1):.1f} ms")
        say(f"svd of {n} (10, 10): {clock(lambda: torch.linalg.svd(gram), 1):.1f} ms")


PARTS: dict[str, Callable[[], None]] = {
    "mlp_today": mlp_today,
    "layers": layers,
    "mlp_compiled": mlp_compiled,
    "mlp_region": lambda: mlp_region("float32"),
    "cnn6_compiled": lambda: cnn_part("6", "compiled", "tf32"),
    "own_kernels": own_kernels,
    "products": products,
    "cnn6_compiled_element": lambda: cnn_part("6", "compiled element"),
    "cnn6_unfolded": lambda: cnn_part("6", "unfolded compiled element", "tf32"),
    "cnn6_unfolded_bf16": lambda: cnn_part("6", "unfolded compiled element", "bfloat16"),
    "cnn6_serial": lambda: cnn_part("6", "serial compiled element streams", "tf32"),
    "mlp_region_tf32": lambda: mlp_region("tf32"),
    "cnn6_stacked": lambda: cnn_part("6", "stacked"),
    "cnn5c_compiled": lambda: cnn_part("5c", "compiled element", "tf32"),
    "cnn6_compiled_bf16": lambda: cnn_part("6", "compiled element", "bfloat16"),
    "resnet": lambda: others(resnet, "resnet18"),
    "transformer": lambda: others(transformer, "transformer"),
}
AT_ONCE, LIMIT, EACH = 5, 105, 80  # processes, seconds in all, and of one part


def main() -> None:
    begun, left, going = time.monotonic(), list(PARTS), {}
    fresh = tempfile.mkdtemp()
    while left or going:
        while left and len(going) < AT_ONCE and time.monotonic() - begun < LIMIT - 15:
            part = left.pop(0)
            out = open(os.path.join(fresh, part), "w+")  # noqa: SIM115
            own = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": os.path.join(fresh, "cache_" + part)}
            run = subprocess.Popen([sys.executable, __file__, part], stdout=out, stderr=subprocess.STDOUT, env=own)
            going[part] = (run, out, time.monotonic())
        for part, (run, out, since) in list(going.items()):
            now = time.monotonic()
            if run.poll() is None and (now - since > EACH or now - begun > LIMIT):
                run.kill()
                run.wait()
            if run.poll() is not None:
                out.seek(0)
                text = out.read()
                say(f"=== {part}: {now - since:.0f} s, exit {run.returncode}")
                say(text if run.returncode in (0, -9) else text[-2500:])
                del going[part]
        if left and not going and time.monotonic() - begun > LIMIT - 15:
            say("not begun:", *left)
            break
        time.sleep(0.2)


if __name__ == "__main__":
    torch._logging.set_logs(all=40)
    PARTS[sys.argv[1]]() if len(sys.argv) > 1 else main()
