"""Features and logits of a target network, from one pass."""

import pytest
import torch
from torch import Tensor, nn

from latecomer.models.task.heads import features, features_and_logits
from latecomer.models.task.task import make_task


class Own(nn.Module):
    """A net of a user's own."""

    head = "last"

    def __init__(self, input_shape: tuple[int, ...], n_out: int) -> None:
        super().__init__()
        self.body, self.last = nn.Linear(*input_shape, 5), nn.Linear(5, n_out)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        return self.last(self.body(x))


class Scaled(Own):
    """One with something behind its head."""

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        return 2 * super().forward(x)


def test_a_module_that_is_given_is_held_to_its_head_as_well() -> None:
    """It was taken to end in its head, whatever it does, and its head to have a bias."""
    x = torch.randn(3, 6)
    scaled = make_task(input_shape=(6,), n_classes=4, target=Scaled((6,), 4))
    with pytest.raises(ValueError, match=r"must end in its head .* got last with something"):
        features_and_logits(scaled, scaled.initial(torch.Generator()), x)
    net = Own((6,), 4)
    net.last = nn.Linear(5, 4, bias=False)
    task = make_task(input_shape=(6,), n_classes=4, target=net)
    params = task.initial(torch.Generator())
    made, logits = features_and_logits(task, params, x)
    torch.testing.assert_close(made, x @ params["body.weight"].T + params["body.bias"])
    torch.testing.assert_close(logits, made @ params["last.weight"].T)


@pytest.mark.parametrize(
    ("input_shape", "target"),
    [
        ((3, 32, 32), "lenet"),
        ((1, 10, 10), "small"),
        ((6,), "mlp"),
        ((6,), "linear"),
        ((6,), Own),
    ],
)
@pytest.mark.parametrize("n_samples", [1, 7, 40])
def test_one_pass_gives_the_bits_of_two(
    input_shape: tuple[int, ...], target: str | type[nn.Module], n_samples: int
) -> None:
    task = make_task(input_shape=input_shape, n_classes=4, target=target)
    params = task.initial(torch.Generator().manual_seed(0))
    x = torch.randn(n_samples, *input_shape, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        phi, logits = features_and_logits(task, params, x)
        assert torch.equal(phi, features(task, params, x))
        assert torch.equal(logits, task.logits(params, x))
