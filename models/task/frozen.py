"""Parameters that a network of one's own holds: loaded, and neither trained nor sent nor made."""

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn

from latecomer.models.task.own_nets import Make, UnfitError, refuse_tied


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
