"""How exact the products of a training step are: PyTorch's settings, as they were afterwards."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor

from dynascope.networks.ways import Pass


@contextmanager
def exact_as(products: str) -> Iterator[None]:
    """Within, products and convolutions on a GPU are exact to float32 (full) or to tf32; `usual` changes nothing.

    >>> with exact_as("full"):
    ...     torch.backends.cudnn.allow_tf32
    False
    """
    held = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    if products != "usual":
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = products != "full"
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = held


def of_bfloat16(forward: Pass, device: torch.device) -> Pass:
    """A forward pass with products and convolutions of bfloat16; what comes out is float32."""

    def cast(held: Mapping[str, Tensor], buffers: Mapping[str, Tensor], x: Tensor) -> dict[str, Tensor]:
        # weights change between steps: a cast of them is not kept
        with torch.autocast(device.type, torch.bfloat16, cache_enabled=False):
            found = forward(held, buffers, x)
        return {name: value.float() for name, value in found.items()}

    return cast


def said(products: str, device: torch.device) -> str:
    """What a record says of the products: for `usual`, what PyTorch's settings make of convolutions.

    >>> [said(products, torch.device("cpu")) for products in ("usual", "tf32", "bfloat16")]
    ['full', 'full', 'bfloat16']
    """
    if products == "tf32" and device.type != "cuda":  # there is none
        return "full"
    if products != "usual":
        return products
    return "tf32 in convolutions" if device.type == "cuda" and torch.backends.cudnn.allow_tf32 else "full"
