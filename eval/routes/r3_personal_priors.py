"""Route R3: held-out clients fine-tune, each with a prior from part of its own support.

The system is trained without these clients.  Each cuts its support into A and B by a seed before
anything is looked at.  The system fine-tuned on A alone gives the prior N(theta_A, alpha D), D with
one number per tensor, its mean square in theta_A; fine-tuned on all of the support it gives the
posterior N(theta, alpha D) that is deployed and measured on B; where absent classes are masked, A
says which.  Given A, the prior does not depend on B, and B must be a sample of the client's law, so
that all clients' B together are one sample for one kl inequality; the clients' true errors then go
through Chernoff's, as the system is fixed.  Variances form a grid whose union is paid for in both
steps, and draws made after the choice stand in for the mean over each posterior, at a price.

B is such a sample on an ``environment`` split, where it is cut class by class (`kinds.r3`):
given A it is, for each of the client's classes, a uniform subset of fixed size of the images of
that class outside A, whose errors are no more spread than independent ones (Hoeffding 1963).  The
error that is bounded is therefore over the client's images outside A, those of B included.
Clients of a finite pool have no law of which their points are draws, and their support is dealt
class by class: A tells which classes B has.  The value is an estimate there.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from latecomer.bounds.binary_kl import kl_inverse_upper
from latecomer.bounds.certificate import Certificate
from latecomer.bounds.unseen_clients.personal_priors import personal_prior_pooled
from latecomer.eval.federation.groups import Group
from latecomer.eval.routes.contract import (
    Findings,
    Request,
    certificate_facts,
    certificate_rows,
    draws_paid,
    sharing_delta,
)
from latecomer.eval.routes.kinds.r3 import PersonalPrior, can_be_cut, cut_support, measured_samples
from latecomer.eval.scoring.scores import mean_row
from latecomer.eval.scoring.serving import (
    client_generator,
    generator_of,
    known_classes,
    share_wrong,
)
from latecomer.eval.splits.registry import sampling_of
from latecomer.eval.splits.split import Split
from latecomer.models.engine.method import FixedWeights
from latecomer.models.engine.training import subset
from latecomer.models.task.clients import Samples
from latecomer.models.task.state import Params, sent

_CUT, _CHOOSE, _CERTIFY, _NOVEL = range(4)
BOUND = "r3:pooled"
_REASON = (
    "clients of a finite pool have no law of which their points are draws, and their support is "
    "dealt class by class: the part that makes the prior tells which classes the other has "
    "(split.kind: environment draws clients independently, and is cut class by class)"
)


@dataclass(frozen=True, eq=False)
class _Tuned:
    """One client's models from A and from all of its support, and B to measure on."""

    client: int
    prior: Params
    posterior: Params
    measured: Samples
    known: torch.Tensor

    @property
    def distance(self) -> float:
        """Squared distance of the means, every tensor in units of the prior's mean square."""
        return sum(
            float((self.posterior[k] - v).double().square().sum() / v.double().square().mean())
            for k, v in self.prior.items()
            if float(v.abs().max()) > 0
        )

    @property
    def fixed(self) -> bool:
        """Whether tensors that are 0 in the prior, and so have no variance, did not move."""
        return all(
            bool((self.posterior[k] == v).all())
            for k, v in self.prior.items()
            if not float(v.abs().max()) > 0
        )


def pooled_certificate(
    errors: NDArray[np.float64],
    distances: Sequence[float],
    *,
    alpha: float,
    n_samples: int,
    delta: float,
    draws_share: float,
    client_share: float,
    n_priors: int,
) -> Certificate:
    """Certify drawn fine-tuned models; the ledger adds up to ``delta``.

    ``errors`` on B, [clients, draws], are of models drawn independently from every client's
    posterior, after the choice; ``distances`` are the squared ones of each posterior's mean from
    its prior's, ``alpha`` the variance, one of ``n_priors``, both in the prior's units.  Every B
    has ``n_samples``. Of ``delta`` the draws have ``draws_share``, of the rest the clients
    ``client_share``.

    Examples
    --------
    >>> bound = pooled_certificate(np.full((30, 20), .1), [.002] * 30, alpha=1e-3, n_samples=200,
    ...     delta=.05, draws_share=.2, client_share=.5, n_priors=1)
    >>> round(float(bound), 3), round(float(bound.delta_total), 10)
    (0.424, 0.05)
    """
    for_draws = draws_share * delta
    mean = float(errors.mean())
    risk = float(kl_inverse_upper(q=mean, budget=-math.log(for_draws) / errors.size))
    issued = personal_prior_pooled(
        empirical_risk=risk,
        squared_distances=list(distances),
        alpha=alpha,
        n_samples=n_samples,
        delta=delta - for_draws,
        client_share=client_share,
        n_priors=n_priors,
    )
    return draws_paid(issued, mean=mean, risk=risk, shares={"draws": for_draws})


def certify_personal(request: Request[PersonalPrior]) -> Findings:
    """Issue the pooled certificate of a fine-tuning method; nothing for other methods.

    A method qualifies if its deterministic predictor for a new client is a network whose weights
    are made by training on its support, and is served as made.
    """
    model, entry = request.model, request.entry
    if request.corrected or model.method.personalization not in ("finetune", "local"):
        return Findings([], [])
    federation = model.federation
    tuned = _tuned(request, federation.certification)
    if not tuned or not all(one.fixed for one in tuned):
        return Findings([], [])
    distances = [one.distance for one in tuned]
    n_samples = len(tuned[0].measured)

    def pooled(errors: NDArray[np.float64], alpha: float) -> Certificate:
        return pooled_certificate(
            errors,
            distances,
            alpha=alpha,
            n_samples=n_samples,
            delta=entry.delta / request.n_seeds,
            draws_share=entry.draws_share,
            client_share=entry.client_share,
            n_priors=len(entry.alphas),
        )

    def drawn(alpha: float, draws: int, purpose: int) -> NDArray[np.float64]:
        return np.array([_errors(request, one, alpha, draws, purpose) for one in tuned])

    tried = {alpha: float(pooled(drawn(alpha, 1, _CHOOSE), alpha)) for alpha in entry.alphas}
    alpha = min(tried, key=tried.__getitem__)
    errors = drawn(alpha, entry.draws, _CERTIFY)
    issued = _tagged(pooled(errors, alpha), federation.split, n_samples)
    issued = sharing_delta(issued, request.n_seeds)
    where = {
        "classes": request.cell.evaluation.classes,
        **federation.certification.condition(),
        "n_clients": len(tuned),
    }
    rows = certificate_rows(issued, bound=BOUND, common=where)
    rows += _novel_rows(request, alpha)
    inputs = _inputs(request, tuned, alpha, errors)
    return Findings(rows, certificate_facts(issued, bound=BOUND, inputs=inputs))


def _tagged(issued: Certificate, split: Split, n_samples: int) -> Certificate:
    """Say what the certificate is about, and why it is no proof where it is none."""
    sampling = sampling_of(split.kind)
    pool = len(split.certification) + split.n_outside
    return replace(
        issued,
        sampling=sampling,
        rigorous=sampling == "iid",
        reason="" if sampling == "iid" else _REASON,
        assumptions=(
            "the system was trained without the certified clients",
            "each client's support was cut into prior and evaluation data by a seed"
            + (", class by class in equal numbers" if sampling == "iid" else ""),
            f"{n_samples} evaluation samples of every client, a number fixed beforehand",
            "the model is drawn anew from the client's posterior; the draws of the certificate "
            "were made after the variance was settled, and the failure probability is over the "
            "choice of these clients and their points and over these draws",
            "clients are drawn independently from one environment; the error is over a client's "
            "images outside its prior's part, its evaluation samples included"
            if sampling == "iid"
            else f"a finite pool: the mean is over the {pool} clients not trained on, certified "
            "ones included; that a client's samples are independent draws is assumed, not so",
        ),
    )


def _inputs(
    request: Request[PersonalPrior],
    tuned: Sequence[_Tuned],
    alpha: float,
    errors: NDArray[np.float64],
) -> list[tuple[str, float, str]]:
    split, distances = request.model.federation.split, [one.distance for one in tuned]
    pool = len(split.certification) + split.n_outside
    means = float(np.mean([_error(request, one, one.posterior) for one in tuned]))
    return [
        ("alpha", alpha, "variance taken, relative to each tensor's mean square in the prior"),
        ("n_priors", float(len(request.entry.alphas)), "variances tried"),
        ("sum_kl", sum(distances) / (2 * alpha), "sum over clients of KL(posterior || prior)"),
        ("gibbs_error", float(errors.mean()), "mean error of drawn models on evaluation data"),
        (
            "mean_parameter_error",
            means,
            "mean error of the fine-tuned weights on evaluation data, which they were tuned on as "
            "well; not certified",
        ),
        ("n_clients", float(len(tuned)), "held-out clients"),
        ("n_samples", float(len(tuned[0].measured)), "evaluation samples of every client"),
        ("n_draws", float(errors.size), "models drawn, over all clients"),
        ("pool_size", float(pool), "clients not trained on, certified ones included"),
    ]


def _novel_rows(request: Request[PersonalPrior], alpha: float) -> list[dict[str, Any]]:
    """Rows of new clients' errors on their query data, by models drawn as the certified ones."""
    group = _cuttable(request, request.model.federation.novel)
    common = {"classes": request.cell.evaluation.classes, "predictor": "gibbs"}
    rows: list[dict[str, Any]] = []
    for place, one in enumerate(_tuned(request, group)):
        asked = replace(one, measured=group.clients.query_of(place))
        drawn = _errors(request, asked, alpha, request.entry.draws, _NOVEL)
        row = {
            "client": one.client,
            "n_support": int(group.clients.support_sizes[place]),
            "n_query": len(asked.measured),
            "metric": "error",
            "value": float(np.mean(drawn)),
        }
        rows.append({**common, **group.condition(), **row})
    return [*rows, mean_row(group, [row["value"] for row in rows], common)] if rows else []


def _sizes(request: Request[PersonalPrior]) -> tuple[int, int | None]:
    """Return how many samples measure every client, and of how many classes."""
    entry, federation = request.entry, request.model.federation
    law, certified = federation.split.law, federation.certification.clients.support_sizes.tolist()
    n_classes = law.classes_per_client if law else None
    share = entry.measured_share
    return measured_samples(
        "certificates r3", entry.measured, share, certified, n_classes
    ), n_classes


def _cuttable(request: Request[PersonalPrior], group: Group) -> Group:
    """Leave out clients whose support cannot be cut: novel ones may be smaller than all others."""
    sizes, clients = _sizes(request), group.clients
    counts = [
        np.bincount(clients.support_of(place).labels().cpu().numpy())
        for place in range(len(clients))
    ]
    fitting = [place for place, held in enumerate(counts) if can_be_cut(held, *sizes)]
    return replace(group, clients=subset(clients, fitting))


def _tuned(request: Request[PersonalPrior], group: Group) -> list[_Tuned]:
    model, clients = request.model, group.clients
    n_measured, n_classes = _sizes(request)
    tuned: list[_Tuned] = []
    for index, client in enumerate(clients.ids.tolist()):
        support = clients.support_of(index)
        labels = support.labels().cpu().numpy()
        key = np.random.SeedSequence([model.federation.split.seed, client, 0x9A, _CUT])
        cut = cut_support(labels, n_measured, n_classes, np.random.default_rng(key))
        kept, held = (sent(torch.from_numpy(rows), support.x.device) for rows in cut)
        models = []
        part = Samples(support.x[kept], support.labels()[kept])
        for own in (part, support):
            generator = client_generator(model.seed, client)
            models.append(
                model.method.personalize(model.task, model.state, own, generator=generator)
            )
        prior, posterior = models
        if not isinstance(prior, FixedWeights) or not isinstance(posterior, FixedWeights):
            return []
        # Classes that only B has would tell the model something about the sample that measures it.
        known = known_classes(model.task, part)
        measured = Samples(support.x[held], support.labels()[held])
        tuned.append(_Tuned(client, prior.weights, posterior.weights, measured, known))
    return tuned


def _errors(
    request: Request[PersonalPrior], one: _Tuned, alpha: float, draws: int, purpose: int
) -> list[float]:
    """Errors on B of models drawn from one client's posterior."""
    generator = generator_of(request.model.seed, one.client, 0x9A, purpose)
    deviation = {k: (alpha * v.square().mean()).sqrt() for k, v in one.prior.items()}

    def noise(like: torch.Tensor) -> torch.Tensor:
        return sent(torch.randn(like.shape, generator=generator, dtype=like.dtype), like.device)

    return [
        _error(request, one, {k: v + deviation[k] * noise(v) for k, v in one.posterior.items()})
        for _ in range(draws)
    ]


def _error(request: Request[PersonalPrior], one: _Tuned, weights: Params) -> float:
    """Return the error of some weights on the samples that measure a client."""
    model = partial(request.model.task.logits, weights)
    return share_wrong(model, one.measured, one.known, classes=request.cell.evaluation.classes)
