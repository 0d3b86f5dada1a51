"""What methods from outside promise: shipped ones keep it, and those that do not are refused."""

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch

from latecomer.eval.federation.groups import build_federation
from latecomer.eval.settings.cell import federation_settings
from latecomer.eval.studies.checking import parse_study
from latecomer.eval.training.own_methods import refuse_broken_promises
from latecomer.eval.training.setup import task_of
from latecomer.models import State
from latecomer.models.engine.method import predict_with
from latecomer.models.families.global_weights import AveragedWeights
from latecomer.models.methods import METHODS, make_method
from latecomer.models.task.state import nest, part


@dataclass(frozen=True, kw_only=True)
class Own(AveragedWeights):
    """A method of one's own that keeps every promise."""

    name = "own"
    paper = "nowhere"
    personalization = "global"
    needs_labels = False


@dataclass(frozen=True, kw_only=True)
class Noisy(Own):
    """Adds noise that no generator of a hook gives."""

    def aggregate(self, task, state, cohort, start, uploads):
        made = super().aggregate(task, state, cohort, start, uploads).server
        return State({key: value + torch.randn_like(value) for key, value in made.items()})


@dataclass(frozen=True, kw_only=True)
class Remembering(Own):
    """Keeps momentum on its class, over trainings."""

    held: ClassVar[dict[str, torch.Tensor]] = {}

    def aggregate(self, task, state, cohort, start, uploads):
        for key, change in uploads.items():
            self.held[key] = 0.9 * self.held.get(key, torch.zeros(())) + change.mean(0)
        old = part(state.server, "target")
        return State(nest("target", {key: old[key] + self.held[key] for key in old}))


@dataclass(frozen=True, kw_only=True)
class Counting(Own):
    """Goes further in later rounds, which it counts from the start of a training."""

    taken: ClassVar[list[int]] = []

    def init(self, task, clients, first, generator):
        self.taken.clear()
        return super().init(task, clients, first, generator)

    def aggregate(self, task, state, cohort, start, uploads):
        self.taken.append(cohort.round)
        further = {key: len(self.taken) * value for key, value in uploads.items()}
        return super().aggregate(task, state, cohort, start, further)


@dataclass(frozen=True, kw_only=True)
class Sharing(Own):
    """Keeps the first weights beside those that it moves where they lie."""

    def init(self, task, clients, first, generator):
        made = super().init(task, clients, first, generator).server
        return State({**made, **nest("mean", part(made, "target"))})

    def aggregate(self, task, state, cohort, start, uploads):
        for key, value in part(state.server, "target").items():
            value += uploads[key].mean(0)
        mean, own = part(state.server, "mean"), part(state.server, "target")
        return State(nest("target", own) | nest("mean", own if cohort.round == 0 else mean))


@dataclass(frozen=True, kw_only=True)
class Plain(Own):
    """Counts its rounds in a number that is no tensor."""

    def aggregate(self, task, state, cohort, start, uploads):
        made = super().aggregate(task, state, cohort, start, uploads).server
        return State({**made, "round": cohort.round})


@dataclass(frozen=True, kw_only=True)
class Peeking(Own):
    """Starts from the mean of all samples, of clients who never train too."""

    def init(self, task, clients, first, generator):
        made = super().init(task, clients, first, generator).server
        return State({key: value + clients.x.float().mean() for key, value in made.items()})


@dataclass(frozen=True, kw_only=True)
class OnTestLabels(Own):
    """Starts from the test labels of a seen client."""

    def init(self, task, clients, first, generator):
        made = super().init(task, clients, first, generator).server
        shares = clients.query_of(1).labels().float().mean()
        return State({key: value + shares for key, value in made.items()})


@dataclass(frozen=True, kw_only=True)
class InPlace(Own):
    """Trains the server's own tensors for a new client."""

    personalization = "finetune"
    needs_labels = True

    def newcomers_model(self, task, state, support):
        weights = part(state.server, "target")
        for value in weights.values():
            value.mul_(0.9)
        return predict_with(task, weights)


@dataclass(frozen=True, kw_only=True)
class InPlaceWhenSeen(Own):
    """Trains the server's own tensors for a seen client."""

    def own_model(self, task, state, index):
        weights = part(state.server, "target")
        for value in weights.values():
            value.mul_(0.9)
        return weights


@dataclass(frozen=True, kw_only=True)
class Drawing(Own):
    """Serves clients by weights that no generator of a hook gives."""

    def newcomers_model(self, task, state, support):
        weights = part(state.server, "target")
        return predict_with(task, {k: v + torch.randn_like(v) for k, v in weights.items()})


@dataclass(frozen=True, kw_only=True)
class Masking(Own):
    """Reads a new client's labels and says that it does not."""

    personalization = "unlabelled"

    def newcomers_model(self, task, state, support):
        model, own = super().newcomers_model(task, state, support), support.labels()
        held = torch.bincount(own, minlength=task.n_classes) > 0
        return lambda x: model(x).masked_fill(~held, -9.0)


@dataclass(frozen=True, kw_only=True)
class Tuned(Own):
    """Trains for every new client and says that one model serves them all."""

    needs_labels = True

    def newcomers_model(self, task, state, support):
        weights = part(state.server, "target")
        return predict_with(task, {k: v + support.x.mean() for k, v in weights.items()})


BROKEN = [
    (Noisy, "trained to another state the second time: it must draw from"),
    (Remembering, "trained to another state the second time: it must draw from"),
    (Counting, "when it went on after a round: what it keeps must lie in its state"),
    (Sharing, "when it went on after a round: what it keeps must lie in its state"),
    (Plain, "must keep tensors alone in its state, got round of int"),
    (Peeking, "when samples changed that no seen client learns from: it must read the support"),
    (
        OnTestLabels,
        "when samples changed that no seen client learns from: it must read the support",
    ),
    (InPlace, "changed the trained state when it served a client"),
    (InPlaceWhenSeen, "changed the trained state when it served a client"),
    (Drawing, "served a client otherwise when asked again"),
    (Masking, "says needs_labels = False, and served a client otherwise"),
    (Tuned, "says personalization = 'global', one model that serves every new client"),
]
STUDY = {
    "study": "own",
    "data": {"name": "digits"},
    "split": {"kind": "by_class", "clients": 12, "classes_per_client": 3, "novel": 2},
    "methods": ["fedavg"],
    "train": {"rounds": 1, "cohort": 2},
}


@pytest.fixture(scope="module")
def trial():
    study = parse_study(STUDY)
    federation = build_federation(federation_settings(study))

    def tried(method):
        task = task_of(federation, study.model, method)
        refuse_broken_promises(method, task, federation.seen.clients)

    return tried


@pytest.mark.parametrize("name", METHODS)
def test_shipped_methods_keep_what_hooks_promise(trial, name):
    trial(make_method(name))


def test_a_method_of_ones_own_that_keeps_them_is_taken(trial):
    trial(Own())


@pytest.mark.parametrize(("broken", "told"), BROKEN, ids=[kind.__name__ for kind, _ in BROKEN])
def test_a_broken_promise_is_refused_in_one_line(trial, broken, told):
    with pytest.raises(ValueError, match=r"^own ") as caught:
        trial(broken())
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)
