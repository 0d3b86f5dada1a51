"""Published bounds, and bounds of one's own, on a trained model: inputs, and what they give.

A bound is only as valid as its inputs.  A constant that is exact for the model at hand says
so; one that is measured at a few points, or taken after looking at the data, is an estimate, and a
bound that uses it is not rigorous.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils import get_total_norm

from latecomer.bounds.certificate import Certificate
from latecomer.bounds.meta_learning.pefll import pefll_32
from latecomer.bounds.meta_learning.unequal_sizes import two_step_kl_unequal
from latecomer.bounds.shift.adaptation import ben_david
from latecomer.bounds.uniform_convergence import pfedhn_eps
from latecomer.certify.rule import coverage_of, own_rule
from latecomer.certify.rules.declaration import Asked
from latecomer.declared import without_folder
from latecomer.eval.federation.distances import a_distance, token_counts
from latecomer.eval.federation.groups import Federation, Group
from latecomer.eval.splits.registry import sampling_of
from latecomer.eval.training.setup import TrainedModel
from latecomer.models.engine.local_steps import LocalSGD, local_sgd
from latecomer.models.generators.hypernetworks import SizedHypernetwork, padded, sized_hypernetwork
from latecomer.models.posteriors import PosteriorNorms
from latecomer.models.task.clients import Clients
from latecomer.models.task.objectives import pulled_back
from latecomer.models.task.state import Params, State, detached, leaves, move, part, row
from latecomer.models.task.task import Task

_JOINT_RULE = LocalSGD(0.05, 0.9, 0.0, 10.0)
_JOINT_STEPS = 400
_JOINT_BATCH = 32
_DIRECTIONS = 8


class Constant(NamedTuple):
    """One input of a bound: argument of the calculator, value, where the number comes from.

    An estimate, where the theorem's constant could be larger, says so in the end.
    """

    name: str
    value: float
    provenance: str


def dense_dimension(task: Task) -> Constant:
    """Return W log2 W for a net of W weights: the rate of its VC dimension without the constant.

    Source: Bartlett, Harvey, Liaw and Mehrabian (2019) give O(W L log W) for ReLU nets.
    """
    weights = task.n_parameters
    return Constant(
        "dimension",
        weights * math.log2(weights),
        f"W log2 W for the target network's W = {weights} weights: a rate, not an exact dimension "
        "(estimate)",
    )


def loss_lipschitz(task: Task, clients: Clients, thetas: Params) -> Constant:
    """Largest gradient norm of a client's support loss at its own weights.

    ``thetas`` are each client's weights, client axis first.
    """
    largest = 0.0
    for index in range(len(clients)):
        support = clients.support_of(index)
        own = leaves(row(thetas, index))
        grads = torch.autograd.grad(task.loss(own, support.x, support.labels()), [*own.values()])
        largest = max(largest, float(get_total_norm(grads)))
    return Constant(
        "loss_lipschitz",
        largest,
        "largest gradient norm of a seen client's cross-entropy at its own weights (estimate)",
    )


def hypernetwork_constants(
    task: Task, state: State, clients: Clients, *, seed: int, sizes: Sequence[str] = ()
) -> tuple[Constant, ...]:
    """Dimensions, radius and Lipschitz constants of a hypernetwork with an embedding per client.

    Named after the arguments of ``latecomer.bounds.pfedhn_eps``. The state has the hypernetwork's
    weights under ``hyper`` on the server, ``embedding`` with the clients. ``seed`` is of the
    directions along which the Lipschitz constant in the weights is probed. ``sizes`` are the
    method's target networks of several sizes; each client's is under ``size``. The hypernetwork
    then includes all heads, and Lipschitz constants hold for every size. The padding of the smaller
    nets is constant and has no gradient, so that it adds to no norm.
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
            "the theorem wants a ball fixed before training (estimate)",
        ),
        loss_lipschitz(task, clients, thetas),
        Constant(
            "descriptor_lipschitz",
            max(_descriptor_lipschitz(part.applied(own)) for (_, part), own in alone),
            "product of the layers' spectral norms: an upper bound at the trained weights, "
            "not over the whole ball (estimate)",
        ),
        Constant(
            "weight_lipschitz",
            _weight_lipschitz(net, hyper, embeddings, size, seed),
            "largest Jacobian norm along random directions at the trained weights: "
            "a lower estimate (estimate)",
        ),
    )


def _radius(hyper: Mapping[str, Tensor], embeddings: Tensor) -> float:
    """Return the largest of the hypernetwork's norm and the embeddings' norms."""
    squared = sum(float(weight.double().square().sum()) for weight in hyper.values())
    return max(math.sqrt(squared), float(embeddings.double().norm(dim=1).max()))


def _descriptor_lipschitz(hyper: Mapping[str, Tensor]) -> float:
    norms = {
        name: float(torch.linalg.matrix_norm(weight.double(), ord=2))
        for name, weight in hyper.items()
        if name.endswith(".weight")
    }
    trunk = math.prod(norm for name, norm in norms.items() if name.startswith("trunk"))
    heads = sum(norm**2 for name, norm in norms.items() if name.startswith("heads."))
    return trunk * math.sqrt(heads)


def _weight_lipschitz(
    net: SizedHypernetwork, hyper: Params, embeddings: Tensor, size: Tensor, seed: int
) -> float:
    eta = leaves(hyper)
    generator = torch.Generator().manual_seed(seed)
    largest = 0.0
    for _ in range(_DIRECTIONS):
        member = int(torch.randint(len(embeddings), (1,), generator=generator))
        only = slice(member, member + 1)
        made = net(eta, embeddings[only], size[only].to(embeddings.device))
        # The padding of a smaller net has no gradient: a direction into it would not count.
        shapes = dict(net.parts[int(size[member])][1].shapes)
        drawn = {k: torch.randn(1, *shapes[k], generator=generator) for k in made}
        directions = [padded(drawn[k], v.shape).to(v) for k, v in made.items()]
        norm = get_total_norm(directions)
        slopes = pulled_back([*made.values()], [d / norm for d in directions], [*eta.values()])
        largest = max(largest, float(get_total_norm(slopes)))
    return largest


def joint_error(
    task: Task, source: tuple[Tensor, Tensor], target: tuple[Tensor, Tensor], *, seed: int
) -> Constant:
    """Source plus target error of one net trained on half of both, measured on the other halves.

    An estimate of lambda = min_h (eps_S(h) + eps_T(h)): the net found need not be the best one, and
    its errors are measured on samples. Both domains are standardised inputs and labels; ``seed`` is
    of the halves, initial weights and minibatches.
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
        "source plus target error of one net trained on half of both, on the other halves "
        "(estimate)",
    )


DELTA = 0.05

Inputs = tuple[tuple[str, float, str], ...]


@runtime_checkable
class _HasPosterior(Protocol):
    def posterior_norms(self, task: Task, state: State, clients: Clients) -> PosteriorNorms: ...


@dataclass(frozen=True)
class PublishedBound:
    """One value of a published bound: whom it is about, the certificate, and its inputs."""

    group: Group
    certificate: Certificate
    inputs: Inputs


def _not_rigorous(bound: Certificate, reason: str, predictor: str) -> Certificate:
    return replace(bound, rigorous=False, reason=reason, predictor=predictor)


def _norms(model: TrainedModel) -> PosteriorNorms | None:
    """Norms that give the KL terms of a model drawn from a hyper-posterior, None for any other."""
    method = model.method
    if not isinstance(method, _HasPosterior) or "gibbs" not in method.predictors:
        return None
    norms = method.posterior_norms(model.task, model.state, model.federation.seen.clients)
    return norms if min(norms.alpha_h, norms.alpha_v, norms.alpha_theta) > 0 else None


def pefll_32_values(model: TrainedModel) -> Iterator[PublishedBound]:
    """PeFLL Theorem 3.2; only a model with a hyper-posterior has the KL terms it needs."""
    norms = _norms(model)
    if norms is None:
        return
    seen, risk = model.federation.seen, model.support_error("gibbs")
    sizes = seen.clients.support_sizes.tolist()
    bound = pefll_32(
        empirical_risk=risk,
        eta_h_squared=norms.eta_h_squared,
        alpha_h=norms.alpha_h,
        eta_v_squared=norms.eta_v_squared,
        alpha_v=norms.alpha_v,
        theta_squared=norms.theta_squared,
        alpha_theta=norms.alpha_theta,
        sizes=sizes,
        delta=DELTA,
    )
    inputs: Inputs = (
        ("empirical_risk", risk, "0/1 error of one Gibbs draw per seen client on its support data"),
        ("eta_h_squared", norms.eta_h_squared, "squared norm of the hypernetwork's mean weights"),
        ("eta_v_squared", norms.eta_v_squared, "squared norm of the encoder's mean weights"),
        (
            "sum_theta_squared",
            float(norms.theta_squared.sum()),
            "sum over seen clients of the squared norm of their mean weights",
        ),
        ("alpha_h", norms.alpha_h, "variance, set in the study"),
        ("alpha_v", norms.alpha_v, "variance, set in the study"),
        ("alpha_theta", norms.alpha_theta, "variance, set in the study"),
        ("n_clients", float(len(sizes)), "seen clients"),
        (
            "harmonic_size",
            len(sizes) / sum(1 / size for size in sizes),
            "harmonic mean of the seen clients' support sizes",
        ),
    )
    reason = (
        "the expectation over the hyper-posterior is replaced by one draw per client and the "
        "mean weights' norms; training descriptors use minibatches; "
        "clients that trained the system are no independent draws"
    )
    yield PublishedBound(seen, _not_rigorous(bound, reason, "gibbs"), inputs)


def two_step_kl_values(model: TrainedModel) -> Iterator[PublishedBound]:
    """Route R2: two nested kl inversions on the inputs of Theorem 3.2; not published."""
    norms = _norms(model)
    if norms is None:
        return
    seen, risk = model.federation.seen, model.support_error("gibbs")
    sizes = seen.clients.support_sizes.tolist()
    kl_hyper = norms.eta_h_squared / (2 * norms.alpha_h) + norms.eta_v_squared / (2 * norms.alpha_v)
    sum_kl = float(norms.theta_squared.sum()) / (2 * norms.alpha_theta)
    bound = two_step_kl_unequal(
        empirical_risk=risk, kl_hyper=kl_hyper, sum_kl=sum_kl, sizes=sizes, delta=DELTA
    )
    inputs: Inputs = (
        ("empirical_risk", risk, "0/1 error of one Gibbs draw per seen client on its support data"),
        ("kl_hyper", kl_hyper, "KL(hyper-posterior || hyper-prior) from the mean weights, nats"),
        ("sum_kl", sum_kl, "sum over seen clients of KL(posterior || prior), nats"),
        ("n_clients", float(len(sizes)), "seen clients"),
        ("n_samples", float(min(sizes)), "smallest support size"),
    )
    # The clients that trained the system are no independent draws under any kind of split; route
    # r2 has the same inequality on held-out clients, where it can be a proof.
    reason = (
        "generated weights are not projected onto a ball in the deployed model, so that the mean "
        "of their divergences over the hyper-posterior is an estimate; one draw per client stands "
        "for the Gibbs risk; inputs and descriptors are scaled by the seen clients' own data"
    )
    if getattr(model.method, "weight_radius", None) is not None:
        reason = (
            "the mean weights' divergences stand for their mean over the hyper-posterior, one draw "
            "per client for the Gibbs risk; inputs and descriptors are scaled by the seen clients' "
            "own data, and these clients are no independent draws"
        )
    yield PublishedBound(seen, _not_rigorous(bound, reason, "gibbs"), inputs)


def pfedhn_eps_values(model: TrainedModel) -> Iterator[PublishedBound]:
    """PFedHN Theorem 1; it needs a learnt embedding per client and no personal weights."""
    if model.method.personalization != "embedding" or part(model.state.clients, "head"):
        return
    seen = model.federation.seen
    constants = hypernetwork_constants(
        model.task, model.state, seen.clients, seed=model.seed, sizes=model.method.sizes
    )
    smallest = int(seen.clients.support_sizes.min())
    risk = model.support_error("deterministic")
    given = {c.name: c.value for c in constants}
    bound = pfedhn_eps(
        n_samples=smallest,
        n_clients=len(seen.clients),
        delta=DELTA,
        empirical_risk=risk,
        **given,
    )
    inputs: Inputs = (
        ("empirical_risk", risk, "0/1 error of the seen clients on their support data"),
        ("n_samples", float(smallest), "smallest support size: the theorem has equal sizes"),
        ("n_clients", float(len(seen.clients)), "seen clients"),
        *constants,
    )
    reason = (
        "the radius and the Lipschitz constants are estimates taken after training; the theorem's "
        "loss is Lipschitz and bounded, the 0/1 error is not Lipschitz"
    )
    yield PublishedBound(seen, _not_rigorous(bound, reason, "deterministic"), inputs)


def _everything(clients: Clients, *, query_only: bool) -> tuple[Tensor, Tensor]:
    """All inputs and labels of a group: query data alone, or support and query data."""
    x: list[Tensor] = []
    y: list[Tensor] = []
    for index in range(len(clients)):
        parts = [clients.query_of(index)]
        parts += [] if query_only else [clients.support_of(index)]
        for samples in parts:
            x.append(samples.x)
            y.append(samples.labels())
    return torch.cat(x), torch.cat(y)


@lru_cache(maxsize=64)
def _domain_constants(
    federation: Federation, group: Group, task: Task, seed: int
) -> tuple[Constant, ...]:
    """Divergence, joint error and sample size of one shifted group, whatever the method."""
    source = _everything(federation.seen.clients, query_only=True)
    target = _everything(group.clients, query_only=False)
    vectors = token_counts if federation.seen.clients.holds_tokens else None
    both = (one[0].cpu().numpy() for one in (source, target))
    distance = a_distance(*both, seed=seed, features=vectors)
    return (
        Constant(
            "divergence",
            max(0.0, distance.proxy),
            f"proxy A-distance of a linear domain classifier, raw {distance.proxy:.3f}, "
            f"standard error {4 * distance.standard_error:.3f}, cut at 0; a trained classifier "
            "gives at most the divergence of the theorem (estimate)",
        ),
        joint_error(task, source, target, seed=seed),
        Constant(
            "n_samples",
            float(min(distance.n)),
            f"the smaller of {distance.n[0]} source and {distance.n[1]} target points",
        ),
    )


def ben_david_values(model: TrainedModel) -> Iterator[PublishedBound]:
    """Ben-David et al. (2010): seen clients' query data as source, a shifted group as target."""
    seed = model.federation.split.seed
    for group in model.federation.shifted:
        dimension = dense_dimension(model.task)
        constants = (
            *_domain_constants(model.federation, group, model.task, seed),
            dimension,
        )
        for predictor, error in model.seen_error.items():
            given = {c.name: c.value for c in constants}
            bound = ben_david(
                source_risk=error,
                divergence=given["divergence"],
                dimension=given["dimension"],
                n_samples=int(given["n_samples"]),
                delta=DELTA,
                joint_error=given["joint_error"],
            )
            inputs: Inputs = (
                ("source_risk", error, "pooled query error of the seen clients"),
                *constants,
            )
            reason = (
                "heuristic: divergence, dimension and joint error are estimates, and the "
                "personalised hypothesis depends on the target client's sample"
            )
            yield PublishedBound(group, _not_rigorous(bound, reason, predictor), inputs)


_SOURCE = "errors of the clients held out for certification, one a client"


def own_values(place: str, trusted: bool, model: TrainedModel) -> Iterator[PublishedBound]:
    """Ask the bound at ``file.py:name`` for the mean error of clients like those held out.

    For every predictor; whatever the bound proves, ``bounds`` are no certificates: as a rule of
    ``certificates`` it is one.
    """
    rule, group = own_rule(place, "bound"), model.federation.certification
    sampling = sampling_of(model.federation.split.kind)
    reason = _reason(place, trusted, sampling)
    for predictor, scores in model.held_out.items():
        if rule.bound is None or not scores:
            continue
        errors = [score.error for score in scores]
        issued = rule.bound(Asked(errors, DELTA, in_order=False))
        bound = replace(
            issued,
            rigorous=False,
            reason=reason,
            predictor=predictor,
            sampling=sampling,
            delta=MappingProxyType({"clients": issued.delta_total}),
        )
        inputs = (
            ("mean_error", sum(errors) / len(errors), f"their mean: {_SOURCE}"),
            ("n_clients", float(len(errors)), "clients held out for certification"),
        )
        yield PublishedBound(group, bound, inputs)


def _reason(place: str, trusted: bool, sampling: str) -> str:
    """Say what is known of a bound, and what is not."""
    short = without_folder(place)
    if trusted:
        known = f"bound {short}, whose proof is its author's, is taken on trust"
    else:
        known = coverage_of(own_rule(place, "bound"), "bound").sentence(short, "bound")
    return known if sampling == "iid" else f"{known}; the clients are a finite pool"
