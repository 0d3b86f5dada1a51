"""Federated methods, one per file, and the registry that names them."""

from typing import TYPE_CHECKING

from latecomer.extras import front_door

if __name__ != "latecomer.models.methods":
    raise ImportError("import latecomer.models.methods, not the folder methods")

if TYPE_CHECKING:
    from latecomer.models.methods.registry import METHODS as METHODS
    from latecomer.models.methods.registry import find_method as find_method
    from latecomer.models.methods.registry import known_names as known_names
    from latecomer.models.methods.registry import make_method as make_method

_HOME, __getattr__, __dir__ = front_door(__name__, __file__)

__all__ = [*sorted(_HOME)]
