"""A convolutional body with low-rank adapters: frozen and loaded, it leaves few weights to make."""

import torch
from torch import Tensor, nn


class AdaptedBody(nn.Module):
    """Two convolutions and a dense layer; an adapter of low rank adds to what that layer computes.

    With ``frozen: [body]`` in the study, clients train the adapter and the head alone.
    """

    def __init__(
        self, input_shape: tuple[int, ...], n_out: int, *, width: int = 16, rank: int = 2
    ) -> None:
        super().__init__()
        depth, height, wide = input_shape
        n_inputs = width * (height // 2) * (wide // 2)
        self.body = nn.Sequential(
            *(nn.Conv2d(depth, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()),
            *(nn.MaxPool2d(2), nn.Flatten(), nn.Linear(n_inputs, 2 * width)),
        )
        self.down = nn.Linear(2 * width, rank, bias=False)
        self.up = nn.Linear(rank, 2 * width, bias=False)
        self.head = nn.Linear(2 * width, n_out)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits ``[B, n_out]`` of images ``x [B, C, H, W]``."""
        features = self.body(x)
        return self.head(torch.relu(features + self.up(self.down(features))))
