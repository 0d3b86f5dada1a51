"""Groups of a data set's clients: hospitals by country, schools by sector, people by sex."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latecomer.errors import InputError
from latecomer.eval.datasets.dataset import Dataset
from latecomer.reading.ids import is_missing, refuse_alike, spelling, spelt_array


def in_groups(data: Dataset, groups: NDArray[Any], column: str) -> Dataset:
    """Return the data set with the group of each of its clients, which its hash then covers.

    Parameters
    ----------
    data : Dataset
    groups : ndarray of strings or whole numbers, shape [N]
        The group of each sample, the same for all samples of a client.
    column : str
        What the grouping is called.

    Raises
    ------
    InputError
        The data have no clients, or a client lies in two groups.

    Examples
    --------
    >>> from latecomer.eval.datasets.dataset import make_dataset
    >>> data = make_dataset("toy", np.zeros((3, 2)), np.array([0, 1, 1]), provenance="made up",
    ...                     client=np.array(["ann", "bob", "ann"]))
    >>> in_groups(data, np.array(["day", "night", "day"]), "shift").group
    ('day', 'night')
    """
    if data.client is None:
        raise InputError(f"group {column!r} is of clients: say the column of the clients, client")
    names, merged = spelt_array(groups.astype(np.str_), "group")
    if (names == "").any():
        raise InputError(f"group {column!r}, row {int(np.argmax(names == ''))}: no group is given")
    of_client = np.empty(len(data.client_names), dtype=names.dtype)
    of_client[data.client] = names
    torn = of_client[data.client] != names
    if torn.any():
        row = int(np.argmax(torn))
        whose = data.client_names[data.client[row]]
        raise InputError(
            f"group {column!r} must be the same for all samples of a client, got "
            f"{str(names[row])!r} and {str(of_client[data.client[row]])!r} for client {whose!r}"
        )
    group = tuple(of_client.tolist())
    refuse_alike(sorted(set(group)), "group")
    digest = hashlib.sha256("\0".join([data.content_hash, *group]).encode())
    return replace(
        data,
        group=group,
        group_column=column,
        content_hash=digest.hexdigest(),
        notes=(*data.notes, *merged),
    )


def in_mapped_groups(data: Dataset, groups: Mapping[Any, Any]) -> Dataset:
    """Return the data set with the groups that a mapping ``{client: group}`` gives its clients.

    Raises
    ------
    InputError
        A client has no group, or two.
    """
    told: dict[str, str] = {}
    for client, group in groups.items():
        if is_missing(group):
            raise InputError(f"group: no group is given for client {client!r}")
        name = spelling(client)
        if name in told:
            raise InputError(f"group: client {name!r} occurs twice")
        told[name] = spelling(group)
    lacking = [name for name in data.client_names if name not in told]
    if lacking:
        raise InputError(f"group must name the group of every client, got none for {lacking[0]!r}")
    if data.client is None:
        raise InputError("group is of clients, and the samples have none")
    each = np.array([told[name] for name in data.client_names])
    return in_groups(data, each[data.client], "group")
