import json
import os
import pickle
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from cell_doubles import carry_out, told

from latecomer.errors import InputError
from latecomer.eval.devices import visible_gpus
from latecomer.eval.results.rows import read_rows
from latecomer.eval.runs.executor import ONE_THREAD, cores_here, worker_variables
from latecomer.eval.runs.job import is_done
from latecomer.eval.runs.local import LocalExecutor
from latecomer.eval.runs.lock import owner_of

HERE = Path(__file__).parents[1]


@pytest.mark.slow
def test_jobs_are_done_in_processes_and_reported(make_jobs, log):
    jobs = make_jobs("work", ("local", "fedavg", "pefll"))
    reports = carry_out(LocalExecutor(2), jobs)
    assert sorted(r.job for r in reports if r.kind == "start") == [0, 1, 2]
    assert sorted(r.job for r in reports if r.kind == "done") == [0, 1, 2]
    assert {r.round for r in reports if r.kind == "round"} >= {0}
    assert sorted(log.read_text().splitlines()) == ["fedavg 0", "local 0", "pefll 0"]
    folder = jobs[0].folder
    assert is_done(folder)
    files = ("config.json", "done", "progress.jsonl", "rows.csv", "timing.json")
    assert sorted(entry.name for entry in folder.iterdir()) == ["artifacts", *files]
    lines = [json.loads(line) for line in (folder / "progress.jsonl").read_text().splitlines()]
    assert [line["round"] for line in lines] == [0, 1, 2]
    assert [line.get("reason") for line in lines] == ["one by one", None, None]
    rows = read_rows(folder / "rows.csv")
    assert set(rows["cell"]) == set(rows["label"]) == {"local"}
    assert list(rows["client"]) == ["", "2", "9", "10"]


@pytest.mark.slow
def test_a_worker_starts_without_what_only_a_cell_needs():
    """Every run starts some, and each would take a second for it."""
    line = (
        "import sys, latecomer.eval.runs.local; print(*{'torch', 'scipy.stats'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


@pytest.mark.slow
def test_one_killed_process_costs_its_cell_one_retry(make_jobs):
    reports = carry_out(LocalExecutor(1), make_jobs("dies_once"))
    assert told(reports) == [
        *[("start", 0), ("retry", 0), ("start", 1)],
        *[("done", 1), ("start", 0), ("done", 0)],
    ]
    assert "killed by SIGKILL" in next(r.message for r in reports if r.kind == "retry")


@pytest.mark.nightly
def test_a_killed_cell_is_tried_again_when_no_other_needs_memory(make_jobs):
    names = ("local", "fedavg", "pefll", "pfedhn")
    reports = carry_out(LocalExecutor(2), make_jobs("dies_once", names))
    assert told(reports)[-2:] == [("start", 0), ("done", 0)]
    assert [kind for kind, _ in told(reports)].count("done") == 4


def test_memory_of_a_cell_limits_the_processes(monkeypatch):
    free = "latecomer.eval.runs.local._free_memory"
    monkeypatch.setattr(free, lambda wanted: 10.0)
    assert LocalExecutor(8).processes() == 8
    assert LocalExecutor(8, memory_per_cell=3).processes() == 3
    assert LocalExecutor(2, memory_per_cell=3).processes() == 2
    monkeypatch.undo()
    with pytest.raises(InputError, match=r"GiB that are free on this machine, got 1e[+]06"):
        LocalExecutor(8, memory_per_cell=1e6).processes()


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("double", "ended"),
    [
        ("local_always_dies", "killed by SIGKILL, twice; the machine may be short of memory"),
        ("local_always_crashes", "killed by SIGSEGV, twice"),
    ],
)
def test_a_cell_that_kills_twice_fails_and_the_others_go_on(make_jobs, log, double, ended):
    """Memory is blamed only for what it may have ended."""
    reports = carry_out(LocalExecutor(2), make_jobs(double))
    ends = {r.job: r for r in reports if r.kind in ("done", "failed")}
    assert (ends[0].kind, ends[1].kind) == ("failed", "done")
    assert ends[0].message == f"its process was {ended}"
    assert sorted(log.read_text().splitlines()) == ["fedavg 0", "local 0", "local 0"]


@pytest.mark.nightly
def test_a_cell_that_leaves_its_process_is_told_by_the_exit_code(make_jobs):
    reports = carry_out(LocalExecutor(1), make_jobs("local_always_leaves", ("local",)))
    assert reports[-1].message == "its process ended with exit code 3, twice"


@pytest.mark.slow
def test_an_error_is_one_line_and_no_retry(make_jobs, log):
    reports = carry_out(LocalExecutor(1), make_jobs("fedavg_fails"))
    failed = [r for r in reports if r.kind == "failed"]
    assert [r.message for r in failed] == ["ArithmeticError: loss is nan in round 3"]
    assert "Traceback" in failed[0].details
    assert sorted(log.read_text().splitlines()) == ["local 0"]


@pytest.mark.thinned
@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "free", "asked", "most", "seen"),
    [
        (("local",), 4, None, "", [4]),
        (("local",), 4, 3, "", [3]),
        (("local",), 2, 8, "", [2]),
        (("local",), 4, None, "2", [2]),
        (("local",), 4, None, "1", [1]),
        (("local", "fedavg"), 4, None, "all", [2, 2]),
    ],
)
def test_cores_go_to_cells_then_to_their_clients(
    make_jobs, monkeypatch, names, free, asked, most, seen
):
    monkeypatch.setattr("latecomer.eval.runs.local.cores_here", lambda: free)
    monkeypatch.setenv("OMP_NUM_THREADS", most)
    jobs = make_jobs("client_threads", names)
    carry_out(LocalExecutor(asked), jobs)
    assert [read_rows(job.folder / "rows.csv")["value"].item() for job in jobs] == seen
    assert LocalExecutor(asked, gpus=("0",)).threads(1) == 1


def test_a_job_of_slurm_has_the_cores_that_it_asked_for(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda process: range(8), raising=False)
    for value, cores in (("3", 3), ("64", 8), ("", 8), ("many", 8)):
        monkeypatch.setenv("SLURM_CPUS_PER_TASK", value)
        assert cores_here() == cores


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("gpus", "seen"), [(("3", "5"), [3.0, 3.0, 5.0]), ((), [-1.0, -1.0, -1.0])]
)
def test_cells_spread_over_the_gpus(make_jobs, monkeypatch, gpus, seen):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    jobs = make_jobs("gpu_seen", ("local", "fedavg", "pefll"))
    carry_out(LocalExecutor(3, gpus=gpus), jobs)
    found = sorted(read_rows(job.folder / "rows.csv")["value"].item() for job in jobs)
    assert found == seen
    assert "CUDA_VISIBLE_DEVICES" not in os.environ


def test_gpus_are_named_as_the_process_sees_them(monkeypatch):
    assert visible_gpus() == () or torch.cuda.is_available()
    monkeypatch.setattr("latecomer.eval.devices.lacking", lambda device: "")
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert visible_gpus() == ("0", "1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4, GPU-7")
    assert visible_gpus() == ("4", "GPU-7")


@pytest.mark.slow
def test_workers_have_one_thread_and_keep_freed_memory_unless_the_user_says_otherwise(
    make_jobs, monkeypatch
):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    monkeypatch.delenv("MALLOC_MMAP_THRESHOLD_", raising=False)
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "4096")
    jobs = make_jobs("variables", ("local",))
    carry_out(LocalExecutor(1), jobs)
    assert list(read_rows(jobs[0].folder / "rows.csv")["value"]) == [
        1.0,
        float(worker_variables(here=True)["MALLOC_MMAP_THRESHOLD_"]),
        4096,
    ]
    assert "MALLOC_MMAP_THRESHOLD_" not in os.environ
    assert os.environ["MALLOC_TRIM_THRESHOLD_"] == "4096"
    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert "MKL_NUM_THREADS" not in os.environ


@pytest.mark.parametrize(
    ("library", "mebibytes"),
    [("glibc 2.28", 32), ("glibc 2.34", 32), ("glibc 2.35", 128), ("NPTL", 32), (None, 32)],
)
def test_no_c_library_is_told_a_threshold_that_it_refuses(monkeypatch, library, mebibytes):
    monkeypatch.delenv("MALLOC_MMAP_THRESHOLD_", raising=False)
    monkeypatch.setattr(os, "confstr", lambda name: library)
    assert int(worker_variables(here=True)["MALLOC_MMAP_THRESHOLD_"]) == mebibytes * 2**20
    assert int(worker_variables()["MALLOC_MMAP_THRESHOLD_"]) == 32 * 2**20


def test_tunables_of_the_users_own_leave_memory_alone(monkeypatch):
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.trim_threshold=4096")
    assert worker_variables() == ONE_THREAD


@pytest.mark.slow
def test_leaving_early_ends_the_workers(make_jobs):
    children = Path(f"/proc/self/task/{os.getpid()}/children")

    class Enough(Exception):
        pass

    def stop(report):
        if report.kind == "round":
            raise Enough

    before = set(children.read_text().split())
    with pytest.raises(Enough):
        LocalExecutor(1).run(make_jobs("waits", ("local",)), stop)
    left = set(children.read_text().split()) - before
    commands = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in left]
    assert not [command for command in commands if b"spawn_main" in command]


@pytest.mark.slow
def test_a_worker_that_does_not_stop_in_time_leaves_no_lock(make_jobs, monkeypatch):
    monkeypatch.setattr("latecomer.eval.runs.local.GRACE_SECONDS", 0.3)
    jobs = make_jobs("deaf", ("local",))

    def stop(report):
        if report.kind == "round":
            assert owner_of(jobs[0].folder)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        LocalExecutor(1).run(jobs, stop)
    assert jobs[0].folder.exists()
    assert owner_of(jobs[0].folder) is None
    assert not is_done(jobs[0].folder)


@pytest.mark.slow
def test_workers_end_with_a_killed_parent(make_jobs, tmp_path):
    jobs = make_jobs("waits", ("local",))
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, pickle\n"
        "from latecomer.eval.runs.local import LocalExecutor\n"
        "if __name__ == '__main__':\n"
        f"    sys.path.insert(0, {str(HERE)!r})\n"
        f"    jobs = pickle.loads({pickle.dumps(jobs)!r})\n"
        "    LocalExecutor(1).run(jobs, lambda report: print(report.kind, flush=True))\n"
    )
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE) as parent:
        assert parent.stdout.readline() == b"start\n"
        assert parent.stdout.readline() == b"round\n"
        pids = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
        parent.kill()
    deadline = time.monotonic() + 10
    while any(alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert pids
    assert not [pid for pid in pids if alive(pid)]
    assert not is_done(jobs[0].folder)


def alive(pid):
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
