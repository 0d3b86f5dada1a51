"""How a cell says which way its clients train."""

import torch

from latecomer.models.engine.method import Method
from latecomer.models.engine.paths import choose_path
from latecomer.models.engine.written_out import has_written_slopes
from latecomer.models.task.task import Task

WRITTEN_OUT_VERSION = 3
"""Numbers version of ``path: vectorised`` where gradients are written out."""


def recorded_way(
    path: str, method: Method, task: Task, device: str | None = None, precision: str | None = None
) -> tuple[str, int | None]:
    """Return the ``path`` that a cell records, and the version of its numbers if that says more.

    Cells are of one way of training, the same numbers have the same cell. Before ``auto`` looked at
    shapes it was serial on a CPU, and such cells said ``auto``: they still do where a study now
    says ``serial`` and ``auto`` would be another way (`trained_path` reads it so).

    Examples
    --------
    >>> from latecomer.models.methods import make_method
    >>> from latecomer.models.task.task import make_task
    >>> fedavg, task = make_method("fedavg"), make_task(input_shape=(6,), n_classes=4)
    >>> [recorded_way(path, fedavg, task) for path in ("auto", "vectorised", "serial")]
    [('vectorised', 3), ('vectorised', 3), ('auto', None)]
    """
    where = torch.device(device or "cpu")
    if not has_written_slopes(task, where):
        return path, None
    auto = choose_path("auto", None, method, task, where, precision)[0]
    if path == "vectorised" or (path == "auto" and auto == "vectorised"):
        return "vectorised", WRITTEN_OUT_VERSION
    return ("auto" if path == "serial" and auto == "vectorised" else path), None


def trained_path(recorded: str, device: torch.device) -> str:
    """Return the path that a cell's recorded one means.

    >>> trained_path("auto", torch.device("cpu")), trained_path("vectorised", torch.device("cpu"))
    ('serial', 'vectorised')
    """
    return "serial" if recorded == "auto" and device.type == "cpu" else recorded
