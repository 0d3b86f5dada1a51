"""Cells as Slurm jobs: submitit's own processes, and commands that stand in for Slurm's."""

import os
import signal
import time
from pathlib import Path

import fake_slurm
import pytest
import submitit
from cell_doubles import carry_out, told

from latecomer.errors import InputError
from latecomer.eval.results.rows import read_rows
from latecomer.eval.runs import slurm as module
from latecomer.eval.runs.cell_directory import is_done
from latecomer.eval.runs.local import LocalExecutor
from latecomer.eval.runs.slurm import SlurmExecutor


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """A stand-in for Slurm that answers at once; the folder of its jobs."""
    folder = tmp_path / "slurm"
    place = fake_slurm.install(folder)
    monkeypatch.setenv("PATH", f"{place}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setitem(module._PACES, "slurm", module._Pace(0.1, 0.1, 0.5, 1.0))
    # What it remembers of the jobs of another test bears on jobs of the same numbers.
    watcher = type(submitit.SlurmJob.watcher)(delay_s=600)
    monkeypatch.setattr(submitit.SlurmJob, "watcher", watcher)
    return folder


@pytest.mark.slow
def test_submitits_own_processes_give_the_rows_of_the_local_executor(make_jobs, tmp_path):
    jobs = make_jobs("work")
    reports = carry_out(SlurmExecutor(cluster="local"), jobs)
    assert sorted(told(reports)) == [("done", 0), ("done", 1), ("start", 0), ("start", 1)]
    assert {r.round for r in reports if r.kind == "round"} <= {0, 1, 2}
    here = make_jobs("work", run="here")
    carry_out(LocalExecutor(1), here)
    for one, other in zip(jobs, here, strict=True):
        assert is_done(one.folder)
        assert (one.folder / "rows.csv").read_bytes() == (other.folder / "rows.csv").read_bytes()
    # Neither the board nor the files of jobs that ended well are left.
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["cells"]


@pytest.mark.nightly
def test_a_killed_job_costs_its_cell_one_retry(make_jobs, tmp_path):
    reports = carry_out(SlurmExecutor(cluster="local", workers=1), make_jobs("dies_once"))
    assert told(reports) == [
        *[("start", 0), ("retry", 0), ("start", 1)],
        *[("done", 1), ("start", 0), ("done", 0)],
    ]
    assert "left no result" in next(r.message for r in reports if r.kind == "retry")


@pytest.mark.nightly
def test_jobs_have_one_thread_though_the_study_has_more(make_jobs, slurm, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    for executor in (SlurmExecutor(cluster="local"), SlurmExecutor()):
        jobs = make_jobs("threads", ("local",), run=executor.cluster)
        carry_out(executor, jobs)
        assert list(read_rows(jobs[0].folder / "rows.csv")["value"]) == [1.0]
    assert os.environ["OMP_NUM_THREADS"] == "7"


@pytest.mark.nightly
def test_cpus_of_a_job_are_for_clients(make_jobs, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    jobs = make_jobs("client_threads", ("local",))
    carry_out(SlurmExecutor(cluster="local", cpus_per_cell=3), jobs)
    assert list(read_rows(jobs[0].folder / "rows.csv")["value"]) == [3.0]


@pytest.mark.slow
def test_sbatch_is_told_what_a_cell_needs(make_jobs, slurm):
    executor = SlurmExecutor(
        partition="gpu",
        account="theory",
        qos="low",
        constraint="a100",
        exclude="node7",
        time=90,
        cpus_per_cell=2,
        gpus_per_cell=1,
        memory_per_cell=3.5,
        setup="export LATECOMER_SETUP=ran",
    )
    reports = carry_out(executor, make_jobs("work", ("local",)))
    assert told(reports) == [("start", 0), ("done", 0)]
    lines = (slurm / "1.sh").read_text().splitlines()
    assert {
        "#SBATCH --partition=gpu",
        "#SBATCH --account=theory",
        "#SBATCH --qos=low",
        "#SBATCH --constraint=a100",
        "#SBATCH --exclude=node7",
        "#SBATCH --time=90",
        "#SBATCH --cpus-per-task=2",
        "#SBATCH --gpus-per-node=1",
        "#SBATCH --mem=3584MB",
        "export OMP_NUM_THREADS=1",
        "export LATECOMER_SETUP=ran",
    } <= set(lines)


@pytest.mark.nightly
def test_a_job_on_a_failed_node_is_submitted_once_more(make_jobs, slurm):
    for job in ("1", "2"):
        (slurm / f"{job}.state").write_text("NODE_FAIL")
    reports = carry_out(SlurmExecutor(workers=1), make_jobs("local_always_dies", ("local",)))
    assert told(reports) == [("start", 0), ("retry", 0), ("start", 0), ("failed", 0)]
    assert "job 1 left no result, its state is NODE_FAIL" in next(
        r.message for r in reports if r.kind == "retry"
    )
    assert list((slurm.parent / "run" / "slurm").glob("1_0_log.err"))


@pytest.mark.nightly
def test_a_preempted_job_that_is_not_requeued_is_submitted_once_more(make_jobs, slurm):
    (slurm / "1.state").write_text("PREEMPTED")
    reports = carry_out(SlurmExecutor(workers=1), make_jobs("dies_once", ("local",)))
    assert told(reports) == [("start", 0), ("retry", 0), ("start", 0), ("done", 0)]
    assert (slurm / "cancelled").read_text() == "1\n"


@pytest.mark.nightly
def test_the_signal_before_a_time_limit_costs_no_failure(make_jobs, slurm):
    def warn(report):
        reports.append(report)
        if report.kind == "start" and told(reports).count(("start", 0)) == 1:
            for job in Path("/proc").glob("[0-9]*/environ"):
                if job.stat().st_uid == os.getuid() and is_job(job, slurm):
                    os.kill(int(job.parent.name), signal.SIGUSR2)

    reports = []
    SlurmExecutor().run(make_jobs("waits_once", ("local",)), warn)
    assert told(reports) == [("start", 0), ("retry", 0), ("start", 0), ("done", 0)]


def is_job(environ, slurm):
    try:
        here = str(slurm).encode() in environ.read_bytes()
        return here and b"submitit.core._submit" in (environ.parent / "cmdline").read_bytes()
    except OSError:
        return False


def test_what_sbatch_refuses_is_one_line(make_jobs, slurm):
    (slurm / "full").touch()
    with pytest.raises(InputError, match=r"Slurm takes no job.*no more jobs for you"):
        carry_out(SlurmExecutor(), make_jobs("work"))


@pytest.mark.nightly
@pytest.mark.parametrize("cluster", ["local", "slurm"])
def test_leaving_early_ends_the_jobs(make_jobs, slurm, cluster):
    class Enough(Exception):
        pass

    def stop(report):
        if report.kind == "round":
            raise Enough

    with pytest.raises(Enough):
        SlurmExecutor(cluster=cluster).run(make_jobs("waits", ("local",)), stop)
    deadline = time.monotonic() + 10
    while (left := jobs_left(slurm)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left


def jobs_left(slurm):
    return [path for path in Path("/proc").glob("[0-9]*/environ") if is_job(path, slurm)]


def test_a_machine_without_slurm_is_told_so(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(InputError, match="needs Slurm's sbatch, which is not on this machine"):
        SlurmExecutor().check()
    SlurmExecutor(cluster="local").check()
