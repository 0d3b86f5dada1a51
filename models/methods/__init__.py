"""Federated methods, one a file, and the registry that names them."""

from typing import TYPE_CHECKING, Any

from latecomer.extras import first_use

if __name__ != "latecomer.models.methods":
    raise ImportError("import latecomer.models.methods, not the folder methods")

if TYPE_CHECKING:
    from latecomer.models.methods.registry import METHODS as METHODS
    from latecomer.models.methods.registry import find_method as find_method
    from latecomer.models.methods.registry import known_names as known_names
    from latecomer.models.methods.registry import make_method as make_method

__all__ = ["METHODS", "find_method", "known_names", "make_method"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return first_use("latecomer.models.methods.registry", name)
    raise AttributeError(f"module 'latecomer.models.methods' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
