"""A system trained elsewhere as a method that trains nothing: any callable, or a torch module."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, make_dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import torch
from numpy.typing import ArrayLike, NDArray
from torch import Generator, Tensor, nn

from latecomer.models.engine.hyperparameters import OF_ENTRIES, refuse_word
from latecomer.models.engine.local_steps import LocalSGD
from latecomer.models.engine.method import Method, Personalization, Predictor, Start
from latecomer.models.engine.schedule import Cohort
from latecomer.models.task.clients import Clients, Samples
from latecomer.models.task.own_nets import said
from latecomer.models.task.state import Params, State
from latecomer.models.task.task import Task

Points = tuple[NDArray[Any], NDArray[Any]]
System = Callable[[Points, NDArray[Any]], ArrayLike]
"""``((x, y), query_x) -> scores``: a client's support, then the inputs to be predicted for; one row
of scores per point, one score (logit, log-probability) per class."""


@dataclass(frozen=True, kw_only=True)
class GivenSystem(Method):
    """A system that was trained elsewhere and serves every client, seen or not, as it is.

    No round trains anything. Inputs reach the system in the units of the data set (pixels from 0
    to 1), because standardising is up to the system. Its user vouches that it was trained on
    none of the clients that it is certified with or measured on.

    Attributes
    ----------
    source : callable
        A :data:`System`, a torch module, or a class of either; a class is called with the method's
        hyper-parameters.
    """

    source: ClassVar[Any]
    paper: ClassVar[str] = "trained elsewhere"
    personalization: ClassVar[Personalization] = "given"
    needs_labels: ClassVar[bool] = True
    serial_only: ClassVar[str] = "there is nothing to train"

    def __post_init__(self) -> None:
        """Make the system now, so that errors in it show before any work."""
        super().__post_init__()
        _ = self.system

    @cached_property
    def system(self) -> Any:
        """The system itself, with its checkpoint's weights if it has one."""
        given = {declared.name: getattr(self, declared.name) for declared in fields(self)}
        source = type(self).source
        if not isinstance(source, type):
            return source
        for key, default in _parameters(self.name, source).items():
            refuse_word(key, default, given[key])
        weights = _weights(given.pop("checkpoint")) if _wants_weights(source) else None
        try:
            made = source(**given)
            if weights is not None:
                made.load_state_dict(weights)
        except (Exception, SystemExit) as error:
            raise ValueError(f"making {self.name} failed: {said(error)}") from error
        if not callable(made):
            raise ValueError(f"{self.name} must make a callable, got {type(made).__name__}")
        return made

    @property
    def local(self) -> LocalSGD:
        """No step is ever taken."""
        return LocalSGD(0.0)

    def init(self, task: Task, clients: Clients, first: Cohort, generator: Generator) -> State:
        """Keep the mean and standard deviation that inputs were standardised by."""
        return State({"mean": clients.mean, "sd": clients.sd})

    def start(
        self, task: Task, state: State, clients: Clients, cohort: Cohort, generator: Generator
    ) -> Start:
        """Refuse: there is no round."""
        self._refuse()

    def aggregate(
        self, task: Task, state: State, cohort: Cohort, start: Start, uploads: Params
    ) -> State:
        """Refuse: there is no round."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise TypeError(f"{self.name} was trained elsewhere and takes part in no round")

    def personalize(
        self,
        task: Task,
        state: State,
        support: Samples,
        *,
        predictor: str = "deterministic",
        generator: Generator,
    ) -> Predictor:
        """Serve a client by the system as it is, given the client's support."""
        self.refuse_predictor(predictor)
        system = self.system

        def raw(x: Tensor) -> Tensor:
            return x * state.server["sd"] + state.server["mean"]

        if isinstance(system, nn.Module):
            module = system.to(support.x.device).eval()
            return lambda x: self._scores(task, module(raw(x)), x)
        x, y = _array(raw(support.x)), _array(support.labels())
        # Copies: what scales its points in place must not scale them again when asked again.
        return lambda asked: self._scores(
            task, system((x.copy(), y.copy()), _array(raw(asked)).copy()), asked
        )

    def _scores(self, task: Task, given: Any, x: Tensor) -> Tensor:
        """Check a system's answer for inputs ``x``, and return it on their device."""
        legal = (
            f"{self.name} must give a row of {task.n_classes} scores, one a class, for each of "
            f"{len(x)} points"
        )
        try:
            scores = torch.as_tensor(given, device=x.device)
        except (TypeError, ValueError, RuntimeError) as error:
            raise ValueError(f"{legal}, got no numbers but {type(given).__name__}") from error
        if tuple(scores.shape) != (len(x), task.n_classes):
            raise ValueError(f"{legal}, got shape {tuple(scores.shape)}")
        # A log-probability may be -inf, but a point that has no class has no loss either.
        if scores.is_complex() or not bool(scores.amax(dim=1).isfinite().all()):
            raise ValueError(
                f"{self.name} gave scores that are not numbers: -inf is one, though not for all "
                "classes of a point"
            )
        return scores if scores.is_floating_point() else scores.to(x.dtype)


def given_system(name: str, source: Any, module: str) -> type[GivenSystem]:
    """Return the method that serves clients by ``source``.

    Parameters
    ----------
    name : str
        What the method is called.
    source : callable
        As for :class:`GivenSystem`. Parameters of a class become hyper-parameters; a class of
        modules without a parameter ``checkpoint`` gets one: a file of its ``state_dict``, as
        torch or safetensors writes it.
    module : str
        Name of the imported module that holds it; the method's numbers depend on its file.

    Raises
    ------
    ValueError
        When a parameter of a class has a name that methods use themselves.

    Examples
    --------
    >>> import numpy as np
    >>> def even(support, query_x):
    ...     return np.ones((len(query_x), 10))
    >>> given_system("even", even, __name__)().needs_training
    False
    """
    made: type[GivenSystem] = make_dataclass(
        name,
        [(key, Any, _with_default(value)) for key, value in _parameters(name, source).items()],
        bases=(GivenSystem,),
        namespace={"name": name, "source": staticmethod(source)},
        frozen=True,
        kw_only=True,
    )
    made.__module__ = module
    return made


def _parameters(name: str, source: Any) -> Mapping[str, Any]:
    """Return the parameters of a class by name, with their defaults."""
    if not isinstance(source, type):
        return {}
    several = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
    named = inspect.signature(source).parameters.values()
    defaults = {one.name: one.default for one in named if one.kind not in several}
    for key in defaults:
        if hasattr(GivenSystem, key) or key in {*OF_ENTRIES, "name", "source"}:
            raise ValueError(f"{name} has a parameter {key!r}, a name that methods use: rename it")
    return {
        **defaults,
        **({"checkpoint": inspect.Parameter.empty} if _wants_weights(source) else {}),
    }


def _with_default(value: Any) -> Any:
    empty = value is inspect.Parameter.empty
    return field(default_factory=MISSING if empty else lambda: value)


def _wants_weights(source: type) -> bool:
    """Whether a class is a torch module that takes no ``checkpoint`` itself."""
    own = issubclass(source, nn.Module)
    return own and "checkpoint" not in inspect.signature(source).parameters


def _weights(file: object) -> Mapping[str, Any]:
    legal = "checkpoint must be a file of a state_dict, as torch or safetensors writes it"
    try:
        if Path(str(file)).suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(str(file))
        weights = torch.load(str(file), map_location="cpu", weights_only=True)
    except Exception as error:  # whatever the reader of a damaged file stumbles over
        raise ValueError(f"{legal}, got {file}: {type(error).__name__}") from error
    if not isinstance(weights, Mapping):
        raise ValueError(f"{legal}, got {file} with {type(weights).__name__}")
    return weights


def _array(values: Tensor) -> NDArray[Any]:
    return values.detach().cpu().numpy()
