"""What serving a new client sends, and what it makes: the words that methods declare it in."""

from math import prod
from typing import Literal, NamedTuple

from latecomer.models.task.task import Task

NewcomersGet = Literal[
    "the one model",
    "own weights",
    "own intercept",
    "own neighbours",
    "a seen client's model",
    "all seen clients' models",
    "the best of several models",
    "a mixture of several models",
    "",
]
"""What is made for a new client; empty: its method does not say."""


class Messages(NamedTuple):
    """What passes between the server and one new client until it has its model.

    Attributes
    ----------
    rounds : int
        Times that the server answers.
    down, up : int
        Numbers sent to the new client, and by it.
    """

    rounds: int
    down: int
    up: int


def one_model(task: Task, layers: tuple[str, ...] | None = None) -> Messages:
    """Return the messages of who is sent weights once, all or those named, and tells nothing.

    >>> from latecomer.models import make_task
    >>> one_model(make_task(input_shape=(1, 8, 8), n_classes=10))
    Messages(rounds=1, down=4538, up=0)
    """
    names = task.shapes if layers is None else layers
    return Messages(1, sum(prod(task.shapes[name]) for name in names), 0)
