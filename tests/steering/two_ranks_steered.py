"""Steer a training in two processes with DistributedDataParallel (gloo); write what each ends with."""

import json
import os
import sys

import torch
import torch.distributed as dist
from steered import EVERY, data, network, train

from dynascope import steer, watch
from dynascope.steering import Dropout


def main(folder, rank):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    model = torch.nn.parallel.DistributedDataParallel(network())
    with watch(model, probe=data(), every=EVERY, slow=0) as run, steer(run, Dropout(model), target=-5.0) as steering:
        train(model, run)
    told = {"value": steering.value}
    if rank == 0:
        told["turned"] = len(set(run.record["dropout"].values.tolist()))
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
