"""How far clients are from the seen ones: by their labels, and by a domain classifier."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from latecomer.bounds.shift.adaptation import KINDS, divergence, nearest, proxy_a
from latecomer.checks import one_of
from latecomer.errors import InputError

if TYPE_CHECKING:
    from latecomer.models.task.clients import Clients

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
CLASSIFIERS = ("linear", "mlp")
_MLP_WIDTH = 64
_MAX_SAMPLES = 2000
_FOLDS = 5
_BUCKETS = 256


@dataclass(frozen=True)
class ADistance:
    """Proxy A-distance of two samples of ``n`` members, with the held-out error it comes from.

    ``proxy`` is ``2(1 - 2 error)`` in [-2, 2], below 0 if the classifier did worse than chance;
    ``error`` is averaged over the two domains; the ``standard_error`` is that of the error, and
    four times as large for the proxy.
    """

    proxy: float
    error: float
    standard_error: float
    n: tuple[int, int]


def a_distance(
    x_a: ArrayLike,
    x_b: ArrayLike,
    *,
    seed: int,
    classifier: str = "linear",
    features: Callable[[NDArray[Any]], ArrayLike] | None = None,
) -> ADistance:
    r"""Train a classifier to tell two samples apart and turn its error into a distance.

    Logistic regression (``linear``) or one hidden layer of 64 (``mlp``), on inputs standardised by
    the training folds; each member is classified once, by a classifier not trained on it. The error
    is the mean of the two domains' error rates. Its standard error takes each rate as
    :math:`(k+1)/(n+2)`, so that zero errors do not give a standard error of 0. A trained classifier
    gives at most the true A-distance: the value is an estimate, not a bound. Source: S. Ben-David
    et al., "A theory of learning from different domains", Machine Learning 79 (2010), section 5.

    Samples [n, ...] have members of one shape, at least two of them; beyond 2,000, a random 2,000
    are taken. There are five folds, or as many as the smaller sample has members. ``features`` maps
    samples to classifier inputs, ``[n, ...] -> [n, ...]``; it must not be fitted on these samples,
    or the error is not a held-out error.
    """
    one_of("classifier", classifier, CLASSIFIERS)
    rng = np.random.default_rng([seed, 0])
    if features is not None:
        x_a, x_b = features(np.asarray(x_a)), features(np.asarray(x_b))
    a, b = _flat("x_a", x_a, rng), _flat("x_b", x_b, rng)
    if a.shape[1] != b.shape[1]:
        raise InputError(
            f"x_a and x_b must be samples of one shape, got {np.shape(x_a)[1:]} and "
            f"{np.shape(x_b)[1:]}"
        )
    domain = np.repeat([0, 1], [len(a), len(b)])
    wrong = _judged(np.concatenate([a, b]), domain, classifier, rng) != domain
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


def token_counts(x: NDArray[Any]) -> Floats:
    """Return how often tokens of each remainder modulo 256 stand in samples ``[n, T]``.

    Vectors ``[n, 256]`` for a classifier: as numbers, tokens mean nothing.

    >>> token_counts(np.array([[3, 0, 259]]))[0, :4].tolist()
    [1.0, 0.0, 0.0, 2.0]
    """
    counts = np.zeros((len(x), _BUCKETS))
    buckets = np.asarray(x, dtype=np.int64) % _BUCKETS
    np.add.at(counts, (np.arange(len(x))[:, None], buckets), 1)
    return counts


def _judged(x: Floats, domain: Ints, classifier: str, rng: np.random.Generator) -> Ints:
    """Return each sample's domain as predicted by a classifier not trained on it."""
    from sklearn import config_context
    from sklearn.model_selection import StratifiedKFold
    from threadpoolctl import threadpool_limits

    most = min(_FOLDS, *np.bincount(domain).tolist())
    folds = StratifiedKFold(most, shuffle=True, random_state=int(rng.integers(2**31)))
    fit = _fit_linear if classifier == "linear" else _fit_mlp
    said = np.empty_like(domain)
    # One thread: faster on samples this small, and identical results on any number of cores.
    # Settings of the classifiers are ours and need no check in every fold; samples are checked.
    with threadpool_limits(1), config_context(skip_parameter_validation=True):
        for train, held_out in folds.split(x, domain):
            said[held_out] = fit(x[train], domain[train], rng).predict(x[held_out])
    return said


def _fit_linear(x: Floats, domain: Ints, rng: np.random.Generator) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    judge = LogisticRegression(class_weight="balanced", max_iter=1000)
    return make_pipeline(StandardScaler(), judge).fit(x, domain)


def _fit_mlp(x: Floats, domain: Ints, rng: np.random.Generator) -> Any:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    # MLPClassifier takes no class weights: samples of the smaller domain are repeated instead.
    parts = [np.flatnonzero(domain == d) for d in (0, 1)]
    most = max(len(part) for part in parts)
    even = np.concatenate([np.resize(rng.permutation(part), most) for part in parts])
    judge = MLPClassifier((_MLP_WIDTH,), alpha=0.01, random_state=int(rng.integers(2**31)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # early stopping only costs power
        return make_pipeline(StandardScaler(), judge).fit(x[even], domain[even])


def _flat(name: str, x: ArrayLike, rng: np.random.Generator) -> NDArray[np.float64]:
    array = np.asarray(x)
    if array.ndim < 2 or len(array) < 2:
        raise InputError(f"{name} must hold at least two samples, got shape {list(array.shape)}")
    if len(array) > _MAX_SAMPLES:
        array = array[rng.permutation(len(array))[:_MAX_SAMPLES]]
    return array.reshape(len(array), -1).astype(np.float64)


_SMOOTHING = {kind: 0.5 if kind == "kl" else 0.0 for kind in KINDS}


def label_distances(counts: ArrayLike, others: ArrayLike) -> dict[str, NDArray[np.float64]]:
    """Return KL, TV, Jensen-Shannon and Hellinger [n, m] for every pair of clients.

    ``counts`` [n, n_classes] of samples per class are p of the KL, ``others`` [m, n_classes] q. For
    the KL, counts are smoothed by 1/2, which brings clients far apart nearer; for the other
    measures they are not. KL and JS are in nats. All are plug-in estimates, biased if samples are
    few.

    >>> gaps = label_distances([[5, 5, 0]], [[0, 0, 9], [5, 5, 0]])
    >>> gaps["tv"].tolist(), gaps["hellinger"].tolist()
    ([[1.0, 0.0]], [[1.0, 0.0]])
    """
    first, second = np.asarray(counts)[:, None], np.asarray(others)
    return {
        kind: np.asarray(
            [
                divergence(novel_counts=row, train_counts=second, kind=kind, smoothing=smoothing)
                for row in first
            ]
        )
        for kind, smoothing in _SMOOTHING.items()
    }


def split_diagnostics(
    train: "Clients", group: "Clients", *, classifier: str = "linear"
) -> list[dict[str, Any]]:
    """Return rows with the distance of each client of a group from the seen clients.

    ``label_kl``, ``label_tv``, ``label_js`` and ``label_hellinger`` are distances to the seen
    client nearest in that measure, as `label_distances` has them; ``a_distance`` is the proxy
    A-distance to the seen client nearest in TV. (The smallest of many noisy A-distances would be
    biased towards 0.) Support and query samples count alike. Each row's message names the seen
    client and, for the A-distance, the held-out error with its standard error.
    """
    n_classes = 1 + max(int(train.y.max()), int(group.y.max()))
    seen = [_samples(train, i) for i in range(len(train))]
    train_counts = [np.bincount(y, minlength=n_classes) for _, y in seen]
    rows: list[dict[str, Any]] = []
    for i in range(len(group)):
        x, y = _samples(group, i)
        counts = np.bincount(y, minlength=n_classes)
        near = {
            kind: nearest(
                novel_counts=counts, train_counts=train_counts, kind=kind, smoothing=smoothing
            )
            for kind, smoothing in _SMOOTHING.items()
        }
        by_tv = int(near["tv"].client)
        apart = a_distance(x, seen[by_tv][0], seed=i, classifier=classifier)
        judged = f"held-out error {apart.error:.3f} (standard error {apart.standard_error:.3f}), "
        for metric, value, place, note in (
            *(
                (f"label_{kind}", float(one.divergence), int(one.client), "")
                for kind, one in near.items()
            ),
            ("a_distance", apart.proxy, by_tv, judged),
        ):
            rows.append(
                {
                    "client": int(group.ids[i]),
                    "n_support": int(group.support_sizes[i]),
                    "n_query": int(group.query_sizes[i]),
                    "metric": metric,
                    "value": value,
                    "message": f"{note}seen client {int(train.ids[place])}",
                }
            )
    return rows


def _samples(clients: "Clients", index: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return inputs as the network sees them, or tokens' counts, and labels, of one client."""
    own, test = clients.support_of(index), clients.query_of(index)
    x = np.concatenate([own.x.cpu().numpy(), test.x.cpu().numpy()])
    x = token_counts(x) if clients.holds_tokens else x
    return x, np.concatenate([own.labels().cpu().numpy(), test.labels().cpu().numpy()])
