"""Small classification tasks, drawn anew for every run: vectors, images and sequences with classes to tell apart."""

from dataclasses import dataclass

import torch

_SHAPES = {"vectors": (16,), "images": (1, 8, 8), "sequences": (12, 8)}
_KINDS = 2  # patterns of a class


@dataclass(frozen=True)
class Task:
    """Training data, a probe that training does not see, and samples that nothing sees before training is over."""

    inputs: torch.Tensor
    labels: torch.Tensor
    probe_inputs: torch.Tensor
    probe_labels: torch.Tensor
    unseen_inputs: torch.Tensor
    unseen_labels: torch.Tensor
    classes: int


def draw_task(
    kind: str, *, samples: int, probe: int, unseen: int, classes: int, noise: float, random: torch.Generator
) -> Task:
    """Draw patterns of each class, and samples: a pattern, moved by up to one place, under noise.

    kind: vectors, images or sequences, in which the pattern stands at any place

    >>> draw_task("images", samples=6, probe=6, unseen=3, classes=3, noise=1.0, random=torch.Generator()).inputs.shape
    torch.Size([6, 1, 8, 8])
    """
    total = samples + probe + unseen
    labels = torch.arange(total) % classes
    which = labels * _KINDS + torch.randint(_KINDS, (total,), generator=random)
    patterns = _patterns(kind, classes * _KINDS, random)
    clean = _placed(kind, patterns[which], random)
    inputs = clean + noise * torch.randn(clean.shape, generator=random)
    inputs = inputs / inputs.std()
    seen, watched, rest = slice(samples), slice(samples, samples + probe), slice(samples + probe, None)
    given = inputs[seen], labels[seen], inputs[watched], labels[watched]
    return Task(*given, inputs[rest], labels[rest], classes)


def _patterns(kind: str, number: int, random: torch.Generator) -> torch.Tensor:
    if kind == "images":  # smooth ones
        coarse = torch.randn((number, 1, 4, 4), generator=random)
        return torch.nn.functional.interpolate(coarse, size=(8, 8), mode="bilinear")
    shape = (3, _SHAPES[kind][1]) if kind == "sequences" else _SHAPES[kind]
    return torch.randn((number, *shape), generator=random)


def _placed(kind: str, patterns: torch.Tensor, random: torch.Generator) -> torch.Tensor:
    """Put each pattern at a place of its own."""
    samples = len(patterns)
    if kind == "vectors":
        return patterns
    if kind == "images":
        moves = torch.randint(-1, 2, (samples, 2), generator=random).tolist()
        return torch.stack([each.roll(move, (1, 2)) for each, move in zip(patterns, moves, strict=True)])
    length, width = _SHAPES[kind]
    whole = torch.zeros((samples, length, width))
    first = torch.randint(length - patterns.shape[1] + 1, (samples,), generator=random)
    for place in range(patterns.shape[1]):
        whole[torch.arange(samples), first + place] = patterns[:, place]
    return whole
