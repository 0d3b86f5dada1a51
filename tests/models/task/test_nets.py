"""Target networks, encoders and hypernetworks: sizes, purity, refusals."""

import pytest
import torch
from formula_federation import generator
from torch import nn
from torch.func import functional_call

from latecomer.models.generators.encoders import ENCODERS, encoder
from latecomer.models.generators.hypernetworks import Hypernetwork, embedding_length, hypernetwork
from latecomer.models.task.targets import apply, apply_to_parts, build, choose
from latecomer.models.task.task import make_task


def inputs(n: int, shape: tuple[int, ...]) -> torch.Tensor:
    x = torch.randn(n, *shape, generator=generator(5))
    return x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x


# Shapes -> parameters counted by hand; 121,182 is the PeFLL and pFedHN target for CIFAR-10.
LENET_28 = (16 * 25 + 16) + (32 * 16 * 25 + 32) + (512 * 120 + 120) + (120 * 84 + 84) + 850


@pytest.mark.parametrize(
    ("shape", "n_parameters"),
    [
        ((3, 32, 32), 121_182),
        ((1, 28, 28), LENET_28),
        ((1, 8, 8), (72 + 8) + (8 * 16 * 32 + 32) + 330),
        ((3, 27, 20), (216 + 8) + (8 * 13 * 10 * 32 + 32) + 330),
        ((1, 1, 1), (72 + 8) + (8 * 32 + 32) + 330),
        ((5,), (5 * 64 + 64) + (64 * 64 + 64) + 650),
    ],
)
def test_auto_target_takes_its_sizes_from_the_input(
    shape: tuple[int, ...], n_parameters: int
) -> None:
    task = make_task(input_shape=shape, n_classes=10)
    assert task.n_parameters == n_parameters
    params = task.initial(generator())
    assert {key: tuple(value.shape) for key, value in params.items()} == task.shapes
    logits = task.logits(params, x := torch.randn(3, *shape))
    assert logits.shape == (3, 10)
    assert torch.equal(logits, functional_call(task.target, params, (x,)))


FOUR_CONV = (144 + 16) + (16 * 32 * 9 + 32) + (32 * 64 * 9 + 64) + (64 * 64 * 9 + 64)


@pytest.mark.parametrize(
    ("name", "shape", "n_parameters"),
    [
        # pFedHN's sizes: 8 and 32 filters; 400 and 1600 features reach the dense layers.
        ("lenet-s", (3, 32, 32), 608 + 3216 + (400 * 120 + 120) + (120 * 84 + 84) + 850),
        ("lenet-l", (3, 32, 32), 2432 + 51_264 + (1600 * 120 + 120) + (120 * 84 + 84) + 850),
        ("lenet", (3, 32, 32), 121_182),
        ("four-conv", (1, 28, 28), FOUR_CONV + (64 * 84 + 84) + 850),
        ("mlp", (1, 28, 28), (784 * 200 + 200) + 2010),
        ("mlp", (30,), (30 * 200 + 200) + 2010),
        ("dense500", (768,), (768 * 500 + 500) + (500 * 500 + 500) + 5010),
    ],
)
def test_named_targets(name: str, shape: tuple[int, ...], n_parameters: int) -> None:
    task = make_task(input_shape=shape, n_classes=10, target=name)
    assert task.n_parameters == n_parameters
    params, x = task.initial(generator()), torch.randn(2, *shape, generator=generator())
    logits = task.logits(params, x)
    assert logits.shape == (2, 10)
    assert torch.equal(logits, functional_call(task.target, params, (x,)))
    assert torch.allclose(task.logits(params, x[1:]), logits[1:], atol=1e-5)


def test_four_convolutions_work_on_the_raw_size_of_omniglot_too() -> None:
    task = make_task(input_shape=(1, 105, 105), n_classes=5, target="four-conv")
    x = torch.zeros(1, 1, 105, 105)
    assert task.logits(task.initial(generator()), x).shape == (1, 5)


def test_any_module_can_be_a_target() -> None:
    module = nn.Sequential(nn.Flatten(), nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))
    task = make_task(input_shape=(1, 2, 3), n_classes=3, target=module)
    params = task.initial(generator())
    x = torch.randn(4, 1, 2, 3)
    hidden = torch.tanh(x.flatten(1) @ params["1.weight"].T + params["1.bias"])
    expected = hidden @ params["3.weight"].T + params["3.bias"]
    assert torch.allclose(task.logits(params, x), expected)


def test_initial_weights_depend_on_the_generator_alone() -> None:
    task = make_task(input_shape=(1, 8, 8), n_classes=10)
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = task.initial(generator(3))
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    again, other = task.initial(generator(3)), task.initial(generator(4))
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert not torch.equal(first["head.weight"], other["head.weight"])
    bound = first["head.weight"].shape[1] ** -0.5
    assert 0.8 * bound < first["head.weight"].abs().max() <= bound


def test_parameters_that_cannot_be_drawn_are_refused() -> None:
    class Bare(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.weight

    task = make_task(input_shape=(2,), n_classes=2, target=Bare())
    with pytest.raises(ValueError, match="no reset_parameters"):
        task.initial(generator())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"target": "lnet"}, r"target must be one of auto, lenet, .*got target='lnet'"),
        ({"target": "dense"}, "does not take inputs of shape"),
        ({"input_shape": (8, 8)}, r"input_shape must be \(D,\) or \(C, H, W\)"),
        ({"input_shape": (1, 6, 6), "target": "lenet"}, "input_shape must be at least 5 pixels"),
        ({"hypernetwork": {"depth": 2}}, "got hypernetwork.depth"),
        ({"hypernetwork": {"width": 0}}, "width must be a whole number >= 1, got width=0"),
        ({"target": "dense500"}, "does not take inputs of shape"),
        (
            {"hypernetwork": {"hidden": 6}},
            "hidden must be a whole number from 0 to 5, got hidden=6",
        ),
        ({"hypernetwork": {"hidden": True}}, "hidden must be a whole number from 0 to 5"),
        ({"hypernetwork": {"spectral": 1}}, "spectral must be true or false, got spectral=1"),
        ({"n_classes": 1}, "n_classes must be a whole number >= 2, got n_classes=1"),
        ({"n_classes": 2.0}, "n_classes must be a whole number >= 2, got n_classes=2.0"),
        ({"input_shape": 5}, r"input_shape must be \(D,\) or .*, got input_shape=5"),
        ({"input_shape": "8"}, r"input_shape must be \(D,\) or .*, got input_shape='8'"),
        ({"vocabulary": -1}, "vocabulary must be a whole number >= 0, got vocabulary=-1"),
        ({"hypernetwork": 3}, "hypernetwork must be a mapping, got hypernetwork=3"),
        ({"dtype": torch.int64}, "dtype must be a floating type of torch, got dtype=torch.int64"),
        ({"dtype": "float32"}, "dtype must be a floating type of torch, got dtype='float32'"),
        ({"encoder": None}, "encoder must be a name or make a module, got encoder=None"),
    ],
)
def test_impossible_tasks_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_task(**({"input_shape": (1, 8, 8), "n_classes": 10} | arguments))  # type: ignore[arg-type]


def test_default_net_by_side() -> None:
    assert choose((1, 28, 28)) == "lenet"
    assert choose((1, 28, 27)) == "small"


@pytest.mark.parametrize(
    ("shape", "name"),
    [((1, 8, 8), "convnet"), ((3, 32, 32), "convnet"), ((5,), "mlp"), ((1, 8, 8), "label-linear")],
)
def test_descriptor_is_the_mean_embedding_of_labelled_samples(
    shape: tuple[int, ...], name: str
) -> None:
    task = make_task(input_shape=shape, n_classes=3, encoder=name)
    net = encoder(task, 4)
    params = net.initial(generator())
    x, y = torch.randn(2, 6, *shape), torch.randint(0, 3, (2, 6), generator=generator())
    descriptors = net(params, x, y)
    one_by_one = torch.stack(
        [net.embed(params, x[1, i : i + 1], y[1, i : i + 1]) for i in range(6)]
    )
    assert descriptors.shape == (2, 4)
    assert torch.allclose(descriptors[1], one_by_one.mean(0)[0], atol=1e-6)
    order = torch.tensor([3, 1, 5, 0, 2, 4])
    assert torch.allclose(net(params, x[:, order], y[:, order]), descriptors, atol=1e-6)
    assert not torch.allclose(net(params, x, (y + 1) % 3), descriptors, atol=1e-3)


@pytest.mark.parametrize("target", ["lenet", "small"])
def test_labels_count_as_if_they_were_constant_planes(target: str) -> None:
    shape = (3, 28, 28) if target == "lenet" else (1, 8, 8)
    task = make_task(input_shape=shape, n_classes=3, encoder="convnet", dtype=torch.float64)
    net = encoder(task, 4)
    params = net.initial(generator())
    x = torch.randn(7, *shape, dtype=torch.float64, generator=generator())
    y = torch.randint(0, 3, (7,), generator=generator())
    planes = nn.functional.one_hot(y, 3).double()[:, :, None, None].expand(-1, -1, *shape[1:])
    skeleton = build("auto", (shape[0] + 3, *shape[1:]), 4).to(torch.float64)
    expected = apply(skeleton, params, torch.cat([x, planes], dim=1))
    torch.testing.assert_close(net.embed(params, x, y), expected, rtol=0, atol=0)
    with torch.no_grad():
        served = net.embed(params, x, y)
    torch.testing.assert_close(served, expected, rtol=0, atol=1e-12)


def test_convolutional_encoder_shares_the_trunk_of_the_target() -> None:
    task = make_task(input_shape=(3, 32, 32), n_classes=10)
    shapes = {k: tuple(v.shape) for k, v in encoder(task, 26).initial(generator()).items()}
    assert shapes == task.shapes | {
        "conv1.weight": (16, 13, 5, 5),
        "head.weight": (26, 84),
        "head.bias": (26,),
    }


def test_label_linear_looks_at_labels_only() -> None:
    task = make_task(input_shape=(5,), n_classes=3, encoder="label-linear")
    net = encoder(task, 2)
    params = net.initial(generator())
    y = torch.tensor([0, 2, 2])
    expected = params["weight"] @ nn.functional.one_hot(y, 3).T.float() + params["bias"][:, None]
    assert torch.allclose(net.embed(params, torch.randn(3, 5), y), expected.T)


def test_encoders_that_do_not_fit_are_refused() -> None:
    for name, shape in (("mlp", (1, 8, 8)), ("convnet", (5,)), ("conv", (5,))):
        with pytest.raises(ValueError, match="encoder"):
            encoder(make_task(input_shape=shape, n_classes=3, encoder=name), 2)
    assert set(ENCODERS) == {"convnet", "mlp", "label-linear"}


def test_hypernetwork_has_a_head_for_every_tensor() -> None:
    task = make_task(input_shape=(3, 32, 32), n_classes=10)
    net = hypernetwork(task, 26)
    params = net.initial(generator())
    trunk = (26 * 100 + 100) + 3 * (100 * 100 + 100)
    assert sum(value.numel() for value in params.values()) == trunk + 101 * task.n_parameters
    made = net(params, torch.randn(2, 26))
    assert {key: tuple(value.shape) for key, value in made.items()} == {
        key: (2, *shape) for key, shape in task.shapes.items()
    }


def test_hypernetwork_layer_by_layer() -> None:
    net = Hypernetwork((("w", (2, 3)),), dim=2, hidden=1, width=4)
    p = net.initial(generator())
    v = torch.tensor([[0.3, -1.2]])
    inner = torch.relu(v @ p["trunk0.weight"].T + p["trunk0.bias"])
    outer = inner @ p["trunk1.weight"].T + p["trunk1.bias"]
    expected = (outer @ p["heads.w.weight"].T + p["heads.w.bias"]).view(1, 2, 3)
    assert torch.allclose(net(p, v)["w"], expected)


def test_published_descriptor_length() -> None:
    assert [embedding_length(n) for n in (1, 3, 4, 100)] == [1, 1, 2, 26]


def spectral(hidden: int = 2) -> Hypernetwork:
    return Hypernetwork(
        (("w", (7, 5)), ("b", (3,))), 4, hidden, 6, dtype=torch.float64, spectral=True
    )


def test_spectral_normalisation_divides_by_the_largest_singular_value() -> None:
    net = spectral()
    params = net.initial(generator())
    applied = net.applied(params)
    for name, value in params.items():
        if value.dim() == 1:
            assert torch.equal(applied[name], value)
        else:
            largest = torch.linalg.svdvals(value)[0]
            assert torch.allclose(applied[name] * largest, value, atol=1e-12)
    plain = Hypernetwork(net.shapes, net.dim, net.hidden, net.width, net.dtype)
    v = torch.randn(2, 4, generator=generator(), dtype=torch.float64)
    made, expected = net(params, v), plain(applied, v)
    assert all(torch.equal(made[name], expected[name]) for name in made)
    scaled = {k: 3 * p if p.dim() == 2 else p for k, p in params.items()}
    again = net(scaled, v)
    assert all(torch.allclose(made[name], again[name]) for name in made)
    distance = (v[0] - v[1]).norm()
    for tensor in made.values():
        assert (tensor[0] - tensor[1]).norm() <= distance * (1 + 1e-12)


def test_gradients_go_through_the_normalisation() -> None:
    net = spectral(hidden=1)
    params = net.initial(generator())
    v = torch.randn(2, 4, generator=generator(), dtype=torch.float64)
    leaves = [value.requires_grad_() for value in params.values()]

    def made(*values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(net(dict(zip(params, values, strict=True)), v).values())

    assert torch.autograd.gradcheck(made, leaves)


@pytest.mark.parametrize("hidden", [1, 2, 3, 4, 5])
def test_task_decides_depth_and_normalisation(hidden: int) -> None:
    task = make_task(
        input_shape=(5,), n_classes=3, hypernetwork={"hidden": hidden, "width": 4, "spectral": True}
    )
    net = hypernetwork(task, 2)
    assert (net.hidden, net.spectral) == (hidden, True)
    assert sum(name.startswith("trunk") for name in net.initial(generator())) == 2 * (hidden + 1)


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 8, 8)])
def test_a_large_set_is_described_alike_in_blocks(shape: tuple[int, ...]) -> None:
    draw = torch.Generator().manual_seed(0)
    task = make_task(input_shape=shape, n_classes=3, dtype=torch.float64)
    found = encoder(task, 4)
    params = found.initial(draw)
    x = torch.randn(2, 61, *shape, generator=draw, dtype=torch.float64)
    y = torch.randint(0, 3, (2, 61), generator=draw)
    whole = found(params, x, y)
    laid = x.flatten(0, 1).to(memory_format=torch.channels_last).view(x.shape)
    with torch.no_grad():
        torch.testing.assert_close(found(params, x, y), whole, rtol=1e-12, atol=1e-14)
        torch.testing.assert_close(found(params, laid, y), whole, rtol=1e-12, atol=1e-14)


IMAGES = [
    ("small", (1, 8, 8)),
    ("small", (3, 27, 20)),
    ("small", (1, 1, 1)),
    ("lenet", (3, 32, 32)),
]
NETS = [*IMAGES, ("lenet-s", (1, 28, 28)), ("four-conv", (1, 28, 28)), ("dense", (7,))]


@pytest.mark.parametrize(("name", "shape"), NETS)
def test_parts_are_given_what_each_alone_is(name: str, shape: tuple[int, ...]) -> None:
    net, sizes = build(name, shape, 10), (3, 10, 2, 25)
    params = make_task(input_shape=shape, n_classes=10, target=name).initial(generator())
    x = inputs(sum(sizes), shape)
    for these in (sizes, (1, 39)):
        with torch.no_grad():
            found = apply_to_parts(net, params, x, these)
            alone = [apply(net, params, part) for part in torch.split(x, these)]
        assert all(torch.equal(*pair) for pair in zip(found, alone, strict=True))


@pytest.mark.parametrize(("name", "shape"), NETS)
def test_nets_give_the_same_with_and_without_gradients(name: str, shape: tuple[int, ...]) -> None:
    net = build(name, shape, 10)
    params = make_task(input_shape=shape, n_classes=10, target=name).initial(generator())
    x = inputs(11, shape)
    kept = x.clone()
    with_gradients = apply(net, params, x)
    with torch.no_grad():
        assert torch.equal(apply(net, params, x), with_gradients)
    assert torch.equal(x, kept)


@pytest.mark.parametrize("spectral", [False, True])
def test_hypernetworks_make_each_client_what_it_is_made_alone(spectral: bool) -> None:
    # Heads larger than the part that is used for everyone before the next, and of odd sizes.
    shapes = (("large", (3, 1_771)), ("small", (7,)), ("one", (1,)))
    network = Hypernetwork(shapes, dim=5, width=100, spectral=spectral)
    params = network.initial(generator())
    descriptors = torch.randn(9, 5, generator=generator(1)).split(1)
    with torch.no_grad():
        made = list(network.each(params, descriptors))
        for one, descriptor in zip(made, descriptors, strict=True):
            alone = network(params, descriptor)
            assert all(torch.equal(one[key], alone[key]) for key in alone)
