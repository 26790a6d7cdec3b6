"""Steer a training in two processes with DistributedDataParallel (gloo); write what each ends with."""

import torch
from steered import EVERY, convolutional, data, network, train
from two_processes import run_both

from dynascope import steer, watch
from dynascope.steering import Dropout


def found(folder, rank):
    model = torch.nn.parallel.DistributedDataParallel(network())
    with watch(model, probe=data(), every=EVERY, slow=0) as run, steer(run, Dropout(model), target=-5.0) as steering:
        train(model, run)
    other = torch.nn.parallel.DistributedDataParallel(convolutional(0.0))
    with watch(other, probe=data(), every=EVERY, slow=0) as beside, steer(beside, Dropout(other)) as begun:
        told = {"value": steering.value, "begun": begun.value}
    flat = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(torch.nn.Dropout(0.1), torch.nn.Linear(8, 4)))
    with watch(flat, probe=data(), every=EVERY, slow=0) as short:
        try:
            steer(short, Dropout(flat))
        except ValueError as error:
            told["refused"] = str(error)
    if rank == 0:
        told["turned"] = len(set(run.record["dropout"].values.tolist()))
    return told


if __name__ == "__main__":
    run_both(found)
