"""Train in two processes with DistributedDataParallel (gloo), with and without the monitor; print what came out."""

import contextlib

import torch
from two_processes import run_both

from dynascope import watch
from networks import mlp, seed_all, train, vectors


def trained(folder, rank):
    seed_all(rank)
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(mlp())
    torch.manual_seed(rank)
    watching = watch(model, probe=vectors(), every=5, slow=2, out=folder) if folder else contextlib.nullcontext()
    with watching as run:
        train(model, vectors(), 20, after=lambda loss: run and run.step(loss=loss))
    return model.module.state_dict(), run


def found(folder, rank):
    plain, _ = trained(None, rank)
    watched, run = trained(f"{folder}/run", rank)
    same = all(torch.equal(plain[name], watched[name]) for name in plain)
    told = {"same": same, "layers": run.layers, "rank": rank}
    if rank == 0:
        told["steps"] = run.record["step"].values.tolist()
    return told


if __name__ == "__main__":
    run_both(found)
