"""Reports: rows and artifacts of a run become frames, figures, tables and one HTML page.

``report(directory)`` writes the page.  Every figure is made from a frame that can be had alone:
``gap_frame(rows)`` beside ``gap_figure(frame)``, and so on.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if __name__ != "latecomer.reports":
    raise ImportError("import latecomer.reports, not the folder reports")

if TYPE_CHECKING:
    from latecomer.reports.bound_figures import anatomy_figure as anatomy_figure
    from latecomer.reports.bound_figures import bound_figure as bound_figure
    from latecomer.reports.figures import diagnostics_figure as diagnostics_figure
    from latecomer.reports.figures import gap_figure as gap_figure
    from latecomer.reports.frames import accuracy_frame as accuracy_frame
    from latecomer.reports.frames import diagnostics_frame as diagnostics_frame
    from latecomer.reports.frames import failures_frame as failures_frame
    from latecomer.reports.frames import gap_frame as gap_frame
    from latecomer.reports.frames import shift_frame as shift_frame
    from latecomer.reports.guarantees import anatomy_frame as anatomy_frame
    from latecomer.reports.guarantees import bound_frame as bound_frame
    from latecomer.reports.html import report as report
    from latecomer.reports.shift_figures import shift_figure as shift_figure

_HOME = {
    "accuracy_frame": "frames",
    "anatomy_figure": "bound_figures",
    "anatomy_frame": "guarantees",
    "bound_figure": "bound_figures",
    "bound_frame": "guarantees",
    "diagnostics_figure": "figures",
    "diagnostics_frame": "frames",
    "failures_frame": "frames",
    "gap_figure": "figures",
    "gap_frame": "frames",
    "report": "html",
    "shift_figure": "shift_figures",
    "shift_frame": "frames",
}

__all__ = [*sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"latecomer.reports.{_HOME[name]}"), name)
    raise AttributeError(f"module 'latecomer.reports' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
