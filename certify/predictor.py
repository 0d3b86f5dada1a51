"""Certify any model that can be called, whatever it was trained with.  Needs no torch."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from latecomer.bounds.certificate import Certificate
from latecomer.bounds.checks import count, largest_loss
from latecomer.certify.rule import DEFAULT_RULE, LEAST_OUTSIDE
from latecomer.certify.statements import LossCertificate, certify_losses
from latecomer.checks import checked, whole
from latecomer.errors import InputError, refused_at
from latecomer.reading.frames import columns_of_points, refuse_other_order, refuse_other_rows
from latecomer.reading.ids import first_gap, refuse_clients, refuse_labels, spelling

Ints = NDArray[np.int64]
# Folds have a random stream of their own.
_PURPOSE = 0xF01D
Points = tuple[NDArray[Any], NDArray[Any]]
Predictor = Callable[[Points, NDArray[Any]], ArrayLike]
Loss = Callable[[NDArray[Any], NDArray[Any]], ArrayLike]


def certify_predictor(
    predictor: Predictor,
    clients: Mapping[Any, tuple[Any, Any]],
    *,
    folds: int = 1,
    seed: int | None = None,
    loss: Loss | None = None,
    rule: str = DEFAULT_RULE,
    delta: float = 0.05,
    alpha: float = 0.1,
    pool_size: int | None = None,
    loss_max: float = 1.0,
) -> LossCertificate:
    """Bound how well a system serves clients like these, none of whom it was trained on.

    Clients are served from support alone and scored on points that the predictor was not given.
    With probability 1 - delta over the draw of the clients, the mean loss of clients like these is
    at most ``certificate``; the next loss is at most ``next_client`` with probability 1 - alpha.

    Parameters
    ----------
    predictor : callable
        ``((x, y), query_x) -> predictions``.  It must not learn from one client for the next.
    clients : mapping
        Client id to ``(support, query)``, both ``(x, y)`` arrays with one row per point; ``query``
        may be None when there are folds.
    folds : int
        1: served from support, scored on query.  More: both are cut at random into that many
        folds, each scored by the predictor with the other folds as support.
    seed : int, optional
        Fixes the folds, to be chosen beforehand (0 unless given), and repeats the orders that some
        rules average over, which are drawn afresh unless it is given.
    loss : callable, optional
        ``(predictions, y) -> losses`` in [0, ``loss_max``], one per point; 0/1 error by default.
    rule, delta, alpha, pool_size, loss_max
        As for :func:`certify_losses`; a pool holds ten or more clients besides those certified.

    Raises
    ------
    InputError
        One line naming the argument or the client, what is legal and what was given.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import LogisticRegression
    >>> x, y = load_digits(return_X_y=True)
    >>> model = LogisticRegression(max_iter=300).fit(x[:900], y[:900])
    >>> clients = {i: ((x[a:a + 15], y[a:a + 15]), (x[a + 15:a + 29], y[a + 15:a + 29]))
    ...            for i, a in enumerate(range(900, 1480, 29))}  # of 30 that did not train
    >>> predictor = lambda support, query_x: model.predict(query_x)
    >>> certified = certify_predictor(predictor, clients, pool_size=30, seed=1)
    >>> certified.n_clients, round(certified.mean, 3), round(float(certified.certificate), 3)
    (20, 0.05, 0.133)
    """
    how: dict[str, Any] = {"folds": folds, "seed": seed, "loss": loss, "loss_max": loss_max}
    scored = score_clients(predictor, clients, pool_size=pool_size, **how)
    given: dict[str, Any] = {"delta": delta, "alpha": alpha, "loss_max": loss_max}
    certified = certify_losses(scored.losses, rule=rule, pool_size=pool_size, seed=seed, **given)
    return scored.told(certified)


Found = TypeVar("Found", bound=LossCertificate)


@dataclass(frozen=True)
class Scored:
    """Each client's mean loss, and what the losses are about."""

    losses: dict[str, float]  # by client
    about: str  # how clients were served: an assumption of the certificates

    def told(self, certified: Found) -> Found:
        """Add how clients were served to the assumptions of what was certified of these losses."""
        certificate = certified.certificate and _about(certified.certificate, self.about)
        next_client = certified.next_client and _about(certified.next_client, self.about)
        return replace(certified, certificate=certificate, next_client=next_client)


def score_clients(
    predictor: Predictor,
    clients: Mapping[Any, tuple[Any, Any]],
    *,
    folds: int = 1,
    seed: int | None = None,
    loss: Loss | None = None,
    loss_max: float = 1.0,
    pool_size: int | None = None,
) -> Scored:
    """Serve every client, once per fold, and average the losses of its points.

    Arguments and errors are those of :func:`certify_predictor`.

    Examples
    --------
    >>> x, y = np.arange(4.0), np.array([0, 0, 1, 1])
    >>> score_clients(lambda support, x: x > 2, {"a": ((x, y), (x, y))}).losses
    {'a': 0.25}
    """
    _check(predictor, clients, loss, pool_size)
    start, n_folds = whole("seed", 0 if seed is None else seed, 0), whole("folds", folds, 1)
    largest = float(checked(largest_loss, "loss_max", loss_max))
    return _scored(predictor, clients, n_folds, start, loss or _wrong, largest)


def _check(predictor: Any, clients: Any, loss: Any, pool_size: int | None) -> None:
    for name, given in (("predictor", predictor), *([] if loss is None else [("loss", loss)])):
        if isinstance(given, type):
            raise InputError(
                f"{name} must be a function or an instance, got class {given.__name__}"
            )
        if not callable(given):
            raise InputError(f"{name} must be a function, got {type(given).__name__}")
        _check_takes(name, given)
    if not isinstance(clients, Mapping):
        kind = type(clients).__name__
        raise InputError(f"clients must be a mapping of client to (support, query), got {kind}")
    if pool_size is None:
        return
    if checked(count, "pool_size", pool_size) < len(clients) + LEAST_OUTSIDE:
        raise InputError(
            f"pool_size must be at least {LEAST_OUTSIDE} above the {len(clients)} clients to be "
            f"certified, got {pool_size}"
        )


def _check_takes(name: str, given: Callable[..., Any]) -> None:
    """Refuse a function that cannot be called as predictors, or losses, are."""
    try:
        takes = inspect.signature(given)
    except (ValueError, TypeError):
        return  # some builtins do not say what they take
    try:
        takes.bind(None, None)
    except TypeError as error:
        legal = "(support, query_x)" if name == "predictor" else "(predictions, y)"
        raise InputError(f"{name} must take {legal}, got {takes}: {error}") from error


def _scored(
    predictor: Predictor,
    clients: Mapping[Any, Any],
    folds: int,
    seed: int,
    loss: Loss,
    loss_max: float,
) -> Scored:
    losses: dict[str, float] = {}
    n_support: list[int] = []
    classes: set[str] = set()
    columns: tuple[Any, ...] = ()
    for key, given in clients.items():
        name = _client(key)
        columns = _refuse_other_order(name, given, columns)
        total, n_points = 0.0, 0
        for support, (query_x, query_y) in _parts(name, given, folds, seed):
            n_support.append(len(support[0]))
            if loss is _wrong:
                _check_labels(name, np.asarray(query_y))
            predicted = _predicted(name, predictor(support, query_x), query_y)
            if loss is _wrong:
                _check_predictions(name, predicted, np.asarray(query_y))
                classes |= {one for one in np.asarray(query_y).tolist() if isinstance(one, str)}
            total += float(_checked(name, loss(predicted, query_y), len(query_y), loss_max))
            n_points += len(query_y)
        losses[name] = min(total / n_points, loss_max)
    refuse_labels(sorted(classes))
    if len(losses) < len(clients):
        raise InputError("clients must have ids that differ as text, got two alike")
    refuse_clients(losses)
    least, most = min(n_support, default=0), max(n_support, default=0)
    about = f"the system is run with {least} to {most} support points a client"
    if folds > 1:
        about += f" (losses average over {folds} folds of a client's own points)"
    return Scored(losses, about)


def _refuse_other_order(name: str, given: Any, first: tuple[Any, ...]) -> tuple[Any, ...]:
    """Refuse frames with columns or rows in another order than the first; return that one's."""
    for role, part in zip(("support", "query"), _pair(name, given), strict=True):
        if part is None:  # folds need no query
            continue
        x, y = _x_and_y(name, role, part)
        refuse_other_rows(x, y, f"client {name!r}: {role}")
        columns = columns_of_points(x)
        refuse_other_order(first, columns, f"client {name!r}: x of {role}")
        first = first or columns
    return first


def _about(issued: Certificate, text: str) -> Certificate:
    return replace(issued, assumptions=(*issued.assumptions, text))


def _client(key: Any) -> str:
    with refused_at("clients"):
        name = spelling(key)
    if not name:
        raise InputError(f"clients: no client id, got {key!r}")
    return name


def _array(name: str, what: str, given: Any, dtype: type | None = None) -> NDArray[Any]:
    # A plain array has what lies under the mask, as if it were given.
    if np.ma.is_masked(given):
        n_masked = int(np.ma.getmaskarray(given).sum())
        raise InputError(
            f"client {name!r}: {what} must have no masked cells, got {n_masked}; leave such points"
            " out"
        )
    try:
        return np.asarray(given, dtype=dtype)
    # Ragged lists, text where numbers are due, tensors that hold a gradient or lie on a GPU.
    except (TypeError, ValueError, RuntimeError) as error:
        told = " ".join(str(error).split())
        kind = type(given).__name__
        raise InputError(f"client {name!r}: {what} must be an array, got {kind}: {told}") from error


def _predicted(name: str, given: ArrayLike, query_y: NDArray[Any]) -> NDArray[Any]:
    predicted = _array(name, "predictions", given)
    if len(np.atleast_1d(predicted)) != len(query_y):
        raise InputError(
            f"client {name!r}: the predictor must give one prediction for each of "
            f"{len(query_y)} points, got shape {predicted.shape}"
        )
    return predicted


def _check_labels(name: str, y: NDArray[Any]) -> None:
    """Refuse labels that are missing, or are a quantity: each would count as a class."""
    _check_each(name, "labels", y, len(y))
    if any(isinstance(one, float) for one in y.tolist()):
        raise InputError(
            f"client {name!r}: labels must be classes, whole numbers or names, unless loss "
            f"is given, got {y.dtype}: for regression say loss=, a "
            "function of predictions and labels with values from 0 to loss_max"
        )


def _check_predictions(name: str, predicted: NDArray[Any], y: NDArray[Any]) -> None:
    """Refuse what is no label, or no label like the others: it would count as an error, or none."""
    _check_each(name, "predictions", predicted, len(y))
    kinds = {"labels": _kind(y), "predictions": _kind(predicted)}
    if kinds["labels"] != kinds["predictions"] or "mixed" in kinds.values():
        raise InputError(
            f"client {name!r}: predictions and labels must be of one kind, got"
            f" {kinds['predictions']} {predicted.tolist()[0]!r} and {kinds['labels']}"
            f" {y.tolist()[0]!r}"
        )
    if predicted.dtype.kind == "f" and (predicted % 1 != 0).any():
        score = predicted[predicted % 1 != 0][0]
        raise InputError(
            f"client {name!r}: predictions must be labels, got {score:g}, a score; decide, or give"
            " loss"
        )


def _check_each(name: str, what: str, held: NDArray[Any], n_points: int) -> None:
    if held.shape != (n_points,):
        raise InputError(
            f"client {name!r}: {what} must be one label a point, shape ({n_points},), got shape"
            f" {held.shape}; scores of classes become labels by argmax, or give loss"
        )
    place = first_gap(held.tolist())
    if place is not None:
        raise InputError(
            f"client {name!r}: {what}: none for point {place} of {n_points}, got"
            f" {held.tolist()[place]!r}; leave such points out"
        )


def _kind(held: NDArray[Any]) -> str:
    # Bytes equal no text, b"a" != "a": side by side each would count as an error.
    kinds = {
        "text" if isinstance(one, str) else "bytes" if isinstance(one, bytes) else "numbers"
        for one in held.tolist()
    }
    return kinds.pop() if len(kinds) == 1 else "mixed"


def _wrong(predicted: NDArray[Any], y: NDArray[Any]) -> NDArray[np.float64]:
    return np.asarray(predicted != y, dtype=np.float64)


def _checked(name: Any, losses: ArrayLike, n_points: int, loss_max: float) -> float:
    """Sum the losses of one client's points, each of which must be legal."""
    each = _array(name, "losses", losses, np.float64)
    if each.shape != (n_points,):
        raise InputError(
            f"client {name!r}: loss must give one number a point, shape ({n_points},), got shape "
            f"{each.shape}"
        )
    illegal = each[~((each >= 0) & (each <= loss_max))]
    if illegal.size:
        raise InputError(
            f"client {name!r}: losses must lie in [0, {loss_max:g}], got {illegal[0]:g}"
        )
    return float(each.sum())


def _parts(name: Any, given: Any, folds: int, seed: int) -> Iterator[tuple[Points, Points]]:
    """Yield support and query of one client, once per fold."""
    support, query = _pair(name, given)
    own = _points(name, "support", support)
    if folds == 1:
        yield own, _points(name, "query", query)
        return
    if query is not None:
        other = _points(name, "query", query)
        try:
            own = (np.concatenate([own[0], other[0]]), np.concatenate([own[1], other[1]]))
        except ValueError as error:
            raise InputError(f"client {name!r}: support and query do not fit: {error}") from None
    if len(own[1]) < folds:
        raise InputError(f"client {name!r}: {folds} folds need as many points, got {len(own[1])}")
    stream = int.from_bytes(sha256(str(name).encode("utf-8", "replace")).digest()[:8], "little")
    for fold in client_folds(len(own[1]), folds, seed=seed, client=stream):
        kept = np.delete(np.arange(len(own[1])), fold)
        yield (own[0][kept], own[1][kept]), (own[0][fold], own[1][fold])


def _pair(name: Any, given: Any) -> tuple[Any, Any]:
    try:
        support, query = given
    except (TypeError, ValueError):
        raise InputError(f"client {name!r}: must be a pair (support, query)") from None
    return support, query


def _x_and_y(name: Any, role: str, given: Any) -> tuple[Any, Any]:
    try:
        x, y = given
    except (TypeError, ValueError):
        raise InputError(f"client {name!r}: {role} must be a pair (x, y)") from None
    return x, y


def _points(name: Any, role: str, given: Any) -> Points:
    x, y = _x_and_y(name, role, given)
    # Copies: a predictor that scales its points in place must not change other clients' or ours.
    points = _array(name, f"x of {role}", x).copy(), _array(name, f"y of {role}", y).copy()
    if any(part.ndim == 0 for part in points) or len(points[0]) != len(points[1]):
        shapes = " and ".join(str(part.shape) for part in points)
        raise InputError(
            f"client {name!r}: {role} must have one row of x and y a point, got {shapes}"
        )
    if not len(points[0]):
        raise InputError(f"client {name!r}: {role} must hold at least one point, got none")
    return points


def client_folds(n_points: int, folds: int, *, seed: int, client: int) -> list[Ints]:
    """Divide a client's points into random folds, which depend on seed and client alone.

    They are disjoint index arrays in increasing order, whose sizes differ by at most 1.

    Raises
    ------
    InputError
        There are more folds than points, or fewer than 2.

    Examples
    --------
    >>> [len(fold) for fold in client_folds(7, 3, seed=0, client=4)]
    [3, 2, 2]
    """
    if not 2 <= folds <= n_points:
        raise InputError(
            f"folds must be from 2 to the {n_points} points of client {client}, got folds={folds}"
        )
    order = np.random.default_rng([seed, client, _PURPOSE]).permutation(n_points)
    return [np.sort(fold) for fold in np.array_split(order, folds)]
