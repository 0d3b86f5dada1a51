"""The contract of a federated method.

A method is a final, frozen dataclass of hyper-parameters; its hooks are pure functions of their
arguments. Subclass :class:`Method` and never another method. The engine calls, in every round,

``start`` (weights for the whole cohort) -> ``objective`` (one client's loss, each local step) ->
``finish`` (what clients send, what they keep) -> ``aggregate`` (the new server),

and every table about the cohort has its clients on axis 0, so that local training may run client
by client or all at once. A method may divide its rounds into phases, whose name ``start``,
``finish`` and ``aggregate`` read in ``cohort.phase``, and a client's local steps into stages that
train some of the weights only.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import islice
from typing import Any, ClassVar, Literal

import torch
from torch import Generator, Tensor

from latecomer.models.engine import hyperparameters
from latecomer.models.engine.local_steps import LocalSGD
from latecomer.models.engine.newcomers import Messages, NewcomersGet, one_model
from latecomer.models.engine.schedule import Cohort, Phase
from latecomer.models.engine.threads import each, in_threads
from latecomer.models.task.client_axis import Entropy
from latecomer.models.task.clients import Clients, Samples
from latecomer.models.task.objectives import gradients
from latecomer.models.task.state import Params, State, subtract
from latecomer.models.task.task import Task

Predictor = Callable[[Tensor], Tensor]
"""Standardised inputs ``[B, ...]`` -> logits ``[B, n_classes]``."""

Personalization = Literal[
    "forward",
    "global",
    "unlabelled",
    "finetune",
    "embedding",
    "knn",
    "local",
    "intercept",
    "chosen",
    "mixture",
    "gaussian",
    "given",
]


@dataclass(frozen=True, eq=False)
class Context:
    """What a local objective may read besides the weights and the minibatch.

    Attributes
    ----------
    own : dict of str to Tensor
        This client's entries.
    shared : dict of str to Tensor
        Entries that are the same for the whole cohort.
    gradients : callable
        ``(objective, params) -> gradient``, for objectives that need one themselves; the engine
        decides how it is taken (within ``vmap`` by ``torch.func.grad``).
    """

    own: Params = field(default_factory=dict)
    shared: Params = field(default_factory=dict)
    gradients: Callable[[Callable[[Params], Tensor], Params], Params] = gradients


@dataclass(frozen=True, eq=False)
class Start:
    """What a round begins with.

    Attributes
    ----------
    params : dict of str to Tensor
        Weights sent to the clients, ``[c, ...]``.
    own : dict of str to Tensor
        Context of each client, ``[c, ...]``.
    shared : dict of str to Tensor
        Context common to all.
    memory : Any
        What ``aggregate`` needs again, an autograd graph for instance; nothing else reads it.
    computed : tuple of str
        Weights that clients compute from the rest, so that nobody sends them.
    """

    params: Params
    own: Params = field(default_factory=dict)
    shared: Params = field(default_factory=dict)
    memory: Any = None
    computed: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Finish:
    """What a round ends with on the clients.

    Attributes
    ----------
    uploads : dict of str to Tensor
        What clients send, ``[c, ...]``.
    kept : dict of str to Tensor
        New entries of the cohort's client state, ``[c, ...]``.
    """

    uploads: Params
    kept: Params = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Method(ABC):
    """A federated method: hyper-parameters and pure hooks.

    Attributes
    ----------
    name, paper : str
        Registry name, the same as its file's; where it was published.
    cites : tuple of str
        What a report cites for it: keys of the reports' bibliography, or whole BibTeX entries.
    called : str
        Its name in sentences and figures; ``name`` unless given.
    shown_as : str
        Its name throughout a report, if its plain name would promise too much.
    look : int or None
        Number of its colour and mark in every figure; the first free one unless given.
        Like the three above it is a literal: reports read them without running the file.
    deviations : tuple of (str, str, str)
        Where it departs from what is published: from the ``paper``, the ``code`` or ``paper and
        code``; what differs; whether that moves a number: ``yes`` and how, ``no``, ``not known``.
        Literals, too.
    learns_alone : bool
        Whether a client's model depends on no other client: its gap between new and seen clients
        is then their data's. A literal, too.
    personalization : str
        How a client that never trained is served; ``global``: by one model, the same for everyone.
    needs_labels : bool
        Whether serving such a client reads its labels.
    newcomers_get : str
        What is made for such a client; empty where a method from outside does not say.
    least_support : int
        Fewest support points that such a client must have.
    numbers_version : int
        Raised whenever a change moves the method's results.
    serial_only : str
        Why the cohort cannot train all at once (its objective would not run under
        ``torch.func.vmap``); empty for methods that can.
    """

    name: ClassVar[str]
    paper: ClassVar[str]
    cites: ClassVar[tuple[str, ...]] = ()
    called: ClassVar[str] = ""
    shown_as: ClassVar[str] = ""
    look: ClassVar[int | None] = None
    deviations: ClassVar[tuple[tuple[str, str, str], ...]] = ()
    learns_alone: ClassVar[bool] = False
    personalization: ClassVar[Personalization]
    needs_labels: ClassVar[bool]
    newcomers_get: ClassVar[NewcomersGet] = ""
    least_support: ClassVar[int] = 1
    numbers_version: ClassVar[int] = 1
    serial_only: ClassVar[str] = ""

    def __post_init__(self) -> None:
        hyperparameters.check(self)

    @property
    def predictors(self) -> tuple[str, ...]:
        """Predictors that :meth:`serve` and :meth:`personalize` offer."""
        return ("deterministic",)

    @property
    def needs_training(self) -> bool:
        """Whether rounds train it; False for a system that was trained elsewhere."""
        return self.personalization != "given"

    @property
    def trains_newcomers(self) -> bool:
        """Whether serving a new client takes training, at a rate ``novel_lr`` to be chosen."""
        settings = {declared.name for declared in fields(self)}
        return "novel_lr" in settings and self.personalization in ("embedding", "finetune", "local")

    @property
    def sizes(self) -> tuple[str, ...]:
        """Names of the target networks if clients have nets of several sizes, else empty."""
        return ()

    def target_of(self, state: State, member: int | None) -> str:
        """Name the target network of seen client ``member``, or of new clients (None).

        Empty without sizes, and for new clients that nets of several sizes serve.
        """
        return ""

    @property
    def minimises_cross_entropy(self) -> bool:
        """Whether local steps minimise that and nothing else."""
        return type(self).objective is Method.objective

    @property
    def written_out(self) -> bool:
        """Whether `cohort_slopes` is the gradient of this class's `objective`."""
        kinds = type(self).__mro__

        def place(hook: str) -> int:
            return next(at for at, kind in enumerate(kinds) if hook in vars(kind))

        return self.minimises_cross_entropy or place("cohort_slopes") <= place("objective")

    @property
    def batches_per_step(self) -> int:
        """Minibatches each local step draws."""
        return 1

    @property
    @abstractmethod
    def local(self) -> LocalSGD:
        """The rule of a local step."""

    def phases(self, task: Task) -> tuple[Phase, ...]:
        """Return what trains when; by default everything, all the time."""
        return (Phase(),)

    def check_target(self, task: Task) -> None:
        """Raise ``ValueError`` if the server would make more weights than the task allows.

        By default it makes none.
        """
        return None

    def trained_on(self, clients: Clients) -> Clients:
        """Return the clients with the samples that training may read; by default all support.

        What is left out here no round sees, so that serving may choose settings by it.
        """
        return clients

    @abstractmethod
    def init(self, task: Task, clients: Clients, first: Cohort, generator: Generator) -> State:
        """Return the state before training.

        ``first`` is the cohort that round 0 will see, for statistics that are taken once.
        """

    @abstractmethod
    def start(
        self, task: Task, state: State, clients: Clients, cohort: Cohort, generator: Generator
    ) -> Start:
        """Return what the cohort begins the round with."""

    def objective(
        self, task: Task, params: Params, context: Context, batches: tuple[Samples, ...], step: int
    ) -> Tensor:
        """Return a client's loss on the minibatches of one local step; by default cross-entropy."""
        return task.loss(params, batches[0].x, batches[0].labels())

    def cohort_slopes(
        self, params: Params, context: Context, batches: tuple[Samples, ...], entropy: Entropy
    ) -> tuple[Tensor, Params]:
        """Return the objective of every client of a cohort, ``[c]``, and its gradient.

        Optional: a class that defines an :meth:`objective` may write its gradient out beside it,
        for nets whose cross-entropy and gradient ``entropy`` gives; such a cohort then trains all
        at once without automatic differentiation. Weights, ``context.own`` and samples have their
        clients on axis 0. The default is for cross-entropy alone.
        """
        return entropy(params, batches[0])

    def finish(
        self, task: Task, state: State, cohort: Cohort, start: Start, final: Params
    ) -> Finish:
        """Return what clients upload (by default the weights' change) and keep (nothing)."""
        return Finish(uploads=subtract(final, start.params))

    @abstractmethod
    def aggregate(
        self, task: Task, state: State, cohort: Cohort, start: Start, uploads: Params
    ) -> State:
        """Return the state after the round; ``state`` already holds what the clients kept.

        If it is ``disposable``, its tensors may be overwritten and returned.
        """

    def own_model(self, task: Task, state: State, index: int) -> Params | None:
        """Return the weights that serve seen client ``index``; by default it has none (None)."""
        return None

    def serve(
        self,
        task: Task,
        state: State,
        index: int,
        support: Samples,
        *,
        predictor: str = "deterministic",
        generator: Generator,
    ) -> Predictor:
        """Return the predictor of seen client ``index``: its own model, or as for a new client."""
        own = self.own_model(task, state, index)
        if own is None:
            return self.personalize(task, state, support, predictor=predictor, generator=generator)
        self.refuse_predictor(predictor)
        return predict_with(task, own)

    def serve_each(
        self,
        task: Task,
        state: State,
        members: Sequence[int | None],
        supports: Sequence[Samples],
        *,
        predictor: str = "deterministic",
        generators: Iterable[Generator],
    ) -> Iterator[Predictor]:
        """Yield the predictors of several clients, named by number if seen and None if new.

        They are those of :meth:`serve` and :meth:`personalize`, up to rounding; override this if
        clients are served faster together. A model that all clients share is made once; others
        are made in the threads of clients (:mod:`latecomer.models.engine.threads`).
        """
        kind, fixed = type(self), predictor == "deterministic"
        alike = kind.serve is Method.serve and kind.own_model is Method.own_model
        shared = fixed and alike and self.personalization == "global"

        def made(one: tuple[int | None, Samples, Generator]) -> Predictor:
            member, support, draws = one
            if member is None:
                return self.personalize(task, state, support, predictor=predictor, generator=draws)
            return self.serve(task, state, member, support, predictor=predictor, generator=draws)

        clients = zip(members, supports, generators, strict=True)
        if shared:
            models = [made(one) for one in islice(clients, 1)]
            yield from models * len(members)
        elif supports and in_threads(task, supports[0].x.device, min(map(len, supports))):
            yield from each(made, [*clients])
        else:
            yield from map(made, clients)

    @abstractmethod
    def personalize(
        self,
        task: Task,
        state: State,
        support: Samples,
        *,
        predictor: str = "deterministic",
        generator: Generator,
    ) -> Predictor:
        """Return the predictor of a client that took no part in training.

        Parameters
        ----------
        task : Task
            The task trained on.
        state : State
            A trained state; left as it is.
        support : Samples
            The client's own data; never its query data.
        predictor : str
            One of :attr:`predictors`.
        generator : Generator
            Source of all randomness in serving.
        """

    def describe(
        self, task: Task, state: State, support: Samples, *, member: int | None = None
    ) -> Tensor | None:
        """Return a client's descriptor or embedding, ``[dim]``.

        ``member`` is the number of a seen client, None for a new client. By default the result is
        None: the method has no such vector, or would have to train for it.
        """
        return None

    def choices(
        self, task: Task, state: State, support: Samples, *, member: int | None = None
    ) -> Mapping[str, float]:
        """Return the numbers that serving a client chooses from its own samples, by their metric.

        ``member`` is the number of a seen client, None for a new client. By default serving chooses
        nothing.
        """
        return {}

    def serving_messages(self, task: Task, state: State, n_support: int) -> Messages | None:
        """Return what is sent until a new client has its model; None: that is not counted.

        By default a new client is sent all weights once, or nothing if it trains its own from
        scratch. Weights that it draws itself are not sent.

        Parameters
        ----------
        task, state
            As for :meth:`personalize`.
        n_support : int
            The new client's support points.
        """
        if self.personalization in ("global", "finetune", "knn"):
            return one_model(task)
        return Messages(0, 0, 0) if self.personalization == "local" else None

    def refuse_predictor(self, predictor: str) -> None:
        """Raise ``ValueError`` unless ``predictor`` is one of :attr:`predictors`."""
        if predictor not in self.predictors:
            legal = " or ".join(self.predictors)
            raise ValueError(f"predictor must be {legal} for {self.name}, got {predictor!r}")


@dataclass(frozen=True, kw_only=True)
class Deterministic(Method, ABC):
    """A method whose new clients have one predictor, for which nothing is drawn."""

    @abstractmethod
    def newcomers_model(self, task: Task, state: State, support: Samples) -> Predictor:
        """Return what serves a client that never trained."""

    def personalize(
        self,
        task: Task,
        state: State,
        support: Samples,
        *,
        predictor: str = "deterministic",
        generator: Generator,
    ) -> Predictor:
        """Return :meth:`newcomers_model`."""
        self.refuse_predictor(predictor)
        return self.newcomers_model(task, state, support)


@dataclass(frozen=True, eq=False)
class FixedWeights:
    """A predictor: the target network with fixed weights."""

    task: Task
    weights: Params

    def __call__(self, x: Tensor) -> Tensor:
        """Return logits ``[B, n_classes]`` of standardised inputs."""
        with torch.no_grad():
            return self.task.logits(self.weights, x)


@dataclass(frozen=True, eq=False)
class DrawnModel:
    """A predictor: one of several models, drawn uniformly.

    Measurements of it are means over all its models, the expectation of a draw.

    Attributes
    ----------
    n_models : int
        Number of models.
    drawn : int
        Number of the drawn model.
    model : callable
        Maps a model's number to its predictor.
    """

    n_models: int
    drawn: int
    model: Callable[[int], Predictor]

    def __call__(self, x: Tensor) -> Tensor:
        """Return the drawn model's logits ``[B, n_classes]``."""
        return self.model(self.drawn)(x)


def versions(predictor: Predictor) -> Iterator[Predictor]:
    """Yield the models that a measurement averages over: the predictor, or all its models.

    >>> several = DrawnModel(2, 1, lambda number: lambda x: x + number)
    >>> [one(torch.zeros(1)).item() for one in versions(several)], several(torch.zeros(1)).item()
    ([0.0, 1.0], 1.0)
    """
    if isinstance(predictor, DrawnModel):
        yield from (predictor.model(number) for number in range(predictor.n_models))
    else:
        yield predictor


def predict_with(task: Task, params: Mapping[str, Tensor]) -> Predictor:
    """Return the predictor that applies fixed target weights."""
    return FixedWeights(task, {key: value.detach() for key, value in params.items()})
