"""How a setting of an executor that is out of its range is refused."""

from collections.abc import Collection

from latecomer.eval.errors import InputError, nearest

__all__ = ["at_least", "one_of"]


def at_least(name: str, value: float | None, least: float) -> None:
    """Refuse a number below ``least``; None is a setting that is not given.

    Examples
    --------
    >>> at_least("workers", None, 1)
    >>> at_least("workers", 0, 1)
    Traceback (most recent call last):
    latecomer.eval.errors.InputError: workers must be at least 1, got 0
    """
    if value is not None and not least <= value < float("inf"):
        raise InputError(f"{name} must be at least {least:g}, got {value:g}")


def one_of(name: str, value: str, choices: Collection[str]) -> None:
    """Refuse a word that is not among the choices.

    Examples
    --------
    >>> one_of("cluster", "slrum", ["slurm", "local"])
    Traceback (most recent call last):
    latecomer.eval.errors.InputError: cluster must be slurm or local, got 'slrum'; did you mean \
'slurm'?
    """
    if value not in choices:
        legal = " or ".join(choices)
        raise InputError(f"{name} must be {legal}, got {value!r}{nearest(value, choices)}")
