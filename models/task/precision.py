"""The precision of local steps: float32, unless a training asks for speed at the cost of digits.

A lower precision rounds the factors of the target network's products, forward and backward, in
local steps, and nothing else: weights, momenta, sums of gradients and losses stay float32, and so
do the networks that make weights, the server's steps, serving, scores and certificates.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

PRECISIONS = ("bf16", "tf32")
"""``bf16``: factors rounded to bfloat16 (8 significant bits); ``tf32``: to 11 bits, on a GPU."""


def check_precision(precision: str | None, dtype: torch.dtype, device: torch.device) -> None:
    """Refuse a precision that the weights' floating type or the device does not support.

    Raises
    ------
    ValueError
        If weights are not float32, for TF32 without CUDA, for bfloat16 without torch's autocast.

    Examples
    --------
    >>> check_precision("bf16", torch.float32, torch.device("cpu"))
    >>> check_precision("tf32", torch.float32, torch.device("cpu"))
    Traceback (most recent call last):
    ValueError: precision must be bf16 or left out on a cpu device, got precision='tf32'
    """
    if precision is None:
        return
    if dtype != torch.float32:
        raise ValueError(
            f"precision must be left out for weights of {dtype}, got precision={precision!r}"
        )
    if precision == "tf32" and device.type != "cuda":
        raise ValueError(
            f"precision must be bf16 or left out on a {device.type} device, got precision='tf32'"
        )
    if precision == "bf16" and not torch.amp.is_autocast_available(device.type):
        raise ValueError(
            f"precision must be left out on a {device.type} device, got precision='bf16'"
        )


@contextmanager
def tf32_products(allowed: bool) -> Iterator[None]:
    """Allow TF32 in products and convolutions on a GPU if ``allowed``; restore settings at exit."""
    if not allowed:
        yield
        return
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32
    try:
        matmul.allow_tf32 = cudnn.allow_tf32 = True
        yield
    finally:
        matmul.allow_tf32, cudnn.allow_tf32 = before
