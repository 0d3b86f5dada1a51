"""A small transformer on tokens: an embedding, positions, attention, and a mean over the text."""

import torch
from torch import Tensor, nn


class TokenTransformer(nn.Module):
    """One block of attention over a text of ``T`` tokens, whole numbers below ``vocabulary``.

    Token 0 fills short texts up: it is neither attended to nor averaged.
    """

    def __init__(
        self,
        input_shape: tuple[int, ...],
        n_out: int,
        *,
        vocabulary: int = 32,
        width: int = 8,
        heads: int = 2,
    ) -> None:
        super().__init__()
        (length,) = input_shape
        self.words = nn.Embedding(vocabulary, width)
        self.places = nn.Parameter(torch.randn(length, width) * width**-0.5)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, n_out)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits ``[B, n_out]`` of tokens ``x [B, T]``, int64."""
        there = (x != 0)[:, None, None]
        words = self.words(x) + self.places
        query, key, value = (
            one(words).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for one in (self.query, self.key, self.value)
        )
        scores = query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5
        # A text without words attends to everything, where -inf would give NaN.
        attended = scores.masked_fill(~there, -1e9).softmax(dim=-1) @ value
        made = self.norm(words + attended.transpose(1, 2).flatten(2))
        kept = there[:, 0, 0, :, None].to(made.dtype)
        mean = (made * kept).sum(dim=1) / kept.sum(dim=1).clamp_min(1)
        return self.head(mean)
