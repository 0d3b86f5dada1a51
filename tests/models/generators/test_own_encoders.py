"""Encoders from outside: what they are given, how they are drawn, and which are refused."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from formula_federation import Population

from latecomer.models.engine.schedule import TrainConfig
from latecomer.models.engine.training import train
from latecomer.models.generators.encoders import encoder
from latecomer.models.methods import make_method
from latecomer.models.outside import import_encoder, import_target
from latecomer.models.task.task import Task, make_task

NETWORKS = Path(__file__).resolve().parents[3] / "docs" / "examples" / "networks"
CONFIG = TrainConfig(rounds=2, cohort=3, local_steps=2, batch_size=4)
CODE = """
import torch
from torch import nn

class Enc(nn.Module):
    def __init__(self, input_shape, n_classes, dim):
        super().__init__()
        self.n_classes = n_classes
        self.fc = nn.Linear(input_shape[0] + n_classes, dim)
        {init}

    def forward(self, x, y):
        label = torch.nn.functional.one_hot(y, self.n_classes).to(x.dtype)
        x = torch.cat([x, label], 1)
        {forward}
"""


def own(folder: Path, *, init: str = "pass", forward: str = "return self.fc(x)") -> Task:
    (folder / "enc.py").write_text(CODE.format(init=init, forward=forward))
    return make_task(
        input_shape=(6,),
        n_classes=4,
        encoder=import_encoder(f"{folder / 'enc.py'}:Enc"),
        dtype=torch.float64,
        hypernetwork={"hidden": 1, "width": 8},
    )


def test_a_descriptor_is_the_mean_over_samples(tmp_path: Path, make_population: Population) -> None:
    task = own(tmp_path)
    made = encoder(task, 5)
    params = made.initial(torch.Generator().manual_seed(1))
    again = made.initial(torch.Generator().manual_seed(1))
    assert all(torch.equal(again[key], value) for key, value in params.items())
    support = make_population(dtype=torch.float64).support_of(0)
    x, y = support.x[None], support.labels()[None]
    label = torch.nn.functional.one_hot(y[0], 4).double()
    each = torch.nn.functional.linear(
        torch.cat([x[0], label], 1), params["fc.weight"], params["fc.bias"]
    )
    torch.testing.assert_close(made(params, x, y)[0], each.mean(0))


ZEROS = "[nn.init.zeros_(one) for one in self.fc.parameters()]"


@pytest.mark.parametrize("init", ["pass", ZEROS])
@pytest.mark.parametrize("name", ["pefll", "pefll_stochastic"])
def test_methods_train_it(
    name: str, init: str, tmp_path: Path, make_population: Population
) -> None:
    clients, method = make_population(dtype=torch.float64), make_method("pefll")
    if name == "pefll_stochastic":
        method = make_method("pefll", posterior="gaussian")
    task = own(tmp_path, init=init)
    state = train(method, task, clients, CONFIG, seed=0)
    first = train(method, task, clients, replace(CONFIG, rounds=0), seed=0)
    keys = [key for key in state.server if key.startswith("encoder.") and "fc" in key]
    assert keys
    for key in keys:
        assert not torch.equal(state.server[key], first.server[key])


def test_it_is_given_tokens(make_population: Population) -> None:
    clients = make_population(dtype=torch.float64)
    draw = torch.Generator().manual_seed(0)
    texts = replace(clients, x=torch.randint(12, (len(clients.y), 6), generator=draw))
    task = make_task(
        input_shape=(6,),
        n_classes=4,
        encoder=import_encoder(f"{NETWORKS}/token_encoder.py:TokenEncoder"),
        vocabulary=12,
        target=import_target(f"{NETWORKS}/token_transformer.py:TokenTransformer"),
        dtype=torch.float64,
    )
    method = make_method("pefll")
    state = train(method, task, texts, CONFIG, seed=0)
    served = method.serve(task, state, 0, texts.support_of(0), generator=draw)
    assert bool(served(texts.query_of(0).x).isfinite().all())


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"init": "self.bn = nn.BatchNorm1d(3)"}, "encoder must have no buffers, got bn.running"),
        ({"init": "self.d = nn.Dropout(0.5)"}, "encoder must draw nothing by itself"),
        (
            {"forward": "return self.fc(x)[:, 1:]"},
            r"encoder must return descriptors \[B, 5\] for inputs \[B, ...\], got \[3, 4\]",
        ),
        ({"forward": "return self.fc(x - x.mean(0))"}, "encoder must treat every sample by itself"),
        ({"init": "nn.init.constant_(self.fc.bias, float('nan'))"}, "encoder must start from fini"),
        ({"forward": "return self.fc(x).detach()"}, "encoder cannot be differentiated"),
        ({"init": "self.fc.bias.requires_grad_(False)"}, "with requires_grad=False$"),
        ({"init": "1 / 0"}, r"encoder cannot be built for inputs of shape \(6,\) and 5 outputs"),
    ],
)
def test_what_is_no_encoder(changed: dict[str, str], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        encoder(own(tmp_path, **changed), 5)
    assert "\n" not in str(caught.value)


def test_what_cannot_be_imported(tmp_path: Path) -> None:
    (tmp_path / "enc.py").write_text("number = 3\ndef two(input_shape, dim): pass\n")
    with pytest.raises(ValueError, match="an encoder must be a class or a function, got number of"):
        import_encoder(f"{tmp_path}/enc.py:number")
    with pytest.raises(ValueError, match=r"must take \(input_shape, n_classes, dim\): too many"):
        import_encoder(f"{tmp_path}/enc.py:two")
    with pytest.raises(ValueError, match="there is no Absent of"):
        import_encoder(f"{tmp_path}/enc.py:Absent")
    task = make_task(input_shape=(6,), n_classes=4, encoder="enc.py:Enc")
    with pytest.raises(ValueError, match=r"or one's own as file.py:Encoder, got encoder='enc.py:"):
        encoder(task, 5)
    assert encoder(replace(task, encoder="deepsets:4"), 5)
    with pytest.raises(ValueError, match="batches must have at least 1 sample"):
        encoder(replace(task, encoder="deepsets:x"), 5)
