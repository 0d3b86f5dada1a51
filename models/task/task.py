"""What is learnt: the target network, its loss, and the sizes of the networks that make it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from latecomer.models.task import own_nets, targets
from latecomer.models.task.clients import TOKENS, random_inputs
from latecomer.models.task.state import Params
from latecomer.models.task.stems import Stem, parted
from latecomer.models.task.targets import StatelessNet

GENERATED_LIMIT = 5_000_000
"""Most target weights that a network makes unless a task says otherwise: with heads of 100 inputs,
2 GB in float32, and four times that with their gradients and AdamW's memory."""


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
        Name of the encoder, see ``ENCODERS``, ``auto``, or ``own``.
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
    make : callable or None
        Builds a net from outside the package from ``(input_shape, n_out)``, whose fresh weights are
        those that it then has; None: layers draw them by their own rules.
    one_by_one : str
        Why clients cannot train side by side; empty: they can.
    generated_limit : int
        Most target weights that a hypernetwork may make.
    vocabulary : int
        Inputs are tokens below it, whole numbers; 0: they are numbers.
    make_encoder : callable or None
        Builds an encoder from outside the package from ``(input_shape, n_classes, dim)``.
    stem : Stem or None
        What turns a sample as it is stored into what the target takes, once for each: clients of
        this task are those ``stem.through`` gives. None: the target takes samples as they are.
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
    make: own_nets.Make | None = None
    one_by_one: str = ""
    generated_limit: int = GENERATED_LIMIT
    vocabulary: int = 0
    make_encoder: own_nets.Make | None = None
    stem: Stem | None = None

    def __post_init__(self) -> None:
        for name, least, most in (
            *(("n_classes", 2, None), ("hidden", 0, 5), ("width", 1, None)),
            *(("generated_limit", 1, None), ("vocabulary", 0, None)),
        ):
            _check_whole(name, getattr(self, name), least, most)
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

    @property
    def needs_trial(self) -> bool:
        """Whether a method may refuse the task for reasons that no setting tells."""
        own = self.make is not None or self.make_encoder is not None
        return own or self.n_parameters > self.generated_limit

    @cached_property
    def head(self) -> str:
        """Name of the target's head, see `own_nets.head_of`; empty if it has none."""
        return own_nets.head_of(self.target, self.n_classes)

    def gains_from_threads(self, n_samples: int) -> bool:
        """Tell whether clients' passes over so many samples are done sooner in several threads."""
        return targets.gains_from_threads(self.target, self.input_shape, n_samples)

    def initial(self, generator: torch.Generator) -> Params:
        """Draw fresh target weights from ``generator`` alone."""
        if self.make is None:
            return targets.initial(self.target, generator)
        seed = int(torch.randint(2**62, (), generator=generator))
        shape, dtype = self.input_shape, self.dtype
        return own_nets.drawn(self.make, shape, self.n_classes, seed=seed, dtype=dtype)

    def random_inputs(self, n: int, draw: torch.Generator) -> Tensor:
        """Return ``n`` samples of the kind that the target takes, in the weights' type."""
        return random_inputs(n, self.input_shape, self.vocabulary, dtype=self.dtype, draw=draw)

    def refuse_tokens(self, what: str) -> None:
        """Refuse inputs that are tokens, on behalf of what compares inputs as vectors."""
        if self.vocabulary:
            raise ValueError(f"{what} needs inputs that are numbers, got tokens")

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
        return F.cross_entropy(self.logits(params, x), y)


def _check_whole(name: str, value: Any, least: int, most: int | None = None) -> None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or value < least or (most is not None and value > most):
        legal = f">= {least}" if most is None else f"from {least} to {most}"
        raise ValueError(f"{name} must be a whole number {legal}, got {name}={value!r}")


def make_task(
    *,
    input_shape: tuple[int, ...],
    n_classes: int,
    target: str | nn.Module | own_nets.Make = "auto",
    encoder: str | own_nets.Make = "auto",
    hypernetwork: Mapping[str, Any] | None = None,
    generated_limit: int = GENERATED_LIMIT,
    vocabulary: int = 0,
    stem: str | None = None,
    dtype: torch.dtype = torch.float32,
) -> Task:
    """Build the task of a data set.

    Parameters
    ----------
    input_shape : tuple of int
        Shape of one sample: ``(D,)`` or ``(C, H, W)``.
    n_classes : int
        Number of classes, at least 2.
    target : str, Module or callable
        A name in ``TARGETS``, ``auto``, any module without buffers that draws nothing itself (only
        its structure is used), or a class or function of ``(input_shape, n_classes)`` that makes
        one: fresh weights are then those that it makes. Either is tried before it is used, a module
        if it is on the CPU.
    encoder : str or callable
        A name in ``ENCODERS``, ``auto``, or what makes one of ``(input_shape, n_classes, dim)``.
    hypernetwork : mapping, optional
        ``hidden`` (3 by default, at most 5), ``width`` (100) and ``spectral`` (False) of
        hypernetworks.
    generated_limit : int
        Most target weights that a hypernetwork may make.
    vocabulary : int
        Inputs ``(T,)`` are tokens below it, for a net of one's own; 0: they are numbers.
    stem : str, optional
        Frozen module that a net of one's own applies to its inputs first: the task is the rest's.
    dtype : torch.dtype
        Floating type of all weights.

    Raises
    ------
    ValueError
        Naming the argument, its legal values and the value given.

    Examples
    --------
    >>> make_task(input_shape=(3, 32, 32), n_classes=10).n_parameters
    121182
    """
    _check_made_of(input_shape, n_classes, vocabulary, dtype)
    size = _size_of(hypernetwork)
    return Task(
        n_classes=n_classes,
        **_encoder(encoder),
        generated_limit=generated_limit,
        **_target(target, tuple(input_shape), n_classes, vocabulary, stem, dtype),
        **size,
    )


def _check_made_of(input_shape: Any, n_classes: Any, vocabulary: Any, dtype: Any) -> None:
    """Refuse what no net can be built from."""
    _check_whole("n_classes", n_classes, 2)
    _check_whole("vocabulary", vocabulary, 0)
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise ValueError(f"dtype must be a floating type of torch, got dtype={dtype!r}")
    if not isinstance(input_shape, Iterable) or isinstance(input_shape, str):
        raise ValueError(f"input_shape must be (D,) or (C, H, W), got input_shape={input_shape!r}")


def _size_of(hypernetwork: Any) -> dict[str, Any]:
    """Return what is said of the size of hypernetworks."""
    if not isinstance(hypernetwork, Mapping | None):
        raise ValueError(f"hypernetwork must be a mapping, got hypernetwork={hypernetwork!r}")
    size = dict(hypernetwork or {})
    for key in sorted(set(size) - {"hidden", "width", "spectral"}):
        raise ValueError(f"hypernetwork takes hidden, width and spectral, got hypernetwork.{key}")
    return size


def _encoder(encoder: str | own_nets.Make) -> dict[str, Any]:
    """Return what a task says of its encoder."""
    if isinstance(encoder, str):
        return {"encoder": encoder}
    if not callable(encoder):
        raise ValueError(f"encoder must be a name or make a module, got encoder={encoder!r}")
    return {"encoder": "own", "make_encoder": encoder}


def _target(
    target: str | nn.Module | own_nets.Make,
    shape: tuple[int, ...],
    n_classes: int,
    vocabulary: int,
    stem: str | None,
    dtype: torch.dtype,
) -> dict[str, Any]:
    """Return what a task says of its target network and of what that takes."""
    told: dict[str, Any] = {"input_shape": shape, "vocabulary": vocabulary}
    if stem is not None:
        if isinstance(target, str | nn.Module):
            raise ValueError(f"stem needs a class or function that makes the net, got {target!r}")
        first, rest = parted(target, stem, shape, n_classes, dtype=dtype, vocabulary=vocabulary)
        return {**_target(rest, first.shape, n_classes, 0, None, dtype), "stem": first}
    if isinstance(target, str):
        if vocabulary:
            raise ValueError(
                f"target must be a net of one's own, as file.py:Net, for tokens, got {target!r}"
            )
        return {**told, "target": targets.build(target, shape, n_classes).to(dtype)}
    if isinstance(target, nn.Module):
        own_nets.refuse_unfit(target)
        setattr(target, TOKENS, vocabulary > 0)
        target = target.to(dtype)
        here = next(target.parameters()).device.type == "cpu"
        tried = here and not isinstance(target, StatelessNet)
        reason = own_nets.held_to(target, shape, n_classes, vocabulary) if tried else ""
        return {**told, "target": target, "one_by_one": reason}
    net, one_by_one = own_nets.skeleton(target, shape, n_classes, dtype, vocabulary)
    return {**told, "target": net, "make": target, "one_by_one": one_by_one}
