"""Rounds of PeFLL and pFedHN against figures of their authors' code, in float64."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import formula_federation
import pytest
import torch
from formula_federation import assert_like, holding

from latecomer.models.engine.method import Method
from latecomer.models.engine.optimizers import adamw_memory, sgd_memory
from latecomer.models.engine.schedule import Cohort, Phase
from latecomer.models.engine.training import one_round
from latecomer.models.families.embedded_clients import moved
from latecomer.models.generators import hypernetworks
from latecomer.models.methods.pefll import PeFLL
from latecomer.models.methods.pfedhn import PFedHN
from latecomer.models.task.clients import Clients
from latecomer.models.task.state import State, nest, part
from latecomer.models.task.task import Task, make_task

GOLDEN = Path(__file__).parents[2] / "golden"
SAMPLES, SIDE, STEPS, BATCH = 32, 32, 5, 8
CLOSE = 1e-9

# The authors' names of layers -> ours.
LAYERS = {"fc1": "dense1", "fc2": "dense2", "fc3": "head"}
HEADS = {"c1": "conv1", "c2": "conv2", "l1": "dense1", "l2": "dense2", "l3": "head"}


def ours(name: str) -> str:
    """Return our name of a tensor of the published networks."""
    layer, kind = name.rsplit(".", 1)
    if layer.startswith("mlp."):
        return f"trunk{int(layer[4:]) // 2}.{kind}"
    if layer in LAYERS or layer.startswith("conv"):
        return f"{LAYERS.get(layer, layer)}.{kind}"
    short, made = layer.split("_")
    return f"heads.{HEADS[short]}.{'weight' if made == 'weights' else 'bias'}.{kind}"


by_formula = partial(formula_federation.by_formula, scale=0.05)  # published tensors, by their names


def federation(n: int) -> Clients:
    j = torch.arange(1, SAMPLES * 3 * SIDE * SIDE + 1, dtype=torch.float64)
    x = [torch.sin(0.0137 * j + 0.3 * c).view(SAMPLES, 3, SIDE, SIDE) for c in range(n)]
    y = [(2 * c + torch.arange(SAMPLES) % 2) % 10 for c in range(n)]
    rows, sizes = torch.arange(n * SAMPLES).view(n, SAMPLES), torch.full((n,), SAMPLES)
    return holding(torch.cat(x), torch.cat(y), rows, sizes)


def cohort_of(clients: Clients, members: list[int]) -> Cohort:
    """Draw what the authors' figures were computed on: step k takes samples 8k .. 8k + 7."""
    places = torch.arange(STEPS * BATCH).view(STEPS, 1, BATCH) % SAMPLES
    chosen = torch.tensor(members)
    own = clients.support[chosen]
    return Cohort(
        round=0,
        members=chosen,
        sizes=clients.support_sizes[chosen],
        descriptor_rows=own,
        rows=torch.stack([mine[places] for mine in own]),
    )


def a_task(dim: int) -> Task:
    return make_task(input_shape=(3, SIDE, SIDE), n_classes=10, dtype=torch.float64)


class Watched:
    """Keeps what a method's round began and ended with."""

    def __init__(self, method: Method, patch: pytest.MonkeyPatch) -> None:
        start, aggregate = type(method).start, type(method).aggregate

        def began(*given: Any) -> Any:
            self.start = start(*given)
            return self.start

        def ended(*given: Any) -> State:
            self.uploads = given[-1]
            return aggregate(*given)

        patch.setattr(type(method), "start", began)
        patch.setattr(type(method), "aggregate", ended)

    def compare(self, place: int, client: dict[str, Any]) -> None:
        for name, figures in client["made"].items():
            assert_like(self.start.params[ours(name)][place], figures)
        for name, figures in client["reached"].items():
            made, change = (table[ours(name)][place] for table in (self.start.params, self.uploads))
            assert_like(made + change, figures)


@pytest.mark.slow
@pytest.mark.parametrize("path", ["serial", "vectorised"])
def test_two_rounds_of_pfedhn(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    golden = json.loads((GOLDEN / "pfedhn_two_rounds.json").read_text())
    table = by_formula(golden["shapes"])
    embeddings = table.pop("embeddings.weight")
    eta = {ours(name): value for name, value in table.items()}
    clients, task = federation(golden["clients"]), a_task(golden["embedding_dim"])
    own = {"embedding": embeddings, "sgd.embedding": torch.zeros_like(embeddings)}
    state = State(nest("hyper", eta) | nest("hyper_sgd", sgd_memory(eta)), own)
    method = PFedHN()
    for client in golden["rounds"]:
        watched = Watched(method, monkeypatch)
        cohort = cohort_of(clients, [client["client"]])
        parts = method, task, state, clients, cohort, Phase(), torch.Generator()
        state, loss = one_round(*parts, path=path)
        watched.compare(0, client)
        assert loss == pytest.approx(sum(client["losses"]) / STEPS, rel=CLOSE)
        after = dict(client["after"])
        assert_like(state.clients["embedding"], after.pop("embeddings.weight"))
        for name, figures in after.items():
            assert_like(state.server[f"hyper.{ours(name)}"], figures)
        found = state.clients["embedding"]
        for row, figures in zip(found.tolist(), client["embeddings_after"], strict=True):
            assert row == pytest.approx(figures, rel=CLOSE)


def test_an_undrawn_embedding_goes_on_only_where_all_move() -> None:
    golden = json.loads((GOLDEN / "pfedhn_two_rounds.json").read_text())
    first, second = (torch.tensor(one["embeddings_after"]) for one in golden["rounds"])
    # Client 0 was never drawn, client 1 in the first round alone: both moved in the second.
    assert bool((first[:2] != second[:2]).any(dim=1).all())
    own = {"embedding": first, "sgd.embedding": torch.ones_like(first)}
    step = torch.tensor([2]), torch.zeros(1, first.shape[1]), (0.01, 0.9, 1e-3)
    for resting, moves in (("move", [True, True, True]), ("stay", [False, False, True])):
        after = moved(own, *step, resting=resting)["embedding"]
        assert (after != first).any(dim=1).tolist() == moves


@pytest.mark.slow
@pytest.mark.parametrize("path", ["serial", "vectorised"])
def test_one_round_of_pefll(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    golden = json.loads((GOLDEN / "pefll_one_round.json").read_text())
    networks = {
        key: {ours(name): value for name, value in by_formula(shapes).items()}
        for key, shapes in golden["shapes"].items()
    }
    method, clients = PeFLL(lambda_h=0.0, lambda_v=0.0), federation(2)
    cohort, task = cohort_of(clients, [0, 1]), a_task(26)
    # A published descriptor is a sum over 32 samples divided by 2, ours their mean.
    scale = {key: torch.tensor(golden[key] / 16, dtype=torch.float64) for key in ("mean", "sd")}
    server = nest("descriptor", scale)
    for section in hypernetworks.NETWORKS:
        weights = networks[section]
        server |= nest(section, weights) | nest(f"{section}_adamw", adamw_memory(weights))
    first = hypernetworks.encoder(task, 26)(
        part(server, "encoder"),
        clients.inputs(cohort.rows.new_tensor([[*range(SAMPLES)]])),
        clients.labels(cohort.rows.new_tensor([[*range(SAMPLES)]])),
    )
    assert float(first.mean()) == pytest.approx(float(scale["mean"]), rel=CLOSE)
    assert float(first.std()) == pytest.approx(float(scale["sd"]), rel=CLOSE)
    watched = Watched(method, monkeypatch)
    parts = method, task, State(server), clients, cohort, Phase(), torch.Generator()
    state, loss = one_round(*parts, path=path)
    told = [sum(client["losses"]) / STEPS for client in golden["clients"]]
    assert loss == pytest.approx(sum(told) / 2, rel=CLOSE)
    for place, client in enumerate(golden["clients"]):
        watched.compare(place, client)
        found = method.describe(task, State(server), clients.support_of(place))
        assert found.tolist() == pytest.approx(client["descriptor_standardised"], rel=CLOSE)
    for name, figures in golden["after"].items():
        network, tensor = name.split(".", 1)
        section = "encoder" if network == "embednet" else "hyper"
        assert_like(state.server[f"{section}.{ours(tensor)}"], figures)
