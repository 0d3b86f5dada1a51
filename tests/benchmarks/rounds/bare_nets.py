"""Target nets in bare PyTorch: weights ``w`` are a list in the layers' order."""

import torch
from torch.nn.functional import linear, max_pool2d, relu


def pooled(x, pool_first):
    return relu(max_pool2d(x, 2, 2)) if pool_first else max_pool2d(relu(x), 2)


def lenet(w, x, pool_first):
    for i in (0, 2):
        x = pooled(torch.conv2d(x, w[i], w[i + 1]), pool_first)
    return dense(w[4:], (x.to_dense() if x.is_mkldnn else x).flatten(1), pool_first)


def small(w, x, pool_first):
    x = pooled(torch.conv2d(x, w[0], w[1], padding=1), pool_first).flatten(1)
    return linear(relu(linear(x, w[2], w[3])), w[4], w[5])


def dense(w, x, pool_first):
    x = relu(linear(x, w[0], w[1]))
    return linear(relu(linear(x, w[2], w[3])), w[4], w[5])
