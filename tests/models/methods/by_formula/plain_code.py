"""Rounds written out in plain torch, from the papers' texts; nothing of the package is used.

Tables map names to tensors. Nets have two hidden layers, hypernetworks a trunk of two layers.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

Table = dict[str, Tensor]


def net(w: Mapping[str, Tensor], x: Tensor) -> Tensor:
    """Return the logits of the target network."""
    for layer in ("dense1", "dense2"):
        x = torch.relu(x @ w[f"{layer}.weight"].T + w[f"{layer}.bias"])
    return x @ w["head.weight"].T + w["head.bias"]


def loss_on(x: Tensor, y: Tensor) -> Callable[[Table], Tensor]:
    """Return the cross-entropy of samples as a function of a net's weights."""
    return lambda w: F.cross_entropy(net(w, x), y)


def leaves(table: Mapping[str, Tensor]) -> Table:
    """Return copies that take gradients."""
    return {name: value.detach().clone().requires_grad_() for name, value in table.items()}


def clipped(slopes: Sequence[Tensor], largest: float) -> list[Tensor]:
    """Return gradients scaled down together to a norm of at most ``largest``."""
    norm = float(torch.cat([slope.flatten() for slope in slopes]).norm())
    return [slope * min(1.0, largest / norm) for slope in slopes]


def descended(
    start: Mapping[str, Tensor],
    losses: Iterable[Callable[[Table], Tensor]],
    *,
    lr: float,
    momentum: float = 0.0,
    decay: float = 0.0,
    clip: float = 1e9,
    moving: Sequence[str] | None = None,
) -> Table:
    """Return the weights after a step of torch's SGD on each loss; others than ``moving`` rest."""
    w = leaves(start)
    steps = [w[name] for name in moving or w]
    sgd = torch.optim.SGD(steps, lr=lr, momentum=momentum, weight_decay=decay)
    for loss in losses:
        slopes = clipped(torch.autograd.grad(loss(w), steps), clip)
        for value, slope in zip(steps, slopes, strict=True):
            value.grad = slope
        sgd.step()
    return {name: value.detach() for name, value in w.items()}


def mean(tables: Sequence[Mapping[str, Tensor]], sizes: Sequence[float]) -> Table:
    """Return the mean of tables, weighted by sizes."""
    whole = sum(sizes)
    pairs = [*zip(tables, sizes, strict=True)]
    made: Table = {}
    for name in tables[0]:
        made[name] = torch.stack([one[name] * (size / whole) for one, size in pairs]).sum(dim=0)
    return made


def hypernetwork(eta: Mapping[str, Tensor], descriptor: Tensor) -> Table:
    """Return the weights that a hypernetwork makes from a descriptor ``[dim]``."""
    shapes = {"dense1": (64, 6), "dense2": (64, 64), "head": (4, 64)}
    hidden = eta["trunk0.weight"] @ descriptor + eta["trunk0.bias"]
    hidden = eta["trunk1.weight"] @ torch.relu(hidden) + eta["trunk1.bias"]
    made = {}
    for layer, shape in shapes.items():
        for name, size in ((f"{layer}.weight", shape), (f"{layer}.bias", shape[:1])):
            flat = eta[f"heads.{name}.weight"] @ hidden + eta[f"heads.{name}.bias"]
            made[name] = flat.view(size)
    return made


def set_encoder(gamma: Mapping[str, Tensor], x: Tensor) -> Tensor:
    """Return DeepSets' descriptor of inputs: half of the units averaged, of half the largest."""
    units = torch.relu(net({name[4:]: v for name, v in gamma.items() if name[:3] == "phi"}, x))
    half = units.shape[1] // 2
    pooled = torch.cat([units[:, :half].mean(dim=0), units[:, half:].amax(dim=0)])
    return gamma["psi.weight"] @ pooled + gamma["psi.bias"]


def pulled_back(made: Mapping[str, Tensor], change: Table, of: Sequence[Tensor]) -> list[Tensor]:
    """Return minus the change times the derivatives of what was made: the chain rule."""
    inner = sum((made[name] * change[name]).sum() for name in made)
    assert isinstance(inner, Tensor)
    return [-slope for slope in torch.autograd.grad(inner, of)]


def told_apart(left: Tensor, right: Tensor) -> tuple[float, float]:
    """Return the A-distance of two sets of inputs by refitting a ridge without each sample.

    With it: minus the mean squared error of the samples left out.
    """
    x = torch.cat([left, right]) / left.shape[1] ** 0.5
    x = torch.cat([x, torch.ones(len(x), 1, dtype=x.dtype)], dim=1)
    side = torch.tensor([-1.0] * len(left) + [1.0] * len(right), dtype=x.dtype)
    share = torch.tensor([0.5 / len(left)] * len(left) + [0.5 / len(right)] * len(right))
    share = share.to(x.dtype) * len(x)
    wrong, errors = {-1.0: 0.0, 1.0: 0.0}, 0.0
    for out in range(len(x)):
        kept = torch.arange(len(x)) != out
        weighted = x[kept] * share[kept, None]
        ridge = weighted.T @ x[kept] + torch.eye(x.shape[1], dtype=x.dtype)
        fitted = torch.linalg.solve(ridge, weighted.T @ side[kept])
        score = float(x[out] @ fitted)
        mine = float(side[out])
        wrong[mine] += score * mine <= 0
        errors += (score - mine) ** 2
    error = (wrong[-1.0] / len(left) + wrong[1.0] / len(right)) / 2
    return 2 * (1 - 2 * error), -errors / len(x)
