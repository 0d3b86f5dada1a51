"""What threads of one process cannot share: torch's own generator, and networks of others.

To apply a network to weights from outside, torch puts them into it for the time of the call, so
that two threads cannot use one at a time: each has its own copy of the skeleton.
"""

import threading
from copy import deepcopy
from functools import lru_cache
from weakref import WeakKeyDictionary

from torch import Tensor, nn

DRAWING = threading.RLock()
"""Held by who seeds torch's own generator and draws from it."""
_OWN = threading.local()


def of_this_thread(net: nn.Module) -> nn.Module:
    """Return the network for this thread: itself in the main one, elsewhere a copy.

    The constants that it holds, of a frozen body for instance, are not copied.
    """
    if threading.current_thread() is threading.main_thread():
        return net
    copies = _OWN.__dict__.setdefault("copies", WeakKeyDictionary())
    if net not in copies:
        copies[net] = _copy(net)
    copy: nn.Module = copies[net]
    return copy


@lru_cache(maxsize=8)
def can_be_copied(net: nn.Module) -> bool:
    """Tell whether several threads may use a network: one that holds a lock or file cannot be."""
    try:
        _copy(net)
    except Exception:
        return False
    return True


def _copy(net: nn.Module) -> nn.Module:
    held = [value for module in net.modules() for value in vars(module).values()]
    return deepcopy(net, {id(value): value for value in held if isinstance(value, Tensor)})
