"""The campaign itself: what was counted is kept line by line, and printed as tables."""

import importlib
import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import torch

from campaign import damages, rooms, workers
from campaign.children import run
from campaign.frozen import freeze
from campaign.subjects import SUBJECTS, Subject, prepare
from campaign.trials import COUNTERS, Bench, Outcome
from dynascope.cli.commands import COMMANDS
from dynascope.records import source_commit, write_text
from dynascope.results import hardware, markdown_table

ON_WORKERS = "sweep on workers"
DAMAGES, ROOMS, KILLS = "damage", "room", "kill"
_HEADS = {
    KILLS: ("command", *COUNTERS),
    ROOMS: ("command", "full disk", "read-only", "lost", "unreadable", "differing", "leftovers"),
    DAMAGES: ("file", damages.SAID, damages.SAME, damages.WRONG),
}
_BAD = ("lost", "unreadable", "differing", "leftovers", damages.WRONG)
_UNROOMY = (ON_WORKERS, "watch resumed")  # takes long; goes on without what it could not write, as it says


class State:
    """What was counted so far: a file of lines, each written in one piece; one that is cut short is done again."""

    def __init__(self, path: Path, seed: int) -> None:
        self.path, self.counts, self.notes = path, {}, []
        for line in path.read_text().splitlines() if path.exists() else []:
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if entry["seed"] == seed:
                self._count(entry)
        self.seed = seed

    def add(self, table: str, name: str, outcome: Outcome) -> None:
        """Keep what a trial gave."""
        entry = {"seed": self.seed, "table": table, "name": name, "counts": outcome.counts, "notes": outcome.notes}
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            os.write(file, f"\n{json.dumps(entry)}".encode())
            os.fsync(file)
        finally:
            os.close(file)
        self._count(entry)

    def _count(self, entry: dict) -> None:
        counts = self.counts.setdefault((entry["table"], entry["name"]), Counter())
        counts.update(entry["counts"])
        counts["trials"] += 1
        self.notes += [f"{entry['name']}: {note}" for note in entry["notes"]]

    def of(self, table: str, name: str) -> Counter[str]:
        """Counts of one row."""
        return self.counts.get((table, name), Counter())


def conduct(folder: Path, commands: str | None, *, kills: int, seed: int) -> int:
    """Run the campaign, or the rest of it; exit status 1 if anything was wrong."""
    commit, begun = source_commit(), time.perf_counter()
    for name in COMMANDS:
        importlib.import_module(f"dynascope.cli.{name}")
    torch.set_num_threads(1)  # threads do not survive a fork
    freeze()
    bench, state = Bench(folder), State(folder / "state.jsonl", seed)
    rooms.release(bench.place.out)
    _prepare(bench)
    names = [*SUBJECTS, *(f"workers at {phase}" for phase in workers.PHASES), *damages.KINDS]
    chosen = names if commands is None else commands.split(",")
    if unknown := [name for name in chosen if name not in names]:
        raise SystemExit(f"--commands must be some of {', '.join(names)}, got {unknown[0]!r}")
    for name in chosen:
        for table, wanted, counter, trial in _trials(bench, name, kills):
            while (done := state.of(table, name))[counter] < wanted and done["trials"] < 5 * wanted + 5:
                draw = random.Random(f"{seed} {table} {name} {counter} {done['trials']}")
                outcome = trial(draw)
                state.add(table, name, outcome)
                for note in outcome.notes:
                    print(f"  {name}: {note}", flush=True)
        counts = {table: dict(state.of(table, name)) for table in _HEADS if state.of(table, name)}
        print(f"{time.perf_counter() - begun:.0f} s: {name}: {counts}", flush=True)
    text = tables(state, names)
    write_text(folder / "report.md", f"Commit {commit}, {hardware('cpu')}, seed {seed}.\n\n{text}\n")
    print(text)
    return int(any(counts[bad] for counts in state.counts.values() for bad in _BAD))


Trial = Callable[[random.Random], Outcome]


def _trials(bench: Bench, name: str, kills: int) -> Iterator[tuple[str, int, str, Trial]]:
    """What is done to a command or file: table, how many, of what, and one of them."""
    few = max(1, kills // 10)
    if name in damages.KINDS:
        kind = damages.KINDS[name]
        yield DAMAGES, kills, "trials", partial(damages.damage, bench, kind, damages.undamaged(bench, kind))
        return
    subject = SUBJECTS[ON_WORKERS] if name.startswith("workers at ") else SUBJECTS[name]
    known = {older: bench.reference(subject, older=older) for older in ({False, bool(subject.older)})}
    if name != subject.name:
        phase = name.removeprefix("workers at ")
        yield KILLS, max(1, kills // 6), "kills", lambda draw: workers.killed(bench, subject, known[False], phase, draw)
        return
    yield KILLS, max(1, round(kills * subject.share)), "kills", partial(bench.trial, subject, known)
    if name in _UNROOMY:
        return
    mountable = rooms.mountable(bench.place.out)
    crowded = rooms.full_disk if mountable else rooms.short_files
    yield ROOMS, few, "full disk", partial(crowded, bench, subject, known[False])
    if mountable:
        yield ROOMS, max(1, few // 2), "read-only", partial(rooms.read_only, bench, subject, known[False])


def _prepare(bench: Bench) -> None:
    """Make what commands read, unless an earlier campaign did."""
    if (bench.inputs / "complete").exists():
        return
    bench.inputs.mkdir(exist_ok=True)
    bench.set_out(Subject("", lambda: 0), older=False)
    ending = run(partial(prepare, bench.inputs), bench.place)
    if ending.status:
        raise RuntimeError(f"the campaign cannot be prepared: {bench.said()}")
    (bench.inputs / "complete").touch()


def tables(state: State, names: Sequence[str]) -> str:
    """What was counted, as Markdown."""
    parts = []
    for table, head in _HEADS.items():
        rows = [(name, state.of(table, name)) for name in names if state.of(table, name)]
        body = [(name, *(str(counts[each]) for each in head[1:])) for name, counts in rows]
        total = Counter[str]()
        for _, counts in rows:
            total.update(counts)
        if rows:
            parts.append(markdown_table(head, [*body, ("all", *(str(total[each]) for each in head[1:]))]))
    return "\n\n".join(parts)
