"""Print what the package gives, one hash a line: a change that should change nothing is seen to.

    python tests/witness.py > before.txt     # about four minutes of one core
    python tests/witness.py > after.txt && diff before.txt after.txt

What is hashed: rows, artifacts, page, figures, tables and cards of ``quickstart`` and of a study
with every route, in few rounds; pages of kept runs; certificates issued anew; what the terminal
prints of tables of losses, as text, as JSON and as a page; every command's help; every calculator's
help and golden values; the ids of the cells of all studies.  Names of parts pick some, as in
``python tests/witness.py losses cells``.  Everything goes through the front door and the command
line, so modules may move.  Two machines need not agree in the last bits of what is trained.
"""

import contextlib
import hashlib
import importlib.util
import io
import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import yaml

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "reports" / "reference"
REPORTED = ("certificates-cifar10", "population-shift-digits", "odpfl-figure3b-500-rounds")
# Pixels and PDFs hang on the fonts of a machine and on dates; these hang on clocks.
PASSING = {".pdf", ".png", ".lock"}
CLOCKED = {"timing.json", "progress.jsonl", "env.json", "finished.json"}

TIME = rb"\d+ h \d+ m\b|\d+ m(in)? \d+ s\b|\d+(\.\d+)? (min|s)\b|\d{4}-\d\d-\d\dT[\d:+.]+"

OF_ALL = {"first": 24, "clients": 12}
OF_PEFLL = {**OF_ALL, "methods": ["pefll"]}  # FedAvg has no encoder
ROUTES = {
    "study": "routes",
    "data": {"name": "digits"},
    "split": {
        **{"kind": "environment", "clients": 40, "certify": 12, "novel": 4},
        **{"held_out": 0.4, "classes_per_client": 2},
    },
    "methods": [
        {"name": "pefll", "local_lr": 0.05, "posterior": "gaussian"},
        {"name": "fedavg", "local_lr": 0.02},
    ],
    "train": {"rounds": 3, "cohort": 5, "local_steps": 5, "batch_size": 16},
    "evaluation": {"classes": "all", "given_up": True, "measures": ["descriptors"]},
    "shifts": {"blur": [0.5, 1.0], "extrapolation": [0.5]},
    "bounds": ["pefll_32", "pfedhn_eps", "ben_david"],
    "certificates": [
        {"route": "r0", "rule": "product", "shifts": ["blur"]},
        {"route": "r0", "rule": "conformal"},
        {"route": "r0", "best_of": ["product", "wsr_averaged"]},
        {"route": "r0", "rule": "fraction_above", "thresholds": [0.2, 0.5]},
        {"route": "r0", "rule": "error_curve"},
        {"route": "r0", "rule": "kl_ball", "radii": [0.05, 0.1], "target": 0.9},
        {"route": "r0", "rule": "subgroup", "shares": [0.5]},
        {"route": "r2", "draws": 5},
        {"route": "r3", "draws": 5, "measured": 4},
        {"route": "r1", "weights": ["encoder"], "steps": 3, "draws": 20, **OF_PEFLL},
        {"route": "r4", **OF_ALL, "block": 4, "rounds_per_block": 1},
        {"route": "r5", "weights": ["encoder"], "tries": 4, **OF_PEFLL},
    ],
    "seeds": [0],
}

TABLES: dict[str, list[float]] = {
    "five": [0.10, 0.05, 0.22, 0.0, 0.13],
    "equal": [0.1] * 30,
    "binary": [float(i % 4 == 0) for i in range(40)],
    "spread": [round(float(x), 4) for x in np.random.default_rng(1).beta(2, 6, 60)],
    "hopeless": [round(float(x), 4) for x in np.random.default_rng(2).beta(1, 9, 57)] + [1.0] * 3,
    "zeros": [0.0] * 20,
    "ones": [1.0] * 12,
    "one": [0.3],
    "large": [round(float(x), 3) for x in np.random.default_rng(3).uniform(0, 10, 25)],
    "many": [round(float(x), 4) for x in np.random.default_rng(4).beta(2, 20, 300)],
    "outside": [0.1, 1.4, 0.2],
    "none": [],
}
PLAIN = (
    *("", "--delta 0.01 --alpha 0.2", "--rule conformal", "--independent", "--pool-size 400"),
    "--joint --above 0.2 --curve --independent",
)
RULES = (
    *("chernoff_kl", "betting_mixture", "product_mixture", "blend", "emp_bernstein"),
    *("wsr_averaged", "product_wor_averaged --pool-size 80"),
    *("betting_wor_averaged --pool-size 80", "best_of --best-of product,chernoff_kl"),
    *("wsr", "product_wor --pool-size 80", "nothing", "best_of"),
    *(f"{rule} --pool-size 80 --order at" for rule in ("product_wor", "wsr_wor", "betting_wor")),
    "wsr --order at",
)
FURTHER = (
    *("--shift kl=0.05,0.1", "--shift chi2=0.1 --shift tv=0.05", "--subgroup 0.2,0.5"),
    *("--target 0.5", "--above 0.2,0.4", "--curve", "--by site", "--against other.csv"),
    *("--target 0.5 --rule wsr_averaged", "--above 0.2 --curve --by site --pool-size 80"),
    "--shift kl=0.1 --subgroup 0.5 --target 0.5 --above 0.2 --by site --against other.csv --joint",
    "--shift kl=0.1 --rule product_mixture",
    *("--shift kl=-1", "--above 2", "--by nothing", "--against nothing.csv", "--pool-size 3"),
)
OTHERS = (
    "certify --log-sum 3.2 --clients 40 --gamma 0.9",
    "certify --log-sum 3.2 --clients 40",
    "certify nothing.csv",
    "certify",
    "plan --target .25 --expect .17 --sd .09",
    "plan --target .25 --expect .17 --sd .09 --rule chernoff_kl --delta .1 --clients 90",
    "plan --target .3 --pilot spread.csv --rule betting_mixture --seed 3",
    "plan --target .1 --expect .17 --sd .09",
    "plan --target .25",
    "watch spread.csv --once",
    "watch spread.csv --once --rule product --delta .1",
    "watch hopeless.csv --once --rule betting_mixture --threshold .2 --alpha .1 --run-length 50",
    "watch hopeless.csv --once --rule product",
    "watch five.csv --once --rule nothing",
    "watch five.csv --once --plan plan.yaml --delta .1",
    "verify nothing.ledger",
)


def main(asked: list[str]) -> None:
    """Print the lines of all parts, or of those that are asked for."""
    unknown = set(asked) - set(PARTS)
    if unknown:
        raise SystemExit(f"parts are {', '.join(PARTS)}, got {', '.join(sorted(unknown))}")
    os.environ |= {"COLUMNS": "100", "LATECOMER_DATA": "nowhere", "NO_COLOR": "1"}
    with tempfile.TemporaryDirectory() as folder:
        for part in asked or PARTS:
            here = Path(folder) / part
            here.mkdir()
            with contextlib.chdir(here):
                for name, data in PARTS[part](here):
                    print(f"{hashlib.sha256(data).hexdigest()[:16]}  {part}  {name}", flush=True)


def command(line: str, stdin: str = "") -> bytes:
    """Return what a command prints, on both streams, and its exit code."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    code = 0
    kept, sys.argv = sys.argv, ["latecomer", *shlex.split(line)]
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin.encode()), "utf-8")
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            runpy.run_module("latecomer", run_name="__main__")
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    finally:
        sys.argv, sys.stdin = kept, sys.__stdin__
    printed, complained = (stream.buffer.getvalue() for stream in (out, err))  # type: ignore[attr-defined]
    return b"%d\n%b\n%b" % (code, printed, complained)


def files_of(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a run that depend on nothing but the study and the code."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix not in PASSING and path.name not in CLOCKED:
            yield str(path.relative_to(folder)), path.read_bytes()


def quickstart(here: Path) -> Iterator[tuple[str, bytes]]:
    """Yield two methods and one seed of the quickstart, three rounds."""
    pefll = "{name: pefll, local_lr: 0.05, posterior: gaussian, label: pefll-stochastic}"
    methods = f"methods=[{{name: fedavg, local_lr: 0.02}}, {pefll}]"
    yield from study_run(here, "quickstart", "train.rounds=3", "seeds=[0]", methods)


def routes(here: Path) -> Iterator[tuple[str, bytes]]:
    """Yield a study in which every route issues certificates."""
    Path("routes.yaml").write_text(yaml.safe_dump(ROUTES))
    yield from study_run(here, "routes.yaml")


def study_run(here: Path, *what: str) -> Iterator[tuple[str, bytes]]:
    """Run a study in a process of its own; yield its files and what the terminal says of it."""
    line = [sys.executable, "-m", "latecomer", "run", *what, "--workers", "1", "--out", "run"]
    done = subprocess.run(line, capture_output=True, check=False)
    text = b"%d\n%b\n%b" % (done.returncode, done.stdout, done.stderr)
    yield "terminal", re.sub(TIME, b"", text)
    for name, data in files_of(here / "run"):
        yield name, re.sub(TIME, b"", data) if name == "report.html" else data


def kept(here: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the reports of kept runs, and one whose certificates are issued anew."""
    for name in REPORTED:
        shutil.copytree(KEPT / name, here / name)
        yield f"report {name}", command(f"report {name}")
        yield from ((f"{name}/{file}", data) for file, data in files_of(here / name))
    entries = [{"route": "r0", "rule": "product", "folds": 5}, {"route": "r0", "rule": "wsr_wor"}]
    Path("entries.yaml").write_text(yaml.safe_dump({"certificates": entries}))
    text = command("recertify certificates-cifar10 --certificates entries.yaml --out anew")
    yield "recertify", text
    yield from ((f"anew/{file}", data) for file, data in files_of(here / "anew"))


def losses(here: Path) -> Iterator[tuple[str, bytes]]:
    """Yield what the commands for tables of losses print of a dozen tables."""
    for name, values in TABLES.items():
        write_table(Path(f"{name}.csv"), values)
    write_table(Path("other.csv"), [value / 2 for value in TABLES["spread"]])
    records = [{"client": f"c{i}", "loss": value} for i, value in enumerate(TABLES["five"])]
    Path("five.json").write_text(json.dumps(records))
    plan = {"rule": "product", "delta": 0.1, "threshold": 0.3}
    Path("plan.yaml").write_text(yaml.safe_dump(plan))
    asked = [f"{name}.csv {how}" for name in TABLES for how in PLAIN]
    asked += [f"{name}.csv --rule {rule}" for name in ("spread", "binary") for rule in RULES]
    asked += [f"spread.csv {how}" for how in FURTHER]
    asked += ["large.csv --loss-max 10 --curve --above 2", "five.json", "-"]
    for how in asked:
        once = f"certify {how} --seed 7"
        yield once, command(once, Path("five.csv").read_text())
        yield f"{once} --json", command(f"{once} --json", Path("five.csv").read_text())
    for number, how in enumerate(("", *FURTHER)):
        once = f"certify spread.csv {how} --seed 7 --report page{number}.html"
        yield once, command(once)
        page = Path(f"page{number}.html")
        yield f"page of {once}", page.read_bytes() if page.exists() else b""
    for line in OTHERS:
        yield line, command(line)
        yield f"{line} --json", command(f"{line} --json")
    # A ledger holds times and a nonce; what is said of one is hashed without them.
    for line in ("watch five.csv --once --plan plan.yaml", "verify five.csv.ledger"):
        yield line, re.sub(rb"[0-9a-f]{8,64}|\d{4}-\d\d-\S+( \S+)?", b"", command(line))


def write_table(path: Path, values: list[float]) -> None:
    """Write a table with two sites and an order in which the clients were drawn."""
    order = np.random.default_rng(len(values)).permutation(len(values)) + 1
    lines = [f"c{i},{value},{'xy'[i % 2]},{order[i]}" for i, value in enumerate(values)]
    path.write_text("\n".join(["client,loss,site,at", *lines, ""]))


def helps(here: Path) -> Iterator[tuple[str, bytes]]:
    """Yield every command's help and the lists of what there is."""
    top = command("--help")
    yield "--help", top
    for name in re.findall(rb"^  ([a-z]+) {2,}", top.partition(b"Commands:")[2], re.MULTILINE):
        yield f"{name.decode()} --help", command(f"{name.decode()} --help")
    for line in ("data fetch --help", "data verify --help"):
        yield line, command(line)
    for line in ("studies", "methods", "bounds", "rules", "shifts", "datasets"):
        yield line, command(line)
        yield f"{line} --json", command(f"{line} --json")


def bounds(here: Path) -> Iterator[tuple[str, bytes]]:
    """Yield what ``bound`` says of every calculator, and all golden values to the last digit."""
    for entry in json.loads(command("bounds --json").partition(b"\n")[2]):
        yield entry["name"], command(f"bound {entry['name']}")
    yield "a value", command("bound maurer empirical_risk=.05 kl=100 n_samples=5000 delta=.05")
    spec = importlib.util.spec_from_file_location("adapter", ROOT / "tests/golden/adapter.py")
    assert spec is not None
    assert spec.loader is not None
    adapter = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(adapter)
    for path in sorted((ROOT / "tests" / "golden").glob("vectors*.json")):
        for vector in json.loads(path.read_text())["vectors"]:
            where = vector.get("vary")
            inputs = [{where: value} for value in vector["values"]] if where else [{}]
            for number, more in enumerate(inputs if vector["kind"] == "value" or where else ()):
                try:
                    value = adapter.evaluate(vector["bound"], vector.get("inputs", {}) | more)
                except ValueError as error:
                    value = error
                yield f"{path.stem} {vector['id']} {number}", repr(value).encode()


def cells(here: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the ids of the cells of every shipped study, with every variant and at every scale."""
    import latecomer

    for entry in json.loads(command("studies --json").partition(b"\n")[2]):
        for variant in (None, *entry["variants"]):
            for scale in (None, *entry["scales"]):
                chosen = [variant] if variant else []
                try:
                    study = latecomer.load_study(entry["name"], variants=chosen, scale=scale)
                    ids = " ".join(cell.id for cell in study.cells("witness"))
                except (ValueError, OSError) as error:
                    ids = str(error)
                yield f"{entry['name']} {variant} {scale}", ids.encode()


PARTS: dict[str, Callable[[Path], Iterator[tuple[str, bytes]]]] = {
    "helps": helps,
    "bounds": bounds,
    "losses": losses,
    "cells": cells,
    "quickstart": quickstart,
    "routes": routes,
    "kept": kept,
}

if __name__ == "__main__":
    main(sys.argv[1:])
