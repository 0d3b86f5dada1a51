"""PeFLL's and FedAvg's round in bare PyTorch; weights are lists in the order of a net's layers."""

import torch
from torch.nn.functional import cross_entropy, linear, one_hot, relu
from torch.optim.adamw import adamw
from torch.optim.sgd import sgd

# Layout of images and filters; ReLU behind instead of before max-pooling (equal); fused steps.
NCHW, NHWC = torch.contiguous_format, torch.channels_last
VARIANTS = {
    "plain": (NCHW, False, False),
    "fused": (NCHW, False, True),
    "channels-last": (NHWC, False, True),
    "channels-last, pooled first": (NHWC, True, True),
}
BLOCKED = "blocked"  # As the last, with images in oneDNN's own layout in local steps.
ONE_ROW = "in one row"  # The quickest for nets of a few thousand weights with one channel or none.


def clip(slopes, largest):
    norm = float(torch.linalg.vector_norm(torch.stack(torch._foreach_norm(slopes))))
    if norm > largest:  # Nearly no step is; asking is cheaper than multiplying by 1.
        torch._foreach_mul_(slopes, largest / norm)
    return slopes


def local_sgd(net, start, batches, variant, lr, momentum, weight_decay):
    """Train one client from ``start``, a step for each of its ``batches`` of (x, y)."""
    if variant == ONE_ROW:
        return sgd_in_one_row(net, start, batches, lr, momentum, weight_decay)
    layout, pool_first, fused = VARIANTS.get(variant, (NCHW, True, True))
    w = [v.clone(memory_format=layout if v.dim() == 4 else NCHW).requires_grad_() for v in start]
    memory = [torch.zeros_like(v) if momentum else None for v in w]
    rule = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "dampening": 0.0}
    rule |= {"nesterov": False, "maximize": False, "fused": fused, "foreach": False}
    for x, y in batches:
        x = x.to_mkldnn() if variant == BLOCKED else x
        loss = cross_entropy(net(w, x, pool_first), y)
        slopes = clip(list(torch.autograd.grad(loss, w)), 50.0)
        with torch.no_grad():
            sgd(w, slopes, memory, **rule)
    return [v.detach() for v in w]


def sgd_in_one_row(net, start, batches, lr, momentum, weight_decay):
    """Do the same with all weights in one row of numbers, and all slopes in another."""
    row = torch.cat([v.reshape(-1) for v in start])
    parts = zip(row.split([v.numel() for v in start]), start, strict=True)
    w = [part.view(v.shape).requires_grad_() for part, v in parts]
    memory = torch.zeros_like(row)
    for x, y in batches:
        slopes = torch.autograd.grad(cross_entropy(net(w, x, True), y), w)
        slope = torch.cat([v.reshape(-1) for v in slopes])
        norm = float(torch.linalg.vector_norm(slope))
        slope = slope.mul_(50.0 / norm) if norm > 50.0 else slope
        memory.mul_(momentum).add_(slope).add_(row, alpha=weight_decay)
        row.add_(memory, alpha=-lr)
    return [v.detach() for v in w]


def pefll_round(net, eta, moments, scale, first, cohort, variant, shapes):
    """Move ``eta`` (hypernetwork, encoder) by a round, from batches [c, b, ...] and clients'."""
    pool_first, fused = VARIANTS.get(variant, (NCHW, True, True))[1:]
    eta = [v.detach().requires_grad_() for v in eta]
    trunk, heads, encoder = eta[:8], eta[8 : 8 + 2 * len(shapes)], eta[8 + 2 * len(shapes) :]
    images, labels = first[0].flatten(0, 1), one_hot(first[1].flatten(), 10).to(first[0].dtype)
    labels = labels[(..., *[None] * (images.dim() - 2))].expand(-1, -1, *images.shape[2:])
    embedded = net(encoder, torch.cat([images, labels], 1), pool_first)
    features = (embedded.view(*first[1].shape, -1).mean(1) - scale[0]) / scale[1]
    for i in range(0, 8, 2):
        features = linear(relu(features) if i else features, trunk[i], trunk[i + 1])
    made = [linear(features, *heads[2 * i : 2 * i + 2]).view(-1, *s) for i, s in enumerate(shapes)]
    changes = [torch.empty_like(m) for m in made]
    for i, batches in enumerate(cohort):
        start = [m[i].detach() for m in made]
        end = local_sgd(net, start, batches, variant, lr=2e-3, momentum=0.9, weight_decay=5e-5)
        for place, change in enumerate(changes):
            torch.sub(end[place], start[place], out=change[i])
    slopes = torch.autograd.grad(made, eta, [change / -len(cohort) for change in changes])
    how = {"fused": fused, "foreach": False, "amsgrad": False, "maximize": False}
    how |= {"beta1": 0.9, "beta2": 0.999, "lr": 2e-4, "weight_decay": 2e-3, "eps": 1e-8}
    with torch.no_grad():
        adamw(eta, clip(list(slopes), 50.0), *moments[:2], [], moments[2], **how)
    return changes


def fedavg_round(net, weights, cohort, variant, rule):
    """Move ``weights`` by the mean change of clients of one size, given each one's batches."""
    total = [torch.zeros_like(v) for v in weights]
    for batches in cohort:
        end = local_sgd(net, weights, batches, variant, **rule)
        torch._foreach_add_(total, torch._foreach_sub(end, weights), alpha=1 / len(cohort))
    torch._foreach_add_(weights, total)
