"""Train in a child, kill it with signal 9 at a random moment, start again in the same folder; some times.

After each death the run must open and hold every measurement that had come back. Prints how many there were each time.
"""

import json
import os
import random
import signal
import sys
import time

import torch

from dynascope import watch
from dynascope.monitor.reading import open_run
from networks import Cnn, images, train


def child(folder, pipe):
    model = Cnn()
    run = watch(model, probe=images(), every=1, out=folder, slow=4, class_logits=True, resume=True)
    os.write(pipe, b"%d\n" % run.steps)

    def after(loss):
        run.step(loss=loss)
        os.write(pipe, b"%d\n" % run.steps)

    train(model, images(), 10_000, after=after)


def killed_once(folder, wait, lines):
    """Steps whose measurement had come back when the child died, a while after it had written so many lines."""
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(reading)
        child(folder, writing)
        os._exit(1)
    os.close(writing)
    content = b""
    while content.count(b"\n") < lines:
        content += os.read(reading, 1)
    time.sleep(wait)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    while part := os.read(reading, 65536):
        content += part
    os.close(reading)
    return [int(line) for line in content.decode().split("\n")[:-1]]


def main(folder, times):
    torch.set_num_threads(1)  # threads do not survive a fork
    warm = Cnn()
    with watch(warm, probe=images(), every=1, slow=1):  # what is imported on first use is there before the first child
        begun = time.perf_counter()
        train(warm, images(), 1)
        longest = min(1.0, max(0.15, 3 * (time.perf_counter() - begun)))  # a busy machine gets as far as an idle one
    moments = random.Random(7)
    held = []
    for index in range(times):
        # the last one gets further than where it began, however slow the machine is
        finished = killed_once(folder, moments.uniform(0.0, longest), lines=2 if index == times - 1 else 1)
        steps = open_run(folder)["step"].values.tolist()
        assert steps == list(range(len(steps))), steps
        assert finished[-1] <= steps[-1] <= finished[-1] + 1, (finished[-1], steps[-1])
        held.append(len(steps))
    json.dump(held, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
