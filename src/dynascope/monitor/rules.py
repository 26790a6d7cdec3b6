"""Rules on weights, gradients, units and the set-up: functions from the signs of a run to a finding, or to none.

A rule that lacks what it looks at is not judged. The bounds are ours: they were set on small multilayer perceptrons and
judged on other networks, see `dynascope reproduce health/faults`. Rules on the course of losses: `courses`.
"""

import math

import numpy as np

from dynascope.monitor.findings import LOSS, TOLD, Finding, NotJudged, Signs

INPUTS = 30.0  # root mean square of inputs, or 1 over it
START = 2.0  # loss before training, in losses of a guess
STEADY, GROWTH = (0.5, 0.15), (4.0, 1.25)  # change of gradients from step to step, and growth, that come from adding
NOISY = 0.05  # greatest rise of the training loss from one step to the next, over its mean, where batches differ
UPDATES = (3e-5, 0.15)  # change by one step relative to the weights: a thousandth is usual
SHRUNK = 0.1  # size of weights over that at the start
DEAD, SILENT, SATURATED = 0.6, 0.95, 0.8  # shares of a layer's numbers, of a matrix's rows, of a layer's numbers
EXPLODING = 100.0  # norm of all gradients
VANISHING = 1e-4  # gradients of one matrix over those of another
_GRADIENTS = "no gradients at measurements; hand in optimizer="
_UPDATES = "no step after a measurement yet"


def leak(signs: Signs) -> Finding | None:
    """Samples of the probe that training sees."""
    share = float(signs.of("leaked", "training data unknown; hand in training=")[0])
    if share <= 0:
        return None
    return Finding(
        "probe leak",
        int(signs.steps[0]),
        f"{share:.0%} of the probe are among the training inputs",
        "none",
        "take the probe from data that training does not see",
    )


def softmax_twice(signs: Signs) -> Finding | None:
    """Cross entropy of probabilities taken as logits is at least log(1 + (K − 1)/e): each is between 0 and 1."""
    are = signs.of("probabilities", "no outputs")
    least = signs.of("loss_least", TOLD)
    bound = math.log1p((math.exp(signs.chance) - 1) / math.e)
    if not (are[np.isfinite(are)] == 1).all() or np.nanmin(least) < 0.98 * bound:
        return None
    return Finding(
        "softmax twice",
        int(signs.steps[0]),
        f"outputs are probabilities, and no loss is below {np.nanmin(least):.3g}",
        f"log(1 + (K − 1)/e) = {bound:.3g}, which cross entropy of probabilities cannot pass",
        "give the loss logits, without the softmax at the end of the model",
    )


def input_scale(signs: Signs) -> Finding | None:
    """Inputs so large or small that the first layer is off its range."""
    size = float(signs.of("input_size", "inputs are not one tensor of numbers")[0])
    if 1 / INPUTS < size < INPUTS:
        return None
    return Finding(
        "inputs out of scale",
        int(signs.steps[0]),
        f"root mean square of the inputs {size:.3g}",
        f"{1 / INPUTS:.2g} to {INPUTS:.3g}",
        "subtract their mean and divide by their deviation",
    )


def start(signs: Signs) -> Finding | None:
    """Outputs before training that are worse than a guess by far."""
    loss = float(signs.of("probe_loss", LOSS)[0])
    if signs.steps[0] != 0:
        raise NotJudged("the state before training was not measured")
    if loss <= START * signs.guess:
        return None
    return Finding(
        "start out of range",
        0,
        f"probe loss {loss:.3g} before training, where a guess has {signs.guess:.3g}",
        f"{START:g} times a guess",
        "smaller initial weights, or norms between layers",
    )


def frozen(signs: Signs) -> Finding | None:
    """Weights that have gradients and never move."""
    ratio, slope = signs.of("update_ratio", _UPDATES), signs.of("gradient_size", _GRADIENTS)
    still = (np.nan_to_num(ratio, nan=1.0) == 0) & (slope > 0)
    often = still.sum(axis=0) >= 2
    moved = (ratio > 0).any(axis=0)
    if not (often & ~moved).any() or not moved.any():
        return None
    which = np.flatnonzero(often & ~moved)
    return Finding(
        "layers left out",
        int(signs.steps[np.flatnonzero(still[:, which[0]])[0]]),
        f"{', '.join(signs.name('weight', each) for each in which[:3])} have gradients and do not move",
        "no change at all, while others change",
        "make the optimiser after the model is complete, from model.parameters()",
    )


def uncleared(signs: Signs) -> Finding | None:
    """Gradients that are added up over steps: they hardly change from one to the next, and grow."""
    signs.after(5)
    norm, change = signs.of("gradient_norm", _GRADIENTS), signs.of("gradient_change", _GRADIENTS)
    known = np.flatnonzero(np.isfinite(norm) & np.isfinite(change))
    if len(known) < 4:
        raise NotJudged(_GRADIENTS)
    last = known[-len(known) // 2 :]
    steady, growth = float(np.median(change[last])), float(np.median(norm[last]) / norm[known[0]])
    bounds = list(zip(STEADY, GROWTH, strict=True))[: 2 if _noisy(signs) else 1]
    if not any(steady <= least and growth >= most for least, most in bounds):
        return None
    return Finding(
        "gradients not cleared",
        int(signs.steps[np.flatnonzero(np.isfinite(norm))[0]]),
        f"from step to step gradients change by {steady:.0%}, and they have grown {growth:.3g}-fold",
        " or ".join(f"{least:.0%} and {most:g}-fold" for least, most in bounds),
        "call optimizer.zero_grad() at every step",
    )


def _noisy(signs: Signs) -> bool:
    """Whether batches differ so much that gradients of one step cannot be those of the next."""
    if not {"loss_rise", "loss_mean"} <= set(signs.record):
        return False
    rise, mean = (signs.record[name].values for name in ("loss_rise", "loss_mean"))
    share = np.divide(rise, mean, out=np.full(np.shape(mean), np.nan), where=np.isfinite(mean) & (mean != 0))
    return bool(np.median(share[np.isfinite(share)]) > NOISY) if np.isfinite(share).any() else False


def large_updates(signs: Signs) -> Finding | None:
    """Steps that change weights by too large a part of them."""
    ratio = signs.of("update_ratio", _UPDATES)
    middle = _median(ratio)
    at = np.flatnonzero(middle > UPDATES[1])
    if len(at) < 2:  # a single one may be chance
        return None
    return Finding(
        "updates too large",
        int(signs.steps[at[0]]),
        f"one step changes the weights by {middle[at[0]]:.2g} of their size (median of matrices)",
        f"{UPDATES[1]:g} at two measurements",
        "a lower learning rate",
    )


def small_updates(signs: Signs) -> Finding | None:
    """Steps that never change weights by a part that counts."""
    signs.after(5)
    ratio = signs.of("update_ratio", _UPDATES)
    first = int(np.flatnonzero(np.isfinite(ratio).any(axis=1))[0])
    if "silent" in signs.record:
        ratio = np.where(signs.record["silent"].values < 1, ratio, np.nan)  # what has no gradient is another matter
    ratio = ratio[:, np.isfinite(ratio).any(axis=0)]
    most = np.sort(np.nan_to_num(ratio, nan=0.0, posinf=0.0).max(axis=0, initial=0.0))[-2:]
    if not most.size or not most[0] < UPDATES[0]:
        return None
    return Finding(
        "updates too small",
        int(signs.steps[first]),
        f"but for one, no weight matrix is changed by a step by more than {most[0]:.2g} of its size",
        f"{UPDATES[0]:g}",
        "a higher learning rate",
    )


def _median(values: np.ndarray) -> np.ndarray:
    """Over weights, of what is finite; NaN where nothing is."""
    known = np.isfinite(values)
    return np.array([np.median(row[here]) if here.any() else np.nan for row, here in zip(values, known, strict=True)])


def vanished_weights(signs: Signs) -> Finding | None:
    """Weights that go to zero."""
    size = signs.of("weight_size", "no weight matrices")
    with np.errstate(invalid="ignore", divide="ignore"):
        left = _median(size / size[0])
    if not np.nanmin(left, initial=1.0) < SHRUNK:
        return None
    return Finding(
        "weights vanish",
        int(signs.steps[np.flatnonzero(left < 0.5)[0]]),
        f"weights, half as large by then, go down to {np.nanmin(left):.2g} of their size at the start (median)",
        f"{SHRUNK:g}",
        "less weight decay",
    )


def dead(signs: Signs) -> Finding | None:
    """Units that give the same for every sample, or rows of a matrix that get no gradient."""
    constant = signs.of("constant", "no features")
    given = "input" in signs.record["layer"].values
    bound = DEAD + (1 - DEAD) * constant[:, :1] if given else np.full((len(constant), 1), DEAD)
    dead = constant > bound
    dead[:, 0] &= not given
    found = _where(signs, dead, constant, "layer", "of its numbers are the same for all samples", f"{DEAD:.0%}")
    if found is None and "silent" in signs.record:
        rows = signs.record["silent"].values
        found = _where(signs, rows >= SILENT, rows, "weight", "of its rows have no gradient", f"{SILENT:.0%}")
    return found


def _where(signs: Signs, wrong: np.ndarray, share: np.ndarray, dim: str, words: str, bound: str) -> Finding | None:
    """Units that are dead at the newest measurement, since when they are."""
    if not wrong[-1].any():
        return None
    worst = int(np.argmax(np.where(wrong[-1], share[-1], -1.0)))
    alive = np.flatnonzero(~wrong[:, worst])
    first = int(alive[-1]) + 1 if alive.size else 0
    return Finding(
        "dead units",
        int(signs.steps[first]),
        f"{signs.name(dim, worst)}: {share[-1, worst]:.0%} {words}",
        bound,
        "initial weights that keep units alive, a lower learning rate, or another activation",
    )


def saturated(signs: Signs) -> Finding | None:
    """Units at either end of what their activation can give."""
    share = signs.of("saturated", "no features")
    wrong = share > SATURATED
    wrong &= signs.record["constant"].values < 1
    if "input" in signs.record["layer"].values:
        wrong[:, 0] = False
    if not wrong[-1].any():
        return None
    worst = int(np.argmax(np.where(wrong[-1], share[-1], -1.0)))
    alive = np.flatnonzero(~wrong[:, worst])
    return Finding(
        "saturated units",
        int(signs.steps[int(alive[-1]) + 1 if alive.size else 0]),
        f"{signs.name('layer', worst)}: {share[-1, worst]:.0%} of its numbers lie at either end of their range",
        f"{SATURATED:.0%}",
        "smaller initial weights, or norms before the activations",
    )


def exploding(signs: Signs) -> Finding | None:
    """Gradients that are too large."""
    norm = signs.of("gradient_norm", _GRADIENTS)
    at = np.flatnonzero(norm > EXPLODING)
    if not at.size:
        return None
    return Finding(
        "exploding gradients",
        int(signs.steps[at[0]]),
        f"norm of all gradients {norm[at[0]]:.3g}",
        f"{EXPLODING:g}",
        "gradient clipping, smaller initial weights, or norms between layers",
    )


def vanishing(signs: Signs) -> Finding | None:
    """Gradients that hardly reach some layer."""
    size = signs.of("gradient_size", _GRADIENTS)
    used = np.flatnonzero(np.isfinite(size).any(axis=0))
    size = size[:, used]
    known = np.flatnonzero(np.isfinite(size).all(axis=1) & (size.max(axis=1, initial=0.0) > 0))
    if len(known) < 2:
        raise NotJudged(_GRADIENTS)
    ratio = size[known].min(axis=1) / size[known].max(axis=1)
    if not float(np.median(ratio)) < VANISHING:
        return None
    at = np.flatnonzero(ratio < VANISHING)[0]
    return Finding(
        "vanishing gradients",
        int(signs.steps[known[at]]),
        f"gradients of {signs.name('weight', int(used[size[known[at]].argmin()]))} are {ratio[at]:.2g} of those of "
        f"{signs.name('weight', int(used[size[known[at]].argmax()]))}",
        f"{VANISHING:g}",
        "another activation, norms, or shortcuts between layers",
    )
