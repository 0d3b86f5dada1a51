"""What methods declare of newcomers, on models that were trained: needs, gains and messages."""

from typing import get_args

import pytest
import torch
from formula_federation import model_of, quick

from latecomer.models.engine.newcomers import Messages, NewcomersGet
from latecomer.models.engine.schedule import TrainConfig
from latecomer.models.engine.training import train
from latecomer.models.methods import METHODS
from latecomer.models.methods.registry import method_facts
from latecomer.models.task.clients import Samples
from latecomer.models.task.heads import body_names
from latecomer.models.task.state import State, part

CONFIG = TrainConfig(rounds=3, cohort=4, local_steps=2, batch_size=6)
# What a model without points dies of, unless its method says that it needs none.
FAILURES = (IndexError, RuntimeError, RuntimeWarning, ValueError, ZeroDivisionError)


@pytest.fixture
def served(task, make_population):
    """A method trained for a moment, and its function from support and inputs to logits."""

    def build(name):
        method = quick(name)
        state = train(method, task, make_population(), CONFIG, seed=0)

        def logits(support, x, state=state):
            with torch.no_grad():
                return model_of(method, task, state, support, seed=1)(x)

        return method, state, logits

    return build


@pytest.fixture
def newcomers(make_population):
    """Supports of two newcomers of unlike classes, and inputs to compare models on."""
    clients = make_population(seed=5)
    return clients.support_of(0), clients.support_of(2), clients.query_of(1).x


@pytest.mark.parametrize("name", METHODS)
def test_labels_are_read_where_that_is_declared_and_nowhere_else(name, served, newcomers):
    method, _, logits = served(name)
    support, _, x = newcomers
    # Who picks one of several models may pick the same for other labels.
    others = [Samples(support.x, (support.labels() + turn) % 4) for turn in (1, 2, 3)]
    own, bare = logits(support, x), Samples(support.x, None)
    assert all(torch.equal(own, logits(other, x)) for other in others) != method.needs_labels
    if not method.needs_labels:
        assert torch.equal(own, logits(bare, x))
        return
    with pytest.raises(ValueError, match="support must be labelled"):
        logits(bare, x)


@pytest.mark.parametrize("name", METHODS)
def test_as_many_points_as_declared_are_enough_and_fewer_are_not(name, served, newcomers):
    method, _, logits = served(name)
    support, _, x = newcomers
    least = method.least_support
    assert least in (0, 1)
    enough = logits(Samples(support.x[:least], support.labels()[:least]), x)
    assert enough.shape == (8, 4)
    assert bool(enough.isfinite().all())
    if least:
        with pytest.raises(FAILURES):
            logits(Samples(support.x[:0], support.labels()[:0]), x)


@pytest.mark.parametrize("name", METHODS)
def test_newcomers_get_what_is_declared(name, task, served, newcomers, make_population):
    method, state, logits = served(name)
    first, second, x = newcomers
    apart, clients = logits(first, x) - logits(second, x), make_population()

    def seen(member):
        return model_of(method, task, state, clients.support_of(member), member)(x)

    match method.newcomers_get:
        case "the one model":
            assert not apart.any()
        case "all seen clients' models":
            assert not apart.any()
            mean = torch.stack([seen(member) for member in range(8)]).mean(0)
            torch.testing.assert_close(logits(first, x), mean)
        case "a seen client's model":
            theirs = [seen(member) for member in range(8)]
            assert any(torch.equal(logits(first, x), own) for own in theirs)
        case "the best of several models":
            several = [task.logits(one, x) for one in method.models(state)]
            assert any(torch.equal(logits(first, x), one) for one in several)
        case "a mixture of several models":
            several = torch.stack([task.logits(one, x).softmax(1) for one in method.models(state)])
            made, least, most = logits(first, x).exp(), several.amin(0), several.amax(0)
            assert ((made >= least - 1e-6) & (made <= most + 1e-6)).all()
        case "own intercept":
            assert apart.any()
            torch.testing.assert_close(apart, apart[:1].expand_as(apart))
        case "own neighbours":
            # All neighbours say class 0: what is left of the one model is the same everywhere.
            alone = Samples(first.x, torch.zeros(len(first), dtype=torch.int64))
            shared = task.logits(part(state.server, "target"), x).softmax(1)
            kept = (1 - logits(alone, x).softmax(1)[:, 0]) / (1 - shared[:, 0])
            weight = method.choices(task, state, alone)["knn_weight"]
            assert weight > 0
            torch.testing.assert_close(kept, torch.full_like(kept, 1 - weight))
        case said:
            assert said == "own weights"
            # Unlike for two newcomers by more than a constant, and nobody else's.
            assert (apart - apart[:1]).abs().max() > 0
            assert not any(torch.equal(logits(first, x), seen(member)) for member in range(8))


def numbers_read(state, logits, supports, x):
    """Count the numbers of the server that newcomers' models depend on, tensor by tensor."""
    told = 0
    for key, value in state.server.items():
        if value.is_floating_point():
            moved = value + 0.3 * torch.randn(value.shape, generator=torch.Generator())
            changed = State({**state.server, key: moved.to(value.dtype)}, state.clients)
            same = (torch.equal(logits(s, x, changed), logits(s, x)) for s in supports)
            told += value.numel() * (not all(same))
    return told


@pytest.mark.parametrize("name", METHODS)
def test_what_is_sent_is_what_serving_reads_of_the_server(name, task, served, newcomers):
    method, state, logits = served(name)
    support, _, x = newcomers
    sent = method.serving_messages(task, state, len(support))
    assert sent is not None
    # One newcomer's labels have an order, so that neighbours may outvote the rest; another's none.
    labels = torch.randint(4, (len(support),), generator=torch.Generator().manual_seed(3))
    read = numbers_read(state, logits, (support, Samples(support.x, labels)), x)
    weights = sum(value.numel() for value in task.initial(torch.Generator()).values())
    if "hyper.trunk0.weight" in state.server:
        # The server makes the weights: they are sent in place of what makes them.
        assert read > 0
        encoder = sum(value.numel() for value in part(state.server, "encoder").values())
        own = weights - sum(value.numel() for value in part(state.clients, "head").values()) // 8
        assert (sent.down - encoder) % own == 0
        assert sent.rounds * own <= sent.down - encoder
    elif method.newcomers_get == "the best of several models":
        # A model that is not picked is read too, to be judged, and small moves leave it unpicked.
        assert read >= weights
        assert sent.down == method.n_models * weights
    elif "profile.low" in state.server:
        # The body of the first model comes, a profile goes, one of several models comes.
        body = sum(state.server[f"target.{name}"].numel() for name in body_names(task))
        assert read > 0
        assert sent == Messages(2, body + weights, 2 * task.n_classes)
    else:
        assert sent.down == read
        assert sent.up == 0
        assert sent.rounds == (1 if read else 0)


def test_one_that_learns_from_inputs_alone_tells_them(task, served):
    method, state, _ = served("pfl_nearest")
    assert method.serving_messages(task, state, 12) == Messages(1, sum_of(task), 12 * 6)
    assert method.serving_messages(task, state, 500).up == method.n_inputs * 6


def sum_of(task):
    return sum(value.numel() for value in task.initial(torch.Generator()).values())


@pytest.mark.parametrize("name", METHODS)
def test_every_method_says_it_in_its_file(name):
    told = method_facts()[name]
    assert told["newcomers_get"] in get_args(NewcomersGet)
    assert told["newcomers_get"]
    assert told.get("least_support", 1) == METHODS[name].least_support
