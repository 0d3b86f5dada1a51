"""Shared by methods whose new clients train a model of their own."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from torch import Generator

from latecomer.models.engine.fine_tuning import BESIDE, Tuning, tune_each
from latecomer.models.engine.method import Method, Predictor, predict_with
from latecomer.models.engine.threads import each, in_threads, thread_count
from latecomer.models.task.clients import Samples
from latecomer.models.task.state import Params, State, move, part
from latecomer.models.task.task import Task


@dataclass(frozen=True, kw_only=True)
class TrainedNewcomers(Method, ABC):
    """A client that keeps no model trains one on its support when it is served."""

    @abstractmethod
    def fit_each(
        self,
        task: Task,
        state: State,
        supports: Sequence[Samples],
        generators: Sequence[Generator],
    ) -> list[Params]:
        """Return new clients' weights, trained on their supports."""

    def own_model(self, task: Task, state: State, index: int) -> Params | None:
        """Return the weights that serve seen client ``index``; None: as for a new client."""
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
        """Return the client's own model; one that has none is served as a new client."""
        self.refuse_predictor(predictor)
        own = self.own_model(task, state, index)
        if own is None:
            return self.personalize(task, state, support, generator=generator)
        return predict_with(task, own)

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
        self,
        task: Task,
        state: State,
        supports: Sequence[Samples],
        generators: Sequence[Generator],
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
        self,
        task: Task,
        state: State,
        supports: Sequence[Samples],
        generators: Sequence[Generator],
    ) -> list[Params]:
        """Return new clients' weights, trained on their supports."""
        device = supports[0].x.device
        starts = [move(self.begun(task, state, generator), device) for generator in generators]
        return tune_each(task, starts, supports, self.tuning(task, state), generators)
