"""Train with and without the monitor and print what differs, as JSON: same_training.py [cpu | cuda] [steps].

A program of its own, as a user's would be: the run-time type checks of the tests draw from Python's random state.
"""

import contextlib
import json
import os
import random
import sys

import numpy as np
import torch

from dynascope import watch
from networks import KINDS, seed_all, train

FEW, MANY = 40, 200  # steps
RUNS = {FEW: [(kind, None) for kind in KINDS]}
RUNS[MANY] = [*((kind, backend) for backend in (None, "aot_eager") for kind in KINDS), ("mlp", "inductor")]
DEVICE = torch.device(sys.argv[1] if __name__ == "__main__" else "cpu")


def run(kind, backend, steps, *, watched):
    make, data = KINDS[kind]
    if backend:
        torch._dynamo.reset()
    seed_all(3)
    model = make().to(DEVICE)
    x, y = (each.to(DEVICE) for each in data())
    call = torch.compile(model, backend=backend) if backend else model
    classes = y.ndim == 1
    often = {"every": steps // 10, "slow": 3, "class_logits": classes, "inside": not classes}
    found = []
    more = {"training": x, "on_verdict": found.append}
    watching = watch(call, probe=(x, y), **often, **more) if watched else contextlib.nullcontext()
    with watching as seen:
        train(model, (x, y), steps, call=call, after=lambda loss: seen and seen.step(loss=loss))
    if seen is not None:
        assert seen.record.sizes["step"] == 11
        if classes:
            assert np.isfinite(seen.record["minimum_feature_distance"].values[[0, -1]]).all()
            assert np.isfinite(seen.record["intra"].values[[0, 3]]).all()
        else:
            assert np.isfinite(seen.record["attention_entropy"].values[:, 1:]).all()
            assert np.isfinite(seen.record["skip_cost"].values[[0, -1], 1:]).all()
        assert np.isfinite(seen.record["gradient_norm"].values[1:]).all()
        assert found[0].name == "probe leak"
    content = {name: value.clone() for name, value in model.state_dict().items()}
    content["torch random state"] = torch.get_rng_state()
    if DEVICE.type == "cuda":
        content["CUDA random state"] = torch.cuda.get_rng_state()
    content["numpy random state"] = torch.as_tensor(np.random.get_state()[1].astype(np.int64))  # noqa: NPY002
    content["python random state"] = torch.as_tensor(random.getstate()[1])
    content["flags"] = torch.as_tensor([module.training for module in model.modules()])
    return content


def differences(kind, backend, steps):
    plain, watched = (run(kind, backend, steps, watched=each) for each in (False, True))
    return [name for name in plain if not torch.equal(plain[name], watched[name])]


if __name__ == "__main__":
    torch.set_num_threads(1)
    if DEVICE.type == "cuda":
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
        torch.use_deterministic_algorithms(True)
    number = int(sys.argv[2])
    json.dump({f"{kind} {backend}": differences(kind, backend, number) for kind, backend in RUNS[number]}, sys.stdout)
