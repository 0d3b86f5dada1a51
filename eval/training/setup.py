"""Parts of every kind of cell: its federation, its task, its trained model, its results."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, lru_cache, partial
from typing import Any, Literal, TypeVar

import torch
from torch.nn.parameter import is_lazy

from latecomer.errors import InputError
from latecomer.eval.federation.groups import Federation, Group, build_federation
from latecomer.eval.results.rows import Artifact
from latecomer.eval.scoring.label_shift import PRIORS, ByBbse, ByEm
from latecomer.eval.scoring.scores import ClientScore, group_score
from latecomer.eval.scoring.serving import (
    ServedPoints,
    client_generator,
    score_group,
    score_groups,
    served_points,
)
from latecomer.eval.settings.cell import FederationSettings, SplitCell, TrainingCell
from latecomer.eval.settings.study_sections import ModelSettings, Train
from latecomer.eval.training.checkpoint_slots import Slot
from latecomer.files import sum_of
from latecomer.models import outside
from latecomer.models.engine.method import Method
from latecomer.models.engine.schedule import TrainConfig, fewest_rounds, most_stages
from latecomer.models.engine.training import Checkpoint, RoundLog, initial_state, subset, train
from latecomer.models.engine.vectorised import choose_path, has_written_slopes
from latecomer.models.generators.encoders import encoder, is_own_encoder
from latecomer.models.generators.hypernetworks import largest
from latecomer.models.methods import find_method, make_method
from latecomer.models.task import own_nets
from latecomer.models.task.clients import Clients, Samples
from latecomer.models.task.state import State
from latecomer.models.task.stems import Frozen, Stem, constants_to
from latecomer.models.task.task import GENERATED_LIMIT, Task, make_task


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A trained method with everything that its bounds need."""

    method: Method
    task: Task
    state: State
    federation: Federation  # the clients it was trained and measured on
    seen_error: Mapping[str, float]  # pooled query error of the seen clients, by predictor
    # Maps a predictor to the seen clients' scores on their own support data.
    support_scores: Callable[[str], Sequence[ClientScore]]
    seed: int  # training seed
    # Scores of the held-out clients, by predictor.
    held_out: Mapping[str, Sequence[ClientScore]] = field(default_factory=dict)
    # Maps a group and a predictor to what its clients' models, as served, say of their points.
    points: Callable[[Group, str], Sequence[ServedPoints]] = lambda group, predictor: ()

    def support_error(self, predictor: str) -> float:
        """Return the mean error of the seen clients on their own support data."""
        return group_score(self.support_scores(predictor)).per_client


WRITTEN_OUT_VERSION = 3
"""Numbers version of ``path: vectorised`` where gradients are written out."""


def recorded_way(
    path: str, method: Method, task: Task, device: str | None = None, precision: str | None = None
) -> tuple[str, int | None]:
    """Return the ``path`` that a cell records, and the version of its numbers if that says more.

    Cells are of one way of training, the same numbers have the same cell. Before ``auto`` looked at
    shapes it was serial on a CPU, and such cells said ``auto``: they still do where a study now
    says ``serial`` and ``auto`` would be another way (`trained_path` reads it so).

    Examples
    --------
    >>> from latecomer.models.methods import make_method
    >>> from latecomer.models.task.task import make_task
    >>> fedavg, task = make_method("fedavg"), make_task(input_shape=(6,), n_classes=4)
    >>> [recorded_way(path, fedavg, task) for path in ("auto", "vectorised", "serial")]
    [('vectorised', 3), ('vectorised', 3), ('auto', None)]
    """
    where = torch.device(device or "cpu")
    if not has_written_slopes(task, where):
        return path, None
    auto = choose_path("auto", None, method, task, where, precision)[0]
    if path == "vectorised" or (path == "auto" and auto == "vectorised"):
        return "vectorised", WRITTEN_OUT_VERSION
    return ("auto" if path == "serial" and auto == "vectorised" else path), None


def trained_path(recorded: str, device: torch.device) -> str:
    """Return the path that a cell's recorded one means.

    >>> trained_path("auto", torch.device("cpu")), trained_path("vectorised", torch.device("cpu"))
    ('serial', 'vectorised')
    """
    return "serial" if recorded == "auto" and device.type == "cpu" else recorded


Row = dict[str, Any]
OnRound = Callable[[RoundLog], None]
T = TypeVar("T")
_CHANGED = (
    "{} changed since this run was planned: put the file back, or run the study anew with another "
    "--out"
)


@dataclass(frozen=True)
class Outcome:
    """Results of a cell: rows for ``rows.csv`` and named artifacts."""

    rows: list[Row]
    artifacts: Mapping[str, Artifact]


@lru_cache(maxsize=2)
def _federation(settings: FederationSettings) -> Federation:
    return build_federation(settings)


def federation_of(cell: SplitCell | TrainingCell) -> Federation:
    """Return the cell's federation; cells of one study in one process share it.

    Data that are others than when the cell was named after them are refused.
    """
    federation = _federation(cell.federation)
    if cell.data_hash not in ("", federation.data_hash):
        raise InputError(_CHANGED.format("data"))
    return federation


def budget_of(train: Train) -> TrainConfig:
    """Return a study's training budget: rounds, cohort, local steps, batch size, precision."""
    return TrainConfig(**{one.name: getattr(train, one.name) for one in fields(TrainConfig)})


@lru_cache(maxsize=2)
def _task(federation: Federation, model: ModelSettings, source: str, encoder_source: str) -> Task:
    """Build the task; hashes of networks' own files, where they are, only tell tasks apart."""
    dataset, target = federation.dataset, _own_target(model) if source else model.target
    sizes = {k: v for k, v in model.hypernetwork.model_dump().items() if v != "auto"}
    task = make_task(
        input_shape=tuple(dataset.x.shape[1:]),
        n_classes=dataset.n_classes,
        target=target,
        encoder=outside.import_encoder(model.encoder) if encoder_source else model.encoder,
        hypernetwork=sizes,
        generated_limit=model.generated_limit or GENERATED_LIMIT,
        vocabulary=dataset.vocabulary,
        stem=model.stem if source else None,
    )
    if not encoder_source and model.encoder != "auto":
        encoder(task, 1)  # refuses a name that there is not, and one that is for other inputs
    return task


@lru_cache(maxsize=2)
def _through(stem: Stem, federation: Federation) -> Federation:
    return federation.with_clients(stem.through)


@lru_cache(maxsize=2)
def _together(task: Task) -> Task:
    """Return the task of methods whose clients train all at once, one for all of them."""
    return replace(task, together=True)


def _own_target(model: ModelSettings) -> Callable[..., Any]:
    """Return what makes a network of one's own, with its frozen weights in their places."""
    make = outside.import_target(model.target, model.own())
    if model.frozen is None or model.weights is None:
        return make
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        weights = load_file(model.weights)
    except (OSError, SafetensorError) as error:
        raise ValueError(
            f"weights must be a safetensors file, got {model.weights}: {error}"
        ) from error
    return Frozen(make, model.frozen, weights)


def task_of(federation: Federation, model: ModelSettings, method: Method) -> Task:
    """Return the task with the study's target, or the largest of the method's own sizes.

    Cells of one study in one process share it.
    """
    described = outside.file_hash(model.encoder) if is_own_encoder(model.encoder) else ""
    if method.sizes:
        if model.frozen is not None:
            raise ValueError(
                "they are nets of their own, none of which model.frozen freezes: leave sizes or "
                f"model.frozen out, got sizes={', '.join(method.sizes)}"
            )
        kept = {name: getattr(model, name) for name in type(model).model_fields}
        model = ModelSettings(**{**kept, "target": largest(method.sizes)})
        return _task(federation, model, "", described)
    own = outside.is_own_target(model.target)
    source = outside.target_source_hash(model.target, model.weights) if own else ""
    return _task(federation, model, source, described)


@dataclass(frozen=True, eq=False)
class Setup:
    """What a cell trains, on whom, how long and how it is scored, from its configuration."""

    # Cells of one study in one process share federation and task.
    federation: Federation  # its clients hold what the task's target takes
    dealt: Federation  # the federation before the task's stem, if it has one
    method: Method
    task: Task
    budget: TrainConfig
    seed: int
    classes: str  # how logits of classes absent from a client are treated, see :func:`score_group`
    path: str  # ``serial``, ``vectorised`` or ``auto``, for cohorts and for new clients that train
    # How models of new clients are corrected for the shares of their classes, of ``PRIORS``.
    prior: str | None = None

    @cached_property
    def reweigh(self) -> ByEm | ByBbse | None:
        """What corrects models of new clients; None if nothing does."""
        if self.prior is None:
            return None
        seen, held_out = self.federation.seen.clients, self.federation.validation.clients
        return PRIORS[self.prior].of(seen, held_out, self.task.n_classes)

    @property
    def personalization(self) -> str:
        """How a client that never trained is served."""
        return "unlabelled" if self.prior else self.method.personalization

    @property
    def judged(self) -> str:
        """The predictor used by default: the deterministic one if there is one, else the first."""
        predictors = self.method.predictors
        return "deterministic" if "deterministic" in predictors else predictors[0]

    def through(self, *populations: Clients) -> list[Clients]:
        """Return clients made from ``dealt`` as the task's target takes them."""
        stem = self.task.stem
        return [*populations] if stem is None else stem.through(populations)

    def train(
        self,
        clients: Clients,
        slot: Slot,
        *,
        on_round: OnRound | None,
        resume: Checkpoint | None = None,
        on_checkpoint: Callable[[Checkpoint], None] | None = None,
    ) -> State:
        """Train on clients, continuing from the slot's checkpoint or from ``resume``."""
        return train(
            self.method,
            self.task,
            clients,
            self.budget,
            seed=self.seed,
            on_round=on_round,
            path=self.path,
            resume=slot.load() if on_checkpoint is None else resume,
            on_checkpoint=on_checkpoint or slot.offer,
        )

    def score(
        self,
        state: State,
        group: Group,
        *,
        predictor: str | None = None,
        measured_on: Literal["query", "support"] = "query",
    ) -> list[ClientScore]:
        """Serve and score a group's clients, with ``judged`` unless a predictor is given."""
        score = self._serving(score_group)
        return score(state, group, predictor=predictor or self.judged, measured_on=measured_on)

    def score_each(self, state: State, groups: Sequence[Group]) -> list[list[ClientScore]]:
        """Serve and score several groups as `score` does, clients that they share once."""
        return self._serving(score_groups)(state, groups, predictor=self.judged)

    def points(self, state: State, group: Group, *, predictor: str) -> list[ServedPoints]:
        """Serve a group's clients as `score` does; return what their models say of each point."""
        return self._serving(served_points)(state, group, predictor=predictor)

    def _serving(self, work: Callable[..., T]) -> Callable[..., T]:
        """Return what serves a group and looks at it, set up as all measurements are."""
        return partial(
            work,
            self.method,
            self.task,
            classes=self.classes,
            seed=self.seed,
            reweigh=self.reweigh,
        )


def few_clients(federation: Federation, task: Task) -> Clients:
    """Return seen clients to try a task on: all, or one where it takes work to have them."""
    seen = federation.seen.clients
    return seen if task.stem is None else task.stem.through([subset(seen, [0])])[0]


def try_given(federation: Federation, method: Method, task: Task) -> None:
    """Check that a system trained elsewhere can serve seen clients, before other work starts.

    It serves one, another and the first again, alike. Whatever it raises becomes a ``ValueError``
    of one line.
    """
    clients, shortest = few_clients(federation, task), TrainConfig(0, 1, 1, 1)
    state = initial_state(method, task, clients, shortest, seed=0)

    def answer(place: int) -> torch.Tensor:
        generator = client_generator(0, int(clients.ids[place]))
        served = method.personalize(task, state, clients.support_of(place), generator=generator)
        with torch.no_grad():
            return served(clients.query_of(place).x)

    try:
        first, _, again = answer(0), answer(len(clients) - 1), answer(0)
    except (Exception, SystemExit) as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())[:160]
        raise ValueError(f"{method.name} cannot serve a client: {said}") from error
    if not torch.allclose(first.double(), again.double(), rtol=1e-3, atol=1e-3):
        raise ValueError(
            f"{method.name} answered otherwise when it served a client again after another: it must"
            " answer alike when asked twice, and learn nothing from one client for the next"
        )


def foresee(federation: Federation, model: ModelSettings, method: Method) -> None:
    """Refuse a network of one's own that is too large to be made, before it is built or tried.

    The line of the ``ValueError`` is that of `rehearse`.
    """
    if method.sizes or not outside.is_own_target(model.target):
        return
    dataset, limit = federation.dataset, model.generated_limit or GENERATED_LIMIT
    shape, n_classes = tuple(dataset.x.shape[1:]), dataset.n_classes
    try:
        net = own_nets.outline(_own_target(model), shape, n_classes)
    except ValueError:  # building it in earnest says what is wrong
        return
    if net is None or any(map(is_lazy, net.parameters())):  # building it says which
        return
    if sum(value.numel() for value in net.parameters()) <= limit:
        return
    try:
        method.check_target(Task(net, n_classes, shape, generated_limit=limit))
    except ValueError as error:
        raise ValueError(f"{method.name} cannot train this target: {error}") from error


def rehearse(federation: Federation, method: Method, task: Task) -> None:
    """Train one client as shortly as can be and serve one, where that has not been tried before.

    The networks that make weights are as small as they can be: what is tried is whether the method
    takes the target.  Whatever goes wrong becomes a ``ValueError`` of one line.
    """
    clients = few_clients(federation, task)
    try:
        small = replace(task, hidden=0, width=1)
        phases = method.phases(small)
        shortest = TrainConfig(fewest_rounds(phases), 1, most_stages(phases), 2)
        state = train(method, small, clients, shortest, seed=0, path="serial")
        if method.trains_newcomers:  # hundreds of steps, of the kind that was just taken
            return
        support, n_few = clients.support_of(0), max(2, method.least_support)
        few = Samples(support.x[:n_few], support.labels()[:n_few])
        generator = client_generator(0, int(clients.ids[0]))
        served = method.personalize(
            small, state, few, predictor=method.predictors[0], generator=generator
        )
        made, wanted = served(few.x), (len(few), task.n_classes)
        legal = f"it must serve logits {[*wanted]}, a tensor of floats"
        if not isinstance(made, torch.Tensor):
            raise ValueError(f"{legal}, got {type(made).__name__}")
        if made.shape != wanted or not made.is_floating_point():
            raise ValueError(f"{legal}, got {[*made.shape]} of {made.dtype}")
    except (Exception, SystemExit) as error:
        said = " ".join(str(error).split())
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        raise ValueError(f"{method.name} cannot train this target: {kind}{said}"[:400]) from error


def _refuse_changed(cell: TrainingCell) -> None:
    """Refuse files of one's own that are others than when the cell was named after them."""
    model, method, noted = cell.model, cell.method.name, cell.numbers_version or {}
    checkpoint = str(cell.method.hyper().get("checkpoint"))
    files: Mapping[str, tuple[str, Callable[[], object]]] = {
        "target_source": (
            "model.target",
            lambda: outside.target_source_hash(model.target, model.weights),
        ),
        "encoder_source": ("model.encoder", lambda: outside.file_hash(model.encoder)),
        "method_source": ("methods.name", lambda: outside.source_hash(find_method(method))),
        "bound_sources": (
            "bounds",
            lambda: {name: outside.file_hash(name) for name in noted["bound_sources"]},
        ),
        "checkpoint": (
            "methods.checkpoint",
            lambda: sum_of(checkpoint) if os.path.isfile(checkpoint) else "",
        ),
    }
    for key, (named, now) in files.items():
        if key in noted and noted[key] != now():
            raise InputError(_CHANGED.format(named))
    for entry in cell.certificates:
        source = getattr(entry, "rule_source", None)
        if source and source != outside.file_hash(str(getattr(entry, "rule", ""))):
            raise InputError(_CHANGED.format("certificates.rule"))


def setup_of(cell: TrainingCell) -> Setup:
    """Return the set-up of a training cell.

    Data or files of one's own that are others than when the cell was named after them are refused,
    and so is serving new clients by validation data that some seen client does not have.
    """
    federation = dealt = federation_of(cell)
    prior = cell.method.serving.prior if cell.method.serving else None
    if prior and PRIORS[prior].reads_validation and not len(federation.validation.clients):
        raise InputError(f"serving.prior={prior} needs validation data of every seen client")
    _refuse_changed(cell)
    method = make_method(cell.method.name, **cell.method.hyper())
    task, device = task_of(federation, cell.model, method), federation.seen.clients.device
    if task.make is not None:
        constants_to(task.target, device)
    if task.stem is not None:
        constants_to(task.stem.module, device)
        federation = _through(task.stem, federation)
    path = trained_path(cell.train.path, device)
    if choose_path(path, None, method, task, device)[0] == "vectorised":
        task = _together(task)
    return Setup(
        federation=federation,
        dealt=dealt,
        method=method,
        task=task,
        budget=budget_of(cell.train),
        seed=cell.seed,
        classes=cell.evaluation.classes,
        path=path,
        prior=prior,
    )
