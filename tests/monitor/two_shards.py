"""Train in two processes that hold a model in pieces (FSDP2, gloo), with and without the monitor; say what came out."""

import contextlib

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from two_processes import run_both

from dynascope import watch
from networks import seed_all, train, vectors


def whole_mlp():
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3))


def sharded_mlp(mesh, **options):
    model = whole_mlp()
    for layer in (model[0], model[2]):
        fully_shard(layer, mesh=mesh, **options)
    return fully_shard(model, mesh=mesh, **options)


def trained(model, folder):
    torch.manual_seed(dist.get_rank())
    watching = watch(model, probe=vectors(), every=5, slow=2, out=folder) if folder else contextlib.nullcontext()
    with watching as run:
        train(model, vectors(), 20, after=lambda loss: run and run.step(loss=loss))
    return {name: value.full_tensor() for name, value in model.state_dict().items()}, run


def refused(mesh, **options):
    try:
        watch(sharded_mlp(mesh), probe=vectors(), **options)
    except ValueError as error:
        return str(error)


def found(folder, rank):
    mesh = init_device_mesh("cpu", (2,))
    told = {"same": []}
    for name, options in {"freed": {}, "kept": {"reshard_after_forward": False}}.items():
        ends = []
        for place in (None, f"{folder}/{name}"):
            seed_all(0)
            model = sharded_mlp(mesh, **options)
            end, run = trained(model, place)
            ends.append(end)
        told["same"].append(all(torch.equal(ends[0][each], ends[1][each]) for each in end))
    _, again = trained(model, place)  # goes on at step 20
    told |= {"steps": again.record["step"].values.tolist(), "folder": str(again.folder), "skipped": run.skipped}
    told["refused"] = [refused(mesh), refused(mesh, every=5, out=place, first_step=20)]
    alone = whole_mlp()
    alone.load_state_dict(end)
    measured = watch(alone, probe=vectors(), every=1, slow=0).record if rank == 0 else run.record.isel(step=[-1])
    told["apart"] = [float(abs(measured[name][0] - run.record[name][-1]).max()) for name in ("loads", "nc3")]
    return told


if __name__ == "__main__":
    run_both(found)
