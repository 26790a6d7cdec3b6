"""Time the measures of features beside the obvious way to write them, and note their memory, in one run.

Each row runs in a process of its own, so that its largest memory can be read; that includes some 0.2 GB of imported
libraries and the data itself. Best of three runs. Compare numbers only within one run.
"""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table

CLASSES = 10


def _features(samples: int, features: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    labels = np.arange(samples) % CLASSES
    x = random.standard_normal((samples, features), dtype=np.float32)
    return x + random.standard_normal((CLASSES, features), dtype=np.float32)[labels], labels


def kappa() -> Callable[[], object]:
    from dynascope.measure import minimum_feature_distance  # noqa: PLC0415 (each row imports what it times)

    x, labels = _features(20_000, 1024)
    outputs = np.eye(CLASSES, dtype=np.float32)[labels]
    return lambda: minimum_feature_distance(x, outputs)


def kappa_torch() -> Callable[[], object]:
    import torch  # noqa: PLC0415

    from dynascope.measure import minimum_feature_distance  # noqa: PLC0415

    x, labels = _features(20_000, 1024)
    outputs = np.eye(CLASSES, dtype=np.float32)[labels]
    return lambda: minimum_feature_distance(torch.as_tensor(x), torch.as_tensor(outputs))


def kappa_with_kernels() -> Callable[[], object]:
    """CKA as one writes it, with N × N kernels; a quarter of the samples, or 20,000 would need 10 GB."""
    x, labels = _features(5000, 1024)
    outputs = np.eye(CLASSES)[labels]

    def work() -> float:
        kernel, projector = x.astype(float) @ x.T, outputs @ np.linalg.pinv(outputs)
        for each in (kernel, projector):
            each -= each.mean(axis=0)
            each -= each.mean(axis=1, keepdims=True)
        return float(1 - (kernel * projector).sum() / np.linalg.norm(kernel) / np.linalg.norm(projector))

    return work


def curve() -> Callable[[], object]:
    from dynascope.measure import load_curve  # noqa: PLC0415

    layers, labels = [_features(10_000, 100)[0] for _ in range(8)], _features(10_000, 1)[1]
    return lambda: load_curve(layers, labels)


def curve_by_loops() -> Callable[[], object]:
    """The traces from covariance matrices, class by class, without intervals."""
    layers, labels = [_features(10_000, 100)[0] for _ in range(8)], _features(10_000, 1)[1]

    def load(x: np.ndarray) -> float:
        parts = [x[labels == k] for k in range(CLASSES)]
        within = np.mean([np.trace(np.cov(part.T, bias=True)) for part in parts])
        return float(np.log(within / np.trace(np.cov(np.stack([part.mean(0) for part in parts]).T, bias=True))))

    return lambda: [load(x) for x in layers]


def spectrum() -> Callable[[], object]:
    from dynascope.measure import feature_spectrum  # noqa: PLC0415

    x, labels = _features(10_000, 512)
    onehot = np.eye(CLASSES)[labels[:5000]]
    return lambda: feature_spectrum(x[:5000], x[5000:], onehot, onehot)


def _resnet() -> tuple[object, object, object]:
    """A residual network of ResNet18's sizes, 11.2 million parameters, on images of 32 × 32."""
    import torch  # noqa: PLC0415
    from torch import nn  # noqa: PLC0415

    class Block(nn.Module):
        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
                nn.BatchNorm2d(outputs),
                nn.ReLU(),
                nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
                nn.BatchNorm2d(outputs),
            )
            same = stride == 1 and inputs == outputs
            self.short = nn.Identity() if same else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.body(x) + self.short(x))

    plan = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2)]
    blocks = [Block(*sizes) for sizes in [*plan, (512, 512, 1)]]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, CLASSES)]
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 64, 3, 1, 1), nn.ReLU(), *blocks, *head)
    return model, torch.randn(40, 3, 32, 32), torch.arange(40) % CLASSES


def elasticity() -> Callable[[], object]:
    from dynascope.measure import class_elasticity  # noqa: PLC0415

    model, x, y = _resnet()
    return lambda: class_elasticity(model, x, y, steps_per_class=1)


def gram() -> Callable[[], object]:
    from dynascope.measure import gradient_gram  # noqa: PLC0415

    model, x, y = _resnet()
    return lambda: gradient_gram(model, x, y, max_memory=1.5e9)


ROWS = {
    "κ, 20,000 × 1024, NumPy": ("kappa", 3),
    "κ, 20,000 × 1024, PyTorch": ("kappa_torch", 3),
    "  with N × N kernels, 5,000 × 1024": ("kappa_with_kernels", 1),
    "load curve, 8 layers × 10,000 × 100, with intervals": ("curve", 3),
    "  covariance matrices, no intervals": ("curve_by_loops", 3),
    "feature spectrum, 5,000 + 5,000 × 512": ("spectrum", 2),
    "class elasticity, ResNet18, 40 images, 10 steps": ("elasticity", 1),
    "gradient Gram matrix, ResNet18, 40 images, 10 classes": ("gram", 1),
}


def _measure(name: str, repeats: int) -> dict[str, float]:
    work = globals()[name]()
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return {"seconds": min(times), "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20}


def main() -> None:
    """Run every row in a process of its own."""
    if len(sys.argv) == 3:
        print(json.dumps(_measure(sys.argv[1], int(sys.argv[2]))))
        return
    console = Console(width=110)
    table = Table("what", "seconds", "largest memory, GB", title="measures of features", title_justify="left")
    for title, (name, repeats) in ROWS.items():
        command = [sys.executable, __file__, name, str(repeats)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found = json.loads(done.stdout.splitlines()[-1])
        console.print(f"{title.strip()}: {found['seconds']:.2f} s")
        table.add_row(title, f"{found['seconds']:.2f}", f"{found['memory']:.2f}")
    console.print(table)


if __name__ == "__main__":
    main()
