"""Domain adaptation: the risk on a shifted target, and how far a client's labels have shifted.

``dimension`` is a VC dimension, ``divergence`` the empirical HdeltaH-divergence in [0, 2],
``joint_error`` the smallest sum of source and target error of one hypothesis. Only the exact
empirical risk minimiser over HdeltaH gives the divergence of the theorems; a trained domain
classifier gives a lower bound on it, so a value computed with one is a heuristic.

Counts are smoothed, ``p = (c + smoothing) / (sum c + smoothing * K)``. Plug-in divergences of few
samples are biased: without smoothing kl, tv and js upward, with it downward where clients are far
apart.  Report the sample sizes beside them.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from latecomer.bounds.certificate import Array, Certificate, catalogued
from latecomer.bounds.checks import (
    count,
    failure_probability,
    interval,
    nonnegative,
    one_of,
    same_length,
)
from latecomer.bounds.unit_scale import summed

__all__ = [
    "KINDS",
    "Nearest",
    "ben_david",
    "divergence",
    "hdiv_from_counts",
    "nearest",
    "odpfl",
    "proxy_a",
    "vc_dev",
]

_UNLABELLED = "n_samples unlabelled points of each domain, drawn independently"
_EXACT_ERM = "the divergence is that of the exact empirical risk minimiser over HdeltaH"
_FIXED_CLASS = "the hypothesis class was fixed beforehand and does not depend on either sample"


@catalogued(
    family="domain adaptation",
    claim="Proxy A-distance of a domain classifier with the given balanced error.",
    source="Ben-David et al. (2007)",
    assumptions=(
        "error is measured on held-out points, balanced between the domains",
        "negative values mean worse than chance and are kept",
    ),
)
def proxy_a(*, error: ArrayLike) -> Array:
    r"""Return the proxy A-distance :math:`2(1 - 2\,\mathrm{err})`, in [-2, 2].

    Parameters
    ----------
    error : array_like, in [0, 1]
        Balanced held-out error of a classifier of the two domains.

    Raises
    ------
    ValueError
        ``error`` is out of range.

    Examples
    --------
    >>> float(proxy_a(error=0.25))
    1.0
    """
    return np.asarray(2.0 * (1.0 - 2.0 * interval("error", error, 0.0, 1.0)))


@catalogued(
    family="domain adaptation",
    claim="Empirical H-divergence from the confusion counts of the best domain classifier.",
    source="Ben-David et al. (2010), Lemma 2",
    assumptions=("the counts are those of the best classifier of a class symmetric in its labels",),
)
def hdiv_from_counts(
    *,
    source_as_target: ArrayLike,
    n_source: ArrayLike,
    target_as_source: ArrayLike,
    n_target: ArrayLike,
) -> Array:
    r"""Return :math:`\max(0, 2(1 - a/n_S - b/n_T))`, the empirical H-divergence in [0, 2].

    Parameters
    ----------
    source_as_target, target_as_source : array_like of int, at least 0
        Misclassified points a of the source and b of the target.
    n_source, n_target : array_like of int, at least 1
        Points of the source and of the target.

    Raises
    ------
    ValueError
        A count is negative, or larger than its total.

    Examples
    --------
    >>> float(hdiv_from_counts(source_as_target=1, n_source=10, target_as_source=2, n_target=10))
    1.4
    """
    wrong_source = _share("source_as_target", source_as_target, "n_source", n_source)
    wrong_target = _share("target_as_source", target_as_source, "n_target", n_target)
    return np.asarray(np.maximum(0.0, 2.0 * (1.0 - (wrong_source + wrong_target))))


def _share(name: str, part: ArrayLike, whole_name: str, whole: ArrayLike) -> Array:
    parts, wholes = np.broadcast_arrays(count(name, part, minimum=0), count(whole_name, whole))
    if bool(np.any(parts > wholes)):
        raise ValueError(
            f"{name} must be at most {whole_name}, got {name}={part!r}, {whole_name}={whole!r}"
        )
    return np.asarray(parts / wholes)


@catalogued(
    family="domain adaptation",
    claim="How far a divergence may exceed its empirical value over a VC class.",
    source="Ben-David et al. (2010), Lemma 1 and its use in Theorem 2",
    assumptions=(
        _UNLABELLED,
        "with the published 4 and 2 proved from dimension 3 on; for 1 and 2 they rest on the "
        "lemma's constant, and a coefficient of 8 is proved",
    ),
    vacuous_when="n_samples is not orders of magnitude above dimension",
)
def vc_dev(
    *,
    dimension: ArrayLike,
    n_samples: ArrayLike,
    delta: ArrayLike,
    coefficient: ArrayLike = 4.0,
    multiplier: ArrayLike = 2.0,
) -> Array:
    r"""Return :math:`c\sqrt{(k\,d\ln(2m) + \ln(2/\delta))/m}`.

    Parameters
    ----------
    dimension : array_like, at least 0
        VC dimension d.
    n_samples : array_like of int, at least 1
        Unlabelled points m of each domain.
    delta : array_like, in (0, 1)
    coefficient, multiplier : array_like, at least 0
        c and k; 4 and 2 as published.

    Examples
    --------
    >>> round(float(vc_dev(dimension=50, n_samples=400, delta=0.05)), 2)
    5.19
    """
    d = nonnegative("dimension", dimension)
    m = count("n_samples", n_samples).astype(np.float64)
    failure = failure_probability("delta", delta)
    factor = nonnegative("coefficient", coefficient)
    inner = nonnegative("multiplier", multiplier) * d * np.log(2.0 * m)
    return np.asarray(factor * np.sqrt((inner + np.log(2.0 / failure)) / m))


@catalogued(
    family="domain adaptation",
    claim="Risk on a target domain of every hypothesis of a class, from its source risk.",
    source="Ben-David et al. (2010), Theorem 2; Vapnik (1998), Theorem 4.1, for the root",
    population="one-client",
    predictor="deterministic",
    sampling="iid",
    assumptions=(_FIXED_CLASS, _EXACT_ERM, _UNLABELLED, "source_risk is the true source risk"),
    vacuous_when="n_samples is not orders of magnitude above dimension",
)
def ben_david(
    *,
    source_risk: ArrayLike,
    divergence: ArrayLike,
    dimension: ArrayLike,
    n_samples: ArrayLike,
    delta: ArrayLike,
    joint_error: ArrayLike,
    coefficient: ArrayLike = 4.0,
) -> Certificate:
    r"""Bound the target risk: :math:`\epsilon_S + \hat d/2 + c\sqrt{\cdot} + \lambda`.

    The root is :func:`vc_dev` with ``coefficient`` c: 4 as published; half of the lemma's 4 is 2.
    What either covers is the largest deviation on both samples together, over the sets on which
    two hypotheses disagree.  By Vapnik's inequality for each sample 4 does so for every dimension,
    2 for dimensions from 3 on, wherever the root is below 1; for 1 and 2 it rests on the lemma.
    With several classes and 0/1 loss ``dimension`` is half the VC dimension of those sets.

    Parameters
    ----------
    source_risk : array_like, in [0, 1]
        The model's error on the source.
    divergence : array_like, in [0, 2]
        Empirical HdeltaH-divergence.
    dimension : array_like, at least 0
        VC dimension d of the hypotheses (two classes).
    n_samples : array_like of int, at least 1
        Unlabelled points of each domain.
    delta : array_like, in (0, 1)
    joint_error : array_like, at least 0
        Smallest sum of source and target risk of one hypothesis.
    coefficient : array_like, at least 2
        c, of the deviation of measured divergences from true ones.

    Examples
    --------
    >>> bound = ben_david(
    ...     source_risk=0.1, divergence=0.3, dimension=10, n_samples=100000, delta=0.05,
    ...     joint_error=0.02,
    ... )
    >>> round(float(bound), 10)
    0.4691222066
    """
    failure = failure_probability("delta", delta)
    return summed(
        "ben_david",
        terms={
            "source_risk": interval("source_risk", source_risk, 0.0, 1.0),
            "divergence": 0.5 * interval("divergence", divergence, 0.0, 2.0),
            "deviation": _deviation(dimension, n_samples, failure, coefficient),
            "joint_error": nonnegative("joint_error", joint_error),
        },
        delta={"samples": failure},
    )


@catalogued(
    family="domain adaptation",
    claim="Risk on a new client of the best hypothesis of a space (not of the model).",
    source="OD-PFL, Theorem 1, made computable by this project",
    population="unseen-client",
    predictor="deterministic",
    sampling="iid",
    assumptions=(
        "clients are drawn independently from one environment, the new one included",
        "bounds the best hypothesis of the space, not the generated model",
        _FIXED_CLASS + ": for a space learned from these clients the steps over divergences and "
        "over clients are unproved",
        _EXACT_ERM,
        _UNLABELLED,
        "multitask_deviation holds with failure probability delta_multitask",
    ),
    vacuous_when="n_samples is not orders of magnitude above dimension",
)
def odpfl(
    *,
    empirical_risk: ArrayLike,
    multitask_deviation: ArrayLike,
    divergences: ArrayLike,
    joint_errors: ArrayLike,
    dimension: ArrayLike,
    n_samples: ArrayLike,
    delta_multitask: ArrayLike,
    delta_samples: ArrayLike,
    delta_environment: ArrayLike,
    coefficient: ArrayLike = 4.0,
) -> Certificate:
    r"""Bound the risk on a new client of the best hypothesis of a space fixed beforehand.

    .. math:: \hat r + \epsilon + \overline{\hat d}/2 + \bar\lambda
              + \mathrm{vc\_dev}(d, m, \delta_s/n) + \sqrt{\ln(1/\delta_e)/2n}

    Parameters
    ----------
    empirical_risk : array_like, in [0, 1]
    multitask_deviation : array_like, at least 0
        Deviation of the multi-task bound over the seen clients.
    divergences, joint_errors : array_like, shape [..., n], in [0, 2] and at least 0
        As for :func:`ben_david`, between the new client and each seen client.
    dimension, n_samples, coefficient
        As for :func:`ben_david`.
    delta_multitask, delta_samples, delta_environment : array_like, in (0, 1)
        Their sum is the failure probability of the result.

    Examples
    --------
    >>> bound = odpfl(
    ...     empirical_risk=0.1, multitask_deviation=0.05, divergences=[0.2, 0.4],
    ...     joint_errors=[0.01, 0.0], dimension=5, n_samples=2000, delta_multitask=0.01,
    ...     delta_samples=0.02, delta_environment=0.02,
    ... )
    >>> bool(bound.vacuous)
    True
    """
    distances = interval("divergences", divergences, 0.0, 2.0)
    joint = nonnegative("joint_errors", joint_errors)
    n = same_length(divergences=distances, joint_errors=joint)
    shares = {
        "multitask": failure_probability("delta_multitask", delta_multitask),
        "samples": failure_probability("delta_samples", delta_samples),
        "environment": failure_probability("delta_environment", delta_environment),
    }
    return summed(
        "odpfl",
        terms={
            "empirical_risk": interval("empirical_risk", empirical_risk, 0.0, 1.0),
            "multitask": nonnegative("multitask_deviation", multitask_deviation),
            "divergence": 0.5 * distances.mean(axis=-1),
            "joint_error": joint.mean(axis=-1),
            "deviation": _deviation(dimension, n_samples, shares["samples"] / n, coefficient),
            "environment": np.sqrt(np.log(1.0 / shares["environment"]) / (2.0 * n)),
        },
        delta=shares,
    )


def _deviation(
    dimension: ArrayLike, n_samples: ArrayLike, delta: Array, coefficient: ArrayLike
) -> Array:
    legal = interval("coefficient", coefficient, 2.0, np.inf)
    return vc_dev(dimension=dimension, n_samples=n_samples, delta=delta, coefficient=legal)


KINDS = ("kl", "tv", "js", "hellinger")


class Nearest(NamedTuple):
    """The nearest seen client: its row in the table of counts and the divergence to it."""

    client: NDArray[np.int64]
    divergence: Array


def _distribution(name: str, counts: ArrayLike, smoothing: ArrayLike) -> Array:
    checked = nonnegative(name, counts)
    added = nonnegative("smoothing", smoothing)[..., np.newaxis]
    if checked.ndim == 0 or checked.shape[-1] == 0:
        raise ValueError(f"{name} must list one count per class, got shape {checked.shape}")
    smoothed = checked + added
    total = smoothed.sum(axis=-1, keepdims=True)
    if bool(np.any(total <= 0)):
        raise ValueError(f"{name} must hold at least one sample, or smoothing exceed 0, got none")
    return np.asarray(smoothed / total)


def _relative_entropy(p: Array, q: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        summand = np.where(p > 0, p * (np.log(p) - np.log(q)), 0.0)
    return np.asarray(np.maximum(summand.sum(axis=-1), 0.0))


def _between(p: Array, q: Array, kind: str) -> Array:
    if kind == "kl":
        return _relative_entropy(p, q)
    if kind == "tv":
        return np.asarray(np.minimum(0.5 * np.abs(p - q).sum(axis=-1), 1.0))
    if kind == "js":
        middle = 0.5 * (p + q)
        mean = 0.5 * (_relative_entropy(p, middle) + _relative_entropy(q, middle))
        return np.asarray(np.minimum(mean, np.log(2.0)))
    # 1 - sum sqrt(pq) cancels for close laws; the sum of squares is the same number.
    squared = 0.5 * np.square(np.sqrt(p) - np.sqrt(q)).sum(axis=-1)
    return np.asarray(np.sqrt(np.minimum(squared, 1.0)))


@catalogued(
    family="client shift",
    claim="Divergence of a new client's class frequencies from those of a seen client.",
    source="textbook definitions",
    assumptions=(
        "plug-in estimates of few samples are biased (kl, tv, js upward without smoothing; with it "
        "downward for clients far apart): state the sample sizes",
    ),
)
def divergence(
    *,
    novel_counts: ArrayLike,
    train_counts: ArrayLike,
    kind: str = "kl",
    smoothing: ArrayLike = 0.5,
) -> Array:
    r"""Return the divergence between two clients' smoothed class frequencies.

    ``kl`` is :math:`\sum p\ln(p/q)` in nats, p the new client, infinite where a class is missing
    in q without smoothing; ``tv`` half the L1 distance; ``js`` in nats, at most ln 2, whose square
    root is a metric; ``hellinger`` :math:`\sqrt{1-\sum\sqrt{pq}}`.

    Parameters
    ----------
    novel_counts, train_counts : array_like, shape [..., K], at least 0
        Samples per class; leading axes broadcast.
    kind : {"kl", "tv", "js", "hellinger"}
        Kullback-Leibler, of the new client from the other; total variation, Jensen-Shannon,
        Hellinger distance.
    smoothing : array_like, at least 0
        Added to every class.

    Returns
    -------
    ndarray, shape [...]

    Raises
    ------
    ValueError
        Counts are negative, empty or of different lengths.

    Examples
    --------
    >>> float(divergence(novel_counts=[1, 0], train_counts=[0, 1], kind="tv", smoothing=0))
    1.0
    """
    one_of("kind", kind, KINDS)
    p = _distribution("novel_counts", novel_counts, smoothing)
    q = _distribution("train_counts", train_counts, smoothing)
    same_length(novel_counts=p, train_counts=q)
    return _between(p, q, kind)


@catalogued(
    family="client shift",
    claim="The seen client whose class frequencies are nearest to a new client's.",
    source="textbook definitions",
    assumptions=("ties go to the lowest index",),
)
def nearest(
    *,
    novel_counts: ArrayLike,
    train_counts: ArrayLike,
    kind: str = "kl",
    smoothing: ArrayLike = 0.5,
) -> Nearest:
    """Return index and divergence of the nearest seen client; ties go to the lowest index.

    Parameters
    ----------
    novel_counts : array_like, shape [..., K], at least 0
        The new client's samples per class.
    train_counts : array_like, shape [n, K], at least 0
        The same of every seen client.
    kind
        As for :func:`divergence`.
    smoothing : float, at least 0
        Added to every class.

    Returns
    -------
    Nearest
        ``client`` (row of ``train_counts``) and ``divergence``, shape [...].

    Raises
    ------
    ValueError
        Counts are negative, empty or of different lengths.

    Examples
    --------
    >>> closest = nearest(novel_counts=[5, 40, 55], train_counts=[[1, 0, 0], [0, 1, 1]], kind="tv")
    >>> int(closest.client)
    1
    """
    one_of("kind", kind, KINDS)
    table = nonnegative("train_counts", train_counts)
    if table.ndim != 2 or not len(table):
        raise ValueError(f"train_counts must be a table clients x classes, got shape {table.shape}")
    extra = nonnegative("smoothing", smoothing)
    if extra.ndim:
        raise ValueError(f"smoothing must be one number of at least 0, got shape {extra.shape}")
    p = _distribution("novel_counts", novel_counts, smoothing)
    q = _distribution("train_counts", train_counts, smoothing)
    same_length(novel_counts=p, train_counts=q)
    distances = _between(p[..., np.newaxis, :], q, kind)
    index = np.argmin(distances, axis=-1)
    chosen = np.take_along_axis(distances, index[..., np.newaxis], axis=-1)[..., 0]
    return Nearest(client=np.asarray(index, dtype=np.int64), divergence=np.asarray(chosen))
