"""The kinds of split, as their files declare them, and how the clients of each are drawn."""

from collections.abc import Mapping
from types import MappingProxyType

from latecomer.certify.rule import LEAST_OUTSIDE
from latecomer.declared import declared
from latecomer.errors import InputError
from latecomer.eval.splits.kinds.declaration import SplitKind

_DECLARED: Mapping[str, SplitKind] = declared("latecomer.eval.splits.kinds", "SPLITS")
SPLITS: Mapping[str, SplitKind] = MappingProxyType(
    dict(sorted(_DECLARED.items(), key=lambda one: one[1].law is not None))
)
"""Every kind of split that a module of ``kinds`` declares, those of independent clients last."""
IID_SPLITS = frozenset(name for name, kind in SPLITS.items() if kind.law)


def sampling_of(split_kind: str) -> str:
    """``iid`` for splits whose clients are drawn independently, else ``finite-pool``."""
    return "iid" if split_kind in IID_SPLITS else "finite-pool"


def check_outside(split_kind: str, n_certification: int, n_outside: int) -> None:
    """Refuse to certify a finite pool with hardly any clients outside the certified ones.

    Raises
    ------
    InputError
    """
    if sampling_of(split_kind) == "finite-pool" and n_outside < LEAST_OUTSIDE:
        raise InputError(
            f"split.novel must be at least {LEAST_OUTSIDE} clients beside the {n_certification} "
            f"certified ones, got {n_outside}: a certificate of a finite pool is about those too; "
            "leave more untrained, or drop the certificates"
        )
