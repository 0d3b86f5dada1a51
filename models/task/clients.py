"""From whom is learnt: a population of clients, their samples, and the minibatches of a round.

Tokens, whole numbers from 0 that stand for words, characters or the like, are held as they are; on
their way they are floating point, as all inputs are, which holds them exactly. A target network is
given them as int64, and what takes vectors their counts.
"""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import cached_property, partial

import torch
from torch import Tensor, nn


@dataclass(frozen=True, eq=False)
class Samples:
    """Inputs ready for a net, with labels where the client has any.

    Attributes
    ----------
    x : Tensor
        Standardised inputs ``[B, ...]``.
    y : Tensor or None
        Labels ``[B]``, int64; None for an unlabelled client.
    """

    x: Tensor
    y: Tensor | None

    @classmethod
    def stored(cls, clients: "Clients", rows: Tensor, *, labelled: bool = True) -> "Samples":
        """Return samples of a population, fetched and standardised on first access.

        Serving a model that all clients share never reads a client's support.
        """
        made = object.__new__(cls)
        made.__dict__["_stored"] = clients, rows, labelled
        return made

    def __getattr__(self, name: str) -> Tensor | None:
        """Fetch inputs or labels: Python calls this for attributes that are not set yet."""
        if name not in ("x", "y") or "_stored" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        clients, rows, labelled = self.__dict__["_stored"]
        fetched: Tensor | None = None
        if name == "x":
            fetched = clients.inputs(rows)
        elif labelled:
            fetched = clients.labels(rows)
        self.__dict__[name] = fetched
        return fetched

    def __len__(self) -> int:
        """Return the number of samples."""
        stored = self.__dict__.get("_stored")
        return len(self.x if stored is None else stored[1])

    def labels(self) -> Tensor:
        """Return the labels.

        Raises
        ------
        ValueError
            If the samples carry none.
        """
        if self.y is None:
            raise ValueError("support must be labelled for this method, got support without labels")
        return self.y


@dataclass(frozen=True, eq=False)
class Clients:
    """A population of clients over one table of samples.

    Samples are stored once; a client is two sets of row numbers, padded with 0 beyond their true
    sizes, so that memory does not grow with the number of clients.

    Attributes
    ----------
    x : Tensor
        All inputs ``[N, D]`` or ``[N, C, H, W]``; uint8 (then divided by 255) or floating. Or
        tokens ``[N, T]``, int64, with mean 0 and sd 1.
    y : Tensor
        All labels ``[N]``, int64.
    support, query : Tensor
        Row numbers int64 ``[n, max_size]``: a client's own data and its test data.
    support_sizes, query_sizes : Tensor
        True sizes int64 ``[n]``.
    ids : Tensor
        Names of the clients, int64 ``[n]``.
    mean, sd : Tensor
        Standardisation ``(x - mean) / sd``, broadcastable to one sample.
    labelled : bool
        Whether :meth:`support_of` shows labels.
    """

    x: Tensor
    y: Tensor
    support: Tensor
    support_sizes: Tensor
    query: Tensor
    query_sizes: Tensor
    ids: Tensor
    mean: Tensor
    sd: Tensor
    labelled: bool = True

    def __post_init__(self) -> None:
        n = len(self.ids)
        for name in ("support", "support_sizes", "query", "query_sizes"):
            table = getattr(self, name)
            if table.dtype != torch.int64 or len(table) != n:
                raise ValueError(
                    f"{name} must be int64 with one row for each of the {n} clients, "
                    f"got {table.dtype} of shape {tuple(table.shape)}"
                )
        if len(self.x) != len(self.y):
            raise ValueError(
                f"x and y must have one row a sample, got {len(self.x)} and {len(self.y)} rows"
            )
        if n and int(self.support_sizes.min()) < 1:
            raise ValueError("support_sizes must be at least 1, got a client without support data")

    def __len__(self) -> int:
        """Return the number of clients."""
        return len(self.ids)

    @property
    def device(self) -> torch.device:
        """Device that holds the samples."""
        return self.x.device

    @property
    def holds_tokens(self) -> bool:
        """Whether inputs are tokens, which are never scaled."""
        return self.x.dtype == torch.int64

    @cached_property
    def sizes_on_host(self) -> tuple[list[int], list[int]]:
        """True sizes of support and query as Python numbers, read from the device only once."""
        return self.support_sizes.tolist(), self.query_sizes.tolist()

    def inputs(self, rows: Tensor) -> Tensor:
        """Return the standardised inputs of ``rows`` (any shape); that shape comes first.

        On a CPU images are channels-last in memory, so that convolution and pooling take about
        half as long.
        """
        x = self.x.index_select(0, rows.reshape(-1))
        if self.holds_tokens:
            return x.to(self.sd.dtype).view(*rows.shape, *x.shape[1:])
        if not x.is_floating_point():
            x = x.to(torch.float32).div_(255)
        # Standardised channel by channel, as stored: channels-last it would take three at a time.
        x = _laid_out((x - self.mean).div_(self.sd))
        return x.view(*rows.shape, *x.shape[1:])

    def labels(self, rows: Tensor) -> Tensor:
        """Return the labels of ``rows`` (any shape)."""
        return self.y[rows]

    def support_of(self, index: int) -> Samples:
        """Return the own data of client number ``index``."""
        rows = self.support[index, : self.sizes_on_host[0][index]]
        return Samples.stored(self, rows, labelled=self.labelled)

    def query_of(self, index: int) -> Samples:
        """Return the test data of client number ``index``; its labels are for scoring only."""
        return Samples.stored(self, self.query[index, : self.sizes_on_host[1][index]])


def _laid_out(x: Tensor) -> Tensor:
    if x.dim() == 4 and x.device.type == "cpu":
        return x.to(memory_format=torch.channels_last)
    return x


_A_FEW = 2**18
"""Numbers (a megabyte of float32) that stay in the caches beside a net's weights."""
_ALIGNED = 64
"""Newly allocated memory begins at a multiple of this many bytes."""


class Minibatches:
    """The minibatches of one client's round.

    On a CPU, a few samples are standardised as drawn. Of more, each distinct one is standardised
    once and each step gathers its own: all minibatches at once would overflow the caches. Elsewhere
    all are gathered at once: finding the distinct ones would make the host wait for the device.

    Parameters
    ----------
    clients : Clients
        Labelled.
    rows : Tensor
        ``[steps, batches_per_step, B]``.
    """

    def __init__(self, clients: Clients, rows: Tensor) -> None:
        several = rows.shape[1]
        self._y = _by_step(clients.labels(rows).flatten(0, 1), several)
        self._places: list[tuple[Tensor, ...]] = []
        if rows.device.type != "cpu":
            self._x = _by_step(clients.inputs(rows).flatten(0, 1), several)
        elif _few(clients, rows):
            self._keep(clients.inputs(rows.reshape(-1)))
            batches = self._shaped(self._table.view(-1, rows.shape[2], self._table.shape[1]))
            self._x = _by_step(batches, several)
        else:
            used, places = torch.unique(rows, return_inverse=True)
            self._keep(clients.inputs(used))
            self._places = _by_step(places.flatten(0, 1), several)

    @classmethod
    def of_each(cls, clients: Clients, rows: Tensor) -> list[Callable[[], "Minibatches"]]:
        """Return what fetches the minibatches of each client of ``rows [c, steps, several, B]``.

        A few samples are fetched for all clients at once, if each client's are then aligned in
        memory as they would be alone: a product's rounding depends on where its factors begin.
        """
        own = rows[0].numel() * clients.x[0].numel() * clients.sd.element_size()
        if rows.device.type != "cpu" or own % _ALIGNED or not _few(clients, rows):
            return [partial(cls, clients, one) for one in rows]
        every, steps = cls(clients, rows.flatten(0, 1)), rows.shape[1]
        return [partial(every._cut, at, at + steps) for at in range(0, len(rows) * steps, steps)]

    def _cut(self, first: int, end: int) -> "Minibatches":
        """Return the minibatches of some of the steps."""
        some = copy(self)
        some._x, some._y = self._x[first:end], self._y[first:end]
        return some

    def _keep(self, x: Tensor) -> None:
        """Keep samples as rows of numbers, in their order in memory."""
        # Gathering is then a plain copy.
        x = x.permute(0, 2, 3, 1) if x.dim() == 4 else x
        self._shape, self._table = x.shape[1:], x.reshape(len(x), -1)

    def _shaped(self, rows: Tensor) -> Tensor:
        """Return rows of numbers ``[..., n]`` as samples."""
        x = rows.view(*rows.shape[:-1], *self._shape)
        return x.movedim(-1, -3) if len(self._shape) == 3 else x

    def __getitem__(self, step: int) -> tuple[Samples, ...]:
        """Return the minibatches of local step ``step``."""
        if not self._places:
            return tuple(map(Samples, self._x[step], self._y[step]))
        gathered = [self._table.index_select(0, places) for places in self._places[step]]
        return tuple(map(Samples, map(self._shaped, gathered), self._y[step]))


def _few(clients: Clients, rows: Tensor) -> bool:
    return rows.numel() * clients.x[0].numel() <= _A_FEW


def _by_step(batches: Tensor, several: int) -> list[tuple[Tensor, ...]]:
    """Group batches by step; each step has ``several``."""
    every = batches.unbind()
    return [every[at : at + several] for at in range(0, len(every), several)]


TOKENS = "_latecomer_tokens"
"""Attribute of a skeleton whose inputs are tokens."""


def reads_tokens(net: nn.Module) -> bool:
    """Tell whether a skeleton's inputs are tokens."""
    return bool(getattr(net, TOKENS, False))


def counted(x: Tensor, vocabulary: int) -> Tensor:
    r"""Return how often each token stands in a sample, ``[..., vocabulary]`` for ``x [..., T]``.

    Counts are multiplied by :math:`\sqrt{V / T}` with vocabulary V, so that they have about unit
    variance where all tokens are equally frequent. The order of tokens is lost.

    Examples
    --------
    >>> counted(torch.tensor([[0.0, 2.0, 2.0, 1.0]]), 4)
    tensor([[1., 1., 2., 0.]])
    """
    seen = x.new_zeros(*x.shape[:-1], vocabulary)
    seen.scatter_add_(-1, x.long(), torch.ones_like(x))
    scale: float = (vocabulary / x.shape[-1]) ** 0.5
    return seen * scale


def random_inputs(
    n: int,
    input_shape: tuple[int, ...],
    vocabulary: int,
    *,
    dtype: torch.dtype,
    draw: torch.Generator,
) -> Tensor:
    """Return random samples ``[n, *input_shape]`` to try things on.

    Normal numbers; or, with a ``vocabulary``, tokens, the largest among them.
    """
    if not vocabulary:
        return torch.randn(n, *input_shape, generator=draw, dtype=dtype)
    x = torch.randint(vocabulary, (n, *input_shape), generator=draw).to(dtype)
    x[0, 0] = vocabulary - 1
    return x
