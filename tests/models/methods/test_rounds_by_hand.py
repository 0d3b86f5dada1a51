"""Rounds of methods without published figures, against plain torch written from the papers."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import plain_code as plain
import pytest
import torch
from formula_federation import BATCH, STEPS, a_task, by_formula, cohort_of, federation, next_state
from plain_code import Table
from torch import Generator, Tensor

from latecomer.models.engine.method import Method, versions
from latecomer.models.methods import METHODS, make_method
from latecomer.models.task.clients import Samples
from latecomer.models.task.heads import layers
from latecomer.models.task.state import State, part, row
from latecomer.models.task.task import Task

SIZES = (8, 5, 10, 7)
ROUNDS = ([0, 2], [1, 2, 3])
CLIENTS, TASK = federation(SIZES), a_task()
SETS = [(CLIENTS.support_of(c).x, CLIENTS.support_of(c).labels()) for c in range(len(SIZES))]
STEP: dict[str, Any] = {"lr": 0.05, "momentum": 0.9, "decay": 1e-3, "clip": 0.7}
LOCAL = {"local_lr": 0.05, "local_momentum": 0.9, "local_weight_decay": 1e-3, "clip_norm": 0.7}
PATHS = pytest.mark.parametrize("path", ["serial", "vectorised"])
# Inputs that no client holds.
X = torch.sin(0.11 * torch.arange(1, 43, dtype=torch.float64)).view(7, 6)


def losses(client: int) -> list[Any]:
    """Return the losses of a client's local steps in a round."""
    (x, y), size = SETS[client], SIZES[client]
    places = [torch.arange(s * BATCH, (s + 1) * BATCH) % size for s in range(STEPS)]
    return [plain.loss_on(x[now], y[now]) for now in places]


def on_all(client: int, steps: int) -> list[Any]:
    """Return the losses of steps that see a client's whole support."""
    return [plain.loss_on(*SETS[client])] * steps


def alike(found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    assert set(found) == set(expected)
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value.detach(), rtol=1e-9, atol=1e-10)


def begun(method: Method) -> State:
    return method.init(TASK, CLIENTS, cohort_of(CLIENTS, ROUNDS[0]), Generator().manual_seed(3))


def trained(method: Method, path: str, phases: Sequence[str] = ()) -> State:
    state, named = begun(method), {one.name: one for one in method.phases(TASK)}
    for number, members in enumerate(ROUNDS):
        phase = named[phases[number]] if phases else None
        state = next_state(method, state, CLIENTS, members, path, number=number, phase=phase)
    return state


def drawn() -> Generator:
    return Generator().manual_seed(8)


def personalised(method: Method, state: State, client: int) -> Any:
    """Serve a client as a newcomer, by its inputs alone where its labels are not needed."""
    support = CLIENTS.support_of(client)
    given = support if method.needs_labels else Samples(support.x, None)
    *_, predictor = method.predictors
    return method.personalize(TASK, state, given, predictor=predictor, generator=drawn())


def seen(method: Method, state: State, client: int) -> Any:
    *_, predictor = method.predictors
    how: dict[str, Any] = {"predictor": predictor, "generator": drawn()}
    return method.serve(TASK, state, client, CLIENTS.support_of(client), **how)


@PATHS
def test_local(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Task, "initial", lambda task, _: by_formula(task.shapes))
    first = by_formula(TASK.shapes)
    own = dict.fromkeys(range(len(SIZES)), first)
    for members in ROUNDS:
        own |= {c: plain.descended(own[c], losses(c), **STEP) for c in members}
    method = make_method("local", **LOCAL, novel_lr=0.1, novel_steps=5, novel_batch_size=10)
    state = trained(method, path)
    for client, weights in own.items():
        alike(row(state.clients, client), weights)
        alike(seen(method, state, client).weights, weights)
    # A newcomer begins anew, not where any client stands.
    fresh = plain.descended(first, on_all(2, 5), **STEP | {"lr": 0.1})
    alike(personalised(method, state, 2).weights, fresh)


@PATHS
def test_fedavg_with_fine_tuning(path: str) -> None:
    method = make_method("fedavg_ft", **LOCAL, novel_lr=0.1, finetune_steps=5)
    w = part(begun(method).server, "target")
    for members in ROUNDS:
        reached = [plain.descended(w, losses(c), **STEP) for c in members]
        w = plain.mean(reached, [SIZES[c] for c in members])
    state = trained(method, path)
    alike(part(state.server, "target"), w)
    for client in range(len(SIZES)):
        tuned = plain.descended(w, on_all(client, 5), **STEP | {"lr": 0.1})
        whole = replace(method, finetune_batch_size=SIZES[client])  # type: ignore[call-arg]
        alike(seen(whole, state, client).weights, tuned)
        alike(personalised(whole, state, client).weights, tuned)


def permuted(weights: Table, seed: int) -> Table:
    """Return the same net with its hidden units in another order."""
    first, second = (
        torch.randperm(64, generator=Generator().manual_seed(seed + i)) for i in (0, 1)
    )
    table = {f"dense1.{kind}": weights[f"dense1.{kind}"][first] for kind in ("weight", "bias")}
    table["dense2.weight"] = weights["dense2.weight"][:, first][second]
    table["dense2.bias"] = weights["dense2.bias"][second]
    table["head.weight"] = weights["head.weight"][:, second]
    return table | {"head.bias": weights["head.bias"]}


@PATHS
def test_fedma_of_one_net_in_several_orders(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients begin as permuted copies of one net, so what FedAvg makes of it is the answer."""
    method = make_method("fedma", **LOCAL | {"local_lr": 0.005})
    state, w = begun(method), by_formula(TASK.shapes)
    copies = (permuted(by_formula(TASK.shapes), seed) for seed in (100, 101, 102))
    monkeypatch.setattr(Task, "initial", lambda task, _: next(copies))
    phases = {one.name: one for one in method.phases(TASK)}
    slow, names, chain = STEP | {"lr": 0.005}, list(w), layers(TASK)
    for number, (members, name) in enumerate(
        zip(([0, 2, 3], [1, 2, 3], [2, 0]), ("all", "above-1", "above-2"), strict=True)
    ):
        moving = [one for one in names if one.split(".")[0] in chain[number:]]
        reached = [plain.descended(w, losses(c), **slow, moving=moving) for c in members]
        w = plain.mean(reached, [SIZES[c] for c in members])
        state = next_state(method, state, CLIENTS, members, path, number=number, phase=phases[name])
        if number == 0:
            # In the order of the largest client's net, client 2's: the second that was drawn.
            w = permuted(w, 101)
        alike(part(state.server, "target"), w)


def test_fedma_puts_permuted_copies_back_exactly() -> None:
    method = make_method("fedma")
    state, cohort = begun(method), cohort_of(CLIENTS, [0, 1, 3], number=1)
    w = part(state.server, "target")
    start = method.start(TASK, state, CLIENTS, cohort, drawn())
    copies = [permuted(w, seed) for seed in (7, 21, 35)]
    assert all(not torch.equal(one["dense1.weight"], w["dense1.weight"]) for one in copies)
    changes = {k: torch.stack([one[k] - w[k] for one in copies]) for k in w}
    after = method.aggregate(TASK, state, cohort, start, changes)
    for name, value in part(after.server, "target").items():
        torch.testing.assert_close(value, w[name], rtol=0, atol=1e-15)


SERVER: dict[str, Any] = {"lr": 0.1, "momentum": 0.9, "weight_decay": 1e-3}


class Stepped:
    """Tables that torch's optimizers move along gradients given from outside."""

    def __init__(self, *groups: tuple[Any, Mapping[str, Tensor], dict[str, Any]]) -> None:
        self.tables = [plain.leaves(table) for _, table, _ in groups]
        self.optimizers = [
            kind(list(table.values()), **settings)
            for (kind, _, settings), table in zip(groups, self.tables, strict=True)
        ]

    def step(self, *slopes: Sequence[Tensor]) -> None:
        for table, optimizer, given in zip(self.tables, self.optimizers, slopes, strict=True):
            for value, slope in zip(table.values(), given, strict=True):
                value.grad = slope
            optimizer.step()


def embedded_round(
    eta: Table, embeddings: Tensor, members: Sequence[int], clip: float
) -> tuple[list[Tensor], Tensor]:
    """Return the gradients of a hypernetwork and of all embeddings, by Algorithm 1 of pFedHN.

    The hypernetwork's is the mean over the round's clients; both are clipped together.
    """
    total, of_embeddings = [torch.zeros_like(v) for v in eta.values()], torch.zeros_like(embeddings)
    for client in members:
        e = embeddings[client].detach().requires_grad_()
        made = plain.hypernetwork(eta, e)
        begun = {name: value.detach() for name, value in made.items()}
        reached = plain.descended(begun, losses(client), **STEP)
        change = {name: reached[name] - begun[name] for name in begun}
        *slopes, of_embeddings[client] = plain.pulled_back(made, change, [*eta.values(), e])
        total = [one + slope / len(members) for one, slope in zip(total, slopes, strict=True)]
    *slopes, of_embeddings = plain.clipped([*total, of_embeddings], clip)
    return slopes, of_embeddings


def by_pfedhn(state: State) -> tuple[Table, Tensor]:
    """Return hypernetwork and embeddings after the rounds."""
    table = {"embedding": state.clients["embedding"]}
    sgd = torch.optim.SGD
    held = Stepped((sgd, part(state.server, "hyper"), SERVER), (sgd, table, SERVER))
    eta, own = held.tables
    for members in ROUNDS:
        slopes, of_embeddings = embedded_round(eta, own["embedding"], members, 0.7)
        held.step(slopes, [of_embeddings])
    return eta, own["embedding"]


@PATHS
@pytest.mark.parametrize("name", ["pfl_sampled", "pfl_nearest", "pfl_ensemble"])
def test_pfl_methods(name: str, path: str) -> None:
    method = make_method(name, **LOCAL, server_lr=0.1, embedding_dim=3)
    eta, embeddings = by_pfedhn(begun(method))
    state = trained(method, path)
    alike(part(state.server, "hyper"), eta)
    alike({"embedding": state.clients["embedding"]}, {"embedding": embeddings})
    logits = [plain.net(plain.hypernetwork(eta, e), X).detach() for e in embeddings]
    for client, own in enumerate(logits):
        alike({"seen": seen(method, state, client)(X)}, {"seen": own})
    # Section 6.2 of OD-PFL: any client's, accuracies averaged; the nearest one's; mean logits.
    served = {
        "pfl_sampled": lambda x: logits,
        "pfl_nearest": lambda x: [logits[nearest(x)]],
        "pfl_ensemble": lambda x: [torch.stack(logits).mean(dim=0)],
    }[name]
    for newcomer in (-1.3, 0.4, 2.6, 5.0):
        j = torch.arange(1, 55, dtype=torch.float64)
        x = torch.sin(0.37 * j + 0.5 * newcomer).view(9, 6)
        *_, predictor = method.predictors
        model = method.personalize(
            TASK, state, Samples(x, None), predictor=predictor, generator=drawn()
        )
        for found, expected in zip(versions(model), served(x), strict=True):
            alike({"novel": found(X)}, {"novel": expected})


def nearest(x: Tensor) -> int:
    """Return the client whose inputs a refitted linear classifier tells worst from ``x``."""
    distances = [plain.told_apart(inputs, x) for inputs, _ in SETS]
    return min(range(len(distances)), key=distances.__getitem__)


def test_newcomers_of_the_nearest_client_are_not_all_alike() -> None:
    j = torch.arange(1, 55, dtype=torch.float64)
    found = {nearest(torch.sin(0.37 * j + 0.5 * c).view(9, 6)) for c in (-1.3, 0.4, 2.6, 5.0)}
    assert len(found) > 1


@PATHS
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_odpfl_hn_in_two_phases(optimizer: str, path: str) -> None:
    """Supplement, B.2: embeddings beside an encoder that predicts them, then the hypernetwork."""
    settings = {"embedding_lr": 0.02, "encoder_lr": 0.03, "encoder_steps": 3, "averaging": 0.0}
    settings |= {"descriptor_dim": 3, "pooled_units": 4, "server_lr": 0.01, "training": "two_phase"}
    method = make_method("odpfl_hn", **LOCAL, **settings, server_optimizer=optimizer)
    first = begun(method)
    decays = {"lr": 0.01, "weight_decay": 1e-3}
    kinds: dict[str, tuple[Any, dict[str, Any]]] = {
        "sgd": (torch.optim.SGD, decays | {"momentum": 0.9}),
        "adam": (torch.optim.AdamW, decays),
    }
    kind, server = kinds[optimizer]
    table = {"embedding": first.clients["embedding"]}
    held = Stepped(
        (kind, part(first.server, "hyper"), server), (torch.optim.SGD, table, SERVER | {"lr": 0.02})
    )
    eta, own = held.tables
    gamma = part(first.server, "encoder")

    together, alone = ROUNDS
    slopes, of_embeddings = embedded_round(eta, own["embedding"], together, 0.7)
    predicted = []
    for client in together:
        x, goal = SETS[client][0], own["embedding"][client].detach()
        far = [lambda g, x=x, goal=goal: (plain.set_encoder(g, x) - goal).square().sum()] * 3
        predicted.append(plain.descended(gamma, far, **STEP | {"lr": 0.03}))
    gamma = plain.mean(predicted, [1.0] * len(predicted))
    held.step(slopes, [of_embeddings])

    told = torch.stack([plain.set_encoder(gamma, x) for x, _ in SETS])
    slopes, _ = embedded_round(eta, told, alone, 1e9)
    slopes = plain.clipped(slopes, 0.7)
    held.tables, held.optimizers = held.tables[:1], held.optimizers[:1]
    held.step(slopes)

    state = trained(method, path, ("embeddings", "finetune"))
    alike(part(state.server, "hyper"), eta)
    alike(part(state.server, "encoder"), gamma)
    alike({"embedding": state.clients["embedding"]}, own)
    for client, descriptor in enumerate(told):
        expected = plain.hypernetwork(eta, descriptor)
        alike(personalised(method, state, client).weights, expected)
        alike(seen(method, state, client).weights, expected)


GOLDEN = Path(__file__).parents[2] / "golden"
SHARED = "golden", "published"
OF_THEIR_OWN = {"pefll": "pefll_one_round", "pfedhn": "pfedhn_two_rounds", "glmm": "glmm_fits"}
"""Methods whose figures have a file."""
IN_PLAIN_CODE = {"ifca", "fedem", "pfedfda"}
"""Methods whose rounds are written out beside the tests of the method."""
BY_HAND = {"local", "fedavg_ft", "fedma", "pfl_sampled", "pfl_nearest", "pfl_ensemble"}


def test_every_method_has_rounds_from_elsewhere() -> None:
    told = [json.loads((GOLDEN / f"{name}_rounds.json").read_text()) for name in SHARED]
    covered = {key.split("_fo")[0].split("_hf")[0] for one in told for key in one}
    assert all((GOLDEN / f"{file}.json").exists() for file in OF_THEIR_OWN.values())
    assert BY_HAND.isdisjoint(covered)
    assert {*METHODS} <= covered | BY_HAND | IN_PLAIN_CODE | {*OF_THEIR_OWN}
