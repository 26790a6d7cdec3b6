"""Tasks of 20 µs with Optuna and with Ray Tune, each kept on disk, whole and killed half-way and resumed.

Needs neither dynascope nor its packages: `python benchmarks/sweep_rivals.py` with a Python that has Optuna and Ray;
RIVAL_TASKS is how many there are, 1,000 if not given, RIVALS which, optuna,ray.
"""

import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

TASKS, WORK = int(os.environ.get("RIVAL_TASKS", "1000")), 20e-6


def tiny(x: float, log: str) -> float:
    """A task that takes as long as it should, and says that it was computed."""
    until = time.perf_counter() + WORK
    while time.perf_counter() < until:
        pass
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, f"{x}\n".encode())
    os.close(file)
    return 2.0 * x


def optuna_study(folder: Path) -> None:
    """A list of trials in a database, as Optuna recommends for what must survive; its grid sampler takes hours."""
    import optuna  # noqa: PLC0415

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(
        storage=f"sqlite:///{folder}/study.db",
        study_name="tiny",
        sampler=optuna.samplers.RandomSampler(seed=0),
        load_if_exists=True,
    )
    if not study.trials:
        for each in range(TASKS):
            study.enqueue_trial({"x": float(each)})
    left = sum(trial.state.name == "WAITING" for trial in study.trials)
    study.optimize(lambda trial: tiny(trial.suggest_float("x", 0, TASKS), str(folder / "log")), n_trials=left)
    states = Counter(trial.state.name for trial in study.get_trials(deepcopy=False))
    (folder / "states").write_text(", ".join(f"{number} {name.lower()}" for name, number in states.items()))


def ray_tune(folder: Path) -> None:
    """A grid search, restored where there is one."""
    import ray  # noqa: PLC0415
    from ray import tune  # noqa: PLC0415

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")

    def trainable(config: dict) -> dict[str, float]:
        return {"y": tiny(config["x"], str(folder / "log"))}

    path = str(folder / "tiny")
    if tune.Tuner.can_restore(path):
        tuner = tune.Tuner.restore(path, trainable, resume_unfinished=True, resume_errored=True)
    else:
        tuner = tune.Tuner(
            trainable,
            param_space={"x": tune.grid_search([float(each) for each in range(TASKS)])},
            run_config=tune.RunConfig(name="tiny", storage_path=str(folder), verbose=0),
        )
    found = tuner.fit()
    (folder / "states").write_text(f"{len(found) - found.num_errors} complete, {found.num_errors} with errors")


def lines(folder: Path) -> list[str]:
    return (folder / "log").read_text().split() if (folder / "log").exists() else []


def begin(name: str, folder: Path) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, __file__, name, str(folder)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def compare(name: str) -> None:
    """Seconds for each task of a run that is left alone; what one that is killed half-way does again or leaves out."""
    with tempfile.TemporaryDirectory() as place:
        whole, cut = Path(place, "whole"), Path(place, "cut")
        for folder in (whole, cut):
            folder.mkdir()
        begun = time.perf_counter()
        begin(name, whole).wait()
        seconds = time.perf_counter() - begun
        files = [path for path in whole.rglob("*") if path.is_file() and path.name not in ("log", "states")]
        size = sum(path.stat().st_size for path in files) / 1e6
        overhead = 1e3 * (seconds / TASKS - WORK)
        print(f"{name}: {seconds:.0f} s, {overhead:.1f} ms a task, {len(files)} files, {size:.1f} MB", flush=True)
        first = begin(name, cut)
        while len(lines(cut)) < TASKS // 2 and first.poll() is None:
            time.sleep(0.01)
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
        before = lines(cut)
        begin(name, cut).wait()
        again = len(lines(cut)) - len(set(lines(cut)))
        states = (cut / "states").read_text() if (cut / "states").exists() else "it did not end"
        print(
            f"{name}, killed after {len(before)} tasks and resumed: {again} computed again, "
            f"{TASKS - len(set(lines(cut)))} never computed; it says {states}",
            flush=True,
        )


if __name__ == "__main__":
    jobs = {"optuna": optuna_study, "ray": ray_tune}
    if len(sys.argv) > 1:
        jobs[sys.argv[1]](Path(sys.argv[2]))
    else:
        for job in os.environ.get("RIVALS", "optuna,ray").split(","):
            if importlib.util.find_spec(job) is None:
                print(f"{job} is not installed here")
            else:
                compare(job)
