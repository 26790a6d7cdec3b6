"""Which calls of a forward pass stand in a row, so that each works on what the one before it made.

Found by experiment: the outputs of one unit are moved, and it is seen which others move with them. Units of which
neither moves the other run side by side. Branches inside a module count as that module; other branches count as one
layer, whose features are what they join to; what does not move the output (auxiliary heads) is left out.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from dynascope.monitor.probing import Inputs, Output, feed, output_of
from dynascope.monitor.tracing import Call, first_tensor, has_matrix, hooked, names_of, with_first


def units_of(root: Call, readout: Call | None) -> list[Call]:
    """Blocks and single layers with a weight matrix, in the order in which they run, the readout among them.

    >>> from dynascope.monitor.tracing import trace
    >>> [unit.path for unit in units_of(trace(nn.Sequential(nn.Linear(2, 3), nn.ReLU()), torch.ones(1, 2))[0], None)]
    ['0']
    """
    units = [unit for unit in _open(root, _stacked(root.module)) if has_matrix(unit.module)]
    while (wide := _too_wide(units, readout)) is not None:
        place = units.index(wide)
        units[place : place + 1] = [each for each in wide.inner if has_matrix(each.module)]
    return units


def _too_wide(units: list[Call], readout: Call | None) -> Call | None:
    """A unit to be opened: one that hides the readout, or any with parts where there are hardly any."""
    for unit in units:
        if readout is not None and unit is not readout and _holds(unit, readout):
            return unit
        if len(units) < 3 and unit is not readout and sum(has_matrix(each.module) for each in unit.inner) >= 2:
            return unit
    return None


def _holds(call: Call, wanted: Call) -> bool:
    return any(each is wanted or _holds(each, wanted) for each in call.inner)


def _stacked(model: nn.Module) -> dict[nn.Module, bool]:
    """For each module whether it is opened: it holds repeated blocks, and is not such a block itself."""
    blocks: set[nn.Module] = set()
    for module in model.modules():
        if isinstance(module, nn.Sequential | nn.ModuleList):
            made_of_parts = [
                each for each in module.children() if any(True for _ in each.children()) and has_matrix(each)
            ]
            kinds = Counter(type(each) for each in made_of_parts)
            blocks |= {each for each in made_of_parts if kinds[type(each)] >= 2}

    def holds(module: nn.Module) -> bool:
        return any(each in blocks for each in module.modules() if each is not module)

    # a Sequential of blocks is a stage, not a block, even beside others
    blocks -= {each for each in blocks if isinstance(each, nn.Sequential) and holds(each)}
    return {
        module: module not in blocks and (isinstance(module, nn.Sequential) or holds(module))
        for module in model.modules()
    }


def _open(call: Call, opened: Mapping[nn.Module, bool]) -> list[Call]:
    units = []
    for each in call.inner:
        units += _open(each, opened) if opened[each.module] and each.inner else [each]
    return units


@dataclass(frozen=True)
class Effects:
    """What moves with the outputs of each call: (moved, made) and (moved, given) of the calls, and the output.

    What a call makes counts as moved where what it is given is: a layer that starts at 0 hides it.
    """

    made: np.ndarray
    given: np.ndarray
    output: np.ndarray


def effects(model: nn.Module, inputs: Inputs, calls: list[Call], output: Output | None = None) -> Effects:
    """Move the output of one call after the other, and see what else moves: one forward pass for each.

    >>> from dynascope.monitor.tracing import trace
    >>> net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    >>> effects(net, torch.ones(1, 2), trace(net, torch.ones(1, 2))[0].inner).made.tolist()
    [[True, True], [False, True]]
    """
    still, result = _watched(model, inputs, calls, None, output)
    made, given = np.eye(len(calls), dtype=bool), np.zeros((len(calls), len(calls)), dtype=bool)
    feeds = np.zeros(len(calls), dtype=bool)
    for place in range(len(calls)):
        moved, changed = _watched(model, inputs, calls, place, output)
        feeds[place] = _differ(result, changed)
        for other in range(len(calls)):
            given[place, other] = _differ(still[other][0], moved[other][0])
            made[place, other] |= given[place, other] or _differ(still[other][1], moved[other][1])
    return Effects(made, given, feeds)


def _watched(
    model: nn.Module, inputs: Inputs, calls: list[Call], moved: int | None, output: Output | None
) -> tuple[list[list[torch.Tensor | None]], torch.Tensor]:
    places = {call.key: place for place, call in enumerate(calls)}
    seen: list[list[torch.Tensor | None]] = [[None, None] for _ in calls]

    def enter(module: nn.Module, number: int, given: torch.Tensor | None) -> None:
        if (place := places.get((module, number))) is not None and given is not None:
            seen[place][0] = given.clone()

    def leave(module: nn.Module, number: int, made: object) -> object:
        place, tensor = places.get((module, number)), first_tensor(made)
        if place is None or tensor is None:
            return None
        seen[place][1] = tensor.clone()
        if place != moved or not tensor.is_floating_point():
            return None
        noise = torch.randn(tensor.shape, generator=torch.Generator().manual_seed(0)).to(tensor)
        return with_first(made, tensor + (1 + tensor.abs().mean()) * noise)

    torch.manual_seed(0)  # what draws at random draws the same in every pass
    with hooked(list({call.module for call in calls}), enter, leave):
        return seen, output_of(feed(model, inputs), output)


def _differ(one: torch.Tensor | None, other: torch.Tensor | None) -> bool:
    return one is not None and other is not None and not torch.equal(one, other)


@dataclass
class Member:
    """One layer of the row: calls that count as one, by their joint name."""

    calls: list[Call]

    @property
    def name(self) -> str:
        """Its name; a few branches are all named."""
        return " + ".join(names_of(self.calls))


def in_a_row(
    root: Call, units: list[Call], found: Effects, readout: Call | None = None
) -> tuple[list[Member], dict[str, str]]:
    """Sort units into a row, and say what is left out and why. found: their effects.

    >>> calls = [Call(name, nn.Identity(), 0) for name in "abc"]
    >>> made = np.array([[1, 0, 1], [0, 1, 1], [0, 0, 1]], dtype=bool)  # a and b lead to c side by side
    >>> row, _ = in_a_row(Call("", nn.Identity(), 0, inner=calls), calls, Effects(made, made, made[:, 2]))
    >>> [member.name for member in row]
    ['a + b', 'c']
    """
    skipped: dict[str, str] = {}
    index = {id(unit): place for place, unit in enumerate(units)}
    feeds = found.output | (found.made[:, index[id(readout)]] if readout is not None else False)
    if feeds.sum() > (readout is not None):  # a last layer that starts at 0 lets nothing through
        silent = [unit for unit in units if not feeds[index[id(unit)]]]
        skipped |= dict.fromkeys(names_of(silent), "it does not feed the output that is read")
        units = [unit for unit in units if feeds[index[id(unit)]]]
    parts = [[unit] for unit in units]
    while (pair := _side_by_side(parts, found, index)) is not None:
        first, last = pair
        parts[first : last + 1] = [[unit for part in parts[first : last + 1] for unit in part]]
    row: list[Member] = []
    for place, part in enumerate(parts):
        around = _around(root, part) if len(part) > 1 else part[0]
        if around is not root and len(part) == sum(unit is around or _holds(around, unit) for unit in units):
            row.append(Member([around]))
            continue
        after = index[id(parts[place + 1][0])] if place + 1 < len(parts) else None
        ends = [unit for unit in part if after is not None and _ends(unit, part, after, found, index)]
        row.append(Member(ends or part[-1:]))
        beside = [unit for unit in part if not any(unit is each for each in row[-1].calls)]
        skipped |= dict.fromkeys(names_of(beside), f"it runs beside {row[-1].name!r}, not in a row with it")
    return row, skipped


def _side_by_side(parts: list[list[Call]], found: Effects, index: Mapping[int, int]) -> tuple[int, int] | None:
    for first in range(len(parts)):
        for second in range(first + 1, len(parts)):
            if not all(found.made[index[id(a)], index[id(b)]] for a in parts[first] for b in parts[second]):
                return first, second
    return None


def _around(root: Call, units: list[Call]) -> Call:
    """The innermost call that holds all of these."""
    for each in root.inner:
        if all(each is unit or _holds(each, unit) for unit in units):
            return _around(each, units)
    return root


def _ends(unit: Call, part: list[Call], after: int, found: Effects, index: Mapping[int, int]) -> bool:
    """Whether a branch itself enters what comes after, not only through others of its part."""
    own = index[id(unit)]
    later = any(found.made[own, index[id(each)]] for each in part if each is not unit)
    return bool(found.given[own, after]) and not later
