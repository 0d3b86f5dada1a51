"""The device that cells compute on: what a study asks for, and what the machine has.

A study that says nothing computes on the CPU, so that it means the same cells on every machine;
``auto`` is settled once, when a run begins, and the cells know ``cuda`` or nothing of it.
"""

import socket
import sys
from functools import cache
from typing import TYPE_CHECKING

from latecomer.eval.errors import InputError
from latecomer.eval.settings import Study

if TYPE_CHECKING:
    import torch

__all__ = ["claim", "device_name", "lacking", "leaves_gpu_idle", "settled", "wait_for"]


def settled(study: Study, *, gpus_elsewhere: float | None = None) -> Study:
    """Return the study with its device settled: ``cuda``, or nothing, which is the CPU.

    Parameters
    ----------
    study : Study
    gpus_elsewhere : float, optional
        GPUs that an executor asks for each cell on other machines; None: cells run on this one.
        What other machines have is for their workers to find out.

    Raises
    ------
    InputError
        When this machine is to compute on CUDA and cannot, or on the CPU in TF32, which it has not.
    """
    asked = study.train.device
    here = gpus_elsewhere is None
    cuda = asked == "cuda"
    if asked == "auto":
        cuda = not lacking("cuda") if here else bool(gpus_elsewhere)
    elif cuda and here and (reason := lacking("cuda")):
        raise InputError(f"train.device must be cpu or auto on this machine, got cuda: {reason}")
    if study.train.precision == "tf32" and not cuda:
        raise InputError("train.precision must be float32 or bf16 on the CPU, got tf32")
    train = study.train.model_copy(update={"device": "cuda" if cuda else None})
    return study.model_copy(update={"train": train})


def leaves_gpu_idle(study: Study) -> bool:
    """Say whether this machine has a GPU that a study leaves idle because it names no device.

    Torch is asked where it is loaded, as it is once a run begins; it is not loaded for this.
    """
    torch = sys.modules.get("torch")
    named = "device" in study.train.model_fields_set
    return torch is not None and not named and bool(torch.cuda.is_available())


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


@cache
def claim(device: str) -> None:
    """Make this process ready to compute on a device.

    Float32 on a GPU means float32: products in TF32 are refused, convolutions take them by default.
    And of several ways to convolve one is taken that sums in the same order every time.

    Raises
    ------
    InputError
        When the machine has no such device.
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
    """Wait until a device has done what it was sent, so that time can be taken."""
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
