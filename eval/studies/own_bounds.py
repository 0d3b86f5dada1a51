"""Bounds of one's own that a study names: held to their contract before anything is trained."""

from collections.abc import Iterator

from latecomer.certify.own_rule import held_to_contract, own_rule
from latecomer.certify.rules.declaration import is_own
from latecomer.errors import InputError
from latecomer.eval.settings.study_sections import Bounds, bound_names
from latecomer.eval.splits.settings import Frozen
from latecomer.eval.splits.split import Split
from latecomer.eval.studies.settings import Study

__all__ = ["check_bounds", "check_scored"]


def check_bounds(study: Study) -> None:
    """Import the study's own bounds and simulate their coverage, unless they are trusted.

    Raises
    ------
    InputError
        With one line that names the entry: one that is none, or fails; one that is listed again;
        no clients are held out that it could be asked of.
    """
    for key, bounds in _listed(study):
        named = bound_names(bounds)
        if len(named) < len(bounds):
            raise InputError(f"{key} must not repeat an entry, got {', '.join(named)}")
        for place, (name, trusted) in enumerate(named.items()):
            if not is_own(name):
                continue
            try:
                held_to_contract(name, trust=trusted, kind="bound")
            except InputError as error:
                raise InputError(f"{key}.{place}: {error}") from error
            if not isinstance(study.split, Frozen) and not study.split.certify:
                raise InputError(_no_clients(f"{key}.{place}", name))


def check_scored(study: Study, split: Split) -> None:
    """Refuse own bounds of a split that holds out too few clients for them.

    Raises
    ------
    InputError
    """
    held_out = len(split.certification)
    for key, bounds in _listed(study):
        for place, name in enumerate(bound_names(bounds)):
            if not is_own(name):
                continue
            if not held_out:
                raise InputError(_no_clients(f"{key}.{place}", name))
            least = own_rule(name, "bound").least
            if held_out < least:
                raise InputError(
                    f"{key}.{place}: bound {name} needs {least} clients, got {held_out}"
                )


def _no_clients(key: str, name: str) -> str:
    return f"{key}: bound {name} needs held-out clients: split.certify must be above 0"


def _listed(study: Study) -> Iterator[tuple[str, Bounds]]:
    """Yield every list of bounds of a study and its key."""
    yield "bounds", study.bounds
    for index, method in enumerate(study.methods):
        if method.bounds is not None:
            yield f"methods.{index}.bounds", method.bounds
