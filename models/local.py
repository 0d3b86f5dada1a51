"""Local training: momentum SGD on a dictionary of parameters, and fine-tuning with it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.optim.sgd import sgd

from latecomer.models.schedule import minibatches, units_kept
from latecomer.models.state import Params
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
    norm = float(torch.linalg.vector_norm(torch.stack(torch._foreach_norm(slopes))))
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
        ``(params, step) -> loss``, a 0-d tensor.
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
    names = list(params)
    values = [params[name].detach().clone(memory_format=torch.contiguous_format) for name in names]
    momenta: list[Tensor | None] = [torch.zeros_like(value) for value in values]
    total = values[0].new_zeros(())
    for step in range(n_steps):
        point = [value.detach().requires_grad_() for value in values]
        with torch.enable_grad():
            loss = objective(dict(zip(names, point, strict=True)), step)
        slopes = clip_by_norm(list(torch.autograd.grad(loss, point)), rule.clip)
        # torch's fused SGD reads past the end of a gradient that is an expanded view.
        slopes = [slope.contiguous() for slope in slopes]
        sgd(
            values,
            slopes,
            momenta,
            fused=True,
            foreach=False,
            weight_decay=rule.weight_decay,
            momentum=rule.momentum,
            lr=rule.lr,
            dampening=0.0,
            nesterov=False,
            maximize=False,
        )
        total += loss.detach()
    return dict(zip(names, values, strict=True)), total / max(n_steps, 1)


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
    rows = torch.from_numpy(minibatches(rng, len(support), n_steps, batch_size)).to(y.device)
    x, y = support.x[rows], y[rows]
    kept = units_kept(rng, task, n_steps, batch_size)
    kept = kept if kept is None else kept.to(y.device)
    moving = {k: v for k, v in params.items() if trained is None or k in trained}
    if not moving:
        return dict(params)

    def objective(p: Params, step: int) -> Tensor:
        weights = {**params, **p}
        loss = task.dropping(kept, step).loss(weights, x[step], y[step])
        return loss if penalty is None else loss + penalty(weights)

    return {**params, **local_sgd(objective, moving, n_steps=n_steps, rule=rule)[0]}
