"""Client scores and their summaries: pooled and per-client means with t-intervals."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit


@dataclass(frozen=True)
class ClientScore:
    """How well one client was served: results on its query data.

    Attributes
    ----------
    client : int
        Client id.
    n_support, n_query : int
        Samples the model was fitted on, and samples it was measured on.
    n_wrong : float
        Query samples that were classified wrongly; if the client's model is drawn from several, the
        mean over them, which need not be an integer.
    loss : float
        Mean cross-entropy on the query data in nats, before any masking of classes.
    """

    client: int
    n_support: int
    n_query: int
    n_wrong: float
    loss: float

    @property
    def error(self) -> float:
        """Fraction of the query data that was classified wrongly."""
        return self.n_wrong / self.n_query


@dataclass(frozen=True)
class GroupScore:
    """Error of a group of clients, pooled over samples and averaged over clients.

    Attributes
    ----------
    n_clients, n_query : int
        Clients and query samples in the group.
    pooled : float
        Error rate on the query samples of all clients together.
    per_client : float
        Mean of the clients' errors; differs from ``pooled`` for clients of unequal size.
    lower, upper : float
        95% t-interval of ``per_client`` over clients, clipped to [0, 1]; NaN for a single client.
    loss : float
        Mean over clients of the mean cross-entropy, in nats.
    """

    n_clients: int
    n_query: int
    pooled: float
    per_client: float
    lower: float
    upper: float
    loss: float


def group_score(scores: Sequence[ClientScore]) -> GroupScore:
    """Summarise the scores of one group of clients.

    Parameters
    ----------
    scores : sequence of ClientScore
        At least one.

    Returns
    -------
    GroupScore

    Raises
    ------
    ValueError
        There is no score.

    Examples
    --------
    >>> s = [ClientScore(0, 9, 10, 1, .3), ClientScore(1, 9, 30, 6, .5)]
    >>> g = group_score(s)
    >>> g.pooled, round(g.per_client, 3)
    (0.175, 0.15)
    """
    if not scores:
        raise ValueError("scores must hold at least one client, got none")
    errors = np.array([score.error for score in scores])
    n_query = sum(score.n_query for score in scores)
    mean = float(errors.mean())
    half = _half_width(errors)
    return GroupScore(
        n_clients=len(scores),
        n_query=n_query,
        pooled=sum(score.n_wrong for score in scores) / n_query,
        per_client=mean,
        lower=max(0.0, mean - half) if len(errors) > 1 else np.nan,
        upper=min(1.0, mean + half) if len(errors) > 1 else np.nan,
        loss=float(np.mean([score.loss for score in scores])),
    )


@dataclass(frozen=True)
class PairedEffect:
    """Mean over clients of the difference between two errors of the same client.

    Attributes
    ----------
    n_clients : int
        Clients with both errors.
    mean : float
        In [-1, 1]; above 0 the shift makes clients worse.
    lower, upper : float
        95% t-interval over clients; NaN for a single client.
    """

    n_clients: int
    mean: float
    lower: float
    upper: float


def paired_effect(shifted: Sequence[ClientScore], control: Sequence[ClientScore]) -> PairedEffect:
    """Compare the errors of the same clients under a shift and under its matched control.

    Raises
    ------
    ValueError
        The clients differ, or there are none.

    Examples
    --------
    >>> before = [ClientScore(0, 9, 10, 1, .3), ClientScore(1, 9, 10, 2, .5)]
    >>> after = [ClientScore(0, 9, 10, 3, .3), ClientScore(1, 9, 10, 4, .5)]
    >>> round(paired_effect(after, before).mean, 3)
    0.2
    """
    ids = [score.client for score in shifted]
    if not ids or ids != [score.client for score in control]:
        raise ValueError("shifted and control must score the same clients, at least one")
    pairs = zip(shifted, control, strict=True)
    difference = np.array([after.error - before.error for after, before in pairs])
    mean, half = float(difference.mean()), _half_width(difference)
    return PairedEffect(len(difference), mean, mean - half, mean + half)


def _half_width(values: npt.NDArray[np.float64]) -> float:
    """Return half of the 95% t interval of the mean over clients; NaN for a single one.

    That of ``scipy.stats``, which takes longer to load than all that scores.
    """
    if len(values) < 2:
        return np.nan
    error = values.std(ddof=1) / np.sqrt(len(values))
    return float(stdtrit(len(values) - 1, 0.975) * error)
