"""Reports: rows and artifacts of a run become frames, figures, tables and one HTML page.

``report(directory)`` writes the page, ``compare_runs`` sets two runs side by side.  Every figure is
made from a frame with its own function: ``gap_frame(rows)`` for ``gap_figure(frame, looks)``, and
so on.  ``looks`` is the colour and mark of each label, as ``display.drawing.looks`` chooses them;
``width`` is in inches.
"""

from typing import TYPE_CHECKING

from latecomer.extras import front_door

if __name__ != "latecomer.reports":
    raise ImportError("import latecomer.reports, not the folder reports")

if TYPE_CHECKING:
    from latecomer.reports.accuracy.comparison import rank_test_figure as rank_test_figure
    from latecomer.reports.accuracy.denoising import denoising_figure as denoising_figure
    from latecomer.reports.accuracy.denoising import denoising_frame as denoising_frame
    from latecomer.reports.accuracy.errors import gap_figure as gap_figure
    from latecomer.reports.accuracy.published import paper_figure as paper_figure
    from latecomer.reports.accuracy.serving import serving_figure as serving_figure
    from latecomer.reports.accuracy.serving import serving_frame as serving_frame
    from latecomer.reports.accuracy.training import convergence_figure as convergence_figure
    from latecomer.reports.accuracy.training import convergence_frame as convergence_frame
    from latecomer.reports.accuracy.training import training_figure as training_figure
    from latecomer.reports.accuracy.training import training_frame as training_frame
    from latecomer.reports.clients.descriptors import agreement_frame as agreement_frame
    from latecomer.reports.clients.descriptors import correlation_figure as correlation_figure
    from latecomer.reports.clients.descriptors import correlation_frame as correlation_frame
    from latecomer.reports.clients.descriptors import descriptor_figure as descriptor_figure
    from latecomer.reports.clients.descriptors import descriptor_frame as descriptor_frame
    from latecomer.reports.clients.distances import class_figure as class_figure
    from latecomer.reports.clients.distances import class_frame as class_frame
    from latecomer.reports.clients.distances import diagnostics_figure as diagnostics_figure
    from latecomer.reports.clients.mix_and_match import mix_and_match_figure as mix_and_match_figure
    from latecomer.reports.clients.mix_and_match import mix_and_match_frame as mix_and_match_frame
    from latecomer.reports.frames.bounds import anatomy_frame as anatomy_frame
    from latecomer.reports.frames.bounds import bound_frame as bound_frame
    from latecomer.reports.frames.bounds import ledger_frame as ledger_frame
    from latecomer.reports.frames.errors import accuracy_frame as accuracy_frame
    from latecomer.reports.frames.errors import client_errors as client_errors
    from latecomer.reports.frames.errors import diagnostics_frame as diagnostics_frame
    from latecomer.reports.frames.errors import failures_frame as failures_frame
    from latecomer.reports.frames.errors import pair_frame as pair_frame
    from latecomer.reports.frames.errors import rank_frame as rank_frame
    from latecomer.reports.frames.errors import rank_test_frame as rank_test_frame
    from latecomer.reports.frames.errors import shift_frame as shift_frame
    from latecomer.reports.frames.gaps import gap_frame as gap_frame
    from latecomer.reports.frames.paper import paper_frame as paper_frame
    from latecomer.reports.guarantees.distribution import curve_frame as curve_frame
    from latecomer.reports.guarantees.distribution import (
        error_distribution_figure as error_distribution_figure,
    )
    from latecomer.reports.guarantees.distribution import (
        error_distribution_frame as error_distribution_frame,
    )
    from latecomer.reports.guarantees.distribution import fraction_frame as fraction_frame
    from latecomer.reports.guarantees.distribution import price_frame as price_frame
    from latecomer.reports.guarantees.each_bound import anatomy_figure as anatomy_figure
    from latecomer.reports.guarantees.sets import client_sets_figure as client_sets_figure
    from latecomer.reports.guarantees.sets import client_sets_frame as client_sets_frame
    from latecomer.reports.guarantees.slack import bound_figure as bound_figure
    from latecomer.reports.page.page import figures as figures
    from latecomer.reports.page.page import report as report
    from latecomer.reports.shift.answer import effect_frame as effect_frame
    from latecomer.reports.shift.answer import lacks_frame as lacks_frame
    from latecomer.reports.shift.curves import shift_figure as shift_figure
    from latecomer.reports.two_runs import compare_runs as compare_runs

_HOME, __getattr__, __dir__ = front_door(__name__, __file__)

__all__ = [*sorted(_HOME)]
