"""FedAvg's round of a dense net in bare PyTorch, clients side by side, gradients by hand."""

import torch
from torch.nn.functional import one_hot


def local_sgd(start, x, y, lr, momentum, weight_decay):
    """Train clients from ``start``, weight and bias of every layer, on batches [c, steps, b, d]."""
    # All weights lie in one row of numbers, tensor after tensor, as do all slopes.
    row = torch.cat([v.expand(len(x), *v.shape).reshape(-1) for v in start])
    cut = row.split([len(x) * v.numel() for v in start])
    w = [part.view(len(x), *v.shape) for part, v in zip(cut, start, strict=True)]
    memory = torch.zeros_like(row)
    hot = one_hot(y, len(start[-1])).to(x.dtype)
    for step in range(x.shape[1]):
        entered = [x[:, step]]
        for weight, bias in zip(w[:-2:2], w[1:-2:2], strict=True):
            entered.append(torch.baddbmm(bias[:, None], entered[-1], weight.mT).relu_())
        logits = torch.baddbmm(w[-1][:, None], entered[-1], w[-2].mT)
        d = logits.softmax(2).sub_(hot[:, step]).div_(y.shape[2])
        slopes = []
        for layer in reversed(range(len(entered))):
            slopes = [torch.bmm(d.mT, entered[layer]), d.sum(1), *slopes]
            if layer:
                d = torch.bmm(d, w[2 * layer]).mul_(entered[layer] > 0)
        slope = torch.cat([v.reshape(-1) for v in clipped(slopes, 50.0)])
        memory.mul_(momentum).add_(slope).add_(row, alpha=weight_decay)
        row.add_(memory, alpha=-lr)
    return w


def clipped(slopes, largest):
    """Scale each client's slopes down to a norm of ``largest`` where it is longer."""
    if sum(float(torch.linalg.vector_norm(v)) ** 2 for v in slopes) <= largest**2:
        return slopes  # Nearly always, for all clients together.
    norms = torch.stack([v.flatten(1).square().sum(1) for v in slopes]).sum(0).sqrt()
    scale = (largest / norms).clamp(max=1)
    return [v * scale.view(-1, *[1] * (v.dim() - 1)) for v in slopes]


def fedavg_round(weights, x, y, rule):
    """Move ``weights`` by the mean change of clients of one size."""
    for weight, reached in zip(weights, local_sgd(weights, x, y, **rule), strict=True):
        weight.copy_(reached.mean(0))
