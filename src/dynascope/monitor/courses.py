"""Rules on the course of losses: functions from the signs of a run to a finding, or to none; bounds as in `rules`."""

import math

import numpy as np

from dynascope.monitor.findings import LOSS, TOLD, Finding, NotJudged, Signs

DIVERGED = 5.0  # loss on the probe over that of the start or of a guess
NOISE = (0.8, 1.05)  # training loss over that of a guess, and over the probe's
JUMP, UNEVEN, SWING = 0.08, 1.5, 3.5  # rise in losses of a guess, over the fall; swings of the mean over what is usual
RISE, GAP, FORGOT = (1.1, 1.25), (0.05, 0.4), 3.0  # probe loss over its least, training loss over it; standard errors
HARMLESS = 0.1  # loss on the probe over that of a guess
STUCK, LEVEL, SOON = 0.85, 0.97, 100  # loss over that of the start, over that before; steps to wait for


def wrong_direction(signs: Signs) -> Finding | None:
    """A loss that is driven below zero while the cross entropy on the probe rises."""
    loss, told = signs.of("probe_loss", LOSS), signs.of("loss_mean", TOLD)
    at = np.flatnonzero((told < 0) & ~(loss <= max(loss[0], signs.chance)))
    if not at.size:
        return None
    return Finding(
        "wrong direction",
        int(signs.steps[at[0]]),
        f"the training loss is {told[at[0]]:.3g}, and the probe's rose to {loss[at[0]]:.3g}",
        "a loss below 0 that falls while cross entropy on the probe rises",
        "check the sign of the loss",
    )


def diverged(signs: Signs) -> Finding | None:
    """A loss that is not finite, or many times that of the start."""
    loss = signs.of("probe_loss", LOSS)
    large = DIVERGED * max(loss[0], signs.guess) if math.isfinite(loss[0]) else 0.0
    at = np.flatnonzero(~(loss <= large))
    steps = [int(signs.steps[at[0]])] if at.size else []
    evidence = f"probe loss {loss[at[0]]:.3g}" if at.size else ""
    first = signs.record["first_not_finite"].values if "first_not_finite" in signs.record else np.array([np.nan])
    if np.isfinite(first).any() and (not steps or np.nanmin(first) <= steps[0]):
        steps, evidence = [int(np.nanmin(first))], "training loss not finite"
    if not steps:
        return None
    return Finding(
        "diverged",
        steps[0],
        evidence,
        f"finite, and on the probe below {DIVERGED:g} times that of the start or of a guess",
        "a lower learning rate, gradient clipping, or a look at the batch of that step",
    )


def noisy_training(signs: Signs) -> Finding | None:
    """A training loss that stays high in training mode, where the same network does better in evaluation mode."""
    signs.after(10)
    loss, told = signs.of("probe_loss", LOSS), signs.of("loss_mean", TOLD)
    above = told > np.maximum(NOISE[0] * signs.chance, NOISE[1] * loss)
    above[loss != loss] = False
    if not above[1:].mean() > 0.5:
        return None
    at = int(np.flatnonzero(above)[0])
    return Finding(
        "too much noise",
        int(signs.steps[at]),
        f"training loss {told[at]:.3g} in training mode, {loss[at]:.3g} on the probe without dropout and augmentation",
        f"{NOISE[1]:g} times the probe's, and {NOISE[0]:g} of a guess, at most measurements",
        "less dropout or augmentation",
    )


def forgetting(signs: Signs) -> Finding | None:
    """A training loss like a saw, or one that swings: batches come in an order, learnt and forgotten in turn."""
    signs.after(15)
    rise, fall = signs.of("loss_rise", TOLD), signs.of("loss_fall", TOLD)
    some = max(1, len(rise) // 3)
    up, down = (float(np.mean(np.sort(each[np.isfinite(each)])[-some:])) for each in (rise, fall))
    swing, width = _swing(signs)
    saw = up > JUMP * signs.chance and up > UNEVEN * down
    if not saw and not (width > JUMP * signs.chance and swing > SWING):
        return None
    return Finding(
        "batches differ",
        int(signs.steps[np.nanargmax(rise)]),
        f"from one step to the next the training loss rises by {up:.3g} and falls by {down:.3g} at most, and its mean "
        f"between measurements swings {swing:.2g} times as much as its range lets expect",
        f"{UNEVEN:g} times the fall, or {SWING:g}",
        "shuffle the training data",
    )


def _swing(signs: Signs) -> tuple[float, float]:
    """Bends of the mean loss from measurement to measurement, relative to independent batches; range in between.

    The mean of n losses with range r, about three deviations, bends by 0.55 r/√n, in the middle.
    """
    mean, low, high = (signs.of(f"loss_{name}", TOLD)[5:] for name in ("mean", "least", "greatest"))
    if len(mean) < 10 or not np.isfinite(mean).all() or not np.median(high - low) > 0:
        return 0.0, 0.0
    between, width = float(np.median(np.diff(signs.steps))), float(np.median(high - low))
    return float(np.median(np.abs(np.diff(mean, 2))) * math.sqrt(between) / (0.55 * width)), width


def _memorised(signs: Signs) -> tuple[int, float, float, float] | None:
    """Since when the probe's loss has risen while the training loss fell below it: place, least, now, training loss."""
    signs.after(5)
    loss, told = signs.of("probe_loss", LOSS), signs.of("loss_mean", TOLD)
    if not np.isfinite([loss[-1], told[-1]]).all():
        return None
    best = int(np.nanargmin(loss))
    rose, gap = loss[-1] / loss[best], told[-1] / loss[-1]
    bound = RISE[0] if gap < GAP[0] else RISE[1]
    if not (rose > bound and gap < GAP[1] and loss[-1] > HARMLESS * signs.chance):
        return None
    later = best + int(np.flatnonzero(loss[best:] > bound * loss[best])[0])
    return later, float(loss[best]), float(loss[-1]), float(told[-1])


def fitted_noise(signs: Signs) -> Finding | None:
    """Memorised labels that are wrong: the probe's accuracy falls again, or was never better than a guess."""
    course = _memorised(signs)
    right = signs.of("probe_accuracy", "no accuracy")
    if course is None:
        return None
    later, least, now, told = course
    samples = signs.options.get("samples", 100)
    peak, last, chance = float(np.nanmax(right)), float(np.mean(right[-3:])), math.exp(-signs.chance)
    error = math.sqrt(max(peak * (1 - peak), 1 / samples) / samples)
    if not (peak - last > FORGOT * error or last < chance + 2 * math.sqrt(chance * (1 - chance) / samples)):
        return None
    return Finding(
        "label noise fitted",
        int(signs.steps[later]),
        f"training loss {told:.2g}, probe loss from {least:.2g} up to {now:.2g}, and probe accuracy {last:.2f}, "
        f"at best {peak:.2f}",
        f"accuracy lower by {FORGOT:g} standard errors, or no better than a guess",
        "check the labels, stop earlier, or regularise",
    )


def overfitted(signs: Signs) -> Finding | None:
    """A loss on the probe that rises again while the training loss falls far below it."""
    course = _memorised(signs)
    if course is None:
        return None
    later, least, now, told = course
    return Finding(
        "overfitting",
        int(signs.steps[later]),
        f"probe loss from {least:.2g} up to {now:.2g}, training loss {told:.2g}",
        f"a rise by {RISE[1] - 1:.0%} with a training loss below {GAP[1]:.0%} of it, or by {RISE[0] - 1:.0%} and "
        f"{GAP[0]:.0%}",
        "more data, stop earlier, or regularise",
    )


def stuck(signs: Signs) -> Finding | None:
    """A loss that has not left that of a guess, and does not move."""
    signs.after(5)
    loss = signs.of("probe_loss", LOSS)
    if signs.steps[-1] < SOON:
        raise NotJudged(f"fewer than {SOON} steps")
    best, quarter = float(np.nanmin(loss)), max(1, len(loss) // 4)
    still = np.mean(loss[-quarter:]) > LEVEL * np.mean(loss[-3 * quarter : -2 * quarter])
    if not (best > STUCK * min(signs.guess, loss[0]) and still):
        return None
    return Finding(
        "stuck",
        int(signs.steps[-1]),
        f"probe loss {best:.3g} at best, a guess has {signs.guess:.3g}",
        f"a fall by {1 - STUCK:.0%}, or one of {1 - LEVEL:.0%} between the second and the last quarter",
        "see the other findings; else another learning rate, and a check of inputs and labels",
    )
