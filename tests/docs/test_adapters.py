"""The adapters that the page shows run as they stand: other frameworks' clients to certificates."""

import csv
import io
import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest

from latecomer import certify_losses
from latecomer.errors import InputError

ROOT = Path(__file__).resolve().parents[2]
ADAPTERS = ROOT / "docs" / "examples" / "adapters"
PAGE = (ROOT / "docs" / "pages" / "examples" / "adapters.md").read_text("utf-8")
NAMES = ("flower", "fl_bench", "pfllib", "scikit_learn", "plain_pytorch")
THIRTY = [0.06, 0.11, 0.0, 0.14, 0.09, 0.05, 0.2, 0.08, 0.12, 1 / 3] * 2 + [0.1 + 0.2] * 10

with_flower = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.skipif(
        find_spec("flwr") is None or find_spec("ray") is None,
        reason="flwr and its simulation are not installed (extra bench)",
    ),
]


def python(*program, folder, fed=""):
    # In a process of its own: Flower's simulation cannot be had otherwise, and with its older typer
    # the command line warns.
    path = os.pathsep.join([str(ADAPTERS), *sys.path])
    return subprocess.run(
        [sys.executable, *program],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path},
        input=fed,
        capture_output=True,
        text=True,
        timeout=600,
    )


def printed_by(*program, folder, fed=""):
    done = python(*program, folder=folder, fed=fed)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", NAMES)
def test_the_page_shows_at_most_ten_lines_of_it(name):
    assert f"<!-- file adapters/{name}.py:user -->" in PAGE
    text = (ADAPTERS / f"{name}.py").read_text("utf-8")
    (user,) = re.findall(r"# shown as user:\n(.*?)# end of user", text, re.DOTALL)
    assert 1 <= sum(bool(line.strip()) for line in user.splitlines()) <= 10


def test_there_are_no_others():
    assert sorted(path.stem for path in ADAPTERS.glob("*.py")) == sorted(NAMES)
    shown = {path.stem for path in ADAPTERS.glob("*.txt")}
    assert shown == {"flower", "scikit_learn", "plain_pytorch"}
    for name in shown:
        assert f"<!-- file adapters/{name}.txt -->" in PAGE


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["scikit_learn", "plain_pytorch", pytest.param("flower", marks=with_flower)]
)
def test_it_prints_what_is_shown(name, tmp_path, disagreement):
    printed = printed_by(str(ADAPTERS / f"{name}.py"), folder=tmp_path)
    shown = (ADAPTERS / f"{name}.txt").read_text("utf-8")
    assert disagreement(shown, printed, trained=True) == "", printed
    if name == "flower":
        assert f"{certify_losses(tmp_path / 'losses.csv', pool_size=20)}\n" == printed
        losses = pd.read_csv(tmp_path / "losses.csv")["loss"]
        # 30 clients share 1797 images, and none of these 10 had the worst loss for not answering.
        assert len(losses) == 10
        assert (losses < 0.5).all()


class Metrics:
    """Of the form of FL-bench's class: what `update` gathers, and two properties of it."""

    def __init__(self):
        self.pairs = []

    def update(self, other):
        self.pairs += other.pairs

    @property
    def corrects(self):
        return sum(told == true for told, true in self.pairs)

    @property
    def size(self):
        return len(self.pairs)


class BenchServer:
    """Of the form of FL-bench's server: clients by number, and a trainer that tests them."""

    train_clients, test_clients, testing = [0, 1, 2], [2, 3, 4], False

    def __init__(self):
        self.trainer, self.asked = self, []

    def test(self, clients, results):
        assert self.testing
        self.asked += clients
        for client in clients:
            answer = Metrics()
            answer.pairs = [(0, int(i < client)) for i in range(10)]
            results["before"]["test"].update(answer)
            answer.pairs = [(0, 0)] * 10
            results["after"]["test"].update(answer)


def test_fl_bench(example):
    held_out_losses = example("adapters/fl_bench.py").held_out_losses
    server = BenchServer()
    losses, pool = held_out_losses(server, Metrics, 30)
    assert pool == 2
    assert losses == {3: pytest.approx(0.3), 4: pytest.approx(0.4)}
    assert sorted(server.asked) == [3, 4]  # client 2 trained
    assert held_out_losses(BenchServer(), Metrics, 30, "after")[0] == {3: 0.0, 4: 0.0}
    some, pool = held_out_losses(BenchServer(), Metrics, 1)
    assert len(some) == 1
    assert certify_losses(some, pool_size=pool).pool_size == 2
    assert certify_losses(losses).n_clients == 2
    server.test_clients = server.train_clients
    with pytest.raises(InputError, match="holds no clients"):
        certify_losses(held_out_losses(server, Metrics, 30)[0])


class LibServer:
    """Of the form of PFLlib's server after training: sums a client, of new ones if there are."""

    def __init__(self, new):
        self.eval_new_clients = new

    def test_metrics(self):
        return [20, 21, 22], [40, 50, 60], [40.0, 45.0, 30.0], [39.0, 40.0, 41.0]


def test_pfllib(example):
    new_client_losses = example("adapters/pfllib.py").new_client_losses
    losses, pool = new_client_losses(LibServer(new=True), 30)
    assert pool == 3
    some, _ = new_client_losses(LibServer(new=True), 2)
    assert len(some) == 2
    assert some.items() <= losses.items()
    assert losses == pytest.approx({20: 0.0, 21: 0.1, 22: 0.5})
    assert certify_losses(losses).mean == pytest.approx(0.2)
    with pytest.raises(ValueError, match="every client trained"):
        new_client_losses(LibServer(new=False), 30)


def test_averages_are_no_losses_of_clients(tmp_path):
    # The columns of FL-bench's metrics.csv; PFLlib's .h5 has a number a round, too.
    averages = tmp_path / "metrics.csv"
    averages.write_text("epoch,accuracy_test_before,accuracy_test_after\n0,31.5,40.25\n1,44.0,51\n")
    done = python("-m", "latecomer", "certify", str(averages), folder=tmp_path)
    assert done.returncode == 2
    assert "no column 'client' among epoch, accuracy_test_before" in done.stderr


def through_every_door(folder):
    """Certify the thirty losses from a file, frames, Parquet and standard input."""
    frame = pd.DataFrame({"client": [f"c{i}" for i in range(30)], "loss": THIRTY})
    frame.to_csv(folder / "thirty.csv", index=False)
    sources = {"csv": folder / "thirty.csv", "frame": frame, "array": frame["loss"].to_numpy()}
    if find_spec("pyarrow") is not None:
        frame.to_parquet(folder / "thirty.parquet")
        sources["parquet"] = folder / "thirty.parquet"
    found = {name: certify_losses(source, seed=7).to_json() for name, source in sources.items()}
    text = json.dumps(frame.to_dict("records"))
    told = printed_by(
        "-m", "latecomer", "certify", "-", "--json", "--seed", "7", folder=folder, fed=text
    )
    return {**found, "stdin": told.rstrip("\n")}


@pytest.mark.slow
def test_thirty_losses_have_one_certificate(tmp_path):
    found = through_every_door(tmp_path)
    assert len(set(found.values())) == 1, found


ASKED = """
import json
import time

from flower import *

thirty, client, server = json.loads(THIRTY), ClientApp(), ServerApp()

@client.evaluate()
def evaluate(message, context):
    told = MetricRecord({"loss": thirty[context.node_config["partition-id"]]})
    return Message(RecordDict({"metrics": told}), reply_to=message)

@server.main()
def certify(grid, context):
    while len(nodes := list(grid.get_node_ids())) < 30:
        time.sleep(1)
    write(losses_of(grid, nodes, ArrayRecord([np.zeros(1)])), "losses.csv")
    print(certify_losses("losses.csv", seed=7).to_json())

run_simulation(server, client, num_supernodes=30)
"""


@pytest.mark.cluster
@pytest.mark.slow
@with_flower[2]
def test_thirty_losses_asked_by_flower_have_the_same_certificate(tmp_path):
    program = tmp_path / "asked.py"
    program.write_text(ASKED.replace("THIRTY", repr(json.dumps(THIRTY))))
    printed = printed_by(str(program), folder=tmp_path)
    told = [float(row["loss"]) for row in csv.DictReader(io.StringIO(
        (tmp_path / "losses.csv").read_text("utf-8")))]  # fmt: skip
    assert sorted(told) == sorted(THIRTY)
    assert {printed.rstrip("\n"), *through_every_door(tmp_path).values()} == {printed.rstrip("\n")}
