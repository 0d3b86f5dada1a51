"""What clients that come by themselves can prove, said before anything is trained."""

from collections.abc import Sequence

from latecomer.bounds import product_wor
from latecomer.bounds.held_out.price import reference_price
from latecomer.certify.rule import LEAST_OUTSIDE
from latecomer.certify.words import chance
from latecomer.errors import InputError

_MEAN = 0.2
_FEWEST = LEAST_OUTSIDE + 2


def foretold(sizes: tuple[int, int, int], n_outside: int, delta: float | None) -> str:
    """Say who has which role, and about what a certificate of a mean will be worth.

    Parameters
    ----------
    sizes : tuple of int
        Numbers of seen, certified and new clients.
    n_outside : int
        Clients of the certified ones' population that neither train nor are certified.
    delta : float or None
        Failure probability of the certificate; None where none is asked for.

    Examples
    --------
    >>> import textwrap
    >>> print(textwrap.fill(foretold((8, 10, 10), 10, 0.05), 80))
    28 clients: 8 train, 10 are certified, 10 are new; were all 10 wrong 20% of the
    time, a certificate for the 20 not trained on would be about 35% (95%), more
    where clients differ
    """
    n_seen, n_certified, n_novel = sizes
    said = f"{sum(sizes)} clients: {n_seen} train, {n_certified} are certified, {n_novel} are new"
    if delta is None or not n_certified:
        return said
    pool = n_certified + n_outside
    bound = product_wor(losses=[_MEAN] * n_certified, pool_size=pool, delta=delta)
    return (
        f"{said}; were all {n_certified} wrong {_MEAN:.0%} of the time, a certificate for the "
        f"{pool} not trained on would be about {float(bound.value):.0%} ({1 - delta:.0%}), more "
        "where clients differ"
    )


def refuse_too_few(n_clients: int, points: Sequence[int], delta: float) -> None:
    """Refuse to certify with fewer clients than a certificate of a pool takes.

    Parameters
    ----------
    n_clients : int
    points : sequence of int
        Points of each client.
    delta : float
        Failure probability of the certificate that was asked for.

    Raises
    ------
    InputError
        It says what so few clients can show, and what they cannot.
    """
    if n_clients >= _FEWEST:
        return
    floor = float(reference_price(mean_loss=0.0, n_clients=n_clients, delta=delta))
    raise InputError(
        f"certificates need at least {_FEWEST} clients (1 that trains, 1 certified, "
        f"{LEAST_OUTSIDE} others of which they speak), got {n_clients} of {min(points)} to "
        f"{max(points)} points: without certificates, hold clients back in turn (split.novel: 1, "
        "split.seed: 0, 1, ...) and their errors are measured, which proves nothing of a next "
        f"client; of a model that none of the {n_clients} trained, latecomer certify proves with "
        f"{chance(delta)} confidence a mean over clients to come of no less than {floor:.0%}, even "
        f"if all {n_clients} had no error"
    )
