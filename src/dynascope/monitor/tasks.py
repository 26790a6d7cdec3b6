"""What a model is trained for, seen from its labels and its output: what is a row, and what is to be learned about it.

A row is a sample, or a position of it where every position has a label (tokens, pixels). Classes are measured by their
separation; other targets by how well a linear map predicts them on rows that it has not seen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional as F

from dynascope.checks import one_of
from dynascope.measure.arrays import require_spread
from dynascope.monitor.probing import Probe

TASKS = ("classification", "binary", "multilabel", "regression", "language")
ROWS = 2048  # positions of sequences and images that are looked at
FREQUENT = 64  # next tokens that are told apart, the most frequent ones
UNLABELLED = 255  # as well as what is below 0


@dataclass(frozen=True)
class Places:
    """Rows that are positions: the sample and the place of each on a grid of positions."""

    sample: torch.Tensor  # (row,)
    place: torch.Tensor  # (row, axis)
    grid: tuple[int, ...]


@dataclass(frozen=True)
class Task:
    """What is to be learned about each row.

    labels: (row,) classes or tokens, or (row, output) numbers. classes: those that occur, and codes: (row,), the class
    of each row, both empty where there are none. targets: (row, output) of the linear map, for all but classes. sample:
    (row,), that a row belongs to. places: None where rows are samples. first_place: the first that the output has.
    """

    name: str
    labels: torch.Tensor
    classes: np.ndarray
    codes: np.ndarray
    targets: torch.Tensor
    sample: np.ndarray
    places: Places | None = None
    first_place: int = 0

    @property
    def separates(self) -> bool:
        """Whether rows belong to classes that layers separate."""
        return self.name in ("classification", "binary")

    def __len__(self) -> int:
        return len(self.labels)

    def scores(self, outputs: torch.Tensor, rows: slice | torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Loss of each row, and whether it is right (the share of right labels; None for regression)."""
        labels = self.labels[rows].to(outputs.device)
        z = outputs.double()
        if self.name in ("classification", "language"):
            return F.cross_entropy(z, labels, reduction="none"), (z.argmax(dim=1) == labels).double()
        if self.name == "regression":
            return ((z - labels) ** 2).mean(dim=1), None
        wanted = labels.reshape(z.shape).double()
        losses = F.binary_cross_entropy_with_logits(z, wanted, reduction="none")
        return losses.mean(dim=1), ((z > 0) == (wanted > 0.5)).double().mean(dim=1)


def recognise(
    probe: Probe,
    output: torch.Tensor,
    *,
    asked: str | None = None,
    vocabulary: Sequence[int] = (),
    groups: Sequence[int] | torch.Tensor | np.ndarray | None = None,
) -> tuple[Task, list[str]]:
    """Find the task from labels and output, and say what was not certain.

    output: of some samples. asked: one of TASKS where the user says it. vocabulary: sizes of the model's embeddings.
    groups: of the tokens, (token,), to predict instead of the most frequent ones.

    >>> probe = Probe(torch.zeros(4, 2), torch.tensor([0.5, 1.0, 2.0, 0.0]))
    >>> recognise(probe, torch.zeros(4, 1))[0].name
    'regression'
    """
    if asked is not None:
        one_of("task", asked, TASKS)
    y = probe.labels
    if output.ndim == 3 and output.shape[1] == 1 and y.ndim == 1:
        output = output[:, 0]  # a single position
    dense = output.ndim > 2 and y.ndim >= 2
    width = width_of(output, y)
    notes: list[str] = []
    name = asked or _guess(y, output, width, dense=dense, vocabulary=vocabulary, notes=notes)
    if name == "language":
        return _language(probe, output, width, groups, notes), notes
    if dense:
        y, places = _places(y, output, width, classes=name == "classification")
    else:
        places = None
    return _task(name, y, width, places, notes), notes


def width_of(output: torch.Tensor, y: torch.Tensor) -> int:
    """Count the outputs of a row, given all labels y.

    >>> width_of(torch.zeros(2, 7, 5), torch.zeros(2, 7))
    5
    """
    alike = output.shape[1:] == y.shape[1:] and output.ndim == 3 and not y.is_floating_point()
    return 1 if output.ndim == 1 or alike else output.shape[class_axis(output, y)]


def class_axis(output: torch.Tensor, labels: torch.Tensor) -> int:
    """The axis of an output that counts its numbers: the second of maps, the last of sequences.

    >>> class_axis(torch.zeros(2, 7, 5), torch.zeros(2, 7))
    2
    """
    if output.ndim < 3:
        return 1
    if output.ndim == 3:
        turned = labels.ndim == 2 and output.shape[2] == labels.shape[1] != output.shape[1]
        return 1 if turned else 2
    return 1


def _guess(
    y: torch.Tensor, output: torch.Tensor, width: int, *, dense: bool, vocabulary: Sequence[int], notes: list[str]
) -> str:
    whole = not y.is_floating_point()
    bits = bool(((y == 0) | (y == 1)).all())
    vectors = y.ndim == output.ndim and y.ndim > 1 and width > 1
    if width == 1:
        if bits:
            if not whole:
                notes.append(
                    "task: taken as binary, as labels are 0 and 1 and there is one output; or task='regression'"
                )
            return "binary"
        if not whole:
            return "regression"
        raise ValueError(
            "task must be given for whole-number labels and one output: task='regression', or 'binary' with labels 0, 1"
        )
    if vectors:
        if bits and bool((y.sum(dim=1) == 1).all()) and not dense:
            notes.append(
                "task: taken as classification, as every row of the labels has a single 1; or task='multilabel'"
            )
            return "classification"
        return "multilabel" if bits else "regression"
    if not whole:
        raise ValueError(
            f"probe labels must be whole numbers for a model with {width} outputs, got {y.dtype} of shape "
            f"{tuple(y.shape)}; for regression give targets (sample, {width})"
        )
    return "language" if dense and output.ndim == 3 and width in vocabulary else "classification"


def _task(name: str, y: torch.Tensor, width: int, places: Places | None, notes: list[str]) -> Task:
    """Rows with their labels as a task; y: (row,) or (row, output)."""
    sample = np.arange(len(y)) if places is None else places.sample.numpy()
    none = torch.empty(len(y), 0)
    if name == "classification" and y.ndim == 2:
        y = y.argmax(dim=1)
    if name in ("classification", "binary"):
        y = y.reshape(len(y), -1)[:, 0]
        classes, codes = _classes(y, 2 if name == "binary" else width)
        return Task(name, y.long(), classes, codes, none, sample, places)
    if y.numel() != len(y) * width:
        raise ValueError(
            f"probe labels must be (sample, {width}) for task={name!r} with {width} outputs, got {tuple(y.shape)}"
        )
    y = y.reshape(len(y), width).double()
    if name == "multilabel" and not bool(((y == 0) | (y == 1)).all()):
        raise ValueError(f"probe labels must be 0 or 1 for task='multilabel', got {float(y.max()):g}")
    if len(np.unique(sample)) < 20:
        notes.append(f"probe: {len(np.unique(sample))} samples are few to fit and to hold out; use 100 or more")
    return Task(name, y, np.empty(0, int), np.empty(0, int), y, sample, places)


def _classes(y: torch.Tensor, width: int) -> tuple[np.ndarray, np.ndarray]:
    if y.is_floating_point() and not bool((y == y.round()).all()):
        raise ValueError(f"probe labels must be whole numbers for classes, got {float(y[y != y.round()][0]):g}")
    if int(y.min()) < 0:
        raise ValueError(f"probe labels must be whole numbers from 0 on, as losses take them, got {int(y.min())}")
    if int(y.max()) >= width:
        raise ValueError(f"probe labels must be below the model's {width} outputs, got {int(y.max())}")
    classes, codes = np.unique(y.long().numpy(), return_inverse=True)
    try:
        require_spread(classes, len(y))
    except ValueError as error:
        raise ValueError(f"probe {error}") from error
    return classes, codes


def _places(y: torch.Tensor, output: torch.Tensor, width: int, *, classes: bool) -> tuple[torch.Tensor, Places]:
    """Some positions of labels (sample, position, …), of each class alike where there are classes."""
    if y.ndim == output.ndim and (output.ndim > 3 or width > 1):
        y = y.movedim(class_axis(output, y), -1)  # (sample, position, …, output)
        grid = tuple(y.shape[1:-1])
        rows = y.reshape(-1, y.shape[-1])
        valid = torch.ones(len(rows), dtype=torch.bool)
    else:
        grid, rows = tuple(y.shape[1:]), y.reshape(-1)
        valid = (rows >= 0) & ((rows != UNLABELLED) | (width > UNLABELLED)) if classes else torch.ones_like(rows).bool()
    chosen = _spread(rows, valid, classes=classes)
    return rows[chosen], _at(chosen, grid)


def _spread(rows: torch.Tensor, valid: torch.Tensor, *, classes: bool) -> torch.Tensor:
    """Up to ROWS of the valid rows, in order, always the same."""
    random = np.random.default_rng(0)
    known = np.flatnonzero(valid.numpy())
    if not classes:
        return torch.as_tensor(np.sort(random.permutation(known)[:ROWS]))
    values = rows.numpy()[known]
    kinds = np.unique(values)
    parts = [random.permutation(known[values == kind])[: max(ROWS // max(len(kinds), 1), 2)] for kind in kinds]
    return torch.as_tensor(np.sort(np.concatenate(parts)) if parts else known)


def _at(rows: torch.Tensor, grid: tuple[int, ...]) -> Places:
    sizes = (-1, *grid)
    strides = [int(np.prod(sizes[axis + 1 :])) for axis in range(len(sizes))]
    sample = rows // strides[0]
    place = torch.stack([rows // stride % size for stride, size in zip(strides[1:], grid, strict=True)], dim=1)
    return Places(sample, place, grid)


def _language(
    probe: Probe,
    output: torch.Tensor,
    width: int,
    groups: Sequence[int] | torch.Tensor | np.ndarray | None,
    notes: list[str],
) -> Task:
    """Tokens that have a next one, by the label at their place."""
    y = _next_tokens(probe)
    length = y.shape[1]
    chosen = _spread(y.reshape(-1), (y >= 0).reshape(-1), classes=False)
    places = _at(chosen, (length,))
    labels = y.reshape(-1)[chosen]
    if not len(labels) or int(labels.max()) >= width:
        raise ValueError(f"probe labels must be tokens below the model's {width} outputs, got {y.max().item()}")
    told, kinds = (labels, None) if groups is None else _grouped(labels, groups, width)
    names, counts = np.unique(told.numpy(), return_counts=True)
    kept = np.sort(names[np.argsort(-counts, kind="stable")[:FREQUENT]]) if kinds is None else names
    targets = (told[:, None] == torch.as_tensor(kept)).double()  # (row, token)
    if len(kept) < len(names):
        share = float(targets.sum() / len(labels))
        notes.append(
            f"load: predicts the {len(kept)} most frequent next tokens, {share:.0%} of all; groups= takes others"
        )
    sequences = len(torch.unique(places.sample))
    if sequences < 20:
        notes.append(f"probe: {sequences} sequences are few to fit and to hold out; use 30 or more")
    held = output.shape[3 - class_axis(output, y)]
    if held != length:
        notes.append(f"output: it has {held} of {length} positions, so the loss on the probe is that of the last ones")
    sample = places.sample.numpy()
    first = length - held
    return Task("language", labels, np.empty(0, int), np.empty(0, int), targets, sample, places, first)


def _grouped(
    labels: torch.Tensor, groups: Sequence[int] | torch.Tensor | np.ndarray, width: int
) -> tuple[torch.Tensor, torch.Tensor]:
    table = torch.as_tensor(groups).cpu()
    if table.ndim != 1 or len(table) != width or table.is_floating_point():
        raise ValueError(f"groups must name the group of each of the {width} tokens, got shape {tuple(table.shape)}")
    return table[labels], table


def _next_tokens(probe: Probe) -> torch.Tensor:
    """Labels such that the one at a place is to be predicted there; −1 where there is none.

    Labels that repeat the inputs are moved by one, as causal models do; padding has no label.
    """
    y = probe.labels.long().clone()
    inputs = probe.inputs
    several = [inputs] if isinstance(inputs, torch.Tensor) else list(inputs) if isinstance(inputs, tuple) else []
    known = inputs if isinstance(inputs, Mapping) else {str(place): each for place, each in enumerate(several)}
    decoder = "decoder_input_ids" in known or "labels" in known
    mask = known.get("decoder_attention_mask" if decoder else "attention_mask")
    if mask is not None and mask.shape == y.shape:
        y[mask.cpu() == 0] = -1
    fed = [each.cpu() for each in known.values() if each.shape == y.shape and not each.is_floating_point()]
    if not decoder and fed and bool(((fed[0] == y) | (y < 0)).all()):
        y = torch.cat([y[:, 1:], torch.full_like(y[:, :1], -1)], dim=1)
        if mask is not None and mask.shape == y.shape:
            y[mask.cpu() == 0] = -1
    return y


def picked(output: torch.Tensor, task: Task, rows: torch.Tensor, first: int, labels: torch.Tensor) -> torch.Tensor:
    """The output of some rows, (row, output); first: number of the first sample that the output has.

    >>> probe = Probe(torch.zeros(4, 2), torch.tensor([0, 0, 1, 1]))
    >>> task, _ = recognise(probe, torch.zeros(4, 3))
    >>> picked(torch.zeros(4, 3), task, torch.arange(4), 0, probe.labels).shape
    torch.Size([4, 3])
    """
    if task.places is None:
        return output.reshape(len(output), -1)
    axis = class_axis(output, labels)
    flat = output.ndim == 3 and task.labels.ndim == 1 and labels.ndim == 3  # a map without an axis for its numbers
    whole = output[..., None] if flat else output.movedim(axis, -1)
    place = task.places.place[rows] - task.first_place
    return at_places(whole, task.places.sample[rows] - first, place, _ends(task, whole))


def _ends(task: Task, whole: torch.Tensor) -> tuple[int, ...]:
    grid = task.places.grid if task.places is not None else ()
    return tuple(whole.shape[1:-1]) if task.first_place else grid


def at_places(values: torch.Tensor, sample: torch.Tensor, place: torch.Tensor, grid: tuple[int, ...]) -> torch.Tensor:
    """Values (sample, position, …, number) at places of a grid, (row, number); a coarser map by its nearest position.

    >>> at_places(torch.arange(4.0).reshape(1, 2, 2, 1), torch.tensor([0]), torch.tensor([[3, 0]]), (4, 4))
    tensor([[2.]])
    """
    home = values.device
    index = [
        place[:, axis] * size // full for axis, (size, full) in enumerate(zip(values.shape[1:-1], grid, strict=True))
    ]
    return values[(sample.to(home), *(each.to(home) for each in index))]
