r"""Route R2: one sample of a held-out client both makes its model and measures it.

The system is a posterior over networks, A ~ Q, settled by the seen clients alone; from all of a
client's support S_i it makes mean weights A(S_i), and the client's model is drawn from
N(A(S_i), alpha I).  Its prior N(c, alpha I), c the mean of the weights made for the seen clients,
depends on no held-out client.  Two nested inversions (`two_step_fixed`) then bound the error
of a model so drawn on points of its client's law: the inner one over all points, which pays for the
divergences, and the outer one over clients, by Chernoff's inequality.  Q was settled without these
clients, so that a client's error under Q is an independent draw.

What a proof needs, and how it is met:

- Clients are independent draws given the training side: held-out clients of an
  ``environment`` split are, those of a finite pool are not (their samples are dealt from one data
  set, so that no point of theirs is a draw of its own law).
- A client's points are distinct images of its classes, as many of each as the law says.  For a
  model fixed beforehand the number of its errors is below a binomial one in the convex order
  (Hoeffding 1956, 1963), so that the inner moment bound holds.
- The divergences' mean over Q must be exact or bounded: mean weights are projected onto a ball
  wherever the deployed system makes them (``weight_radius``), which bounds a client's divergence;
  a mean over drawn systems then goes through Chernoff's inequality, and so does the drawn error.
- Where absent classes are masked, the choice of classes depends on the points: a prior uniform
  over all sets of classes pays ln 2 for each class.
- The loss is the 0/1 error; Q is fixed, so that nothing is paid for choosing it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from latecomer.bounds.binary_kl import kl_inverse_upper
from latecomer.bounds.certificate import Certificate
from latecomer.bounds.meta_learning.kl_inverted import two_step_fixed
from latecomer.certify.words import counts
from latecomer.eval.routes.contract import (
    Findings,
    Request,
    certificate_facts,
    certificate_rows,
    draws_paid,
    sharing_delta,
)
from latecomer.eval.routes.kinds.r2 import TwoLevel
from latecomer.eval.scoring.serving import generator_of, known_classes, share_wrong
from latecomer.eval.splits.registry import sampling_of
from latecomer.eval.splits.split import Split
from latecomer.models.generators.hypernetworks import weights_of
from latecomer.models.task.clients import Clients, Samples
from latecomer.models.task.state import Params
from latecomer.models.task.task import Task

BOUND = "r2:two_step_kl"
_ROUNDING = 1e-5  # by how much float32 may put weights outside their ball
Floats = NDArray[np.float64]


@runtime_checkable
class _Stochastic(Protocol):
    """A method that draws networks, makes mean weights with them and draws weights around those."""

    alpha_theta: float
    weight_radius: float | None

    def draw_networks(self, eta: Params, generator: Generator) -> Params: ...

    def make_one(self, task: Task, table: Params, support: Samples) -> Params: ...

    def draw_target(self, theta: Params, generator: Generator) -> Params: ...


@dataclass(frozen=True, eq=False)
class _Drawn:
    """Errors and divergences [clients, draws], errors of mean weights, and the prior's norm."""

    errors: Floats
    nats: Floats
    mean_errors: Floats
    centre_norm: float


def two_level_certificate(
    errors: Floats,
    nats: Floats,
    *,
    most_nats: float | None,
    free_nats: float,
    sizes: Sequence[int],
    delta: float,
    draws_share: float,
    client_share: float,
) -> Certificate:
    """Certify models drawn from the posteriors of systems drawn anew for every client.

    ``errors`` on the clients' support, and ``nats``, divergences of the posteriors, are [clients,
    draws], each of a system (and a model) drawn independently.  ``most_nats`` is the largest
    divergence that a client can have; where there is none ``nats`` is averaged, and the value is an
    estimate.  ``free_nats`` of every client are known exactly.  Of ``delta`` the draws have
    ``draws_share``, half for errors and half for divergences, of the rest clients ``client_share``.

    Examples
    --------
    >>> bound = two_level_certificate(np.full((30, 20), .1), np.full((30, 20), 2.), most_nats=8.,
    ...     free_nats=0., sizes=[200] * 30, delta=.05, draws_share=.2, client_share=.5)
    >>> round(float(bound), 3), round(float(bound.delta_total), 10)
    (0.454, 0.05)
    """
    n, for_draws = len(errors), draws_share * delta
    budget = math.log(2 / for_draws) / errors.size
    mean, own = float(errors.mean()), float(nats.mean())
    risk = float(kl_inverse_upper(q=mean, budget=budget))
    if most_nats is not None:
        own = most_nats * float(kl_inverse_upper(q=min(own / most_nats, 1.0), budget=budget))
    issued = two_step_fixed(
        empirical_risk=risk,
        sum_kl=n * (own + free_nats),
        sizes=list(sizes),
        delta=delta - for_draws,
        client_share=client_share,
    )
    shares = {"drawn errors": for_draws / 2, "drawn divergences": for_draws / 2}
    return draws_paid(issued, mean=mean, risk=risk, shares=shares)


def certify_two_level(request: Request[TwoLevel]) -> Findings:
    """Issue the two-level certificate of a stochastic method; nothing for other methods.

    Nothing either where the models that are served are corrected ones, which it would not be about.

    It is rigorous where weights are kept in a ball and clients are independent draws; elsewhere its
    value is an estimate, and its reason says why.
    """
    method, entry = request.model.method, request.entry
    if not isinstance(method, _Stochastic) or "gibbs" not in method.predictors:
        return Findings([], [])
    if request.corrected or not method.alpha_theta > 0:
        return Findings([], [])
    clients = request.model.federation.certification.clients
    drawn = _drawn(request, method, entry.draws)
    radius, most = method.weight_radius, _most_nats(method, drawn.centre_norm)
    masked = request.cell.evaluation.classes != "all"
    free = request.model.task.n_classes * math.log(2) if masked else 0.0
    sizes = clients.support_sizes.tolist()
    issued = two_level_certificate(
        drawn.errors,
        drawn.nats,
        most_nats=most,
        free_nats=free,
        sizes=sizes,
        delta=entry.delta / request.n_seeds,
        draws_share=entry.draws_share,
        client_share=entry.client_share,
    )
    issued = _tagged(issued, request.model.federation.split, radius, sizes)
    issued = sharing_delta(issued, request.n_seeds)
    inputs = _inputs(drawn, clients, method.alpha_theta, free)
    if radius is not None and most is not None:
        inputs.append(("weight_radius", radius, "radius of the ball, set in the study"))
        inputs.append(("most_kl", most, "largest KL that a client's weights in the ball can have"))
    where = {
        "classes": request.cell.evaluation.classes,
        **request.model.federation.certification.condition(),
        "n_clients": len(clients),
    }
    rows = certificate_rows(issued, bound=BOUND, common=where)
    return Findings(rows, certificate_facts(issued, bound=BOUND, inputs=inputs))


def _most_nats(method: _Stochastic, centre_norm: float) -> float | None:
    """Return the largest divergence that weights in the ball can have; None without a ball."""
    if method.weight_radius is None:
        return None
    distance = method.weight_radius * (1 + _ROUNDING) + centre_norm
    return distance**2 / (2 * method.alpha_theta)


def _tagged(
    issued: Certificate, split: Split, radius: float | None, sizes: Sequence[int]
) -> Certificate:
    """Say what the certificate is about, and why it is no proof where it is none."""
    sampling = sampling_of(split.kind)
    pool = len(split.certification) + len(split.novel)
    reason = _reason(radius, sampling)
    return replace(
        issued,
        sampling=sampling,
        rigorous=not reason,
        reason=reason,
        assumptions=(
            "the system, its hyper-posterior and the centre of the priors were settled by the seen "
            "clients alone",
            "a client's model is drawn anew: networks from the hyper-posterior, weights around "
            "what they make of its whole support, on which the errors are counted as well; the "
            "failure probability is over the choice of these clients and over these draws",
            f"mean weights are projected onto the ball of radius {radius:g} wherever they are made"
            if radius is not None
            else "the mean of the divergences over the hyper-posterior is what was drawn",
            "clients are drawn independently from one environment, a client's points from its "
            "classes' pools in the support's proportions"
            if sampling == "iid"
            else f"clients and their points are independent draws: not so in this finite pool of "
            f"{pool} clients",
            f"the system is run with {counts(sizes, 'support sample')} a client",
        ),
    )


def _inputs(
    drawn: _Drawn, clients: Clients, variance: float, free: float
) -> list[tuple[str, float, str]]:
    sizes = clients.support_sizes.tolist()
    return [
        ("gibbs_error", float(drawn.errors.mean()), "mean error of drawn models on the support"),
        (
            "mean_parameter_error",
            float(drawn.mean_errors.mean()),
            "mean error of the mean weights on the support; not certified",
        ),
        ("kl_hyper", 0.0, "KL(hyper-posterior || hyper-prior): settled without these clients"),
        (
            "sum_kl",
            len(clients) * (float(drawn.nats.mean()) + free),
            "sum over clients of the mean KL(posterior || prior) over drawn systems, nats",
        ),
        ("mask_nats", free, "nats a client pays for the choice of its classes"),
        ("alpha", variance, "variance of a client's weights, set in the study"),
        ("n_clients", float(len(clients)), "held-out clients"),
        ("n_samples", float(min(sizes)), "smallest support size"),
        ("n_draws", float(drawn.errors.size), "systems and models drawn, over all clients"),
    ]


def _reason(radius: float | None, sampling: str) -> str:
    reasons = []
    if radius is None:
        reasons.append(
            "generated weights are not projected onto a ball (weight_radius), so that the mean of "
            "their divergences over the hyper-posterior is an estimate"
        )
    if sampling != "iid":
        reasons.append(
            "clients and their points must be independent draws, and these are a finite pool "
            "(split.kind: environment draws them independently)"
        )
    return "; ".join(reasons)


def _drawn(request: Request[TwoLevel], method: _Stochastic, draws: int) -> _Drawn:
    """Draw networks, mean weights and models for every held-out client."""
    model, clients = request.model, request.model.federation.certification.clients
    server, seen = model.state.server, model.federation.seen.clients
    made = [method.make_one(model.task, server, seen.support_of(i)) for i in range(len(seen))]
    centre = {k: torch.stack([one[k] for one in made]).double().mean(0) for k in made[0]}
    errors, nats = np.empty((len(clients), draws)), np.empty((len(clients), draws))
    of_means = np.empty(len(clients))

    def error(weights: Params, support: Samples) -> float:
        known, classes = known_classes(model.task, support), request.cell.evaluation.classes
        return share_wrong(partial(model.task.logits, weights), support, known, classes=classes)

    for place, client in enumerate(clients.ids.tolist()):
        support = clients.support_of(place)
        of_means[place] = error(method.make_one(model.task, server, support), support)
        generator = generator_of(model.seed, client, 0x2A)
        for number in range(draws):
            networks = method.draw_networks(weights_of(server), generator)
            theta = method.make_one(model.task, {**server, **networks}, support)
            nats[place, number] = _squared(theta, centre) / (2 * method.alpha_theta)
            errors[place, number] = error(method.draw_target(theta, generator), support)
    nothing = {key: torch.zeros_like(value) for key, value in centre.items()}
    return _Drawn(errors, nats, of_means, math.sqrt(_squared(centre, nothing)))


def _squared(theta: Params, centre: dict[str, Tensor]) -> float:
    """Return the squared distance of two tables, summed in float64."""
    return sum(float((theta[k].double() - v).square().sum()) for k, v in centre.items())
