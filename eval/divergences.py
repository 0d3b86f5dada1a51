"""How far evaluated clients are from training clients: in labels, and as a classifier sees it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from latecomer.bounds.adaptation import proxy_a
from latecomer.bounds.client_shift import nearest
from latecomer.eval.errors import InputError

if TYPE_CHECKING:
    from latecomer.models.task import Clients

__all__ = ["ADistance", "LabelDivergence", "a_distance", "label_divergence", "split_diagnostics"]

_KL_SMOOTHING = 0.5
_MAX_SAMPLES = 2000


@dataclass(frozen=True, eq=False)
class LabelDivergence:
    """Divergence of each client's labels from those of its nearest training client.

    Attributes
    ----------
    kl, tv : ndarray, shape [n]
        KL in nats (counts smoothed by 1/2) and total variation (not smoothed).
    kl_nearest, tv_nearest : ndarray of int64, shape [n]
        Position of the nearest training client; ties go to the lowest.
    """

    kl: NDArray[np.float64]
    tv: NDArray[np.float64]
    kl_nearest: NDArray[np.int64]
    tv_nearest: NDArray[np.int64]


def label_divergence(counts: ArrayLike, train_counts: ArrayLike) -> LabelDivergence:
    """Return KL and TV to the nearest training client; plug-in, so biased upward for few samples.

    Parameters
    ----------
    counts : array_like, shape [n, n_classes]
        Samples per class of the clients in question (p of the KL).
    train_counts : array_like, shape [n_train, n_classes]

    Examples
    --------
    >>> found = label_divergence([[5, 5, 0]], [[0, 0, 9], [8, 2, 0]])
    >>> float(found.tv[0].round(2)), int(found.tv_nearest[0])
    (0.3, 1)
    """
    pair: dict[str, Any] = {"novel_counts": counts, "train_counts": train_counts}
    kl_nearest, kl = nearest(**pair, kind="kl", smoothing=_KL_SMOOTHING)
    tv_nearest, tv = nearest(**pair, kind="tv", smoothing=0.0)
    return LabelDivergence(kl, tv, kl_nearest, tv_nearest)


@dataclass(frozen=True)
class ADistance:
    """Proxy A-distance of two samples, with the held-out error it comes from.

    Attributes
    ----------
    proxy : float
        ``2(1 - 2 error)`` in [-2, 2]; below 0 the classifier did worse than chance.
    error : float
        Held-out error of the domain classifier, averaged over the two domains.
    standard_error : float
        Standard error of ``error``; that of ``proxy`` is four times as large.
    n : tuple of int
        Samples used of each domain.
    """

    proxy: float
    error: float
    standard_error: float
    n: tuple[int, int]


def a_distance(x_a: ArrayLike, x_b: ArrayLike, *, seed: int, n_folds: int = 5) -> ADistance:
    r"""Tell two samples apart with a linear classifier and turn its error into a distance.

    Logistic regression on flattened pixels, standardised by the training folds; each sample is
    judged once, by a classifier that did not see it. The error is the mean of the two domains'
    error rates, so that unequal sizes do not matter. Its standard error treats the judgements as
    independent and each rate as :math:`(k+1)/(n+2)`, so that a perfect score is not called
    certain. A trained classifier gives at most the true A-distance: the value is an estimate, no
    bound.

    Parameters
    ----------
    x_a, x_b : array_like, shape [n_a, ...] and [n_b, ...]
        Samples of one shape, at least two of each; beyond 2,000 a random 2,000 are used.
    seed : int
        Draws folds and subsamples.
    n_folds : int, at least 2
        Lowered to the smaller sample size.

    Returns
    -------
    ADistance

    Raises
    ------
    InputError
        A sample has fewer than two members, or their shapes differ.

    References
    ----------
    S. Ben-David et al., "A theory of learning from different domains", Machine Learning 79
    (2010), section 5.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from threadpoolctl import threadpool_limits

    rng = np.random.default_rng([seed, 0])
    a, b = _flat("x_a", x_a, rng), _flat("x_b", x_b, rng)
    if a.shape[1] != b.shape[1]:
        raise InputError(
            f"x_a and x_b must be samples of one shape, got {np.shape(x_a)[1:]} and "
            f"{np.shape(x_b)[1:]}"
        )
    domain = np.repeat([0, 1], [len(a), len(b)])
    folds = StratifiedKFold(
        min(n_folds, len(a), len(b)), shuffle=True, random_state=int(rng.integers(2**31))
    )
    judge = make_pipeline(
        StandardScaler(), LogisticRegression(class_weight="balanced", max_iter=1000)
    )
    # One thread: faster on samples this small, and the same digits on any number of cores.
    with threadpool_limits(1):
        said = cross_val_predict(judge, np.concatenate([a, b]), domain, cv=folds)
    wrong = said != domain
    n_wrong = np.array([wrong[domain == 0].sum(), wrong[domain == 1].sum()])
    n = np.array([len(a), len(b)])
    error = float(np.mean(n_wrong / n))
    rate = (n_wrong + 1) / (n + 2)
    return ADistance(
        proxy=float(proxy_a(error=error)),
        error=error,
        standard_error=float(np.sqrt(np.sum(rate * (1 - rate) / n)) / 2),
        n=(len(a), len(b)),
    )


def _flat(name: str, x: ArrayLike, rng: np.random.Generator) -> NDArray[np.float64]:
    array = np.asarray(x)
    if array.ndim < 2 or len(array) < 2:
        raise InputError(f"{name} must hold at least two samples, got shape {list(array.shape)}")
    if len(array) > _MAX_SAMPLES:
        array = array[rng.permutation(len(array))[:_MAX_SAMPLES]]
    return array.reshape(len(array), -1).astype(np.float64)


def split_diagnostics(train: "Clients", group: "Clients") -> list[dict[str, Any]]:
    """Return the rows that say how far each client of a group is from the training clients.

    ``label_kl`` and ``label_tv`` are to the training client nearest in that measure; ``a_distance``
    is the proxy A-distance to the one nearest in TV. (The smallest of many noisy A-distances would
    be biased towards 0.) Support and query samples count alike. Each row's message names the
    training client and, for the A-distance, the held-out error with its standard error.

    Parameters
    ----------
    train : Clients
        Clients that trained.
    group : Clients
        Clients to be placed, shifted or not.
    """
    n_classes = 1 + max(int(train.y.max()), int(group.y.max()))
    near = [_samples(train, i) for i in range(len(train))]
    train_counts = [np.bincount(y, minlength=n_classes) for _, y in near]
    rows: list[dict[str, Any]] = []
    for i in range(len(group)):
        x, y = _samples(group, i)
        label = label_divergence([np.bincount(y, minlength=n_classes)], train_counts)
        by_kl, by_tv = int(label.kl_nearest[0]), int(label.tv_nearest[0])
        apart = a_distance(x, near[by_tv][0], seed=i)
        judged = f"held-out error {apart.error:.3f} (standard error {apart.standard_error:.3f}), "
        for metric, value, nearest_one, note in (
            ("label_kl", label.kl[0], by_kl, ""),
            ("label_tv", label.tv[0], by_tv, ""),
            ("a_distance", apart.proxy, by_tv, judged),
        ):
            rows.append(
                {
                    "client": int(group.ids[i]),
                    "n_support": int(group.support_sizes[i]),
                    "n_query": int(group.query_sizes[i]),
                    "metric": metric,
                    "value": float(value),
                    "message": f"{note}training client {int(train.ids[nearest_one])}",
                }
            )
    return rows


def _samples(clients: "Clients", index: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return inputs as the network sees them, and labels, of all samples of one client."""
    own, test = clients.support_of(index), clients.query_of(index)
    x = np.concatenate([own.x.cpu().numpy(), test.x.cpu().numpy()])
    return x, np.concatenate([own.labels().cpu().numpy(), test.labels().cpu().numpy()])
