"""No method sees query data or clients that did not train: overwrite them, and nothing moves.

Whole cells are run on data of which some rows were overwritten with noise, inputs and labels, in
the table that all groups of clients share. What the cell made is then compared bit for bit.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import numpy as np
import pytest
import torch
from torch import Generator, Tensor

from latecomer.eval.datasets.dataset import Dataset, make_dataset
from latecomer.eval.federation import groups
from latecomer.eval.federation.groups import Federation, Group, build_federation
from latecomer.eval.protocol import evaluate_cell
from latecomer.eval.scoring.label_shift import ByBbse
from latecomer.eval.scoring.scores import ClientScore
from latecomer.eval.scoring.serving import client_generator, score_group, score_groups
from latecomer.eval.settings.cell import FederationSettings
from latecomer.eval.splits.build import ClientRows, make_split
from latecomer.models.engine.method import Method, versions
from latecomer.models.engine.schedule import Cohort
from latecomer.models.methods import METHODS, make_method
from latecomer.models.methods.fedavg import FedAvg
from latecomer.models.task.clients import Clients
from latecomer.models.task.state import State
from latecomer.models.task.task import Task

CLASSES, FEATURES = 4, 6
PROBES = torch.randn(5, FEATURES, generator=torch.Generator().manual_seed(5))
# What serving a newcomer costs by default would be most of the test's time.
QUICK: dict[str, dict[str, Any]] = {
    **{key: {"novel_steps": 3} for key in ("local", "fedper", "fedrep", "fedbabu", "lg_fedavg")},
    **{key: {"finetune_steps": 3} for key in ("fedavg_ft", "ditto", "apfl", "pfedme")},
    **{key: {"novel_rounds": 2, "novel_steps": 2} for key in ("pfedhn", "pfedhn_pc")},
}
BOUND = {"posterior": "gaussian", "training_objective": "bound"}
ENTRIES: dict[str, dict[str, Any]] = {
    **{name: {"name": name, **QUICK.get(name, {})} for name in METHODS},
    "pefll on its bound": {"name": "pefll", **BOUND},
    "odpfl_hn in two phases": {"name": "odpfl_hn", "training": "two_phase"},
}


def a_dataset() -> Dataset:
    draw = np.random.default_rng(0)
    y = np.arange(480) % CLASSES
    x = draw.normal(size=(CLASSES, FEATURES))[y] + draw.normal(size=(480, FEATURES))
    return make_dataset("toy", x.astype(np.float32), y, provenance="drawn")


DATASET = a_dataset()
DEALT = {
    **{"kind": "by_class", "clients": 12, "certify": 3, "novel": 3, "classes_per_client": 2},
    **{"query": 0.25, "validation": 0.25},
}
SPLIT = make_split(DATASET, **DEALT)


def rows_of(role: Callable[[ClientRows], Any], clients: Sequence[ClientRows]) -> Any:
    return np.concatenate([role(one) for one in clients])


EVERYONE = [*SPLIT.seen, *SPLIT.certification, *SPLIT.novel]
QUERIES = rows_of(lambda one: one.query, EVERYONE)
NEWCOMERS = rows_of(lambda one: one.rows("all"), [*SPLIT.certification, *SPLIT.novel])
VALIDATION = rows_of(lambda one: one.validation, SPLIT.seen)
OVERWRITTEN = {
    "nothing": QUERIES[:0],
    "queries": QUERIES,
    "newcomers": np.union1d(QUERIES, NEWCOMERS),
    "validation": VALIDATION,
    "supports": rows_of(lambda one: one.support, SPLIT.seen),
}


def federation_with(overwritten: str, scaled_by: Sequence[ClientRows] = ()) -> Federation:
    """Return the groups of clients whose named rows were overwritten after the split was dealt."""
    x, y, rows = DATASET.x.copy(), DATASET.y.copy(), OVERWRITTEN[overwritten]
    draw = np.random.default_rng(1)
    x[rows] = 3 * draw.normal(size=x[rows].shape)
    y[rows] = draw.integers(0, CLASSES, size=len(rows))
    noisy = replace(DATASET, x=x, y=y)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(groups, "load_dataset", lambda options: noisy)
        patch.setattr(groups, "split_of", lambda dataset, settings: SPLIT)
        if scaled_by:
            scale = groups.standardisation(noisy, scaled_by)
            patch.setattr(groups, "standardisation", lambda dataset, seen: scale)
        asked = {"data": {"name": "digits"}, "split": DEALT}
        return build_federation(FederationSettings.model_validate(asked))


@pytest.fixture(scope="module")
def federations() -> dict[str, Federation]:
    return {name: federation_with(name) for name in OVERWRITTEN}


def hash_of(tables: Mapping[str, Tensor]) -> str:
    digest = sha256()
    for name, value in sorted(tables.items()):
        digest.update(f"{name} {tuple(value.shape)} {value.dtype}".encode())
        digest.update(value.contiguous().numpy().tobytes())
    return digest.hexdigest()


def hash_of_state(state: State) -> str:
    return hash_of({**state.server, **{f"client {k}": v for k, v in state.clients.items()}})


@dataclass(frozen=True)
class Print:
    """What a cell made, by hashes.

    ``trajectory`` are the states of all rounds, ``kept`` the one that is served.
    """

    trajectory: tuple[str, ...]
    kept: str
    round: Any
    curve: tuple[tuple[Any, ...], ...]
    rates: tuple[tuple[Any, ...], ...]
    seen: str
    newcomers: str


class Watch:
    """Stands in the way of scoring, and keeps what was scored."""

    def __init__(self) -> None:
        self.states: dict[str, None] = {}
        self.last: dict[tuple[str, str], tuple[Method, Task, State, Group]] = {}

    def __call__(
        self, method: Method, task: Task, state: State, group: Group, **how: Any
    ) -> list[ClientScore]:
        self.note(method, task, state, [group], how["predictor"])
        return score_group(method, task, state, group, **how)

    def each(
        self, method: Method, task: Task, state: State, groups: Sequence[Group], **how: Any
    ) -> list[list[ClientScore]]:
        """Stand in the way of scoring several groups."""
        self.note(method, task, state, groups, how["predictor"])
        return score_groups(method, task, state, groups, **how)

    def note(
        self, method: Method, task: Task, state: State, groups: Sequence[Group], predictor: str
    ) -> None:
        """Keep a state, and who was served with it last."""
        self.states[hash_of_state(state)] = None
        for group in groups:
            self.last[group.name, predictor] = method, task, state, group

    def logits(self, name: str) -> str:
        """Hash a group's logits on fixed inputs, as it was served at the end."""
        found = {}
        for (group_name, predictor), (method, task, state, group) in self.last.items():
            if group_name != name:
                continue
            ids = group.clients.ids.tolist()
            members = [place if name == "seen" else None for place in range(len(ids))]
            supports = [group.clients.support_of(place) for place in range(len(ids))]
            draws = [client_generator(0, one) for one in ids]
            served = method.serve_each(
                task, state, members, supports, predictor=predictor, generators=draws
            )
            for one, model in zip(ids, served, strict=True):
                for number, version in enumerate(versions(model)):
                    found[f"{predictor} {one} {number}"] = version(PROBES)
        assert found
        return hash_of(found)


def printed(method: Mapping[str, Any], federation: Federation, twin: Method | None = None) -> Print:
    """Run the cell of a method, or of a twin in its place, and return what it made."""
    trains = make_method(**method).trains_newcomers
    train: dict[str, Any] = {"rounds": 3, "cohort": 3, "local_steps": 2, "batch_size": 6}
    train |= {"selection": "validation"}
    config = {
        "kind": "method",
        "data": {"name": "digits"},
        "split": DEALT,
        "model": {"hypernetwork": {"hidden": 1, "width": 7}},
        "method": method,
        "train": train | ({"tune_newcomers": [0.5, 1e-3]} if trains else {}),
        "evaluation": {"every": 1},
        "seed": 0,
    }
    watch = Watch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("latecomer.eval.training.setup.federation_of", lambda cell: federation)
        patch.setattr("latecomer.eval.training.setup.score_group", watch)
        patch.setattr("latecomer.eval.training.setup.score_groups", watch.each)
        if twin is not None:
            patch.setattr("latecomer.eval.training.setup.make_method", lambda name, **_: twin)
        outcome = evaluate_cell(config)
    seen = watch.last["seen", next(name for group, name in watch.last if group == "seen")]
    records = outcome.artifacts["training_curve"].table
    tried = outcome.artifacts["newcomer_rates"].table if trains else []
    return Print(
        trajectory=tuple(watch.states),
        kept=hash_of_state(seen[2]),
        round={row["value"] for row in outcome.rows if row["metric"] == "selected_round"},
        curve=tuple(
            (one["round"], one["error"], one["loss"])
            for one in records
            if one["group"] == "validation"
        ),
        rates=tuple((one["rate"], one["error"], one["chosen"]) for one in tried),
        seen=watch.logits("seen"),
        newcomers=watch.logits("novel"),
    )


Prints = Callable[[str], Print]
# What the cell does with validation data is the same for all methods of a kind, and so is what
# overwritten supports show of this test; what a method itself could read is tried on every method.
KINDS = {"local", "fedavg", "fedper", "per_fedavg", "knn_per", "ifca", "pfedhn", "pefll"}
of_every_method = pytest.mark.parametrize("prints", list(ENTRIES), indirect=True, scope="module")
of_every_kind = pytest.mark.parametrize(
    "prints",
    [pytest.param(one, marks=() if one in KINDS else pytest.mark.nightly) for one in ENTRIES],
    indirect=True,
    scope="module",
)


@pytest.fixture(scope="module")
def prints(request: pytest.FixtureRequest, federations: dict[str, Federation]) -> Prints:
    made: dict[str, Print] = {}

    def one(overwritten: str) -> Print:
        if overwritten not in made:
            made[overwritten] = printed(ENTRIES[request.param], federations[overwritten])
        return made[overwritten]

    return one


@of_every_method
def test_queries_are_read_by_nobody(prints: Prints) -> None:
    assert prints("queries") == prints("nothing")


@of_every_method
def test_newcomers_change_only_what_they_are_served(prints: Prints) -> None:
    noisy, plain = prints("newcomers"), prints("nothing")
    assert replace(noisy, newcomers=plain.newcomers) == plain


@of_every_kind
def test_validation_changes_choices_alone(prints: Prints) -> None:
    noisy, plain = prints("validation"), prints("nothing")
    assert noisy.trajectory == plain.trajectory
    assert {noisy.kept, plain.kept} <= {*plain.trajectory}
    assert noisy.curve != plain.curve


@of_every_kind
def test_control_supports_of_seen_clients_are_what_trains(prints: Prints) -> None:
    assert not {*prints("supports").trajectory} & {*prints("nothing").trajectory}


def test_choices_can_change(federations: dict[str, Federation]) -> None:
    both = (federations[name] for name in ("nothing", "validation"))
    plain, noisy = (printed(ENTRIES["local"], federation) for federation in both)
    assert noisy.round != plain.round
    assert [one[-1] for one in noisy.rates] != [one[-1] for one in plain.rates]
    assert noisy.seen != plain.seen


def test_confusion_matrices_come_from_validation_data_alone(
    federations: dict[str, Federation],
) -> None:
    def model(x: Tensor) -> Tensor:
        return x[:, :CLASSES]

    weights = {
        name: ByBbse.of(one.seen.clients, one.validation.clients, CLASSES).found(model, PROBES)
        for name, one in federations.items()
    }
    for name in ("queries", "newcomers"):
        assert torch.equal(weights[name].values, weights["nothing"].values)
    assert not torch.equal(weights["validation"].values, weights["nothing"].values)


@dataclass(frozen=True, kw_only=True)
class Peeking(FedAvg):
    """FedAvg whose first weights depend on a client's query data."""

    def init(self, task: Task, clients: Clients, first: Cohort, generator: Generator) -> State:
        state, shift = super().init(task, clients, first, generator), clients.query_of(0).x.mean()
        return State({name: value + shift for name, value in state.server.items()})


def test_twins_that_leak_are_found(federations: dict[str, Federation]) -> None:
    fedavg = {"name": "fedavg"}
    plain, noisy = federations["nothing"], federations["queries"]
    one, other = (printed(fedavg, each, Peeking()) for each in (plain, noisy))
    assert not {*one.trajectory} & {*other.trajectory}
    # Rounds chosen by the clients' test data.
    by_test = (replace(each, validation=each.seen) for each in (plain, noisy))
    one, other = (printed(fedavg, each) for each in by_test)
    assert one.curve != other.curve
    # Inputs standardised by all clients' supports, and not only by those that train.
    everyone = (federation_with(name, EVERYONE) for name in ("nothing", "newcomers"))
    one, other = (printed(fedavg, each) for each in everyone)
    assert not {*one.trajectory} & {*other.trajectory}
