"""Certify any callable model; the result is shown as any other certified losses are."""

from collections.abc import Mapping
from typing import Any

from latecomer.certify.arguments import ASKED, PREDICTED, told_in_full
from latecomer.certify.losses import CertifiedLosses, certify_losses
from latecomer.certify.predictor import Loss, Predictor, score_clients


@told_in_full(PREDICTED, ASKED)
def certify_predictor(
    predictor: Predictor,
    clients: Mapping[Any, tuple[Any, Any]],
    *,
    folds: int = 1,
    seed: int | None = None,
    loss: Loss | None = None,
    loss_max: float = 1.0,
    pool_size: int | None = None,
    **asked: Any,
) -> CertifiedLosses:
    """Bound how well a system serves clients like these, none of whom it was trained on.

    Clients are served from support alone and scored on points that the predictor was not given;
    their losses are then certified by `certify_losses`.

    Parameters
    ----------
    predictor, clients, folds, seed, loss
        As for :func:`latecomer.certify.predictor.certify_predictor`: a callable
        ``((x, y), query_x) -> predictions``, and client id to ``(support, query)``.
    loss_max, pool_size
        As for `certify_losses`; a pool holds ten or more clients besides those certified.
    **asked
        Further arguments of `certify_losses`: ``delta``, ``rule``, ``shifts``, ``above``, ...

    Raises
    ------
    InputError
        One line naming the argument or the client, what is legal and what was given.

    Examples
    --------
    >>> import numpy as np
    >>> x, y = np.arange(20.0), np.arange(20) > 9
    >>> clients = {i: ((x, y), (x, y)) for i in range(30)}
    >>> certified = certify_predictor(lambda support, x: x > 10, clients, above=[0.2])
    >>> round(float(certified.certificate), 3), round(float(certified.above[0.2]), 3)
    (0.14, 0.095)
    """
    how: dict[str, Any] = {"folds": folds, "seed": seed, "loss": loss, "loss_max": loss_max}
    scored = score_clients(predictor, clients, pool_size=pool_size, **how)
    drawn: dict[str, Any] = {"seed": seed, "loss_max": loss_max, "pool_size": pool_size}
    return scored.told(certify_losses(scored.losses, **drawn, **asked))
