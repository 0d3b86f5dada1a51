"""Local training: momentum SGD on a dictionary of parameters, and fine-tuning with it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from latecomer.models.schedule import minibatches, units_kept
from latecomer.models.state import Params, sent
from latecomer.models.task import Samples, Task


@dataclass(frozen=True)
class LocalSGD:
    """The rule of a local step.

    With ``g`` the gradient scaled down to norm ``clip`` where it is longer:
    ``m <- momentum * m + g + weight_decay * p`` and ``p <- p - lr * m``, ``m`` starting at 0.

    Attributes
    ----------
    lr, momentum, weight_decay, clip : float
        As above.
    """

    lr: float
    momentum: float = 0.9
    weight_decay: float = 0.0
    clip: float = 50.0


def clip_by_norm(slopes: list[Tensor], largest: float) -> list[Tensor]:
    """Scale tensors by one factor so that their joint Euclidean norm is at most ``largest``."""
    found = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(slopes)))
    if found.device.type != "cpu":
        # The host would have to wait for the device.
        scale = largest / found.clamp_min(largest)
        return [slope * scale for slope in slopes]
    norm = float(found)
    # Comparing on the host costs less than multiplying by 1, which is what nearly every step does.
    return [slope * (largest / norm) for slope in slopes] if norm > largest else slopes


def local_sgd(
    objective: Callable[[Params, int], Tensor],
    params: Mapping[str, Tensor],
    *,
    n_steps: int,
    rule: LocalSGD,
) -> tuple[Params, Tensor]:
    """Take ``n_steps`` steps of SGD from ``params``.

    Parameters
    ----------
    objective : callable
        ``(params, step) -> loss``, a 0-d tensor. It is given the same tensors at every step, and
        they move under it: what it keeps must be a copy.
    params : mapping of str to Tensor
        Where to start; left as it is.
    n_steps : int
        Number of steps.
    rule : LocalSGD
        The step.

    Returns
    -------
    tuple of (dict, Tensor)
        The parameters reached, and the mean loss on the way (0-d; not finite once any was).
    """
    rows = [_Row(tensors) for tensors in _by_type(params)]
    made = {name: tensor for row in rows for name, tensor in row.point.items()}
    point = {name: made[name] for name in params}
    leaves = list(point.values())
    total = leaves[0].new_zeros(())
    for step in range(n_steps):
        for row in rows:
            row.slopes.zero_()
        with torch.enable_grad():
            loss = objective(point, step)
            torch.autograd.backward(loss, inputs=leaves)
        _clip_in_place([row.slopes for row in rows], rule.clip)
        for row in rows:
            row.move(rule)
        total += loss.detach()
    return {name: value.detach() for name, value in point.items()}, total / max(n_steps, 1)


class _Row:
    """Tensors of one floating type laid out as one row of numbers, and their gradient alike.

    A step is then a few operations, however many tensors a net has and whatever strides their
    gradients come in.
    """

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self.values = torch.cat([tensor.detach().reshape(-1) for tensor in tensors.values()])
        self.momentum = torch.zeros_like(self.values)
        self.slopes = torch.zeros_like(self.values)
        self.point = self._cut(self.values, tensors)
        for name, slope in self._cut(self.slopes, tensors).items():
            # The backward pass adds to what it finds here.
            self.point[name].requires_grad_().grad = slope

    @staticmethod
    def _cut(row: Tensor, like: Mapping[str, Tensor]) -> Params:
        pieces = torch.split(row, [tensor.numel() for tensor in like.values()])
        return {k: piece.view(v.shape) for piece, (k, v) in zip(pieces, like.items(), strict=True)}

    def move(self, rule: LocalSGD) -> None:
        """Take the step of ``rule`` along the slopes."""
        if rule.weight_decay:
            self.slopes.add_(self.values, alpha=rule.weight_decay)
        torch.add(self.slopes, self.momentum, alpha=rule.momentum, out=self.momentum)
        self.values.add_(self.momentum, alpha=-rule.lr)


def _by_type(params: Mapping[str, Tensor]) -> list[Params]:
    types = dict.fromkeys(value.dtype for value in params.values())
    return [{k: v for k, v in params.items() if v.dtype == dtype} for dtype in types]


def _clip_in_place(slopes: list[Tensor], largest: float) -> None:
    norm = torch.linalg.vector_norm(slopes[0])
    if len(slopes) > 1:
        norms = [torch.linalg.vector_norm(slope).to(norm.dtype) for slope in slopes]
        norm = torch.linalg.vector_norm(torch.stack(norms))
    if norm.device.type == "cpu" and not float(norm) > largest:
        # Comparing here costs less than multiplying by 1, which is what steps mostly do. Elsewhere
        # the host would have to wait for the device.
        return
    scale = largest / norm.clamp_min(largest)
    for slope in slopes:
        slope.mul_(scale)


def fine_tune(
    task: Task,
    params: Mapping[str, Tensor],
    support: Samples,
    rule: LocalSGD,
    n_steps: int,
    batch_size: int,
    generator: torch.Generator,
    *,
    trained: Sequence[str] | None = None,
    penalty: Callable[[Params], Tensor] | None = None,
) -> Params:
    """Train ``params`` on one client's labelled support with cross-entropy.

    Minibatches are drawn from ``generator`` as in training, and so are the masks of a target with
    dropout: fine-tuning is training, what comes out of it predicts without. Only the weights named
    in ``trained`` move (None: all); ``penalty``, a function of all weights, is added to the loss.
    """
    y = support.labels()
    rng = np.random.default_rng(int(torch.randint(2**62, (), generator=generator)))
    rows = sent(torch.from_numpy(minibatches(rng, len(support), n_steps, batch_size)), y.device)
    x, y = support.x[rows], y[rows]
    kept = units_kept(rng, task, n_steps, batch_size)
    kept = kept if kept is None else sent(kept, y.device)
    moving = {k: v for k, v in params.items() if trained is None or k in trained}
    if not moving:
        return dict(params)

    def objective(p: Params, step: int) -> Tensor:
        weights = {**params, **p}
        loss = task.dropping(kept, step).loss(weights, x[step], y[step])
        return loss if penalty is None else loss + penalty(weights)

    return {**params, **local_sgd(objective, moving, n_steps=n_steps, rule=rule)[0]}
