"""A Gaussian's noise is drawn where its means lie, each draw at an address of its own."""

import pytest
import torch
from torch import Tensor

from latecomer.models.posteriors import sample


def test_noise_on_the_host_is_what_the_generator_gives() -> None:
    means = {
        "a": torch.zeros(3, 20),
        "b": torch.zeros(7, dtype=torch.float64),
        "c": torch.zeros(()),
    }
    draw = torch.Generator().manual_seed(5)
    found = sample(means, 0.25, torch.Generator().manual_seed(5))
    for key, value in means.items():
        expected = 0.5 * torch.randn(value.shape, generator=draw, dtype=value.dtype)
        assert found[key].dtype == value.dtype
        assert torch.equal(found[key], expected)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_noise_on_a_gpu_has_an_address_of_its_own() -> None:
    device = torch.device("cuda")
    means = {
        "a": torch.zeros(300, 200, device=device),
        "b": torch.zeros(7, device=device, dtype=torch.float64),
    }

    def two(seed: int) -> list[dict[str, Tensor]]:
        draw = torch.Generator().manual_seed(seed)
        torch.randn(1000, device=device)  # what others draw there must not matter
        return [sample(means, 0.25, draw) for _ in range(2)]

    (first, second), again, other = two(5), two(5), two(6)
    for key, value in means.items():
        assert (first[key].device, first[key].dtype) == (value.device, value.dtype)
        assert torch.equal(first[key], again[0][key])
        assert torch.equal(second[key], again[1][key])
        assert not torch.equal(first[key], second[key])
        assert not torch.equal(first[key], other[0][key])
    assert abs(first["a"].mean()) < 0.01
    assert abs(first["a"].std() - 0.5) < 0.01
