"""One cell of a study: the function for each kind of cell."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from latecomer.eval.federation.diagnostics import split_facts
from latecomer.eval.protocol.denoising import denoising_findings
from latecomer.eval.protocol.method_cell import evaluate_method
from latecomer.eval.protocol.whole_cell import evaluate_whole
from latecomer.eval.routes.caveats import with_caveats
from latecomer.eval.routes.cells import read_cell
from latecomer.eval.routes.registry import CELL_ROUTES
from latecomer.eval.settings.cell import DenoisingCell, SplitCell, TrainingCell
from latecomer.eval.training.checkpoint_slots import NO_CHECKPOINTS, Checkpoints
from latecomer.eval.training.setup import OnRound, Outcome, federation_of

__all__ = ["Outcome", "evaluate_cell"]


_Training = Callable[[TrainingCell, OnRound | None, Checkpoints], Outcome]
_TRAINING: Mapping[str, _Training] = MappingProxyType(
    {
        "method": evaluate_method,
        "whole": evaluate_whole,
        **{kind: route.follow for kind, route in CELL_ROUTES.items()},
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
        Gives each training of the cell a slot to save its checkpoints in and to resume from.

    Returns
    -------
    Outcome
        Rows without the columns that only name the cell (the runner adds those), and artifacts.

    Raises
    ------
    DivergedError
        When the training loss stops being finite.
    InputError
        When the data or the split cannot be made, when the split has too few clients for a
        certificate, or when its route cannot be used with the method.
    """
    cell = read_cell(config)
    if isinstance(cell, DenoisingCell):
        return Outcome(*denoising_findings(cell.denoising))
    if isinstance(cell, SplitCell):
        classifier = cell.evaluation.domain_classifier
        return Outcome(*split_facts(federation_of(cell), classifier=classifier))
    outcome = _TRAINING[cell.kind](cell, on_round, checkpoints)
    if not cell.certificates:
        return outcome
    split, trained = federation_of(cell).split, cell.train.rounds > 0
    return with_caveats(outcome, cell.certificates, split, trained=trained)
