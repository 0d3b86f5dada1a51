"""Inputs of the published bounds, read off a trained model: each number with its provenance.

A bound is only as valid as its inputs.  A constant that is exact for the model at hand says
so; one that is measured at a few points, or taken after looking at the data, is an estimate, and a
bound that uses it is not rigorous.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils import get_total_norm

from latecomer.models.engine.local_steps import LocalSGD, local_sgd
from latecomer.models.generators.target_sizes import SizedHypernetwork, padded, sized_hypernetwork
from latecomer.models.task.clients import Clients
from latecomer.models.task.objectives import pulled_back
from latecomer.models.task.state import Params, State, detached, move, part, row
from latecomer.models.task.task import Task

_JOINT_RULE = LocalSGD(0.05, 0.9, 0.0, 10.0)
_JOINT_STEPS = 400
_JOINT_BATCH = 32
_DIRECTIONS = 8


@dataclass(frozen=True)
class Constant:
    """One input of a bound.

    Attributes
    ----------
    name : str
        The calculator's argument.
    value : float
        The argument's value.
    provenance : str
        Where the number comes from.
    estimate : bool
        True when the theorem's constant could be larger.
    """

    name: str
    value: float
    provenance: str
    estimate: bool = False


def dense_dimension(task: Task) -> Constant:
    """Return W log2 W for a net of W weights: the rate of its VC dimension without the constant.

    Source: Bartlett, Harvey, Liaw and Mehrabian (2019) give O(W L log W) for ReLU nets.
    """
    weights = task.n_parameters
    return Constant(
        "dimension",
        weights * math.log2(weights),
        f"W log2 W for the target network's W = {weights} weights: a rate, not an exact dimension",
        estimate=True,
    )


def loss_lipschitz(task: Task, clients: Clients, thetas: Params) -> Constant:
    """Largest gradient norm of a client's support loss at its own weights.

    Parameters
    ----------
    task : Task
    clients : Clients
        The seen clients.
    thetas : dict of str to Tensor
        Each client's weights, client axis first.
    """
    largest = 0.0
    for index in range(len(clients)):
        support = clients.support_of(index)
        leaves = {k: v.detach().requires_grad_() for k, v in row(thetas, index).items()}
        loss = task.loss(leaves, support.x, support.labels())
        grads = torch.autograd.grad(loss, list(leaves.values()))
        largest = max(largest, float(get_total_norm(grads)))
    return Constant(
        "loss_lipschitz",
        largest,
        "largest gradient norm of a seen client's cross-entropy at its own weights",
        estimate=True,
    )


def _spectral_norm(weight: Tensor) -> float:
    return float(torch.linalg.matrix_norm(weight.double(), ord=2))


def hypernetwork_constants(
    task: Task, state: State, clients: Clients, *, seed: int, sizes: Sequence[str] = ()
) -> tuple[Constant, ...]:
    """Dimensions, radius and Lipschitz constants of a hypernetwork with an embedding per client.

    Parameters
    ----------
    task : Task
    state : State
        Hypernetwork weights under ``hyper`` on the server, ``embedding`` with the clients.
    clients : Clients
        The seen clients.
    seed : int
        Seed of the directions along which the Lipschitz constant in the weights is probed.
    sizes : sequence of str
        The method's target networks of several sizes; each client's is under ``size``. The
        hypernetwork then includes all heads, and Lipschitz constants hold for every size. The
        padding of the smaller nets is constant and has no gradient, so that it adds to no norm.

    Returns
    -------
    tuple of Constant
        Named after the arguments of ``latecomer.bounds.pfedhn_eps``.
    """
    hyper = detached(part(state.server, "hyper"))
    embeddings = state.clients["embedding"].detach()
    net = sized_hypernetwork(task, embeddings.shape[1], sizes)
    size = state.clients.get("size", torch.zeros(len(embeddings), dtype=torch.int64))
    n_weights = sum(weight.numel() for weight in hyper.values())
    with torch.no_grad():
        thetas = net(hyper, embeddings, size.to(embeddings.device))
    alone = zip(net.parts, net.by_size(hyper), strict=True)
    return (
        Constant("hypernetwork_dim", float(n_weights), "weights of the hypernetwork, counted"),
        Constant("descriptor_dim", float(embeddings.shape[1]), "length of an embedding"),
        Constant(
            "radius",
            _radius(hyper, embeddings),
            "largest of the trained hypernetwork's norm and the embeddings' norms; "
            "the theorem wants a ball fixed before training",
            estimate=True,
        ),
        loss_lipschitz(task, clients, thetas),
        Constant(
            "descriptor_lipschitz",
            max(_descriptor_lipschitz(part.applied(own)) for (_, part), own in alone),
            "product of the layers' spectral norms: an upper bound at the trained weights, "
            "not over the whole ball",
            estimate=True,
        ),
        Constant(
            "weight_lipschitz",
            _weight_lipschitz(net, hyper, embeddings, size, seed),
            "largest Jacobian norm along random directions at the trained weights: "
            "a lower estimate",
            estimate=True,
        ),
    )


def _radius(hyper: Mapping[str, Tensor], embeddings: Tensor) -> float:
    """Return the largest of the hypernetwork's norm and the embeddings' norms."""
    squared = sum(float(weight.double().square().sum()) for weight in hyper.values())
    return max(math.sqrt(squared), float(embeddings.double().norm(dim=1).max()))


def _descriptor_lipschitz(hyper: Mapping[str, Tensor]) -> float:
    trunk = math.prod(
        _spectral_norm(weight)
        for name, weight in hyper.items()
        if name.startswith("trunk") and name.endswith(".weight")
    )
    heads = sum(
        _spectral_norm(weight) ** 2
        for name, weight in hyper.items()
        if name.startswith("heads.") and name.endswith(".weight")
    )
    return trunk * math.sqrt(heads)


def _weight_lipschitz(
    net: SizedHypernetwork, hyper: Params, embeddings: Tensor, size: Tensor, seed: int
) -> float:
    leaves = {name: weight.detach().requires_grad_() for name, weight in hyper.items()}
    generator = torch.Generator().manual_seed(seed)
    largest = 0.0
    for _ in range(_DIRECTIONS):
        member = int(torch.randint(len(embeddings), (1,), generator=generator))
        only = slice(member, member + 1)
        made = net(leaves, embeddings[only], size[only].to(embeddings.device))
        # The padding of a smaller net has no gradient: a direction into it would not count.
        shapes = dict(net.parts[int(size[member])][1].shapes)
        drawn = {k: torch.randn(1, *shapes[k], generator=generator) for k in made}
        directions = [padded(drawn[k], v.shape).to(v) for k, v in made.items()]
        norm = get_total_norm(directions)
        slopes = pulled_back([*made.values()], [d / norm for d in directions], [*leaves.values()])
        largest = max(largest, float(get_total_norm(slopes)))
    return largest


def joint_error(
    task: Task, source: tuple[Tensor, Tensor], target: tuple[Tensor, Tensor], *, seed: int
) -> Constant:
    """Source plus target error of one net trained on half of both, measured on the other halves.

    An estimate of lambda = min_h (eps_S(h) + eps_T(h)): the net found need not be the best one, and
    its errors are measured on samples.

    Parameters
    ----------
    task : Task
    source, target : tuple of Tensor
        Standardised inputs and labels of both domains.
    seed : int
        Seed of the halves, initial weights and minibatches.
    """
    generator = torch.Generator().manual_seed(seed)
    fit: list[tuple[Tensor, Tensor]] = []
    held: list[tuple[Tensor, Tensor]] = []
    for x, y in (source, target):
        order = torch.randperm(len(x), generator=generator).to(x.device)
        half = len(x) // 2
        fit.append((x[order[:half]], y[order[:half]]))
        held.append((x[order[half:]], y[order[half:]]))
    x = torch.cat([part_x for part_x, _ in fit])
    y = torch.cat([part_y for _, part_y in fit])
    # Both domains weigh the same in lambda, however many samples each has.
    weight = torch.cat([torch.full((len(part_y),), 1 / max(len(part_y), 1)) for _, part_y in fit])
    draws = torch.multinomial(
        weight, _JOINT_STEPS * _JOINT_BATCH, replacement=True, generator=generator
    ).view(_JOINT_STEPS, _JOINT_BATCH)

    def objective(params: Params, step: int) -> Tensor:
        rows = draws[step].to(x.device)
        return task.loss(params, x[rows], y[rows])

    fresh = move(task.initial(generator), x.device)
    params, _ = local_sgd(objective, fresh, n_steps=_JOINT_STEPS, rule=_JOINT_RULE)
    with torch.no_grad():
        errors = [
            float((task.logits(params, part_x).argmax(1) != part_y).double().mean())
            for part_x, part_y in held
        ]
    return Constant(
        "joint_error",
        float(np.sum(errors)),
        "source plus target error of one net trained on half of both, on the other halves",
        estimate=True,
    )
