"""One cell of a study, of whatever kind: its work by name."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from latecomer.eval.federation.diagnostics import split_facts
from latecomer.eval.protocol.denoising import denoising_findings
from latecomer.eval.protocol.method_cell import evaluate_method
from latecomer.eval.protocol.whole_cell import evaluate_whole
from latecomer.eval.routes.caveats import with_caveats
from latecomer.eval.routes.r1_cell import evaluate_tuned
from latecomer.eval.routes.r4_cell import evaluate_progressive
from latecomer.eval.routes.r5_cell import evaluate_compressed
from latecomer.eval.training.checkpoint_slots import NO_CHECKPOINTS, Checkpoints
from latecomer.eval.training.setup import OnRound, Outcome, federation_of

__all__ = ["Outcome", "evaluate_cell"]


def _split_cell(
    config: Mapping[str, Any], on_round: OnRound | None, checkpoints: Checkpoints
) -> Outcome:
    """Measure how far novel clients are from the training clients, whatever the method."""
    asked = config.get("evaluation") or {}
    classifier = asked.get("domain_classifier", "linear")
    return Outcome(*split_facts(federation_of(config), classifier=classifier))


def _denoising_cell(
    config: Mapping[str, Any], on_round: OnRound | None, checkpoints: Checkpoints
) -> Outcome:
    """Simulate the linear hypernetwork; no data and no method of the study have part in it."""
    return Outcome(*denoising_findings(config["denoising"]))


_CellWork = Callable[[Mapping[str, Any], OnRound | None, Checkpoints], Outcome]
_CELLS: Mapping[str, _CellWork] = MappingProxyType(
    {
        "method": evaluate_method,
        "split": _split_cell,
        "progressive": evaluate_progressive,
        "tuned": evaluate_tuned,
        "compressed": evaluate_compressed,
        "denoising": _denoising_cell,
        "whole": evaluate_whole,
    }
)


def evaluate_cell(
    config: Mapping[str, Any],
    on_round: OnRound | None = None,
    checkpoints: Checkpoints = NO_CHECKPOINTS,
) -> Outcome:
    """Do the work of one cell.

    Parameters
    ----------
    config : mapping
        The cell's ``config.json``.
    on_round : callable, optional
        Called with a ``RoundLog`` after every training round.
    checkpoints : Checkpoints
        Where each training of the cell has a slot to keep its checkpoints in, and to go on from.

    Returns
    -------
    Outcome
        Rows without the columns that only name the cell (the runner adds those), and artifacts.

    Raises
    ------
    DivergedError
        When the training loss stops being finite.
    InputError
        When the data or the split cannot be made.
    """
    outcome = _CELLS[config["kind"]](config, on_round, checkpoints)
    if not config.get("certificates"):
        return outcome
    return with_caveats(outcome, config, federation_of(config).split)
