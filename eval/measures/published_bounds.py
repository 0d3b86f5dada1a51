"""Published bounds on a trained model: their inputs, and why the outcome is no certificate."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from latecomer.bounds.certificate import Certificate
from latecomer.bounds.meta_learning.pefll import pefll_32
from latecomer.bounds.meta_learning.unequal_sizes import two_step_kl_unequal
from latecomer.bounds.shift.adaptation import ben_david
from latecomer.bounds.uniform_convergence.seen_clients import pfedhn_eps
from latecomer.eval.federation.domain_classifier import a_distance, token_counts
from latecomer.eval.federation.groups import Federation, Group
from latecomer.eval.measures.bound_constants import (
    Constant,
    dense_dimension,
    hypernetwork_constants,
    joint_error,
)
from latecomer.eval.training.trained_model import TrainedModel
from latecomer.models.posteriors.gaussian import PosteriorNorms
from latecomer.models.task.clients import Clients
from latecomer.models.task.state import State, part
from latecomer.models.task.task import Task

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


def _listed(constants: tuple[Constant, ...]) -> Inputs:
    return tuple(
        (c.name, c.value, c.provenance + (" (estimate)" if c.estimate else "")) for c in constants
    )


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
        *_listed(constants),
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
            "gives at most the divergence of the theorem",
            estimate=True,
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
                *_listed(constants),
            )
            reason = (
                "heuristic: divergence, dimension and joint error are estimates, and the "
                "personalised hypothesis depends on the target client's sample"
            )
            yield PublishedBound(group, _not_rigorous(bound, reason, predictor), inputs)
