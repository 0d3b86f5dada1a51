"""Cells on a real Ray cluster: two nodes on the loopback address, one of which dies.

Ray is installed into an environment of its own, laid over the one that runs the tests.  The nodes
have loopback addresses of their own, as Ray takes 127.0.0.1 for the machine's outward address.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
import tomllib
import uuid
import venv
from pathlib import Path

import pytest
import yaml

from latecomer.eval.results.rows import read_rows
from latecomer.eval.runs.lock import parse_owner

HERE = Path(__file__).parents[1]
ROOT = HERE.parent.parent
HEAD, OTHER = "127.0.0.2", "127.0.0.3"
MARK = "LATECOMER_TEST_CLUSTER"
NODE = "LATECOMER_TEST_NODE"
STUDY = {
    "study": "tiny",
    "question": "Does it survive?",
    "data": {"name": "digits"},
    "split": {
        "kind": "by_class",
        "clients": 30,
        "classes_per_client": 2,
        "certify": 5,
        "novel": 12,
    },
    "methods": ["fedavg", "pefll"],
    "train": {"rounds": 150, "local_steps": 20},
    "certificates": [{"rule": "product"}],
}

pytestmark = [pytest.mark.cluster, pytest.mark.nightly]


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """An interpreter that has what this one has, and Ray."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, with_pip=True)
    layer = "".join(
        f"import site; site.addsitedir({path!r})\n"
        for path in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    )
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    (folder / "lib" / version / "site-packages" / "layer.pth").write_text(layer)
    found = folder / "bin" / "python"
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = extra["optional-dependencies"]["ray"]
    done = subprocess.run(
        [found, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode and "No matching distribution" in done.stderr:
        pytest.skip(f"{' '.join(wanted)} cannot be installed here: {done.stderr.strip()[-300:]}")
    assert done.returncode == 0, done.stderr
    return found


@pytest.fixture(scope="module")
def cluster(python):
    """The address of a cluster and its environment; its processes end whatever happens."""
    place = Path(tempfile.mkdtemp(prefix="lcray", dir="/tmp"))  # sockets want a short path
    mark = uuid.uuid4().hex
    env = {
        **os.environ,
        MARK: mark,
        "LATECOMER_TEST_LOG": str(place / "log"),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_worker_niceness": "0",
        "RAY_memory_monitor_refresh_ms": "0",
        "RAY_raylet_start_wait_time_s": "300",
        "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]).rstrip(":"),
    }
    with socket.create_server((HEAD, 0)) as free:
        address = f"{HEAD}:{free.getsockname()[1]}"
    sized = ["--num-cpus=1", "--object-store-memory=80000000", "--disable-usage-stats"]
    ray = [str(python), "-m", "ray.scripts.scripts", "start", *sized]
    head = ["--head", f"--port={address.partition(':')[2]}", f"--temp-dir={place}"]
    try:
        start([*ray, *head, f"--node-ip-address={HEAD}", "--include-dashboard=false"], env)
        start([*ray, f"--address={address}", f"--node-ip-address={OTHER}"], {**env, NODE: "2"})
        yield address, env
    finally:
        while left := marked(f"{MARK}={mark}"):
            for pid in left:
                kill(pid)
            time.sleep(0.1)
        shutil.rmtree(place, ignore_errors=True)


def start(command, env):
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def marked(setting, within=""):
    """Processes with a setting in their environment and a word in their command."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            settings = (entry / "environ").read_bytes().split(b"\0")
            command = (entry / "cmdline").read_bytes().decode(errors="replace")
            state = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
        except OSError:
            continue
        if setting.encode() in settings and within in command and state not in "ZX":
            found.append(int(entry.name))
    return found


def kill(pid):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def drive(python, cluster, *arguments):
    """Have cells of a double carried out and return the reports and what was said."""
    address, env = cluster
    done = subprocess.run(
        [python, HERE / "ray_driver.py", address, *arguments],
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    # Ray prints what it has to say between our lines, now and then on the same one.
    lines = [line[line.find('{"kind"') :] for line in done.stdout.splitlines() if '{"kind"' in line]
    return [json.JSONDecoder().raw_decode(line)[0] for line in lines], done


def told(reports):
    return [(r["kind"], r["job"]) for r in reports if r["kind"] not in ("round", "note")]


def test_cells_are_carried_out_with_one_thread(python, cluster, tmp_path):
    reports, done = drive(python, cluster, tmp_path / "run", "threads", "local", "fedavg")
    assert sorted(told(reports)) == [("done", 0), ("done", 1), ("start", 0), ("start", 1)], done
    for name in ("local", "fedavg"):
        assert list(read_rows(tmp_path / "run/cells" / name / "rows.csv")["value"]) == [1.0]
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["cells"]


def test_a_killed_worker_costs_its_cell_one_retry(python, cluster, tmp_path):
    reports, done = drive(python, cluster, tmp_path / "run", "local_always_dies", "local", "fedavg")
    assert [kind for kind, job in told(reports) if job == 0] == [
        "start",
        "retry",
        "start",
        "failed",
    ], done
    assert [kind for kind, job in told(reports) if job == 1] == ["start", "done"]
    assert "its Ray worker was lost: WorkerCrashedError" in next(
        r["message"] for r in reports if r["kind"] == "retry"
    )


def test_leaving_early_ends_the_tasks(python, cluster, tmp_path):
    reports, done = drive(python, cluster, tmp_path / "run", "waits", "local", "stop")
    assert "KeyboardInterrupt" in done.stderr
    assert told(reports) == [("start", 0)]
    folder = tmp_path / "run/cells/local"
    assert not (folder / "done").exists()
    # A task that was too slow to let go of its cell was killed: its lock is one of the dead.
    wait_until(lambda: all(parse_owner(lock.read_text()).is_dead for lock in locks_of(folder)))


def locks_of(folder):
    return list(folder.glob("lock.*"))


def wait_until(holds):
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_a_node_that_dies_mid_run_is_survived(python, cluster, tmp_path):
    address, env = cluster
    study = tmp_path / "tiny.yaml"
    study.write_text(yaml.safe_dump(STUDY))
    run = [python, "-m", "latecomer", "run", study]
    far = [*run, "--out", tmp_path / "far", "--executor", "ray", "--address", address]
    with subprocess.Popen(far, env=env, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        deadline = time.monotonic() + 300
        while len(in_training(tmp_path / "far")) < 2 and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        (raylet,) = marked(f"{NODE}=2", "raylet/raylet")
        kill(raylet)
        said = process.communicate(timeout=300)[0]
    assert process.returncode == 0, said
    assert f"3 to run on the Ray cluster at {address}" in said
    assert said.count("tried again: its Ray worker was lost: NodeDiedError") == 1
    assert "3/3 cells, 0 failed" in said

    here = subprocess.run(
        [*run, "--out", tmp_path / "here"], env=env, capture_output=True, text=True, check=False
    )
    assert here.returncode == 0, here.stderr
    assert (tmp_path / "far/rows.csv").read_bytes() == (tmp_path / "here/rows.csv").read_bytes()


def in_training(run):
    """Cells that are past their first rounds and not at their last."""
    found = []
    for path in run.glob("cells/*/progress.jsonl"):
        rounds = path.read_text().count('"round"')
        if 3 <= rounds < STUDY["train"]["rounds"] / 2:
            found.append(path.parent.name)
    return found
