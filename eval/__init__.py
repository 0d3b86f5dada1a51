"""Evaluation: data sets, splits, shifts, the novel-client protocol, certificates, studies, runs.

Every public name is imported on first use; the package itself loads no torch.

A user's mistake raises an `InputError`: one line that names the argument, the key or the file and
its line, what is legal and what was given.  Docstrings of functions mention it where there is more
to say.
"""

from typing import TYPE_CHECKING

from latecomer.extras import front_door

if __name__ != "latecomer.eval":
    raise ImportError("import latecomer.eval, not the folder eval")

if TYPE_CHECKING:
    from latecomer.certify.further_statements import certify_above as certify_above
    from latecomer.certify.further_statements import certify_against as certify_against
    from latecomer.certify.further_statements import certify_curve as certify_curve
    from latecomer.certify.further_statements import certify_groups as certify_groups
    from latecomer.certify.ledger import verify_ledger as verify_ledger
    from latecomer.certify.planned import clients_to_hold_out as clients_to_hold_out
    from latecomer.certify.populations import certify_shifted as certify_shifted
    from latecomer.certify.predictor import certify_predictor as certify_predictor
    from latecomer.certify.statements import certify_losses as certify_losses
    from latecomer.errors import CannotWriteError as CannotWriteError
    from latecomer.errors import InputError as InputError
    from latecomer.eval.results.rows import Artifact as Artifact
    from latecomer.eval.results.rows import RunRecord as RunRecord
    from latecomer.eval.results.rows import load_run as load_run
    from latecomer.eval.results.rows import read_rows as read_rows
    from latecomer.eval.runs.cell_directory import RunStatus as RunStatus
    from latecomer.eval.runs.cell_directory import run_status as run_status
    from latecomer.eval.runs.runner import Event as Event
    from latecomer.eval.runs.runner import RunResult as RunResult
    from latecomer.eval.runs.runner import run as run
    from latecomer.eval.splits.build import make_split as make_split
    from latecomer.eval.studies.loading import load_study as load_study
    from latecomer.eval.studies.settings import Study as Study
    from latecomer.eval.studies.shipped import shipped_studies as shipped_studies
    from latecomer.eval.training.checkpoint_slots import CheckpointEvery as CheckpointEvery

_HOME, __getattr__, __dir__ = front_door(__name__, __file__)

__all__ = [*sorted(_HOME)]
