"""A small transformer on vectors: features become tokens, which attend to each other."""

import torch
from torch import Tensor, nn


class FeatureTransformer(nn.Module):
    """One block of attention over the features of a vector, after Gorishniy et al. (2021).

    A feature's token is its value times a direction of its own, plus an offset; a further token,
    learnt, gathers what the head reads. Weights outside torch's layers are drawn here.
    """

    def __init__(
        self, input_shape: tuple[int, ...], n_out: int, *, width: int = 8, heads: int = 2
    ) -> None:
        super().__init__()
        (n_features,) = input_shape
        self.direction = nn.Parameter(torch.randn(n_features, width) * width**-0.5)
        self.offset = nn.Parameter(torch.randn(n_features, width) * width**-0.5)
        self.gathering = nn.Parameter(torch.randn(1, 1, width) * width**-0.5)
        self.block = nn.TransformerEncoderLayer(
            width, heads, dim_feedforward=2 * width, dropout=0.0, batch_first=True
        )
        self.head = nn.Linear(width, n_out)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits ``[B, n_out]`` of vectors ``x [B, D]``."""
        tokens = x[:, :, None] * self.direction + self.offset
        first = self.gathering.expand(len(x), -1, -1)
        return self.head(self.block(torch.cat([first, tokens], dim=1))[:, 0])
