"""An encoder of labelled texts: their mean embedding beside an embedding of the label."""

import torch
from torch import Tensor, nn


class TokenEncoder(nn.Module):
    """Maps a text and its label to ``dim`` numbers; their mean over a client describes it."""

    def __init__(
        self,
        input_shape: tuple[int, ...],
        n_classes: int,
        dim: int,
        *,
        vocabulary: int = 32,
        width: int = 8,
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.labels = nn.Embedding(n_classes, width)
        self.last = nn.Linear(2 * width, dim)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Return ``[B, dim]`` of tokens ``x [B, T]`` and labels ``y [B]``, both int64."""
        both = torch.cat([self.words(x).mean(dim=1), self.labels(y)], dim=1)
        return self.last(torch.relu(both))
