"""Train in two processes with DistributedDataParallel (gloo), with and without the monitor; print what came out."""

import contextlib
import json
import os
import sys

import torch
import torch.distributed as dist

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


def main(folder, rank):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    plain, _ = trained(None, rank)
    watched, run = trained(f"{folder}/run", rank)
    same = all(torch.equal(plain[name], watched[name]) for name in plain)
    told = {"same": same, "layers": run.layers, "rank": rank}
    if rank == 0:
        told["steps"] = run.record["step"].values.tolist()
    with open(f"{folder}/{rank}.json", "w") as file:
        json.dump(told, file)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    other = os.fork()
    main(sys.argv[1], 0 if other else 1)
    if other:
        sys.exit(os.waitpid(other, 0)[1])
    os._exit(0)
