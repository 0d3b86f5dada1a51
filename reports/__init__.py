"""Reports: rows and artifacts of a run become frames, figures, tables and one HTML page.

``report(directory)`` writes the page, ``compare_runs`` sets two runs side by side.  Every figure is
made from a frame that can be had alone: ``gap_frame(rows)`` beside ``gap_figure(frame)``, and so
on.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if __name__ != "latecomer.reports":
    raise ImportError("import latecomer.reports, not the folder reports")

if TYPE_CHECKING:
    from latecomer.reports.bound_figures import anatomy_figure as anatomy_figure
    from latecomer.reports.bound_figures import bound_figure as bound_figure
    from latecomer.reports.certified_shares import curve_frame as curve_frame
    from latecomer.reports.certified_shares import fraction_frame as fraction_frame
    from latecomer.reports.certified_shares import price_frame as price_frame
    from latecomer.reports.comparison import pair_frame as pair_frame
    from latecomer.reports.comparison import rank_test_frame as rank_test_frame
    from latecomer.reports.comparison_figures import rank_test_figure as rank_test_figure
    from latecomer.reports.convergence_figures import convergence_figure as convergence_figure
    from latecomer.reports.convergence_figures import convergence_frame as convergence_frame
    from latecomer.reports.correlation_figures import agreement_frame as agreement_frame
    from latecomer.reports.correlation_figures import correlation_figure as correlation_figure
    from latecomer.reports.correlation_figures import correlation_frame as correlation_frame
    from latecomer.reports.denoising_figures import denoising_figure as denoising_figure
    from latecomer.reports.denoising_figures import denoising_frame as denoising_frame
    from latecomer.reports.descriptor_figures import descriptor_figure as descriptor_figure
    from latecomer.reports.descriptor_figures import descriptor_frame as descriptor_frame
    from latecomer.reports.error_figures import (
        error_distribution_figure as error_distribution_figure,
    )
    from latecomer.reports.error_figures import error_distribution_frame as error_distribution_frame
    from latecomer.reports.figures import diagnostics_figure as diagnostics_figure
    from latecomer.reports.figures import gap_figure as gap_figure
    from latecomer.reports.frames import accuracy_frame as accuracy_frame
    from latecomer.reports.frames import client_errors as client_errors
    from latecomer.reports.frames import diagnostics_frame as diagnostics_frame
    from latecomer.reports.frames import failures_frame as failures_frame
    from latecomer.reports.frames import gap_frame as gap_frame
    from latecomer.reports.frames import rank_frame as rank_frame
    from latecomer.reports.frames import shift_frame as shift_frame
    from latecomer.reports.guarantees import anatomy_frame as anatomy_frame
    from latecomer.reports.guarantees import bound_frame as bound_frame
    from latecomer.reports.guarantees import ledger_frame as ledger_frame
    from latecomer.reports.html import report as report
    from latecomer.reports.mix_figures import mix_and_match_figure as mix_and_match_figure
    from latecomer.reports.mix_figures import mix_and_match_frame as mix_and_match_frame
    from latecomer.reports.paper import paper_frame as paper_frame
    from latecomer.reports.paper_figures import paper_figure as paper_figure
    from latecomer.reports.run_comparison import compare_runs as compare_runs
    from latecomer.reports.serving_figures import serving_figure as serving_figure
    from latecomer.reports.serving_figures import serving_frame as serving_frame
    from latecomer.reports.shift_effects import effect_frame as effect_frame
    from latecomer.reports.shift_effects import lacks_frame as lacks_frame
    from latecomer.reports.shift_figures import shift_figure as shift_figure
    from latecomer.reports.split_figures import class_figure as class_figure
    from latecomer.reports.split_figures import class_frame as class_frame
    from latecomer.reports.training_figures import training_figure as training_figure
    from latecomer.reports.training_figures import training_frame as training_frame

_HOME = {
    "accuracy_frame": "frames",
    "agreement_frame": "correlation_figures",
    "anatomy_figure": "bound_figures",
    "anatomy_frame": "guarantees",
    "bound_figure": "bound_figures",
    "bound_frame": "guarantees",
    "class_figure": "split_figures",
    "class_frame": "split_figures",
    "client_errors": "frames",
    "compare_runs": "run_comparison",
    "convergence_figure": "convergence_figures",
    "convergence_frame": "convergence_figures",
    "correlation_figure": "correlation_figures",
    "correlation_frame": "correlation_figures",
    "curve_frame": "certified_shares",
    "denoising_figure": "denoising_figures",
    "denoising_frame": "denoising_figures",
    "descriptor_figure": "descriptor_figures",
    "descriptor_frame": "descriptor_figures",
    "diagnostics_figure": "figures",
    "diagnostics_frame": "frames",
    "effect_frame": "shift_effects",
    "error_distribution_figure": "error_figures",
    "error_distribution_frame": "error_figures",
    "failures_frame": "frames",
    "fraction_frame": "certified_shares",
    "gap_figure": "figures",
    "gap_frame": "frames",
    "lacks_frame": "shift_effects",
    "ledger_frame": "guarantees",
    "mix_and_match_figure": "mix_figures",
    "mix_and_match_frame": "mix_figures",
    "pair_frame": "comparison",
    "paper_figure": "paper_figures",
    "paper_frame": "paper",
    "price_frame": "certified_shares",
    "rank_frame": "frames",
    "rank_test_figure": "comparison_figures",
    "rank_test_frame": "comparison",
    "report": "html",
    "serving_figure": "serving_figures",
    "serving_frame": "serving_figures",
    "shift_figure": "shift_figures",
    "shift_frame": "frames",
    "training_figure": "training_figures",
    "training_frame": "training_figures",
}

__all__ = [*sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"latecomer.reports.{_HOME[name]}"), name)
    raise AttributeError(f"module 'latecomer.reports' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
