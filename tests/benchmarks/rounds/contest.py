"""Contests: the same work done in several ways, in turns, and the ratios of the times they took.

A time says as much about the machine and its other tenants as about the code. Contestants that
take turns in one process share both, so their ratio is what is kept and compared.
"""

import json
import os
import platform
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import torch

BASELINE = Path(__file__).parents[1] / "ratios.json"


@dataclass(frozen=True)
class Turns:
    """What one contestant took in every turn, in seconds: on the clock, and of processor time."""

    wall: tuple[float, ...]
    cpu: tuple[float, ...]


@dataclass(frozen=True)
class Bound:
    """The committed ratio of an earlier run, and what a ratio may at most (or must at least) be."""

    baseline: float | None = None
    at_most: float | None = None
    at_least: float | None = None

    def holds(self, ratio: float) -> bool:
        """Return whether ``ratio`` lies within the bounds."""
        low = -float("inf") if self.at_least is None else self.at_least
        high = float("inf") if self.at_most is None else self.at_most
        return low <= ratio <= high

    def __str__(self) -> str:
        """Word the bounds."""
        sides = (("at least", self.at_least), ("at most", self.at_most))
        return ", ".join(f"{word} {side:g}" for word, side in sides if side is not None)


@dataclass(frozen=True)
class Finding:
    """One number of a run that is compared with the committed one.

    Attributes
    ----------
    name : str
        As in the file of ratios.
    ratio : float
        What was found: a ratio of times, of memory, or a fitted exponent.
    spread : tuple of float
        Quartiles of the paired ratios; empty where there is one measurement.
    absolute : mapping of str to float
        What the ratio was made of, in units that the keys name.
    note : str
        What a reader must know beside the number.
    """

    name: str
    ratio: float
    spread: tuple[float, ...] = ()
    absolute: Mapping[str, float] | None = None
    note: str = ""


@contextmanager
def one_processor() -> Iterator[None]:
    """Keep this thread on the last of its processors.

    Another processor has other tenants: contestants that run in threads apart share neither core
    nor caches unless all stay on one. Where the system cannot say so, threads stay free.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    free = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(free)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, free)


def _on_the_processor() -> bool:
    return torch.get_num_threads() == 1


def fastest(turns: Mapping[str, Turns]) -> str:
    """Return the name of the contestant with the least median time."""
    clock = "cpu" if _on_the_processor() else "wall"
    return min(turns, key=lambda name: median(getattr(turns[name], clock)))


def compare(
    name: str, ours: Turns, rival: Turns, *, note: str = "", processes: bool = False
) -> Finding:
    """Return the median over turns of our time divided by the rival's.

    With one thread the processor's time is judged, which other tenants of the machine do not
    lengthen; with several threads, or where a contestant has ``processes``, the clock's.
    """
    single = _on_the_processor() and not processes
    a, b = (ours.cpu, rival.cpu) if single else (ours.wall, rival.wall)
    ratios = [x / y for x, y in zip(a, b, strict=True)]
    low, middle, high = quantiles(ratios, n=4, method="inclusive")
    times = {
        "ours_wall_s": median(ours.wall),
        "rival_wall_s": median(rival.wall),
        "ours_cpu_s": median(ours.cpu),
        "rival_cpu_s": median(rival.cpu),
    }
    clocks = "processor time" if single else "wall clock"
    told = f"{clocks}, {len(ratios)} turns"
    return Finding(name, middle, (low, high), times, f"{note}; {told}" if note else told)


def fitted_exponent(sizes: Iterable[float], seconds: Iterable[float]) -> float:
    """Return the slope of log time over log size, by least squares."""
    x = torch.tensor(list(sizes), dtype=torch.float64).log()
    y = torch.tensor(list(seconds), dtype=torch.float64).log()
    x, y = x - x.mean(), y - y.mean()
    return float((x @ y) / (x @ x))


def bounds() -> dict[str, Bound]:
    """Read the committed ratios."""
    entries = json.loads(BASELINE.read_text("utf-8"))["ratios"]
    return {name: Bound(**entry) for name, entry in entries.items()}


def machine() -> dict[str, Any]:
    """Return what a reader of the numbers must know of the machine; nothing that names it."""
    facts = {
        "cpu": _processor(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": platform.system(),
    }
    if torch.cuda.is_available():
        facts["gpu"] = torch.cuda.get_device_name()
    return facts


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{len(names)} x {names[0]}" if names else platform.processor()


def table(findings: Iterable[Finding], known: Mapping[str, Bound]) -> list[str]:
    """Word findings beside what was committed, a line each."""
    lines = [f"{'ratio':>8} {'committed':>9}  {'verdict':7} name (bound; what it is made of)"]
    for found in findings:
        bound = known.get(found.name, Bound())
        before = "-" if bound.baseline is None else f"{bound.baseline:.3f}"
        verdict = "ok" if bound.holds(found.ratio) else "MISSED"
        made_of = ", ".join(f"{key} {value:.4g}" for key, value in (found.absolute or {}).items())
        told = "; ".join(part for part in (str(bound), made_of, found.note) if part)
        lines.append(f"{found.ratio:8.3f} {before:>9}  {verdict:7} {found.name} ({told})")
    return lines


def record(findings: Iterable[Finding], known: Mapping[str, Bound]) -> str:
    """Return findings, their bounds and the machine's facts as JSON."""
    entries = {
        found.name: {
            "ratio": _short(found.ratio),
            "quartiles": [_short(value) for value in found.spread],
            "bound": str(known.get(found.name, Bound())),
            "holds": known.get(found.name, Bound()).holds(found.ratio),
            "absolute": {key: _short(value) for key, value in (found.absolute or {}).items()},
            "note": found.note,
        }
        for found in findings
    }
    return json.dumps({"machine": machine(), "findings": entries}, indent=1) + "\n"


def _short(value: float) -> float:
    return float(f"{value:.4g}")
