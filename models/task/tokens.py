"""Inputs that are tokens: whole numbers from 0 that stand for words, characters or the like.

Populations hold them as they are; on their way they are floating point, as all inputs are, which
holds them exactly. A target network is given them as int64, and what takes vectors their counts.
"""

import torch
from torch import Tensor, nn

TOKENS = "_latecomer_tokens"
"""Attribute of a skeleton whose inputs are tokens."""


def reads_tokens(net: nn.Module) -> bool:
    """Tell whether a skeleton's inputs are tokens."""
    return bool(getattr(net, TOKENS, False))


def counted(x: Tensor, vocabulary: int) -> Tensor:
    r"""Return how often each token stands in a sample, ``[..., vocabulary]`` for ``x [..., T]``.

    Counts are multiplied by :math:`\sqrt{V / T}` with vocabulary V, so that they have about unit
    variance where all tokens are equally frequent. The order of tokens is lost.

    Examples
    --------
    >>> counted(torch.tensor([[0.0, 2.0, 2.0, 1.0]]), 4)
    tensor([[1., 1., 2., 0.]])
    """
    seen = x.new_zeros(*x.shape[:-1], vocabulary)
    seen.scatter_add_(-1, x.long(), torch.ones_like(x))
    scale: float = (vocabulary / x.shape[-1]) ** 0.5
    return seen * scale


def random_inputs(
    n: int,
    input_shape: tuple[int, ...],
    vocabulary: int,
    *,
    dtype: torch.dtype,
    draw: torch.Generator,
) -> Tensor:
    """Return random samples ``[n, *input_shape]`` to try things on.

    Normal numbers; or, with a ``vocabulary``, tokens, the largest among them.
    """
    if not vocabulary:
        return torch.randn(n, *input_shape, generator=draw, dtype=dtype)
    x = torch.randint(vocabulary, (n, *input_shape), generator=draw).to(dtype)
    x[0, 0] = vocabulary - 1
    return x
