"""Target networks from outside: files that are run as they stand, and what is refused."""

from dataclasses import replace
from pathlib import Path
from threading import Lock

import pytest
import torch
from formula_federation import Population
from torch import Tensor

from latecomer.models.engine.schedule import TrainConfig
from latecomer.models.engine.training import RoundLog, train
from latecomer.models.engine.vectorised import choose_path
from latecomer.models.methods import make_method
from latecomer.models.outside import import_target
from latecomer.models.task import own_nets
from latecomer.models.task.clients import Clients, counted
from latecomer.models.task.heads import body_names, features, head_names, layers
from latecomer.models.task.state import part
from latecomer.models.task.task import Task, make_task

NETWORKS = Path(__file__).resolve().parents[2] / "docs" / "examples" / "networks"
CONFIG = TrainConfig(rounds=2, cohort=3, local_steps=3, batch_size=4)
HEADER = "import torch\nfrom torch import nn\nfrom torch.nn import functional as F\n"

LENET = """
class LeNet(nn.Module):
    def __init__(self, input_shape, n_out, width=16):
        super().__init__()
        depth, side = input_shape[:2]
        left = ((side - 4) // 2 - 4) // 2
        self.first = nn.Conv2d(depth, width, 5)
        self.second = nn.Conv2d(width, 2 * width, 5)
        self.wide = nn.Linear(2 * width * left * left, 120)
        self.narrow = nn.Linear(120, 84)
        self.out = nn.Linear(84, n_out)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.first(x), 2))
        x = F.relu(F.max_pool2d(self.second(x), 2))
        x = x.view(x.size(0), -1)
        return self.out(F.relu(self.narrow(F.relu(self.wide(x)))))
"""


def written(folder: Path, code: str, name: str = "Net") -> str:
    (folder / "net.py").write_text(HEADER + code)
    return f"{folder / 'net.py'}:{name}"


def own_task(
    path: str, shape: tuple[int, ...], n_classes: int = 4, words: int = 0, **settings: object
) -> Task:
    return make_task(
        input_shape=shape,
        n_classes=n_classes,
        vocabulary=words,
        dtype=torch.float64,
        hypernetwork={"hidden": 1, "width": 8},
        target=import_target(path, settings),
    )


@pytest.fixture
def pictures(make_population: Population) -> Population:
    def made(side: int = 8, depth: int = 1) -> Clients:
        clients = make_population((12, 1, 7, 5), dtype=torch.float64)
        draw = torch.Generator().manual_seed(0)
        x = torch.randn(len(clients.y), depth, side, side, generator=draw, dtype=torch.float64)
        x = x.to(memory_format=torch.channels_last)
        return replace(clients, x=x, mean=torch.zeros(()).double(), sd=torch.ones(()).double())

    return made


@pytest.fixture
def texts(make_population: Population) -> Clients:
    """Clients whose samples are six tokens, from 0 to 11."""
    clients = make_population((12, 1, 7, 5), dtype=torch.float64)
    draw = torch.Generator().manual_seed(0)
    x = torch.randint(12, (len(clients.y), 6), generator=draw)
    return replace(clients, x=x)


# One method of a kind at a landing: nets know nothing of methods.
METHODS = [
    *("local", "fedavg", "fedper", "per_fedavg", "knn_per", "pfedhn", "pefll"),
    *(
        pytest.param(name, marks=pytest.mark.nightly)
        for name in ("fedavg_ft", "fedprox", "scaffold", "fedrep", "fedbabu", "lg_fedavg")
    ),
    *(pytest.param(name, marks=pytest.mark.nightly) for name in ("ditto", "apfl", "pfedhn_pc")),
]


def agree(one: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    for key, value in one.items():
        torch.testing.assert_close(value, other[key], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(
    ("path", "shape"),
    [
        ("group_norm.py:GroupNormNet", (1, 8, 8)),
        ("feature_transformer.py:FeatureTransformer", (6,)),
        ("token_transformer.py:TokenTransformer", (6,)),
    ],
)
def test_examples_train_alike_on_both_paths_and_serve(
    path: str,
    shape: tuple[int, ...],
    name: str,
    make_population: Population,
    pictures: Population,
    texts: Clients,
) -> None:
    words = {"words": 12, "vocabulary": 12} if path.startswith("token") else {}
    task = own_task(f"{NETWORKS}/{path}", shape, width=4, **words)
    vectors = make_population((12, 1, 7, 5), dtype=torch.float64)
    clients = texts if words else pictures() if len(shape) == 3 else vectors
    method, logs = make_method(name), list[RoundLog]()
    serial = train(method, task, clients, CONFIG, seed=0, path="serial")
    beside = train(method, task, clients, CONFIG, seed=0, path="vectorised", on_round=logs.append)
    assert [log.path for log in logs] == ["vectorised"] * 2
    assert {*serial.server} == {*beside.server}
    agree(serial.server, beside.server)
    agree(serial.clients, beside.clients)
    generator = torch.Generator().manual_seed(0)
    support, x = clients.support_of(0), clients.query_of(0).x
    served = method.serve(task, serial, 0, support, generator=generator)
    assert served(x).shape == (len(x), 4)
    assert bool(served(x).isfinite().all())


@pytest.mark.parametrize("name", ["fedavg", "fedper", "knn_per", "pefll"])
def test_a_copy_of_lenet_reaches_the_weights_of_the_built_in_one(
    name: str, tmp_path: Path, pictures: Population
) -> None:
    clients = pictures(side=28)
    mine = own_task(written(tmp_path, LENET, "LeNet"), (1, 28, 28))
    theirs = make_task(
        input_shape=(1, 28, 28),
        n_classes=4,
        target="lenet",
        dtype=torch.float64,
        hypernetwork={"hidden": 1, "width": 8},
    )
    begun = torch.Generator().manual_seed(3), torch.Generator().manual_seed(3)
    drawn = mine.initial(begun[0]), theirs.initial(begun[1])
    assert all(torch.equal(*pair) for pair in zip(*(one.values() for one in drawn), strict=True))
    method = make_method(name)
    ends = [train(method, task, clients, CONFIG, seed=0, path="serial") for task in (mine, theirs)]
    for sections in ("server", "clients"):
        pairs = zip(*(getattr(one, sections).values() for one in ends), strict=True)
        for one, other in pairs:
            torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)
    begun_at = next(iter(drawn[0].values()))
    if name == "fedavg":
        assert not torch.equal(part(ends[0].server, "target")["first.weight"], begun_at)


@pytest.mark.parametrize(
    ("vectors", "kept", "copied"),
    [
        ("x.flatten(1)", True, False),
        ("x.view(x.size(0), -1)", False, True),
        ("x.view((-1, x[0].numel()))", False, True),
        ("torch.as_strided(x, (len(x), x[0].numel()), (x[0].numel(), 1))", False, False),
        ("x.flatten(1) if x.is_contiguous() else 1 / 0", False, False),
    ],
)
def test_layouts_of_pictures(
    vectors: str, kept: bool, copied: bool, tmp_path: Path, pictures: Population
) -> None:
    """As they lie, with copies in place of views, or as copies in the plain layout."""
    code = LENET.replace("x.view(x.size(0), -1)", vectors)
    task = own_task(written(tmp_path, code, "LeNet"), (3, 20, 20), width=4)
    assert getattr(task.target, own_nets.ANY_LAYOUT) is kept
    assert getattr(task.target, own_nets.VIEWS_COPIED) is copied
    clients = pictures(side=20, depth=3)
    assert clients.support_of(0).x.is_contiguous(memory_format=torch.channels_last)
    method = make_method("fedavg")
    ends = [train(method, task, clients, CONFIG, seed=0, path=p) for p in ("serial", "vectorised")]
    agree(ends[0].server, ends[1].server)
    plain = own_task(written(tmp_path, LENET, "LeNet"), (3, 20, 20), width=4)
    agree(ends[0].server, train(method, plain, clients, CONFIG, seed=0, path="serial").server)


LINEAR = "super().__init__(); self.fc = nn.Linear(6, n_out)"
ZEROS = "nn.init.zeros_(self.fc.weight); nn.init.zeros_(self.fc.bias)"
KEPT = "return self.fc(x) * (1 + self.seen % 1000)"
MODULE = "class Net(nn.Module):\n    def __init__(self, input_shape, n_out):\n        {}\n"
FORWARD = "    def forward(self, x):\n        {}\n"


def net(init: str, forward: str) -> str:
    return MODULE.format(init) + FORWARD.format(forward)


BAD = {
    "buffers": (
        net(f"{LINEAR}; self.bn = nn.BatchNorm1d(6)", "return self.fc(self.bn(x))"),
        "must have no buffers, got bn.running_mean: .* take nn.GroupNorm for batch normalisation",
    ),
    "statistics of the batch": (
        net(
            f"{LINEAR}; self.bn = nn.BatchNorm1d(6, track_running_stats=False)",
            "return self.fc(self.bn(x))",
        ),
        "fails on inputs of shape|depend on the other samples of the batch",
    ),
    "mean of the batch": (
        net(LINEAR, "return self.fc(x - x.mean(0))"),
        "outputs that depend on the other samples of the batch",
    ),
    "output shape": (
        net(LINEAR.replace("n_out", "n_out + 1"), "return self.fc(x)"),
        r"must return logits \[B, 4\] for inputs \[B, ...\], got \[3, 5\] for \[3, 6\]",
    ),
    "a pair": (net(LINEAR, "return self.fc(x), x"), r"must return logits \[B, 4\].*got tuple"),
    "squeezed": (net(LINEAR, "return self.fc(x).squeeze()"), r"got \[4\] for \[1, 6\]"),
    "probabilities": (
        net(LINEAR, "return self.fc(x).softmax(1)"),
        "target must return logits, as they are before a softmax, got probabilities that add up",
    ),
    "another type": (
        net(LINEAR, "return self.fc(x).float()"),
        "in torch.float32 for torch.float64",
    ),
    "a seed of its own": (
        net(f"torch.manual_seed(0); {LINEAR}", "return self.fc(x)"),
        r"must leave torch's seed alone, .* got torch.manual_seed\(0\)",
    ),
    "NaN": (net(LINEAR, "return self.fc(x).sub(99).log()"), "must start with finite outputs"),
    "NaN in a weight": (
        net(f"{LINEAR}; nn.init.constant_(self.fc.bias, float('nan'))", "return self.fc(x)"),
        "must start from finite parameters, got fc.bias",
    ),
    "NaN in a gradient": (
        net(LINEAR, "return self.fc(x) + (self.fc(x) * 0).abs().sqrt()"),
        "must have finite gradients at the start, got fc.weight",
    ),
    "nothing to train": (
        net("super().__init__()", "return x[:, :4]"),
        "must have parameters to train, got Net with none",
    ),
    "tied": (
        net(f"{LINEAR}; self.back = self.fc", "return self.fc(x)"),
        "must have every parameter under one name, got back.weight, which is fc.weight",
    ),
    "complex": (
        net(
            f"{LINEAR}; self.z = nn.Parameter(torch.ones(4, dtype=torch.cfloat))",
            "return (self.fc(x) * self.z).real",
        ),
        "must have real parameters, got z of torch.complex64",
    ),
    "ends the program": (
        net("raise SystemExit(0)", "return self.fc(x)"),
        "target cannot be built for inputs of shape",
    ),
    "lazy": (
        net("super().__init__(); self.fc = nn.LazyLinear(n_out)", "return self.fc(x)"),
        "must know its shapes when it is built, got lazy fc.weight",
    ),
    "frozen": (
        net(f"{LINEAR}; self.fc.bias.requires_grad_(False)", "return self.fc(x)"),
        "must train all its parameters, got fc.bias with requires_grad=False",
    ),
    "unused": (
        net(f"{LINEAR}; self.aside = nn.Linear(2, 2)", "return self.fc(x)"),
        "must use all its parameters, got aside.weight without effect",
    ),
    "modules in a list": (
        net(f"{LINEAR}; self.more = [nn.Linear(n_out, n_out)]", "return self.more[0](self.fc(x))"),
        "must hold its modules in nn.ModuleList or nn.ModuleDict, got Linear in the list more",
    ),
    "modules in a dictionary": (
        net(f"{LINEAR}; self.by = {{1: nn.Linear(4, 4)}}", "return self.by[1](self.fc(x))"),
        "must hold its modules in nn.ModuleList or nn.ModuleDict, got Linear in the dict by",
    ),
    "a weight that is no parameter": (
        net(f"{LINEAR}; self.a = torch.ones(4, requires_grad=True)", "return self.fc(x) * self.a"),
        "must hold its weights as nn.Parameter, got a",
    ),
    "sparse gradients": (
        net(
            f"{LINEAR}; self.bins = nn.Embedding(2, n_out, sparse=True)",
            "return self.fc(x) + self.bins((x[:, 0] > 0).long())",
        ),
        "must have dense gradients, got a sparse one of bins.weight",
    ),
    "on no device": (
        net(LINEAR, "return self.fc(x).to('meta')"),
        r"logits \[B, 4\] .* on their device, cpu, got meta",
    ),
    "a backward pass that fails": (
        "class Bad(torch.autograd.Function):\n"
        "    @staticmethod\n    def forward(ctx, x):\n        return x * 1\n"
        "    @staticmethod\n    def backward(ctx, slope):\n        raise KeyError('no slope')\n"
        + net(LINEAR, "return Bad.apply(self.fc(x))"),
        "target cannot be differentiated: KeyError: 'no slope'",
    ),
    "without gradient": (
        net(LINEAR, "return self.fc(x).detach()"),
        "target cannot be differentiated: RuntimeError",
    ),
    "changes itself": (
        net(
            LINEAR,
            "\n        with torch.no_grad(): self.fc.weight.mul_(0.9)\n        return self.fc(x)",
        ),
        "must not change its parameters in forward, got fc.weight",
    ),
    "changes its inputs": (
        net(LINEAR, "return self.fc(x.mul_(2))"),
        "must not change its inputs in place",
    ),
    "keeps state": (
        net(
            f"{LINEAR}; self.calls = 0",
            "\n        self.calls += 1\n        return self.fc(x) * self.calls",
        ),
        "others the second time: it keeps state",
    ),
    "dropout": (
        net(f"{LINEAR}; self.out = nn.Dropout(0.2)", "return self.fc(self.out(x))"),
        "must draw nothing by itself: take dropout out .* got Dropout in module 'out'",
    ),
    "dropout as a function": (
        net(LINEAR, "return self.fc(F.dropout(x, 0.5))"),
        "must draw no random numbers in forward, got some of torch: take dropout",
    ),
    "dropout before a head of zeros": (
        net(f"{LINEAR}; {ZEROS}", "return self.fc(F.dropout(x, 0.5))"),
        "must draw no random numbers in forward, got some of torch",
    ),
    "a layer that is rarely left out": (
        net(LINEAR, "return self.fc(x if torch.rand(()) < 0.999 else 0 * x)"),
        "must draw no random numbers in forward, got some of torch",
    ),
    "numpy's numbers": (
        net(LINEAR, "import numpy; return self.fc(x) + 0 * numpy.random.rand()"),
        "must draw no random numbers in forward, got some of numpy",
    ),
    "Python's numbers": (
        net(LINEAR, "import random; return self.fc(x) + 0 * random.random()"),
        "must draw no random numbers in forward, got some of random",
    ),
    "mean of the batch before a head of zeros": (
        net(f"{LINEAR}; {ZEROS}", "return self.fc(x - x.mean(0))"),
        "outputs that depend on the other samples of the batch",
    ),
    "constants drawn elsewhere": (
        net(f"{LINEAR}; import os; self.seen = os.urandom(1)[0] + id(self)", KEPT),
        "must draw its constants from torch's generator alone, .* the second time it was built",
    ),
    "parameters in a list": (
        net(f"{LINEAR}; self.w = [nn.Parameter(torch.ones(4))]", "return self.fc(x) * self.w[0]"),
        r"must hold its weights as parameters, .* got one of shape \[4\] that it trains",
    ),
    "modules in lists of lists": (
        net(f"{LINEAR}; self.w = [[nn.Linear(4, 4)]]", "return self.w[0][0](self.fc(x))"),
        r"must hold its weights as parameters, .* got one of shape \[4(, 4)?\] that it trains",
    ),
    "in the same memory": (
        net(
            f"{LINEAR}; self.w = nn.Linear(n_out, n_out); self.v = nn.Linear(n_out, n_out)"
            "; self.v.weight.data = self.w.weight.data",
            "return self.v(self.w(self.fc(x)))",
        ),
        "must have every parameter under one name, got v.weight, which is w.weight",
    ),
    "limits large weights": (
        net(LINEAR, "self.fc.weight.data.clamp_(-9, 9); return self.fc(x)"),
        "must not change its parameters in forward, got fc.weight where its weights are 1000 times",
    ),
    "limits norms": (
        net(
            LINEAR,
            "self.fc.weight.data = self.fc.weight.data.renorm(2, 0, 9); return self.fc(x)",
        ),
        "must not change its parameters in forward, got fc.weight where its weights are 1000 times",
    ),
    "drawn elsewhere": (
        net(
            f"{LINEAR}; import os; nn.init.constant_(self.fc.bias, os.urandom(1)[0] + id(self))",
            "return self.fc(x)",
        ),
        "must draw its parameters from torch's generator alone",
    ),
    "registers in forward": (
        net(
            f"{LINEAR}; self.late = None",
            "\n        self.late = self.late or nn.Linear(2, 2)\n        return self.fc(x)",
        ),
        "must not register parameters or buffers in forward",
    ),
    "the constructor fails": (
        net("raise KeyError('no\\nsuch key')", "return x"),
        r"cannot be built for inputs of shape \(6,\) and 4 outputs: KeyError",
    ),
    "the forward pass fails": (
        net("super().__init__(); self.fc = nn.Linear(7, n_out)", "return self.fc(x)"),
        r"fails on inputs of shape \(3, 6\): RuntimeError: mat1 and mat2",
    ),
    "grows": (
        "WIDTHS = [6, 4]\ndef Net(input_shape, n_out):\n    WIDTHS.append(n_out)\n"
        "    return nn.Sequential(*map(nn.Linear, WIDTHS, WIDTHS[1:]))\n",
        "got another 2.weight the second time it was built from one seed",
    ),
    "no module": ("def Net(input_shape, n_out): return 3\n", "must make a torch module, got int"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_nets_are_refused_in_one_line(what: str, tmp_path: Path) -> None:
    code, message = BAD[what]
    with pytest.raises(ValueError, match=message) as caught:
        own_task(written(tmp_path, code), (6,))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("Absent", {}, "there is no Absent of "),
        ("number", {}, "a target must be a class or a function, got number of "),
        ("Net", {"witdh": 3}, "takes the settings width, depth, got 'witdh'; did you mean 'width'"),
        ("Net", {}, r"must take \(input_shape, n_out\): missing a required argument: 'depth'"),
        ("short", {}, r"must take \(input_shape, n_out\): too many positional arguments"),
        ("short", {"width": 3}, "takes the settings none, got 'width'"),
    ],
)
def test_what_no_target_can_be_made_with(
    name: str, settings: dict[str, int], message: str, tmp_path: Path
) -> None:
    code = "number = 3\ndef Net(shape, n_out, width=2, *, depth): pass\ndef short(shape): pass\n"
    with pytest.raises(ValueError, match=message):
        import_target(written(tmp_path, code, name), settings)
    assert import_target(written(tmp_path, code), {"depth": 1}).keywords == {"depth": 1}
    assert import_target("torch.nn:Linear", {}).func.__name__ == "Linear"


def test_a_net_that_changes_its_settings_has_them_anew_every_time(tmp_path: Path) -> None:
    code = (
        "def Net(input_shape, n_out, widths, how):\n    assert how.pop('deep') == [1]\n"
        "    widths.append(n_out)\n    return nn.Sequential(*map(nn.Linear, widths, widths[1:]))\n"
    )
    asked = {"widths": [6, 5], "how": {"deep": [1]}}
    task = own_task(written(tmp_path, code), (6,), **asked)
    assert [*task.initial(torch.Generator())] == ["0.weight", "0.bias", "1.weight", "1.bias"]
    assert asked == {"widths": [6, 5], "how": {"deep": [1]}}


BRANCHING = """
class Net(nn.Module):
    def __init__(self, input_shape, n_out):
        super().__init__()
        self.fc = nn.Linear(6, n_out)

    def forward(self, x):
        made = self.fc(x)
        return 2 * made if float(made.detach().sum()) < 1e9 else made
"""


@pytest.mark.parametrize("name", ["fedavg", "apfl", "pefll"])
def test_a_net_that_looks_at_values_trains_client_by_client(
    name: str, tmp_path: Path, make_population: Population
) -> None:
    task, method = own_task(written(tmp_path, BRANCHING), (6,)), make_method(name)
    assert task.one_by_one
    path, why = choose_path("vectorised", None, method, task, torch.device("cpu"))
    assert path == "serial"
    assert why.startswith("the target cannot be applied over clients: ")
    clients = make_population((12, 1, 7), dtype=torch.float64)
    state = train(method, task, clients, CONFIG, seed=0, path="vectorised")
    agree(state.server, train(method, task, clients, CONFIG, seed=0, path="serial").server)


HEADS = """
class Named(nn.Module):
    head = "first"

    def __init__(self, input_shape, n_out):
        super().__init__()
        self.first = nn.Sequential(nn.Linear(5, 3), nn.Tanh(), nn.Linear(3, n_out))
        self.body = nn.Linear(6, 5)

    def forward(self, x):
        return self.first(self.body(x))


class Guessed(nn.Module):
    def __init__(self, input_shape, n_out):
        super().__init__()
        self.out = nn.Linear(5, n_out)
        self.body = nn.Linear(6, 5)

    def forward(self, x):
        return self.out(self.body(x).relu())


class Scaled(Guessed):
    def forward(self, x):
        return 2 * super().forward(x)


class Inner(Guessed):
    head = "body"


class Missing(Guessed):
    head = "fc"


class Headless(nn.Module):
    def __init__(self, input_shape, n_out):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(n_out))

    def forward(self, x):
        return x[:, :4] * self.scale
"""


def test_the_head_is_what_the_net_names_or_its_last_linear_layer(tmp_path: Path) -> None:
    named, guessed = (own_task(written(tmp_path, HEADS, n), (6,)) for n in ("Named", "Guessed"))
    assert layers(named) == ("body", "first")
    assert head_names(named) == (
        *("first.0.weight", "first.0.bias", "first.2.weight", "first.2.bias"),
    )
    assert body_names(named) == ("body.weight", "body.bias")
    assert head_names(guessed) == ("out.weight", "out.bias")
    params = guessed.initial(torch.Generator().manual_seed(0))
    x = torch.randn(2, 6, dtype=torch.float64)
    body = torch.nn.functional.linear(x, params["body.weight"], params["body.bias"]).relu()
    torch.testing.assert_close(features(guessed, params, x), body)


@pytest.mark.parametrize(
    ("net", "message"),
    [
        ("Missing", "must have a head .* got a net with no module 'fc' with weights"),
        ("Headless", "must have a head .* got a net with no linear layer that ends it"),
        ("Named", "must end in one linear layer for its inputs to be features, got head first"),
        ("Inner", "must end in its head .* got body with something behind it: let the class attr"),
        ("Scaled", "must end in its head .* got out with something behind it"),
    ],
)
def test_heads_that_methods_cannot_use(net: str, message: str, tmp_path: Path) -> None:
    task = own_task(written(tmp_path, HEADS, net), (6,))
    with pytest.raises(ValueError, match=message):
        features(task, task.initial(torch.Generator()), torch.randn(2, 6, dtype=torch.float64))


@pytest.mark.parametrize("name", ["pefll", "pfedhn", "odpfl_hn"])
def test_too_many_generated_weights_are_refused(name: str, make_population: Population) -> None:
    task = own_task(f"{NETWORKS}/feature_transformer.py:FeatureTransformer", (6,), width=4)
    clients = make_population((12, 1, 7), dtype=torch.float64)
    few = replace(task, generated_limit=task.n_parameters - 1)
    with pytest.raises(ValueError, match=f"would make {task.n_parameters:,} weights .*, above gen"):
        train(make_method(name), few, clients, CONFIG, seed=0)
    train(make_method("fedavg"), few, clients, CONFIG, seed=0)
    enough = replace(task, generated_limit=task.n_parameters)
    train(make_method(name), enough, clients, replace(CONFIG, rounds=1), seed=0)


def test_a_module_that_is_given_is_tried_too(tmp_path: Path) -> None:
    """It is left as it was, however often it is used."""
    code = BRANCHING + net(LINEAR, "return self.fc(F.dropout(x, 0.5))").replace("Net", "Drops")
    made = {
        name: import_target(written(tmp_path, code, name))((6,), 4) for name in ("Net", "Drops")
    }
    task = make_task(input_shape=(6,), n_classes=4, target=made["Net"])
    assert task.target is made["Net"]
    assert "item" in task.one_by_one
    with pytest.raises(ValueError, match="must draw no random numbers in forward, got some of tor"):
        make_task(input_shape=(6,), n_classes=4, target=made["Drops"])
    with torch.device("meta"):  # has no weights to be tried with
        outline = import_target(written(tmp_path, code))((6,), 4)
    assert make_task(input_shape=(6,), n_classes=4, target=outline).n_parameters == 28
    made["Net"].lock = Lock()
    with pytest.raises(ValueError, match=r"must be a module that can be copied, or a .* got N"):
        make_task(input_shape=(6,), n_classes=4, target=made["Net"])


def test_what_is_not_refused(tmp_path: Path) -> None:
    """Constants that torch draws, weights that other weights would make infinite, no draws."""
    code = net(
        f"{LINEAR}; self.waves = torch.randn(6, 6); self.w = nn.Parameter(torch.full((4,), 1e-9))",
        "return self.fc(F.dropout(x @ self.waves, 0.0).sin()) + self.w.log()",
    )
    assert own_task(written(tmp_path, code), (6,)).n_parameters == 32


def test_fresh_weights_are_those_of_the_constructor(tmp_path: Path) -> None:
    code = net(f"{LINEAR}; nn.init.zeros_(self.fc.weight)", "return self.fc(x)")
    task = own_task(written(tmp_path, code), (6,))
    before = torch.get_rng_state(), torch.get_default_dtype()
    first, other = (task.initial(torch.Generator().manual_seed(seed)) for seed in (1, 2))
    assert torch.equal(torch.get_rng_state(), before[0])
    assert torch.get_default_dtype() == before[1]
    assert not first["fc.weight"].any()
    assert not torch.equal(first["fc.bias"], other["fc.bias"])
    again = task.initial(torch.Generator().manual_seed(1))
    assert torch.equal(first["fc.bias"], again["fc.bias"])
    assert own_nets.head_of(task.target, 4) == "fc"


TOKENS = f"{NETWORKS}/token_transformer.py:TokenTransformer"


def test_a_net_is_given_whole_numbers(tmp_path: Path, texts: Clients) -> None:
    code = (
        "class Net(nn.Module):\n    def __init__(self, input_shape, n_out):\n"
        "        super().__init__(); self.words = nn.Embedding(12, n_out)\n"
        "    def forward(self, x):\n        assert x.dtype == torch.int64\n"
        "        return self.words(x).sum(1)\n"
    )
    task = own_task(written(tmp_path, code), (6,), words=12)
    params = task.initial(torch.Generator().manual_seed(0))
    made = task.logits(params, texts.inputs(torch.arange(5)))
    assert torch.equal(made, params["words.weight"][texts.x[:5]].sum(1))


@pytest.mark.parametrize(
    ("words", "forward", "reason"),
    [
        ("nn.Embedding(12, n_out, padding_idx=3)", "self.words(x)", "of padding_idx, of all cl"),
        ("nn.Embedding(12, n_out)", "F.embedding(x, self.words.weight, 0)", "other gradients"),
        ("nn.Embedding(12, n_out)", "self.words(x)", ""),
    ],
)
def test_an_embedding_that_is_not_to_be_trained_is_not(
    words: str, forward: str, reason: str, tmp_path: Path, texts: Clients
) -> None:
    """torch.func.vmap leaves it as it is for the first client alone."""
    code = net(f"super().__init__(); self.words = {words}", f"return {forward}.sum(1)")
    task, method = own_task(written(tmp_path, code), (6,), words=12), make_method("fedavg")
    assert (reason in task.one_by_one) if reason else not task.one_by_one
    serial = train(method, task, texts, CONFIG, seed=0, path="serial")
    agree(serial.server, train(method, task, texts, CONFIG, seed=0, path="vectorised").server)


@pytest.mark.parametrize("name", ["odpfl_hn", "pfedhn_pc", "pefll"])
def test_descriptors_of_texts_are_of_their_counts(name: str, texts: Clients) -> None:
    task, method = own_task(TOKENS, (6,), words=12, vocabulary=12), make_method(name)
    state = train(method, task, texts, CONFIG, seed=0)
    turned = replace(texts, x=texts.x.flip(1))
    if name == "pfedhn_pc":  # embeds clients and describes none
        return
    told = [method.describe(task, state, one.support_of(0)) for one in (texts, turned)]
    torch.testing.assert_close(*told)
    other = replace(texts, x=(texts.x + 1) % 12)
    assert not torch.allclose(told[0], method.describe(task, state, other.support_of(0)))


def test_a_linear_layer_on_counts_is_a_mean_of_embeddings(texts: Clients) -> None:
    weight = torch.randn(3, 12, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x = texts.inputs(torch.arange(8).view(2, 4))
    made = torch.nn.functional.linear(counted(x, 12), weight)
    mean = torch.nn.functional.embedding(x.long(), weight.T).mean(-2)
    torch.testing.assert_close(made, mean * 6 * (12 / 6) ** 0.5)


def test_what_takes_no_tokens(texts: Clients, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"net of one's own, as file.py:Net, for tokens"):
        make_task(input_shape=(6,), n_classes=4, vocabulary=12)
    with pytest.raises(ValueError, match=r"tokens from 0 to 11: IndexError: index out of range"):
        own_task(TOKENS, (6,), words=12, vocabulary=11)
    with pytest.raises(ValueError, match=r"numbers .data with tokens: true hold tokens.: Runtime"):
        own_task(TOKENS, (6,), vocabulary=12)
    with pytest.raises(ValueError, match=r"tokens from 0 to 11: RuntimeError"):
        own_task(written(tmp_path, net(LINEAR, "return self.fc(x)")), (6,), words=12)
    task = own_task(TOKENS, (6,), words=12, vocabulary=12)
    for name in ("glmm", "pfl_nearest"):
        with pytest.raises(ValueError, match=f"{name} needs inputs that are numbers, got tokens"):
            train(make_method(name), task, texts, CONFIG, seed=0)
