"""Frozen parts of networks: loaded, neither trained nor sent; a stem is computed once a sample."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn

from latecomer.models.task import own_nets
from latecomer.models.task.clients import Clients
from latecomer.models.task.own_nets import Make, UnfitError, refuse_tied

_BLOCK = 256  # samples that a stem is applied to at once


@dataclass(frozen=True, eq=False)
class Stem:
    """What a net does to its inputs first, without a weight that is trained.

    Attributes
    ----------
    module : Module
        In evaluation mode; its weights are constants.
    shape : tuple of int
        Of what it gives for one sample.
    takes_tokens : bool
        Whether it takes whole numbers.
    """

    module: nn.Module
    shape: tuple[int, ...]
    takes_tokens: bool = False

    def through(self, populations: Sequence[Clients]) -> list[Clients]:
        """Return populations whose inputs are what the stem gives for theirs.

        Samples that populations share, and standardise alike, are computed and stored once; those
        that no client holds are left out.
        """
        found: list[Clients | None] = [None] * len(populations)
        alike: dict[tuple[int, ...], list[int]] = {}
        for place, one in enumerate(populations):
            alike.setdefault((id(one.x), id(one.y), id(one.mean), id(one.sd)), []).append(place)
        for places in alike.values():
            sharing = [populations[place] for place in places]
            held = [rows.flatten() for one in sharing for rows in (one.support, one.query)]
            used = torch.unique(torch.cat(held))  # sorted: padding, row 0, stays row 0
            x, y = self._outputs(sharing[0], used), sharing[0].y[used]
            for place, one in zip(places, sharing, strict=True):
                found[place] = replace(
                    one,
                    x=x,
                    y=y,
                    support=torch.searchsorted(used, one.support.contiguous()),
                    query=torch.searchsorted(used, one.query.contiguous()),
                    mean=x.new_zeros(()),
                    sd=x.new_ones(()),
                )
        return [one for one in found if one is not None]

    def _outputs(self, clients: Clients, rows: Tensor) -> Tensor:
        made = torch.empty(len(rows), *self.shape, dtype=clients.sd.dtype, device=clients.device)
        with torch.no_grad():
            for first in range(0, len(rows), _BLOCK):
                some = slice(first, first + _BLOCK)
                x = clients.inputs(rows[some])
                made[some] = self.module(x.long() if self.takes_tokens else x)
        return made


@dataclass(frozen=True, eq=False)
class Rest:
    """A net without its stem, the module ``name``, which takes inputs of ``input_shape``.

    Fresh weights are those that the net has with it.
    """

    make: Make
    name: str
    input_shape: tuple[int, ...]

    def __call__(self, input_shape: tuple[int, ...], n_out: int) -> Any:
        """Make the net, whose inputs are what the stem gives."""
        net = self.make(self.input_shape, n_out)
        net.set_submodule(self.name, nn.Identity())
        return net


def parted(
    make: Make,
    name: str,
    input_shape: tuple[int, ...],
    n_out: int,
    *,
    dtype: torch.dtype,
    vocabulary: int = 0,
) -> tuple[Stem, Rest]:
    """Part a net into its stem, called ``name``, and the rest, and see that they make the whole.

    Raises
    ------
    ValueError
        In one line: the net is no target network, there is no such module, it holds weights to
        train, it gives no vectors or images, or the net is not the rest of what it gives.

    Examples
    --------
    >>> from latecomer.models.task.stems import Frozen
    >>> def net(input_shape, n_out):
    ...     return nn.Sequential(nn.Linear(*input_shape, 5), nn.ReLU(), nn.Linear(5, n_out))
    >>> held = Frozen(net, ("0",), {"0.weight": torch.ones(5, 2), "0.bias": torch.zeros(5)})
    >>> stem, rest = parted(held, "0", (2,), 3, dtype=torch.float32)
    >>> stem.shape, [name for name, _ in rest(stem.shape, 3).named_parameters()]
    ((5,), ['2.weight', '2.bias'])
    """
    own_nets.skeleton(make, input_shape, n_out, dtype, vocabulary)  # the whole is a target network
    net = own_nets.build(make, input_shape, n_out, seed=0, dtype=dtype)
    known = [one for one, _ in net.named_modules() if one]
    if name not in known:
        listed = ", ".join(known[:6]) + (", ..." if len(known) > 6 else "")
        raise UnfitError(f"stem must be a module of the net ({listed}), got {name!r}")
    module = net.get_submodule(name)
    trained = next((one for one, _ in module.named_parameters()), None)
    if trained is not None:
        raise UnfitError(f"stem must be frozen as a whole, got {name!r} with {trained} to train")
    x = own_nets.trial_inputs(input_shape, vocabulary, dtype)
    given = _given(module, name, x)
    with torch.no_grad():
        whole = net(x)
    net.set_submodule(name, nn.Identity())
    try:
        with torch.no_grad():
            alike = torch.equal(net(given), whole)
    except Exception:  # whatever the net does without its stem
        alike = False
    if not alike:
        raise UnfitError(
            "stem must be all that the net does to its inputs first: given what "
            f"{name!r} makes of them, the rest of the net says something else"
        )
    return Stem(module, tuple(given.shape[1:]), vocabulary > 0), Rest(make, name, input_shape)


def _given(module: nn.Module, name: str, x: Tensor) -> Tensor:
    """Apply a stem; refuse what no client can hold in its inputs' place."""
    try:
        with torch.no_grad():
            given: Tensor = module(x)
    except Exception as error:
        raise UnfitError(
            f"stem must take inputs of shape {tuple(x.shape)}: {name!r} fails, "
            f"{own_nets.said(error)}"
        ) from error
    legal = (
        isinstance(given, Tensor)
        and given.is_floating_point()
        and given.dim() in (2, 4)
        and len(given) == len(x)
    )
    if not legal:
        made = list(given.shape) if isinstance(given, Tensor) else type(given).__name__
        raise UnfitError(
            f"stem must give vectors [B, D] or images [B, C, H, W] of numbers, got {made} from "
            f"{name!r} for {list(x.shape)}"
        )
    return given


@dataclass(frozen=True, eq=False)
class Frozen:
    """A network whose parameters of certain names are constants.

    To everything that trains, sends, counts or generates weights they are no parameters. Modules
    whose names match are in evaluation mode, and their buffers are constants too, so that a frozen
    body may hold dropout and batch normalisation.

    Attributes
    ----------
    make : callable
        Makes the net from ``(input_shape, n_out)``.
    patterns : tuple of str
        Names of parameters, buffers or modules, with ``*`` for anything.
    weights : mapping of str to Tensor
        Values of all that match, by name; others are ignored. Buffers that a ``state_dict`` leaves
        out (``persistent=False``) need none: they are as the net makes them.

    Examples
    --------
    >>> def net(input_shape, n_out):
    ...     return nn.Sequential(nn.Linear(*input_shape, 5), nn.ReLU(), nn.Linear(5, n_out))
    >>> held = Frozen(net, ("0",), {"0.weight": torch.ones(5, 2), "0.bias": torch.zeros(5)})
    >>> [name for name, _ in held((2,), 3).named_parameters()]
    ['2.weight', '2.bias']
    """

    make: Make
    patterns: tuple[str, ...]
    weights: Mapping[str, Tensor]

    def __post_init__(self) -> None:
        """Refuse one name in the place of several, whose letters would be taken for patterns."""
        if isinstance(self.patterns, str):
            raise UnfitError(
                f"patterns must be a tuple of names, as ({self.patterns!r},), got {self.patterns!r}"
            )

    def __call__(self, input_shape: tuple[int, ...], n_out: int) -> Any:
        """Make the net, with the weights in their places.

        Raises
        ------
        UnfitError
            A pattern matches nothing, a value is missing, of another shape or kind, or not finite,
            or a parameter has two names.
        """
        net = self.make(input_shape, n_out)
        if not isinstance(net, nn.Module):
            return net
        refuse_tied(net)
        held = {**dict(net.named_parameters()), **dict(net.named_buffers())}
        unsaved = held.keys() - net.state_dict().keys()  # they are as the net makes them
        for pattern in self.patterns:
            if not any(_matches(name, pattern) for name in held):
                known = ", ".join([*held][:6]) + (", ..." if len(held) > 6 else "")
                raise UnfitError(f"frozen must match parameters of {known}, got {pattern!r}")
        for name, module in net.named_modules():
            if any(_matches(name, pattern) for pattern in self.patterns):
                module.eval()
        for name, value in held.items():
            if any(_matches(name, pattern) for pattern in self.patterns):
                built = name in unsaved and name not in self.weights
                _hold(net, name, value if built else self._loaded(name, value))
        return net

    def _loaded(self, name: str, value: Tensor) -> Tensor:
        loaded = self.weights.get(name)
        if loaded is None:
            raise UnfitError(f"weights must hold every frozen parameter, got none for {name!r}")
        if loaded.shape != value.shape:
            raise UnfitError(
                f"weights must have the shapes of the net, got {name} {list(loaded.shape)} for "
                f"{list(value.shape)}"
            )
        if loaded.is_floating_point() != value.is_floating_point():  # whole ones need a scale
            raise UnfitError(
                f"weights must be numbers of the net's kind, got {name} in {loaded.dtype} for "
                f"{value.dtype}"
            )
        made = loaded.detach().clone().to(value.dtype)
        # A buffer may hold infinities, as masks of attention do.
        wrong = ~made.isfinite() if isinstance(value, nn.Parameter) else made.isnan()
        if bool(wrong.any()):
            raise UnfitError(f"weights must be finite, got {name} with NaN or inf")
        return made


def _matches(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern) or name.startswith(f"{pattern}.")


def _hold(net: nn.Module, name: str, value: Tensor) -> None:
    """Put a constant in the place of a parameter or buffer."""
    owner, _, leaf = name.rpartition(".")
    module = net.get_submodule(owner)
    delattr(module, leaf)
    setattr(module, leaf, value)


def constants_to(net: nn.Module, device: torch.device) -> None:
    """Bring the constants of a net, tensors that are no parameters, to a device."""
    for module in net.modules():
        for name, value in vars(module).items():
            if isinstance(value, Tensor):
                setattr(module, name, value.to(device))
