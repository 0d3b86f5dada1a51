"""LeNet as users of other packages write it; it needs PyTorch alone."""

from torch import nn


def lenet() -> nn.Module:
    """Make the net for three channels of 32 x 32 and ten classes."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(800, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, 10),
    )
