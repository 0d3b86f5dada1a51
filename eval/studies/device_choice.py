"""The device that a study asks for, settled by what the machine has.

A study that names no device computes on the CPU, so that it has the same cells on every machine;
``auto`` is settled once, when a run begins, and the cells record ``cuda`` or nothing.
"""

import sys

from latecomer.errors import InputError
from latecomer.eval.devices import lacking
from latecomer.eval.studies.settings import Study


def settled(study: Study, *, gpus_elsewhere: float | None = None) -> Study:
    """Return the study with its device settled: ``cuda``, or nothing, which is the CPU.

    Parameters
    ----------
    study : Study
    gpus_elsewhere : float, optional
        GPUs that an executor asks for each cell on other machines; None: cells run on this one.
        Workers on other machines find out themselves what these have.

    Raises
    ------
    InputError
        When CUDA is requested here but unavailable, or TF32 is requested on the CPU.
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

    Torch is asked only if it is already loaded, as it is once a run begins.
    """
    torch = sys.modules.get("torch")
    named = "device" in study.train.model_fields_set
    return torch is not None and not named and bool(torch.cuda.is_available())
