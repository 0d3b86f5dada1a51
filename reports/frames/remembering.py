"""Frames that several sections ask for are made once a page.

Frames are pure functions of the rows; within ``remembering()`` one that was asked for the same rows
before gives the same frame again.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps

import pandas as pd

__all__ = ["remembered", "remembering"]

Make = Callable[[pd.DataFrame], pd.DataFrame]
Frames = dict[tuple[Make, int], tuple[pd.DataFrame, pd.DataFrame]]
# Since pandas 3 a shallow copy is the receiver's own: what is written to it is copied first.
_DEEP = int(pd.__version__.split(".")[0]) < 3
_known: ContextVar[Frames | None] = ContextVar("known", default=None)


@contextmanager
def remembering() -> Iterator[None]:
    """Keep frames for the time of a ``with`` block, in which rows must not be changed."""
    token = _known.set({})
    try:
        yield
    finally:
        _known.reset(token)


def remembered(make: Make) -> Make:
    """Let a function of the rows be remembered; who gets a frame may change it as its own."""

    @wraps(make)
    def once(rows: pd.DataFrame) -> pd.DataFrame:
        known = _known.get()
        if known is None:
            return make(rows)
        key = (make, id(rows))
        if key not in known:
            # The rows are kept with the frame, or another object could come to bear their id.
            known[key] = (rows, make(rows))
        return known[key][1].copy(deep=_DEEP)

    return once
