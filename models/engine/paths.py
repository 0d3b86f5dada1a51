"""Which way a cohort trains, and why it is another than the one asked for."""

import torch

from latecomer.models.engine.method import Method
from latecomer.models.engine.written_out import has_written_slopes
from latecomer.models.task.targets import ConvNet
from latecomer.models.task.task import Task

PATHS = ("auto", "serial", "blocked", "vectorised")
"""How a cohort trains: ``serial``, one client after another; ``blocked``, likewise, with images in
oneDNN's own layout; ``vectorised``, all at once; ``auto``, the last on a GPU and, on a CPU, for
dense nets of at most ``SMALL`` weights if the method's gradient is written out, else the first."""

SMALL = 2**16
"""Most weights of a net that ``auto`` trains all at once on a CPU, which then takes a fifth to two
thirds of the time of one client after another. Above, products are most of either."""


def choose_path(
    path: str,
    chunk_size: int | None,
    method: Method,
    task: Task,
    device: torch.device,
    precision: str | None = None,
) -> tuple[str, str]:
    """Return ``serial``, ``blocked`` or ``vectorised``, and why if that was not asked for.

    Raises
    ------
    ValueError
        If ``path`` or ``chunk_size`` is out of its range.

    Examples
    --------
    >>> from latecomer.models.methods import make_method
    >>> from latecomer.models.task.task import make_task
    >>> task = make_task(input_shape=(6,), n_classes=4)
    >>> choose_path("auto", None, make_method("fedavg"), task, torch.device("cpu"))
    ('vectorised', '')
    >>> pictures = make_task(input_shape=(1, 8, 8), n_classes=4)
    >>> choose_path("auto", None, make_method("fedavg"), pictures, torch.device("cpu"))
    ('serial', '')
    """
    if path not in PATHS:
        raise ValueError(f"path must be one of {', '.join(PATHS)}, got path={path!r}")
    whole = isinstance(chunk_size, int) and not isinstance(chunk_size, bool)
    if chunk_size is not None and not (whole and chunk_size >= 1):
        raise ValueError(
            f"chunk_size must be a whole number >= 1 or None, got chunk_size={chunk_size!r}"
        )
    if path == "auto" and device.type == "cpu":
        path = "vectorised" if _quick_together(method, task, precision) else "serial"
    if path == "serial":
        return "serial", ""
    if path == "blocked":
        reason = _not_blocked(task, device, precision)
        return ("serial", reason) if reason else ("blocked", "")
    if method.serial_only:
        return "serial", f"{method.name} trains client by client: {method.serial_only}"
    if task.one_by_one:
        return "serial", f"the target cannot be applied over clients: {task.one_by_one}"
    if len({value.dtype for value in task.target.parameters()}) > 1:
        return "serial", "the target's weights have several floating types"
    return "vectorised", ""


def _quick_together(method: Method, task: Task, precision: str | None) -> bool:
    """Tell whether a cohort trains quicker all at once on a CPU, at full precision."""
    small = task.n_parameters <= SMALL and has_written_slopes(task, torch.device("cpu"))
    able = method.written_out and not method.serial_only
    return small and able and precision is None


def _not_blocked(task: Task, device: torch.device, precision: str | None) -> str:
    """Say why images cannot lie in oneDNN's own layout; empty if they can."""
    if type(task.target) is not ConvNet:
        return "the target has no convolutions of this package"
    built: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    if device.type != "cpu" or not built:
        return "oneDNN's layout is for a CPU for which torch was built with oneDNN"
    if task.dtype != torch.float32 or precision is not None:
        return "oneDNN's layout is for weights and products in float32"
    return ""
