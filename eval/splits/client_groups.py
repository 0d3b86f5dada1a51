"""Natural clients in groups: whose clients may be certified, and whose are held back."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from latecomer.checks import fraction, whole
from latecomer.errors import InputError, nearest
from latecomer.eval.datasets.dataset import Dataset
from latecomer.eval.splits.kinds.dealt import Natural

Ints = NDArray[np.int64]
GROUPS = ("certify_groups", "novel_groups")
"""Settings of a natural split that are about groups, not about filling clients."""
_ALL_HELD = "split.novel_groups leave no seen client: they hold all"


@dataclass(frozen=True)
class Order:
    """Clients in the order of their roles, and how many have each.

    Attributes
    ----------
    places : ndarray of int64
        Places among the filled clients: seen ones first, then certified, novel and further ones.
    sizes : tuple of int
        Numbers of seen, certified and new clients.
    apart : tuple of (str, int)
        Held-back groups whose clients are new clients of another population, and their sizes.
    left_out : tuple of int
        Numbers in the data of a left-out group's clients that were not drawn.
    """

    places: Ints
    sizes: tuple[int, int, int]
    apart: tuple[tuple[str, int], ...] = ()
    left_out: tuple[int, ...] = ()


def ordered_by_groups(dataset: Dataset, ids: Ints, order: Ints, settings: Natural) -> Order:
    """Divide permuted clients into roles, as the settings say of their groups.

    Let H be the clients of ``novel_groups`` and C those of ``certify_groups`` (unless given, all
    that are not in H). No client of H ever trains. If C is H, one or more groups are left out:
    the certified clients are drawn from H and its others are the novel ones. Otherwise certified
    and new clients are drawn from C, its others train like the clients of all other groups, and
    the clients of H are new clients of another population, measured beside; if no number of new
    clients is given, they are the novel ones. Shares are of the clients that are drawn from.

    Parameters
    ----------
    dataset : Dataset
    ids : ndarray of int64
        Numbers in the data of the clients that are there.
    order : ndarray of int64
        Their places, permuted uniformly: so certified and new clients are a uniform sample of C,
        in uniform order.
    settings : Natural

    Raises
    ------
    InputError
        A group is unknown or has no client, the two lists overlap in part, or nobody trains.
    """
    group = np.array(_groups_of(dataset))[ids[order]]
    held = _listed("novel_groups", settings.novel_groups, group)
    certified = _listed("certify_groups", settings.certify_groups, group)
    certified = certified or tuple(name for name in np.unique(group).tolist() if name not in held)
    if not certified:
        raise InputError(_ALL_HELD)
    outside = set(certified) == set(held)
    both = sorted(set(certified) & set(held))
    if both and not outside:
        raise InputError(
            "split.certify_groups and split.novel_groups must be the same, or have no group in "
            f"common, got {both[0]!r} in both"
        )
    drawn, other = order[np.isin(group, certified)], order[~np.isin(group, [*certified, *held])]
    n_certify = amount("split.certify", settings.certify, len(drawn))
    n_novel = amount("split.novel", settings.novel, len(drawn))
    if outside:
        n_novel = n_novel or len(drawn) - n_certify
    _check_sizes(n_certify, n_novel, len(drawn), certified, others_train=outside or len(other) > 0)
    seen = np.concatenate([drawn[n_certify + n_novel :] if not outside else drawn[:0], other])
    if not len(seen):
        raise InputError(_ALL_HELD)
    parts = [seen, drawn[: n_certify + n_novel]]
    unused = drawn[n_certify + n_novel :] if outside else drawn[:0]
    apart: list[tuple[str, int]] = []
    for name in () if outside else held:
        own = order[group == name]
        parts.append(own)
        apart.append((name, len(own)))
    if apart and not n_novel:
        n_novel, apart = sum(size for _, size in apart), []
    sizes = len(seen), n_certify, n_novel
    return Order(np.concatenate(parts), sizes, tuple(apart), tuple(sorted(ids[unused].tolist())))


def amount(key: str, value: object, n_clients: int) -> int:
    """Turn a count or a fraction of the clients into a count.

    Raises
    ------
    InputError

    Examples
    --------
    >>> amount("split.novel", 0.2, 28), amount("split.novel", 10, 28)
    (6, 10)
    """
    if isinstance(value, float):
        size = round(fraction(key, value) * n_clients)
        if value and not size:
            raise InputError(f"{key}={value!r} of {n_clients} clients is not one client")
        return size
    return whole(key, value, 0, n_clients, " (or a decimal fraction in [0, 1))")


def _groups_of(dataset: Dataset) -> tuple[str, ...]:
    if not dataset.group:
        raise InputError(
            "split.certify_groups and split.novel_groups need clients in groups: data.group names "
            "the column"
        )
    return dataset.group


def _listed(key: str, asked: Sequence[str] | None, group: NDArray[np.str_]) -> tuple[str, ...]:
    known = np.unique(group).tolist()
    for name in asked or ():
        if name not in known:
            legal = ", ".join(known)
            raise InputError(
                f"split.{key} must list groups of the clients that the split holds ({legal}), "
                f"got {name!r}{nearest(name, known)}"
            )
    return tuple(asked or ())


def _check_sizes(
    n_certify: int, n_novel: int, drawn: int, groups: Sequence[str], *, others_train: bool
) -> None:
    """Refuse to draw more clients than there are, or all clients of all groups that train."""
    if n_certify + n_novel > drawn or (n_certify + n_novel == drawn and not others_train):
        left = "no seen client" if not others_train else "nobody to draw"
        raise InputError(
            f"split.certify and split.novel leave {left}: {n_certify} + {n_novel} of the {drawn} "
            f"clients of {', '.join(groups)}"
        )
