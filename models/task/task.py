"""What is learnt and from whom: the task, a population of clients, and their samples."""

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from latecomer.models.task import objectives, targets
from latecomer.models.task.state import Params


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
        All inputs ``[N, D]`` or ``[N, C, H, W]``; uint8 (then divided by 255) or floating.
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
    def of_each(cls, clients: Clients, rows: Tensor) -> Iterator["Minibatches"]:
        """Yield the minibatches of every client of ``rows [c, steps, batches_per_step, B]``.

        A few samples are fetched for all clients at once, if each client's are then aligned in
        memory as they would be alone: a product's rounding depends on where its factors begin.
        """
        own = rows[0].numel() * clients.x[0].numel() * clients.sd.element_size()
        if rows.device.type != "cpu" or own % _ALIGNED or not _few(clients, rows):
            yield from (cls(clients, one) for one in rows)
            return
        every, steps = cls(clients, rows.flatten(0, 1)), rows.shape[1]
        for first in range(0, len(rows) * steps, steps):
            one = copy(every)
            one._x, one._y = every._x[first : first + steps], every._y[first : first + steps]
            yield one

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


@dataclass(frozen=True, eq=False)
class Task:
    """The target network and its loss, with the settings of the networks that generate it.

    Attributes
    ----------
    target : Module
        Skeleton; its own weights are never used.
    n_classes : int
        Number of classes.
    input_shape : tuple of int
        ``(D,)`` or ``(C, H, W)``.
    encoder : str
        Name of the encoder, see ``ENCODERS``, or ``auto``.
    hidden, width : int
        Hidden layers of hypernetworks, at most 5 (0: none of width x width), and their width.
    spectral : bool
        Whether the layers of hypernetworks are divided by their spectral norms.
    together : bool
        Whether clients that train a model when they are served do so side by side; their models
        are the same up to rounding.
    kept : Tensor or None
        In a local step of a target with dropout: the units each sample keeps, bool ``[B, units]``.
        None everywhere else: nothing is dropped.
    narrow : dtype or None
        In a local step of lower precision: type to round the factors of the target's products to.
        None everywhere else: nothing is rounded.
    blocked : bool
        In a local step on the path ``blocked``: images lie in oneDNN's own layout. False
        everywhere else.
    """

    target: nn.Module
    n_classes: int
    input_shape: tuple[int, ...]
    encoder: str = "auto"
    hidden: int = 3
    width: int = 100
    spectral: bool = False
    together: bool = False
    kept: Tensor | None = None
    narrow: torch.dtype | None = None
    blocked: bool = False

    def __post_init__(self) -> None:
        for name, least, most in (("n_classes", 2, None), ("hidden", 0, 5), ("width", 1, None)):
            value = getattr(self, name)
            whole = isinstance(value, int) and not isinstance(value, bool)
            if not whole or value < least or (most is not None and value > most):
                legal = f">= {least}" if most is None else f"from {least} to {most}"
                raise ValueError(f"{name} must be a whole number {legal}, got {name}={value!r}")
        if not isinstance(self.spectral, bool):
            raise ValueError(f"spectral must be true or false, got spectral={self.spectral!r}")

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of every target parameter, in order."""
        return {key: tuple(value.shape) for key, value in self.target.named_parameters()}

    @property
    def n_parameters(self) -> int:
        """Number of target weights."""
        return sum(value.numel() for value in self.target.parameters())

    @property
    def dtype(self) -> torch.dtype:
        """Floating type of all weights."""
        return next(self.target.parameters()).dtype

    def initial(self, generator: torch.Generator) -> Params:
        """Draw fresh target weights from ``generator`` alone."""
        return targets.initial(self.target, generator)

    def dropping(self, kept: Tensor | None, *place: int) -> "Task":
        """Return the task of a local step, with masks ``kept[place]``; None: the task as it is.

        Every forward pass of the step sees the same masks, which are for as many samples as a
        minibatch has.
        """
        return self if kept is None else replace(self, kept=kept[place])

    def stepping(self, precision: str | None, *, blocked: bool = False) -> "Task":
        """Return the task of local steps in one of ``PRECISIONS``; None: the task as it is.

        TF32 is not set in the task: it is a switch of the whole process. ``blocked`` is as above.
        """
        narrow = torch.bfloat16 if precision == "bf16" else None
        return replace(self, narrow=narrow, blocked=blocked) if narrow or blocked else self

    def logits(self, params: Mapping[str, Tensor], x: Tensor) -> Tensor:
        """Apply the target network with weights ``params``; returns ``[B, n_classes]``."""
        if self.kept is not None and len(self.kept) != len(x):
            raise ValueError(
                "under dropout a local step's forward passes must be of its minibatch's "
                f"{len(self.kept)} samples, got {len(x)}"
            )
        return targets.apply(self.target, params, x, self.kept, self.narrow, self.blocked)

    def loss(self, params: Mapping[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        """Return the mean cross-entropy of the target network, in nats."""
        return objectives.cross_entropy(self.logits(params, x), y)


def make_task(
    *,
    input_shape: tuple[int, ...],
    n_classes: int,
    target: str | nn.Module = "auto",
    encoder: str = "auto",
    hypernetwork: Mapping[str, Any] | None = None,
    dtype: torch.dtype = torch.float32,
) -> Task:
    """Build the task of a data set.

    Parameters
    ----------
    input_shape : tuple of int
        Shape of one sample: ``(D,)`` or ``(C, H, W)``.
    n_classes : int
        Number of classes, at least 2.
    target : str or Module
        A name in ``TARGETS``, ``auto``, or any module that draws nothing itself (only its structure
        is used).
    encoder : str
        A name in ``ENCODERS`` or ``auto``.
    hypernetwork : mapping, optional
        ``hidden`` (3 by default, at most 5), ``width`` (100) and ``spectral`` (False) of
        hypernetworks.
    dtype : torch.dtype
        Floating type of all weights.

    Raises
    ------
    ValueError
        Naming the argument, its legal values and the value given.

    Examples
    --------
    >>> make_task(input_shape=(1, 8, 8), n_classes=10).n_parameters
    4538
    >>> make_task(input_shape=(3, 32, 32), n_classes=10).n_parameters
    121182
    """
    size = dict(hypernetwork or {})
    unknown = sorted(set(size) - {"hidden", "width", "spectral"})
    if unknown:
        raise ValueError(
            f"hypernetwork takes hidden, width and spectral, got hypernetwork.{unknown[0]}"
        )
    if isinstance(target, str):
        target = targets.build(target, tuple(input_shape), n_classes)
    _refuse_own_draws(target)
    return Task(
        target=target.to(dtype),
        n_classes=n_classes,
        input_shape=tuple(input_shape),
        encoder=encoder,
        **size,
    )


# Torch's modules draw from one generator for the whole process: a client's draws would depend on
# who trained before it, and a resumed training would differ from an uninterrupted one.
_DRAWING = (nn.modules.dropout._DropoutNd, nn.RReLU)


def _refuse_own_draws(target: nn.Module) -> None:
    for name, module in target.named_modules():
        if isinstance(module, _DRAWING) and module.training and getattr(module, "p", 1) > 0:
            raise ValueError(
                "target must draw nothing by itself: take dropout out or call eval() on it, got "
                f"{type(module).__name__} in module {name!r}"
            )
