"""The device that cells compute on: whether the machine has it, and how it is made ready."""

import os
import socket
from functools import cache
from typing import TYPE_CHECKING

from latecomer.errors import InputError

if TYPE_CHECKING:
    import torch


def lacking(device: str | None) -> str:
    """Say why this machine cannot compute on a device; empty where it can.

    >>> lacking(None), lacking("cpu")
    ('', '')
    """
    if device != "cuda":
        return ""
    import torch

    if torch.cuda.is_available():
        return ""
    if torch.version.cuda is None:
        return f"torch {torch.__version__} is built without CUDA"
    return "torch sees no CUDA device"


def visible_gpus() -> tuple[str, ...]:
    """Return the GPUs of this machine as ``CUDA_VISIBLE_DEVICES`` names them; none without CUDA."""
    if lacking("cuda"):
        return ()
    import torch

    count = torch.cuda.device_count()
    listed = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    names = [name.strip() for name in listed.split(",") if name.strip()]
    return tuple(names[:count] if names else map(str, range(count)))


@cache
def claim(device: str) -> None:
    """Make this process ready to compute on a device, which the machine must have.

    Float32 on a GPU means float32: TF32, the default for convolutions, is switched off.
    Convolutions use an algorithm that sums in the same order every time.
    """
    if device != "cuda":
        return
    reason = lacking(device)
    if reason:
        raise InputError(
            f"train.device=cuda cannot be had on {socket.gethostname()}: {reason}; cells elsewhere "
            "get a GPU by --gpus-per-cell"
        )
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.deterministic = True


def wait_for(device: "torch.device") -> None:
    """Wait until a device has finished its queued work, so that time can be measured."""
    if device.type == "cuda":
        import torch

        torch.cuda.synchronize(device)


def device_name(device: str | None) -> str:
    """Name the device that cells compute on: ``cpu``, or the GPU's name, ``cuda`` where unknown."""
    if device != "cuda":
        return "cpu"
    if lacking(device):
        return "cuda"
    import torch

    return f"cuda ({torch.cuda.get_device_name()})"
