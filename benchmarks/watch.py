"""What watching costs by the clock: the same training with and without the monitor, in turns of a few steps in one run.

Two equal networks are trained, small CNNs or, with --gpt124m, GPTs of 124 million parameters, in bfloat16 on a GPU;
turns alternate, so that whatever else the machine does meets both alike. The overhead counts everything: finding
layers, the measurement before training, those during it, the last one, and each call of `run.step`. Its standard error
comes from the spread between pairs of turns. It does not hold what one network is faster by than the other all the time
(two per cent were seen on a CPU), so that turns that hold a measurement are also compared with those of the
same network that hold none. With --steer the CNN has dropout, whose knob is decided on at every
measurement and left alone (gain 0): what the decision costs, not what dropout does.
"""

import argparse
import math
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import nn
from torch.nn import functional as F

from dynascope import steer, watch
from dynascope.monitor import Run
from dynascope.progress import progress_bar
from dynascope.steering import Dropout

CLASSES, BATCH, TURN, PROBE = 10, 64, 5, 16
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Training:
    """One network, its optimiser, and how it is trained for a few steps."""

    model: nn.Module
    optimiser: torch.optim.Optimizer
    probe: object

    def loss(self) -> torch.Tensor:
        """Of a batch that is drawn."""
        raise NotImplementedError

    def step(self) -> torch.Tensor:
        """Train for one step."""
        loss = self.loss()
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        return loss

    def turn(self, steps: int, run: Run | None = None) -> float:
        """Train for a few steps and return the seconds that it took."""
        begun = now()
        for _ in range(steps):
            loss = self.step()
            if run is not None:
                run.step(loss=loss)
        return now() - begun


def now() -> float:
    """Seconds, with nothing left to do on a GPU."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


class Images(Training):
    """A small CNN that tells ten classes apart."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        parts: list[nn.Module] = []
        for inward, outward in ((3, 32), (32, 32), (32, 64), (64, 64)):
            parts += [nn.Conv2d(inward, outward, 3, padding=1), nn.BatchNorm2d(outward), nn.ReLU()]
            parts += [nn.MaxPool2d(2), nn.Dropout(0.0)] if outward != inward else []
        self.model = nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, CLASSES)).to(DEVICE)
        self.labels = torch.arange(2048, device=DEVICE) % CLASSES
        means = torch.randn(CLASSES, 3, 32, 32, device=DEVICE)
        self.images = torch.randn(2048, 3, 32, 32, device=DEVICE) + means[self.labels]
        self.optimiser = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        self.probe = self.images[:300], self.labels[:300]  # 30 a class

    def loss(self) -> torch.Tensor:
        """Of some images."""
        chosen = torch.randint(len(self.images), (BATCH,), device=DEVICE)
        return F.cross_entropy(self.model(self.images[chosen]), self.labels[chosen])


@dataclass(frozen=True)
class Size:
    """Of a GPT; by default GPT-2's, 124 million parameters."""

    layers: int = 12
    heads: int = 12
    width: int = 768
    vocabulary: int = 50257
    context: int = 512
    batch: int = 16


class Block(nn.Module):
    """Causal attention and a small network, both added to the stream."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        width = size.width
        self.heads = size.heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Work on the stream (sample, position, feature)."""
        parts = self.qkv(self.norm1(x)).chunk(3, dim=2)
        q, k, v = (part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in parts)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    """GPT-2's shape: the readout shares the weights of the embedding."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(size.vocabulary, size.width), nn.Embedding(size.context, size.width)
        self.blocks = nn.ModuleList(Block(size) for _ in range(size.layers))
        self.norm, self.head = nn.LayerNorm(size.width), nn.Linear(size.width, size.vocabulary, bias=False)
        for weight in self.parameters():
            if weight.ndim == 2:
                nn.init.normal_(weight, std=0.02)
        self.head.weight = self.tokens.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return logits (sample, position, token)."""
        x = self.tokens(x) + self.places(torch.arange(x.shape[1], device=x.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Language(Training):
    """A GPT that learns how frequent tokens are, which fall off as words do."""

    def __init__(self, size: Size) -> None:
        torch.manual_seed(0)
        self.size, self.model = size, GPT(size).to(DEVICE)
        self.optimiser = torch.optim.AdamW(self.model.parameters(), lr=3e-4, fused=True)
        self.probe = self.draw(PROBE)

    def draw(self, number: int) -> torch.Tensor:
        """Sequences (sample, position)."""
        return (self.size.vocabulary ** torch.rand(number, self.size.context, device=DEVICE)).long() - 1

    def loss(self) -> torch.Tensor:
        """Of the next tokens."""
        tokens = self.draw(self.size.batch)
        with torch.autocast(DEVICE.type, torch.bfloat16, enabled=DEVICE.type == "cuda"):  # a CPU may have to emulate it
            logits = self.model(tokens[:, :-1])
            return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


@dataclass(frozen=True)
class Times:
    """Seconds of each turn, and of what comes before the first step and after the last one; what the monitor says.

    measured: turns that hold a measurement.
    """

    without: np.ndarray
    watched: np.ndarray
    before: float
    after: float
    own: float
    measured: np.ndarray


def compare(
    make: Callable[[], Training],
    steps: int,
    every: int | None,
    seconds: float = math.inf,
    *,
    slow: int = 10,
    steered: bool = False,
) -> Times:
    """Train two networks, one of them watched, for so many steps, or for as many as fit into the seconds."""
    plain, watched = make(), make()
    for each in (plain, watched):
        each.turn(3)  # what is set up on first use
    spent: dict[str, list[float]] = {"without": [], "with": []}
    with tempfile.TemporaryDirectory() as folder, progress_bar("training", steps) as done:
        begun = now()
        run = watch(watched.model, probe=watched.probe, every=every, slow=slow, out=folder)
        if steered:
            steer(run, Dropout(watched.model), gain=0.0)
        before = now() - begun
        # the other network's turns are not training time of this one, so its budget must not grow by them
        elsewhere = 0.0
        run._cadence.clock = lambda: time.perf_counter() - elsewhere
        for turn in range(steps // TURN):
            order = (("without", plain, None), ("with", watched, run))
            for name, training, attached in order if turn % 2 else order[::-1]:
                spent[name].append(training.turn(TURN, attached))
                elsewhere += spent[name][-1] if attached is None else 0.0
            done(TURN * (turn + 1))
            if now() - begun > seconds:
                break
        at = run.record["step"].values
        own, begun = run.overhead, now()
        run.close()
        after = now() - begun
    measured = np.isin(np.arange(len(spent["with"])), (at[at > 0] - 1) // TURN)
    return Times(np.array(spent["without"]), np.array(spent["with"]), before, after, own, measured)


def tell(times: Times) -> None:
    """Print seconds and overheads."""
    table = Table("", "seconds", "ms per step", box=None, pad_edge=False)
    for name, values in (("without", times.without), ("with", times.watched)):
        table.add_row(name, f"{values.sum():.2f}", f"{1000 * np.median(values) / TURN:.1f}")
    Console().print(table)
    base = float(times.without.sum())
    # turns that hold a measurement differ by what is to be measured, so the noise is read from the middle of the rest
    difference = times.watched - times.without
    noise = 1.4826 * float(np.median(np.abs(difference - np.median(difference)))) * math.sqrt(len(difference))
    share, around = difference.sum() / base, (times.before + times.after) / base
    print(
        f"{times.measured.sum()} of {len(difference)} turns of {TURN} steps hold a measurement; {times.before:.2f} s "
        f"before the first step, {times.after:.2f} s after the last one"
    )
    if 0 < times.measured.sum() < len(difference):
        others = times.watched[~times.measured]
        extra = times.watched[times.measured] - np.median(others)
        error = 1.4826 * float(np.median(np.abs(others - np.median(others)))) * math.sqrt(len(extra))
        print(
            f"these take {100 * extra.sum() / base:.2f} % longer (95 % interval ± {200 * error / base:.2f}), each by "
            f"{np.median(extra) * TURN / np.median(others):.1f} steps"
        )
    print(f"overhead by the monitor's own clock {100 * times.own:.2f} %")
    print(f"overhead from first to last step {100 * share:+.2f} % (95 % interval ± {200 * noise / base:.2f})")
    print(f"overhead with what comes before and after {100 * (share + around):+.2f} %")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--steps", type=int, default=4000)
    options.add_argument("--seconds", type=float, default=math.inf, help="stop after so many, of both together")
    options.add_argument("--every", type=int, default=None, help="a schedule instead of the default budget")
    options.add_argument("--slow", type=int, default=10, help="slow measures with every so many measurements, 0: never")
    options.add_argument("--steer", action="store_true", help="the CNN, steered; needs --every")
    options.add_argument("--gpt124m", action="store_true", help="a GPT, of the size that follows")
    for name, value in vars(Size()).items():
        options.add_argument(f"--{name}", type=int, default=value)
    given = vars(options.parse_args())
    size = Size(**{name: given[name] for name in vars(Size())})
    make: Callable[[], Training] = (lambda: Language(size)) if given["gpt124m"] else Images
    compare(make, TURN, None)  # imports, and what is set up on first use
    where = torch.cuda.get_device_name() if DEVICE.type == "cuda" else "CPU"
    number = sum(each.numel() for each in make().model.parameters())
    print(f"{number / 1e6:.3g} million parameters, torch {torch.__version__}, {where}")
    chosen = {"slow": given["slow"], "steered": given["steer"]}
    tell(compare(make, given["steps"], given["every"], given["seconds"], **chosen))


if __name__ == "__main__":
    main()
