"""What methods have in common whose new clients train a model, or a head, of their own."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from torch import Generator

from latecomer.models.engine.fine_tuning import BESIDE, Tuning, tune_each
from latecomer.models.engine.hyperparameters import count, number, size
from latecomer.models.engine.local_steps import LocalSGD
from latecomer.models.engine.method import Finish, Method, Predictor, Start, predict_with
from latecomer.models.engine.newcomers import Messages, one_model
from latecomer.models.engine.schedule import Cohort
from latecomer.models.engine.threads import each, in_threads, thread_count
from latecomer.models.task.clients import Clients, Samples
from latecomer.models.task.heads import body_names, head_names, join
from latecomer.models.task.state import (
    Params,
    State,
    add,
    gather,
    move,
    nest,
    part,
    repeat,
    row,
    subtract,
    weighted_mean,
)
from latecomer.models.task.task import Task


@dataclass(frozen=True, kw_only=True)
class TrainedNewcomers(Method, ABC):
    """A client that keeps no model trains one on its support when it is served."""

    @abstractmethod
    def fit_each(
        self, task: Task, state: State, supports: Sequence[Samples], generators: Sequence[Generator]
    ) -> list[Params]:
        """Return new clients' weights, trained on their supports."""

    def personalize(
        self,
        task: Task,
        state: State,
        support: Samples,
        *,
        predictor: str = "deterministic",
        generator: Generator,
    ) -> Predictor:
        """Train a model on the support."""
        self.refuse_predictor(predictor)
        return predict_with(task, self.fit_each(task, state, [support], [generator])[0])

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
        """Yield the predictors of several clients, whose models train as ``task.together`` says."""
        self.refuse_predictor(predictor)
        draws = iter(generators)
        size = BESIDE if task.together or thread_count() > 1 else 1
        for at in range(0, len(members), size):
            own = [
                None if member is None else self.own_model(task, state, member)
                for member in members[at : at + size]
            ]
            drawn = [*islice(draws, len(own))]
            new = [place for place, weights in enumerate(own) if weights is None]
            theirs = [supports[at + place] for place in new], [drawn[place] for place in new]
            made = iter(self._fitted(task, state, *theirs) if new else [])
            for weights in own:
                yield predict_with(task, next(made) if weights is None else weights)

    def _fitted(
        self, task: Task, state: State, supports: Sequence[Samples], generators: Sequence[Generator]
    ) -> list[Params]:
        """Return new clients' weights: all at once, or each trained by itself."""
        if task.together:
            return self.fit_each(task, state, supports, generators)

        def alone(one: tuple[Samples, Generator]) -> Params:
            support, generator = one
            return self.fit_each(task, state, [support], [generator])[0]

        apart = in_threads(task, supports[0].x.device, min(map(len, supports)))
        return each(alone, [*zip(supports, generators, strict=True)], apart=apart)


@dataclass(frozen=True, kw_only=True)
class FineTuned(TrainedNewcomers, ABC):
    """New clients take local steps from weights that the server sends, or that are drawn anew."""

    @abstractmethod
    def tuning(self, task: Task, state: State) -> Tuning:
        """Return how new clients train."""

    def begun(self, task: Task, state: State, generator: Generator) -> Params:
        """Return the weights that a new client begins with; by default the global ones."""
        return part(state.server, "target")

    def fit_each(
        self, task: Task, state: State, supports: Sequence[Samples], generators: Sequence[Generator]
    ) -> list[Params]:
        """Return new clients' weights, trained on their supports."""
        device = supports[0].x.device
        starts = [move(self.begun(task, state, generator), device) for generator in generators]
        return tune_each(task, starts, supports, self.tuning(task, state), generators)


@dataclass(frozen=True, kw_only=True)
class SharedBody(FineTuned, ABC):
    """One body for all, averaged as in FedAvg; every client keeps a head of its own.

    A seen client is served the head that its last round left it, on a body that has moved since; a
    new client trains a fresh head on the frozen body.

    Attributes
    ----------
    local_lr, local_momentum, local_weight_decay, clip_norm : float
        The local step.
    head_layers : int
        Number of last layers that are the head; at 0 the method is FedAvg.
    novel_lr : float or None
        Rate of training a new client; None: ``local_lr``.
    novel_steps, novel_batch_size : int
        Steps of a new client's head (PeFLL's A.2: 20 epochs, 260 steps for 100 clients of CIFAR-10)
        and their batch size.
    """

    local_lr: float = number(5e-3, above=0)
    local_momentum: float = number(0.9, least=0, below=1)
    local_weight_decay: float = number(5e-5, least=0)
    clip_norm: float = number(50.0, above=0)
    head_layers: int = count(1, least=0)
    novel_lr: float | None = number(None, above=0)
    novel_steps: int = count(260)
    novel_batch_size: int = size(32)

    @property
    def local(self) -> LocalSGD:
        """The rule of a local step."""
        return LocalSGD(self.local_lr, self.local_momentum, self.local_weight_decay, self.clip_norm)

    def init(self, task: Task, clients: Clients, first: Cohort, generator: Generator) -> State:
        """Draw random weights; all heads begin alike."""
        weights = task.initial(generator)
        head = {name: weights[name] for name in head_names(task, self.head_layers)}
        body = {name: weights[name] for name in body_names(task, self.head_layers)}
        heads = {k: v.contiguous() for k, v in repeat(head, len(clients)).items()}
        return State(nest("body", body), heads)

    def start(
        self, task: Task, state: State, clients: Clients, cohort: Cohort, generator: Generator
    ) -> Start:
        """Send the body; every client puts its own head on it."""
        body = repeat(part(state.server, "body"), len(cohort))
        return Start(join(task, body, gather(state.clients, cohort.members)))

    def finish(
        self, task: Task, state: State, cohort: Cohort, start: Start, final: Params
    ) -> Finish:
        """Upload the change of the body, keep the head."""
        body = {name: final[name] for name in body_names(task, self.head_layers)}
        head = {name: final[name] for name in head_names(task, self.head_layers)}
        return Finish(uploads=subtract(body, start.params), kept=head)

    def aggregate(
        self, task: Task, state: State, cohort: Cohort, start: Start, uploads: Params
    ) -> State:
        """Add the mean change of the body, weighted by support sizes."""
        mean = weighted_mean(uploads, cohort.sizes)
        return State(nest("body", add(part(state.server, "body"), mean)), state.clients)

    def own_model(self, task: Task, state: State, index: int) -> Params | None:
        """Return the body with the client's own head."""
        return join(task, part(state.server, "body"), row(state.clients, index))

    def begun(self, task: Task, state: State, generator: Generator) -> Params:
        """Return the body under a fresh head."""
        return join(task, task.initial(generator), part(state.server, "body"))

    def tuning(self, task: Task, state: State) -> Tuning:
        """Return the training of the head on the frozen body."""
        head, rule = head_names(task, self.head_layers), self.local.at(self.novel_lr)
        return Tuning(rule, self.novel_steps, self.novel_batch_size, head)

    def serving_messages(self, task: Task, state: State, n_support: int) -> Messages:
        """Return the body, sent once."""
        return one_model(task, body_names(task, self.head_layers))
