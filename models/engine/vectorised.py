"""Local training of a whole cohort at once, over the client axis, and which way a cohort trains.

Steps and minibatches are those of client-by-client training. On a CPU, dense nets' gradients are
written out. Otherwise cross-entropy runs on nets written for the client axis, a
method's own objective under ``torch.func.vmap``; either way one backward pass gives every client's
gradient, because no client's loss depends on another's weights.

On a GPU a round launches thousands of kernels that it finishes sooner than Python launches them. A
graph records them once, on tensors of its own, and launches them all at once every round after.
"""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

from latecomer.models.engine.local_steps import LocalSGD
from latecomer.models.engine.method import Context, Method, Start
from latecomer.models.engine.schedule import Cohort, Phase, plan
from latecomer.models.task import client_axis
from latecomer.models.task.client_axis import Weighted, each_once, losses_and_slopes
from latecomer.models.task.clients import Clients, Samples
from latecomer.models.task.state import Params, nest, part
from latecomer.models.task.targets import ConvNet, DenseNet
from latecomer.models.task.task import Task

Slopes = Callable[[Params, int, Params], tuple[Tensor, Params]]
"""``(params, step, into) -> (losses [c], gradient)``, clients on axis 0. It is given the same
tensors at every step, which are changed in place: it must copy what it keeps. The gradient is
either written to all tensors of ``into``, which are then returned, or new."""


def has_written_slopes(task: Task, device: torch.device) -> bool:
    """Tell whether the task's cross-entropy has its gradient written out: dense nets on a CPU.

    A GPU launches a recorded backward pass as quickly. Products in a lower precision round their
    gradients, too.
    """
    dense = type(task) is Task and type(task.target) is DenseNet
    return dense and task.narrow is None and device.type == "cpu"


def slopes_sgd(
    slopes: Slopes, params: Mapping[str, Tensor], *, n_steps: int, rule: LocalSGD
) -> tuple[Params, Tensor]:
    """Do what :func:`cohort_sgd` does, with each client's loss and its gradient written out."""
    # All weights are one row of numbers, tensor after tensor, so that a step takes few operations.
    values = torch.cat([value.detach().reshape(-1) for value in params.values()])
    point = _shaped_as(values, params)
    total = values.new_zeros(len(next(iter(params.values()))))
    row, memory = torch.empty_like(values), torch.empty_like(values)
    into = _shaped_as(row, params)
    with torch.no_grad():
        for step in range(n_steps):
            losses, found = slopes(point, step, into)
            if any(found[name] is not there for name, there in into.items()):
                torch.cat([found[name].reshape(-1) for name in into], out=row)
            # A cheaper norm, of all clients together, shows that most steps are not clipped at all.
            if not float(torch.linalg.vector_norm(row)) < 0.999 * rule.clip:
                _clip(into, rule)
            torch._fused_sgd_(
                [values],
                [row],
                [memory] if rule.momentum else [],
                lr=rule.lr,
                momentum=rule.momentum,
                weight_decay=rule.weight_decay,
                dampening=0.0,
                nesterov=False,
                maximize=False,
                is_first_step=step == 0,
            )
            total += losses
    return point, total


def _shaped_as(row: Tensor, like: Mapping[str, Tensor]) -> Params:
    """Return the tensors that lie one after another in a row of numbers, shaped as those given."""
    cut = torch.split(row, [value.numel() for value in like.values()])
    return {key: piece.view(like[key].shape) for key, piece in zip(like, cut, strict=True)}


def _clip(slopes: Params, rule: LocalSGD) -> None:
    """Scale each client's gradients down, where they lie, to a norm of at most the largest."""
    names, pieces = list(slopes), list(slopes.values())
    for places in rule.parts(names):
        each = torch.cat([pieces[at].reshape(len(pieces[at]), -1) for at in places], dim=1)
        norms = torch.linalg.vector_norm(each, dim=1)
        scale = torch.where(norms > rule.clip, rule.clip / norms, 1)
        for at in places:
            pieces[at].mul_(scale.view(-1, *(1,) * (pieces[at].dim() - 1)))


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


Work = Callable[[Params], Params]


def capturable(method: Method, task: Task, device: torch.device) -> bool:
    """Say whether local steps can be recorded: on a GPU, cross-entropy on a net of this package.

    An objective or a net from elsewhere may look at values or draw numbers, which a graph would
    never do again.

    >>> from latecomer.models.methods import make_method
    >>> from latecomer.models.task.task import make_task
    >>> task, gpu = make_task(input_shape=(6,), n_classes=4), torch.device("cuda")
    >>> [capturable(make_method(name), task, gpu) for name in ("fedavg", "fedprox")]
    [True, False]
    """
    own = type(task) is Task and type(task.target) in (ConvNet, DenseNet)
    return device.type == "cuda" and own and method.minimises_cross_entropy


@dataclass(frozen=True, eq=False)
class _Recorded:
    """A graph, the tensors that it reads and those that it writes."""

    graph: torch.cuda.CUDAGraph
    given: Params
    made: Params


@dataclass(frozen=True, eq=False)
class Graphs:
    """The graphs of one training: one for each kind of work and each shape of what it is given."""

    recorded: dict[Hashable, _Recorded] = field(default_factory=dict)

    def run(self, work: Work, given: Mapping[str, Tensor], about: Hashable) -> Params:
        """Return ``work(given)``, equal to the last bit; ``about`` names the work.

        ``work`` must depend on values only through the tensors ``given``, and never wait for the
        GPU. The first call records it; later calls with the same ``about`` only launch it.
        """
        shapes = tuple((name, value.shape, value.dtype) for name, value in given.items())
        key = about, shapes
        if key not in self.recorded:
            self.recorded[key] = _record(work, given)
        found = self.recorded[key]
        for name, value in given.items():
            found.given[name].copy_(value.detach())
        found.graph.replay()
        return {name: value.clone() for name, value in found.made.items()}


def _record(work: Work, given: Mapping[str, Tensor]) -> _Recorded:
    held = {name: value.detach().clone() for name, value in given.items()}
    aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        # Libraries set themselves up in the first call, which cannot be recorded.
        work(held)
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made = work(held)
    return _Recorded(graph, held, made)


A_CHUNK = 2**22
"""Numbers in the minibatches of clients that train at once on a CPU, if that is not told: 16 MB."""


def train_cohort(
    method: Method,
    task: Task,
    clients: Clients,
    cohort: Cohort,
    start: Start,
    phase: Phase,
    chunk_size: int | None = None,
    graphs: Graphs | None = None,
) -> tuple[Params, Tensor]:
    """Train the cohort's clients side by side, ``chunk_size`` of them at a time.

    None: all of them, or where gradients are written out as many as `A_CHUNK` allows.

    On a GPU, steps that can be recorded are launched by the training's ``graphs``, if given.

    Returns
    -------
    tuple of (dict, Tensor)
        The weights reached, ``[c, ...]``, and each client's mean loss over the steps, ``[c]``; the
        device may still be computing them.
    """
    size = chunk_size or len(cohort)
    if chunk_size is None and _written(method, task, clients.device):
        each = cohort.rows[0].numel() * clients.x[0].numel()
        size = max(1, min(size, A_CHUNK // each))
    parts = [
        _train_chunk(method, task, clients, cohort, slice(at, at + size), start, phase, graphs)
        for at in range(0, len(cohort), size)
    ]
    final = {key: torch.cat([reached[key] for reached, _ in parts]) for key in parts[0][0]}
    return final, torch.cat([losses for _, losses in parts])


def _train_chunk(
    method: Method,
    task: Task,
    clients: Clients,
    cohort: Cohort,
    places: slice,
    start: Start,
    phase: Phase,
    graphs: Graphs | None,
) -> tuple[Params, Tensor]:
    """Train the clients at ``places`` at once; the weights reached, and the mean losses ``[c]``."""
    rows, kept = cohort.rows[places], cohort.kept_units(task, places)
    drawn = {} if kept is None else {"kept": kept}
    if _written(method, task, rows.device) and kept is None:
        sizes = cohort.sizes[places]
        if (most := int(sizes.max())) <= rows.shape[-1]:
            held = clients.support[cohort.members[places], :most]
            rows, drawn["share"] = each_once(rows, held, sizes, task.dtype)
    given = {
        **nest("params", {key: value[places] for key, value in start.params.items()}),
        **nest("own", {key: value[places] for key, value in start.own.items()}),
        **nest("shared", start.shared),
        **{"x": clients.inputs(rows), "y": clients.labels(rows)},
        **drawn,
    }
    work = partial(_local_steps, method, task, phase)
    if graphs is None or not capturable(method, task, rows.device):
        made = work(given)
    else:
        made = graphs.run(work, given, phase)
    return part(made, "params"), made["losses"]


def _local_steps(method: Method, task: Task, phase: Phase, given: Params) -> Params:
    """Return the weights reached from what clients are ``given``, and their mean losses."""
    params, taken = part(given, "params"), 0
    start = Start(params, part(given, "own"), part(given, "shared"))
    n_steps = given.get("share", given["x"]).shape[1]
    total = given["x"].new_zeros(len(given["x"]))
    for trained, count in plan(phase.stages, list(params), n_steps):
        steps = _Steps(method, task, start, params, taken, given)
        moving = {name: params[name] for name in trained}
        reached, sums = (
            slopes_sgd(steps.slopes, moving, n_steps=count, rule=method.local)
            if _written(method, task, total.device)
            else cohort_sgd(steps.objective, moving, n_steps=count, rule=method.local)
        )
        params = {**params, **reached}
        total = total + sums
        taken += count
    return {**nest("params", params), "losses": total / max(taken, 1)}


def _written(method: Method, task: Task, device: torch.device) -> bool:
    return method.written_out and has_written_slopes(task, device)


@dataclass(frozen=True, eq=False)
class _Steps:
    """The local steps of a stage, after ``at`` earlier ones: the weights then, and what is given.

    ``given`` has minibatches ``x [c, steps, batches_per_step, B, ...]``, ``y`` and dropout's masks
    ``kept [c, steps, B, units]``; or, with ``share``, samples without steps.
    """

    method: Method
    task: Task
    start: Start
    params: Params
    at: int
    given: Params

    def objective(self, moving: Params, step: int) -> Tensor:
        """Return every client's objective at the weights that move and those that do not."""
        task, now, weights = self.task, self.at + step, {**self.params, **moving}
        x, y, kept = self.given["x"][:, now], self.given["y"][:, now], self._masks(now)
        if self.method.minimises_cross_entropy and type(task) is Task:
            return client_axis.losses(task.target, weights, x[:, 0], y[:, 0], kept, task.narrow)

        def one(params: Params, own: Params, xs: Tensor, ys: Tensor, masks: Params) -> Tensor:
            context = Context(own, self.start.shared, constant_gradients)
            batches = tuple(Samples(*pair) for pair in zip(xs.unbind(), ys.unbind(), strict=True))
            stepping = task.dropping(masks.get("kept"))
            return self.method.objective(stepping, params, context, batches, now)

        masks = {} if kept is None else {"kept": kept}
        every: Tensor = torch.func.vmap(one)(weights, self.start.own, x, y, masks)
        return every

    def slopes(self, moving: Params, step: int, into: Params) -> tuple[Tensor, Params]:
        """Return the same with its gradient, as the method writes it out."""
        now, weights = self.at + step, {**self.params, **moving}
        entropy = partial(losses_and_slopes, self.task.target, kept=self._masks(now))
        if self.method.minimises_cross_entropy:
            # Then its gradient is all, and what it does not move needs none.
            entropy = partial(entropy, wanted=[*moving], into=into)
        context = Context(self.start.own, self.start.shared)
        return self.method.cohort_slopes(weights, context, self._batches(now), entropy)

    def _masks(self, now: int) -> Tensor | None:
        return self.given["kept"][:, now] if "kept" in self.given else None

    def _batches(self, now: int) -> tuple[Samples, ...]:
        x, y = self.given["x"], self.given["y"]
        if "share" in self.given:
            return tuple(Weighted(x, y, share) for share in self.given["share"][:, now].unbind(1))
        both = x[:, now].unbind(1), y[:, now].unbind(1)
        return tuple(Samples(*one) for one in zip(*both, strict=True))


def constant_gradients(
    objective: Callable[[Params], Tensor], params: Mapping[str, Tensor]
) -> Params:
    """Return the gradient of ``objective`` at ``params``, detached; works under ``vmap``."""
    point = {key: value.detach() for key, value in params.items()}
    # ``grad`` still differentiates; ``no_grad`` keeps its result out of the outer graph.
    with torch.no_grad():
        slopes: Params = torch.func.grad(objective)(point)
    return slopes


def cohort_sgd(
    objective: Callable[[Params, int], Tensor],
    params: Mapping[str, Tensor],
    *,
    n_steps: int,
    rule: LocalSGD,
) -> tuple[Params, Tensor]:
    """Take steps of SGD on every client's weights ``params [c, ...]``, which are left as they are.

    ``objective`` maps weights and a step to losses ``[c]``; gradients are clipped client by client.
    Returned are the weights reached, and the sums of the losses on the way, ``[c]``.
    """
    # One row of numbers per client: a step takes few operations, however many tensors a net has.
    table = [value.detach() for value in params.values()]
    values = torch.cat([value.reshape(len(value), -1) for value in table], dim=1)
    view = partial(_tensors, list(params), [value.shape for value in table])
    parts = [sum(table[at][0].numel() for at in part) for part in rule.parts(list(params))]
    momenta = torch.zeros_like(values)
    total = values.new_zeros(len(values))
    for step in range(n_steps):
        point = values.detach().requires_grad_()
        with torch.enable_grad():
            losses = objective(view(point), step)
            (slopes,) = torch.autograd.grad(losses.sum(), [point])
        clipped = [_clipped(part, rule.clip) for part in torch.split(slopes, parts, dim=1)]
        slopes = clipped[0] if len(clipped) == 1 else torch.cat(clipped, dim=1)
        momenta.mul_(rule.momentum).add_(slopes).add_(values, alpha=rule.weight_decay)
        values = values - rule.lr * momenta
        total += losses.detach()
    return view(values), total


def _clipped(slopes: Tensor, largest: float) -> Tensor:
    """Scale every row down to a norm of at most ``largest``."""
    norms = torch.linalg.vector_norm(slopes, dim=1, keepdim=True)
    return torch.where(norms > largest, slopes * (largest / norms), slopes)


def _tensors(names: Sequence[str], shapes: Sequence[torch.Size], rows: Tensor) -> Params:
    """Cut rows ``[c, n]`` into the tensors they hold, ``[c, ...]``."""
    columns = torch.split(rows, [math.prod(shape[1:]) for shape in shapes], dim=1)
    cut = zip(names, columns, shapes, strict=True)
    return {name: column.reshape(shape) for name, column, shape in cut}
