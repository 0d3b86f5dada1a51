"""A convolutional net with group normalisation: three layers of convolutions, then one linear."""

from torch import Tensor, nn


class GroupNormNet(nn.Module):
    """Convolutions of stride 1 and 2, each normalised within every image.

    Batch normalisation would keep running statistics, which are no weights; group normalisation
    keeps none and treats every image by itself.
    """

    head = "classifier"

    def __init__(self, input_shape: tuple[int, ...], n_out: int, *, width: int = 8) -> None:
        super().__init__()
        depth = input_shape[0]
        self.features = nn.Sequential(
            *(nn.Conv2d(depth, width, 3, padding=1), nn.GroupNorm(4, width), nn.ReLU()),
            *(nn.Conv2d(width, 2 * width, 3, stride=2, padding=1), nn.GroupNorm(4, 2 * width)),
            nn.ReLU(inplace=True),
        )
        self.classifier = nn.Linear(2 * width, n_out)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits ``[B, n_out]`` of images ``x [B, C, H, W]``."""
        return self.classifier(self.features(x).mean(dim=(2, 3)))
