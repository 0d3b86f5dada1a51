"""What the benchmarks share: contests, and the table of ratios at the end."""

from collections.abc import Callable, Mapping
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import contest
import pytest
import torch
from contest import Finding, Turns
from populations import SMALL, lenet_task

from latecomer.models.task.task import Task

RATIOS = pytest.StashKey[list[Finding]]()
WRITTEN = Path("build") / ("ratios-small.json" if SMALL else "ratios.json")


@pytest.fixture
def judge(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Enter findings in the table and in the benchmark's record, and hold them to their bounds."""
    known = contest.bounds()

    def enter(*findings: Finding) -> None:
        request.config.stash.setdefault(RATIOS, []).extend(findings)
        extra = request.getfixturevalue("benchmark").extra_info
        extra |= {found.name: found.ratio for found in findings}
        strangers = [found.name for found in findings if found.name not in known]
        assert not strangers, f"{contest.BASELINE.name} has no entry for {strangers}"
        if SMALL:
            return
        missed = [
            f"{found.name} is {found.ratio:.3f}, must be {known[found.name]}"
            for found in findings
            if not known[found.name].holds(found.ratio)
        ]
        assert not missed, "; ".join(missed)

    return enter


@pytest.fixture
def take_turns(benchmark: Any) -> Callable[..., dict[str, Turns]]:
    """Let contestants work in turns; pytest-benchmark keeps the times of the first."""

    def run(contestants: Mapping[str, Callable[[], Any]], *, repeats: int) -> dict[str, Turns]:
        wall: dict[str, list[float]] = {name: [] for name in contestants}
        cpu: dict[str, list[float]] = {name: [] for name in contestants}

        def work(name: str) -> None:
            started = perf_counter(), process_time()
            contestants[name]()
            wall[name].append(perf_counter() - started[0])
            cpu[name].append(process_time() - started[1])

        first, *others = contestants

        def rivals() -> None:
            # pytest-benchmark does not time what setup does.
            for name in others:
                work(name)

        with contest.one_processor():
            benchmark.pedantic(work, args=(first,), setup=rivals, rounds=repeats, warmup_rounds=1)
        return {name: Turns(tuple(wall[name][1:]), tuple(cpu[name][1:])) for name in contestants}

    return run


@pytest.fixture(scope="session")
def task() -> Task:
    return lenet_task()


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    """One thread a process, as cells are trained."""
    torch.set_num_threads(1)


def pytest_benchmark_update_machine_info(
    config: pytest.Config, machine_info: dict[str, Any]
) -> None:
    """Leave the machine's name out of what may be published."""
    machine_info.pop("node", None)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the ratios beside the committed ones, and write them down."""
    found = config.stash.get(RATIOS, [])
    if not found:
        return
    known = {} if SMALL else contest.bounds()
    terminalreporter.section("ratios within this run")
    for line in contest.table(found, known):
        terminalreporter.write_line(line)
    WRITTEN.parent.mkdir(exist_ok=True)
    WRITTEN.write_text(contest.record(found, known), "utf-8")
    terminalreporter.write_line(f"written to {WRITTEN}")
