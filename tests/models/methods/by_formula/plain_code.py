"""Rounds written out in plain torch, from the papers' texts; nothing of the package is used.

Tables map names to tensors. Nets have two hidden layers, hypernetworks a trunk of two layers.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

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


LARGEST = -math.log(1e-4)
"""Largest bounded loss, in nats."""


def bounded(logits: Tensor, y: Tensor) -> Tensor:
    """Return the cross-entropy of probabilities held above 1e-4, in nats."""
    p = logits.softmax(dim=1)[torch.arange(len(y)), y]
    return -(1e-4 + (1 - 1e-4) * p).log().mean()


def bound_ridges(norms: Sequence[float], alphas: Sequence[float], n: int, m: int) -> list[float]:
    """Return the ridges that Theorem B.1 of PeFLL amounts to, at most 1, beside a loss in nats.

    ``norms`` are squared, of hypernetwork, encoder and a client's weights on average; ``alphas``
    the variances; ``n`` clients of ``m`` samples. The derivatives are taken by hand.
    """
    nats = [norm / (2 * alpha) for norm, alpha in zip(norms, alphas, strict=True)]
    among = (nats[0] + nats[1] + math.log(4 * math.sqrt(n) / 0.05)) / (2 * n)
    within = (n * nats[2] + math.log(8 * n * m / 0.05) + 1) / (2 * n * m)
    by_hyper, by_client = 1 / (4 * n * among**0.5), n / (4 * n * m * within**0.5)
    steep = by_hyper / alphas[0], by_hyper / alphas[1], by_client / alphas[2]
    return [min(1.0, LARGEST * slope / 2) for slope in steep]


def with_noise(table: Mapping[str, Tensor], alpha: float, noise: torch.Generator) -> Table:
    """Return a draw around a table, tensor by tensor."""
    drawn = {}
    for name, value in table.items():
        drawn[name] = value + alpha**0.5 * torch.randn(
            value.shape, generator=noise, dtype=value.dtype
        )
    return drawn


def label_encoder(gamma: Mapping[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
    """Return the mean over samples of a net that sees inputs and labels, scaled as told."""
    return (net(gamma, torch.cat([x, F.one_hot(y, 4)], dim=1)).mean(dim=0) - 0.1) / 0.5


def rounds_on_bound(
    hyper: Table,
    encoder: Table,
    rounds: Sequence[Sequence[tuple[tuple[Tensor, Tensor], Sequence[tuple[Tensor, Tensor]]]]],
    *,
    alphas: Sequence[float],
    rates: tuple[float, float],
    clients: tuple[int, int],
    decoupled: bool,
) -> Iterator[tuple[list[float], Table, Table]]:
    """Yield ridges, hypernetwork and encoder of rounds of stochastic PeFLL on Theorem B.1.

    A round has a batch that describes each of its clients, and the client's minibatches. ``rates``
    are the server's and the local one, ``clients`` numbers of clients and of samples. Ridges of
    the networks are AdamW's decays if ``decoupled``, and otherwise part of the gradient, as long
    as the way that local steps go against a gradient of 1.
    """
    eta = leaves(nested("hyper", hyper) | nested("encoder", encoder))
    adamw = torch.optim.AdamW([{"params": [value]} for value in eta.values()], lr=rates[0])
    for number, cohort in enumerate(rounds):
        noise = torch.Generator().manual_seed(number)
        networks = under("hyper", eta), under("encoder", eta)
        drawn = [with_noise(one, a, noise) for one, a in zip(networks, alphas[:2], strict=True)]
        made = [hypernetwork(drawn[0], label_encoder(drawn[1], *batch)) for batch, _ in cohort]
        together = {name: torch.stack([one[name] for one in made]).detach() for name in made[0]}
        sent = with_noise(together, alphas[2], noise)
        norms = [square(one) for one in networks] + [square(together) / len(cohort)]
        strengths = bound_ridges(norms, alphas, *clients)
        changes = []
        for place, (_, batches) in enumerate(cohort):
            begun = {name: value[place] for name, value in sent.items()}
            losses = [regularised(batch, strengths[2]) for batch in batches]
            reached = descended(begun, losses, lr=rates[1], momentum=0.9, clip=50.0)
            changes.append({name: (reached[name] - begun[name]) / len(cohort) for name in begun})
        inner = [
            (one[k] * change[k]).sum()
            for one, change in zip(made, changes, strict=True)
            for k in one
        ]
        slopes = [
            -slope for slope in torch.autograd.grad(torch.stack(inner).sum(), [*eta.values()])
        ]
        mine = [strengths[0] if name.startswith("hyper") else strengths[1] for name in eta]
        if not decoupled:
            far = reach(rates[1], 0.9, len(cohort[0][1]))
            slopes = [
                slope + far * 2 * ridge * value.detach()
                for slope, ridge, value in zip(slopes, mine, eta.values(), strict=True)
            ]
        for group, ridge, slope in zip(
            adamw.param_groups, mine, clipped(slopes, 50.0), strict=True
        ):
            group["weight_decay"] = 2 * ridge if decoupled else 0.0
            group["params"][0].grad = slope
        adamw.step()
        now = {name: value.detach().clone() for name, value in eta.items()}
        yield strengths, under("hyper", now), under("encoder", now)


def reach(lr: float, momentum: float, steps: int) -> float:
    """Return how far steps of SGD go against a gradient of 1."""
    way = speed = 0.0
    for _ in range(steps):
        speed = momentum * speed + 1
        way += lr * speed
    return way


def regularised(batch: tuple[Tensor, Tensor], ridge: float) -> Callable[[Table], Tensor]:
    x, y = batch
    return lambda w: bounded(net(w, x), y) + ridge * sum(v.square().sum() for v in w.values())


def square(table: Mapping[str, Tensor]) -> float:
    return sum(float(value.detach().square().sum()) for value in table.values())


def nested(section: str, table: Mapping[str, Tensor]) -> Table:
    return {f"{section}.{name}": value for name, value in table.items()}


def under(section: str, table: Mapping[str, Tensor]) -> Table:
    return {k[len(section) + 1 :]: v for k, v in table.items() if k.split(".")[0] == section}
