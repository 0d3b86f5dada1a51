"""The pickles of CIFAR-10 and CIFAR-100, read without trusting them.

These files need four names: a NumPy array, its dtype, the function that makes an array, and the
codec by which Python 3 writes bytes into old pickles.
"""

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latecomer.errors import InputError
from latecomer.eval.datasets.restricted_pickle import Array, Dtype, Kind, Latin1, load_pickle


class _Images(Array):
    def as_bytes(self) -> NDArray[np.uint8]:
        """Return the array, refusing a state that does not describe a uint8 array."""
        shape, dtype, fortran, content = self.parts()
        if dtype.code not in ("u1", "|u1"):
            raise InputError("holds images that are not uint8")
        if not isinstance(content, bytes) or prod(shape) != len(content):
            raise InputError("holds an array whose shape does not fit its contents")
        return np.frombuffer(content, np.uint8).reshape(shape, order="F" if fortran else "C")


_CIFAR = Kind(
    "CIFAR file",
    {
        ("numpy.core.multiarray", "_reconstruct"): _Images,
        ("numpy._core.multiarray", "_reconstruct"): _Images,
        ("numpy", "ndarray"): _Images,
        ("numpy", "dtype"): Dtype,
        ("_codecs", "encode"): Latin1,
    },
    encoding="bytes",
)


def load_cifar_pickle(content: bytes) -> dict[str, Any]:
    """Return what a CIFAR pickle holds: lists of numbers or bytes, and uint8 arrays.

    Parameters
    ----------
    content : bytes
        The whole file.

    Returns
    -------
    dict
        Contents by key, keys as text; arrays as uint8.

    Raises
    ------
    InputError
        The pickle holds or asks for anything else, is cut short or goes on after its end.

    Examples
    --------
    >>> import pickle
    >>> load_cifar_pickle(pickle.dumps({b"labels": [3, 8]}, protocol=2))
    {'labels': [3, 8]}
    """
    held = load_pickle(content, _CIFAR)
    if not isinstance(held, dict):
        raise InputError(f"holds a {type(held).__name__}, no table of CIFAR images")
    named = {k.decode("latin1") if isinstance(k, bytes) else str(k): v for k, v in held.items()}
    return {key: v.as_bytes() if isinstance(v, _Images) else v for key, v in named.items()}
