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
        Values of all that match, by name; others are ignored.

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
            A pattern matches nothing, a value is missing or of another shape, or a parameter has
            two names.
        """
        net = self.make(input_shape, n_out)
        if not isinstance(net, nn.Module):
            return net
        refuse_tied(net)
        held = {**dict(net.named_parameters()), **dict(net.named_buffers())}
        for pattern in self.patterns:
            if not any(_matches(name, pattern) for name in held):
                known = ", ".join([*held][:6]) + (", ..." if len(held) > 6 else "")
                raise UnfitError(f"frozen must match parameters of {known}, got {pattern!r}")
        for name, module in net.named_modules():
            if any(_matches(name, pattern) for pattern in self.patterns):
                module.eval()
        for name, value in held.items():
            if any(_matches(name, pattern) for pattern in self.patterns):
                _hold(net, name, self._loaded(name, value))
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
        return loaded.detach().clone().to(value.dtype)


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
