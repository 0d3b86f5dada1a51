"""Two sizes of install: what certifies losses, small and at once, and what trains.

The environments are made from the wheel, with pip, and need an index of packages.
"""

import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time
import tomllib
import zipfile
from importlib.metadata import requires
from pathlib import Path

import pytest

from latecomer.extras import TRAIN

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
CALLED = {"scikit-learn": "sklearn", "pillow": "PIL"}
# What no certificate may need. Typer 0.29 brings pydantic for itself; older ones do not.
ABSENT = (*TRAIN, "pydantic_core")
TYPERS_OWN = {re.match(r"[\w-]+", one)[0] for one in requires("typer") or ()}
MOST_BYTES = 300_000_000
MOST_SECONDS = 60
LOSSES = "client,loss,site\n" + "".join(f"c{i},0.{i % 5 + 1},{'ab'[i % 2]}\n" for i in range(30))
NEEDS_TRAIN = 'need pip install "latecomer[train]"\n'
# Commands that end with the line that says what to install.
TRAINING = (
    *("run quickstart", "report x", "figures x", "compare x y", "datasets mnist"),
    "recertify x --certificates y",
)
# Commands that an install without extras carries out.
CERTIFYING = (
    "certify losses.csv --target .4 --above .2 --curve --by site --against losses.csv",
    "certify losses.csv --report page.html --shift kl=.1 --by site",
    "watch losses.csv --once --plan plan.yaml",
    "verify losses.csv.ledger",
    "plan --target .5 --pilot losses.csv",
    "bound maurer empirical_risk=.05 kl=100 n_samples=5000 delta=.05",
    *("bounds", "studies", "datasets", "--help"),
)


def names(requirements):
    return {re.match(r"[\w-]+", one)[0] for one in requirements}


def test_modules_of_the_extra_are_those_that_are_listed():
    extra = PROJECT["optional-dependencies"]["train"]
    assert {CALLED.get(name, name) for name in names(extra)} == set(TRAIN)
    assert not names(PROJECT["dependencies"]) & names(extra)


def test_all_is_every_extra_for_users():
    extras = PROJECT["optional-dependencies"]
    (everything,) = extras["all"]
    # bench pins an older Ray; test and docs are for those who work on the package.
    named = set(re.search(r"\[(.*)\]", everything)[1].split(","))
    assert named == set(extras) - {"all", "test", "docs", "bench"}


BARE = """
import sys
from importlib.machinery import PathFinder
whole_search = PathFinder.find_spec
absent = set(sys.argv.pop(1).split(","))
def find_spec(name, path=None, target=None):
    return None if name.partition(".")[0] in absent else whole_search(name, path, target)
PathFinder.find_spec = find_spec
"""


def without(modules, code, folder):
    """Run code in a Python that has everything but some modules."""
    command = [sys.executable, "-c", BARE + code, ",".join(modules)]
    # Where the data root is told, nobody is asked for the user's cache.
    known = {name: value for name, value in os.environ.items() if name != "LATECOMER_DATA"}
    return subprocess.run(
        command, cwd=folder, env=known, check=False, capture_output=True, text=True
    )


def files_in(folder):
    (folder / "losses.csv").write_text(LOSSES)
    (folder / "plan.yaml").write_text("delta: 0.1\n")


COMMANDS = """
import json, shlex
from typer.testing import CliRunner
from latecomer.commands.app import app
done = [CliRunner().invoke(app, shlex.split(one)) for one in {commands!r}]
print(json.dumps([[one.exit_code, one.stdout, one.stderr] for one in done]))
"""


@pytest.mark.slow
def test_without_the_extra_losses_are_certified_and_the_rest_says_what_to_type(tmp_path):
    files_in(tmp_path)
    code = COMMANDS.format(commands=[*CERTIFYING, *TRAINING])
    absent = [name for name in ABSENT if name.partition("_")[0] not in TYPERS_OWN]
    done = without(absent, code, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    outcomes = json.loads(done.stdout)
    for command, (code, _, errors) in zip(CERTIFYING, outcomes, strict=False):
        assert (code, errors) == (0, ""), command
    for command, outcome in zip(TRAINING, outcomes[len(CERTIFYING) :], strict=True):
        code, printed, errors = outcome
        assert (code, printed, errors.count("\n")) == (2, "", 1), command
        assert errors.startswith("latecomer: "), command
        assert errors.endswith(NEEDS_TRAIN), command
    left = {"losses.csv", "plan.yaml", "losses.csv.ledger", "page.html"}
    assert {one.name for one in tmp_path.iterdir()} == left


CERTIFY_ALL = """
import latecomer, sys
losses = [{"client": str(i), "loss": 0.1, "site": "ab"[i % 2]} for i in range(30)]
__import__("json").dump(losses, open("losses.json", "w"))
asked = dict(shifts={"kl": [0.1]}, target=0.5, above=[0.2], curve=True, by="site")
certified = latecomer.certify_losses("losses.json", against="losses.json", **asked)
certified.report("page.html"), str(certified), certified.to_json(), certified._repr_html_()
print(latecomer.certify_losses([0.1] * 30, seed=1).sentence)
print(latecomer.watch_losses([0.1] * 30).sentence)
clients = {i: (([0], [0]), ([0], [0])) for i in range(30)}
print(latecomer.certify_predictor(lambda support, x: x, clients, seed=1).sentence)
print([name for name in {absent!r} if name in sys.modules])
"""


@pytest.mark.slow
def test_a_sentence_of_a_certificate_needs_no_pydantic_pandas_or_torch(tmp_path):
    done = without(ABSENT, CERTIFY_ALL.replace("{absent!r}", repr(ABSENT)), tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    *sentences, loaded = done.stdout.splitlines()
    assert loaded == "[]"
    assert [one[:30] for one in sentences] == ["With probability at least 95% "] * 3
    # And nothing loads them where they are installed.
    code = CERTIFY_ALL.replace("{absent!r}", repr(ABSENT))
    assert without((), code, tmp_path).stdout == done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("module", ["torch", "matplotlib"])
def test_a_run_without_one_module_does_not_begin(module, tmp_path):
    done = without([module], COMMANDS.format(commands=["run quickstart"]), tmp_path)
    ((code, printed, errors),) = json.loads(done.stdout)
    assert (code, printed) == (2, "")
    assert errors.startswith(f"latecomer: {module} is not installed; ")
    assert errors.endswith(NEEDS_TRAIN)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    "line",
    [
        *("from latecomer import run", "from latecomer.reports import report"),
        *("from latecomer.eval import run", "from latecomer.models import train"),
        "import latecomer.models.engine.training",
    ],
)
def test_an_import_says_what_to_type(line, tmp_path):
    code = f"try:\n    {line}\nexcept ImportError as error:\n    print(error)\n"
    assert without(["torch", "pandas"], code, tmp_path).stdout.endswith(NEEDS_TRAIN)


def test_a_module_that_is_broken_is_not_called_absent(tmp_path):
    (tmp_path / "ijson.py").write_text("import no_such_module")
    code = "from latecomer.extras import advice\ntry:\n    import ijson\n"
    code += "except ImportError as error:\n    print(repr(advice(error)))\n"
    assert without([], "sys.path.insert(0, '')\n" + code, tmp_path).stdout == "''\n"


def test_tables_need_pandas_and_notebooks_do_not(tmp_path):
    code = (
        "import latecomer\n"
        "found = latecomer.certify_losses({str(i): 0.1 for i in range(30)})\n"
        "print(found._repr_html_().count('<tr>'))\n"
        "try:\n    found.table()\nexcept ImportError as error:\n    print(error)\n"
    )
    said = "a table needs pandas, which is not installed: pip install pandas"
    assert without(["pandas"], code, tmp_path).stdout == f"3\n{said}\n"


def interpreters():
    """Yield this Python, and 3.13 where the machine has it."""
    yield f"{sys.version_info.major}.{sys.version_info.minor}", sys.executable
    if sys.version_info[:2] == (3, 13):
        return
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    for place in (shutil.which("python3.13"), *pyenv.glob("versions/3.13*/bin/python")):
        if place and not subprocess.run([place, "-V"], capture_output=True, check=False).returncode:
            yield "3.13", str(place)
            return


def bytes_on_disk(folder):
    """Count what the file system gives away, as du does."""
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*"))


def processor_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.nightly
@pytest.mark.parametrize("python", [pytest.param(p, id=v) for v, p in interpreters()])
def test_a_first_certificate_from_a_bare_python(python, built, tmp_path, capsys, monkeypatch):
    for name in ("PYTHONPATH", "VIRTUAL_ENV"):
        monkeypatch.delenv(name, raising=False)
    files_in(tmp_path)
    environment = tmp_path / "environment"
    (wheel,) = built.glob("*.whl")

    def do(*command, code=0):
        done = subprocess.run(
            command, cwd=tmp_path, check=False, capture_output=True, text=True, timeout=600
        )
        assert done.returncode == code, done.stderr
        return done

    began, used = time.monotonic(), processor_seconds()
    do(python, "-m", "venv", str(environment))
    inside = str(environment / "bin" / "python")
    do(inside, "-m", "pip", "install", "--quiet", "--no-cache-dir", str(wheel))
    latecomer = str(environment / "bin" / "latecomer")
    first = do(latecomer, "certify", "losses.csv").stdout
    seconds, worked = time.monotonic() - began, processor_seconds() - used
    size = bytes_on_disk(environment)
    with capsys.disabled():
        print(
            f"\n{do(inside, '-V').stdout.strip()}, core: {size / 1e6:.0f} MB with pip (limit"
            f" {MOST_BYTES / 1e6:.0f}); first certificate after {seconds:.0f} s (aim"
            f" {MOST_SECONDS}), {worked:.0f} s of processor time"
        )
    assert size < MOST_BYTES
    assert first.startswith("30 clients, mean loss 0.3")

    absent = do(inside, "-c", "import torch", code=1)
    assert "No module named 'torch'" in absent.stderr
    for command in CERTIFYING[:5]:
        do(latecomer, *command.split())
    assert "Made by latecomer from" in (tmp_path / "page.html").read_text("utf-8")
    refused = do(latecomer, "run", "quickstart", code=2)
    assert (refused.stdout, refused.stderr[-len(NEEDS_TRAIN) :]) == ("", NEEDS_TRAIN)


@pytest.mark.nightly
def test_the_extra_brings_all_that_a_run_needs(built, tmp_path, monkeypatch):
    """This environment is that of ``.[train]``; the wheel asks for no more, and runs in it."""
    (wheel,) = built.glob("*.whl")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index"]
    asked = f"latecomer[train] @ {wheel.as_uri()}"
    subprocess.run([*pip, "--dry-run", asked], check=True)
    site = ["--no-deps", "--target", str(tmp_path / "site")]
    subprocess.run([*pip, *site, str(wheel)], check=True)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    small = ("methods=[fedavg]", "seeds=[0]", "train.rounds=2", "shifts={}", "certificates=[]")
    command = [sys.executable, "-m", "latecomer", "run", "quickstart", *small, "--out", "out"]
    done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    where = "import latecomer.eval.runs.runner as r; print(r.__file__)"
    found = subprocess.run([sys.executable, "-c", where], cwd=tmp_path, capture_output=True)
    assert found.stdout.decode().startswith(str(tmp_path / "site"))
    assert (tmp_path / "out" / "report.html").is_file()


@pytest.mark.slow
def test_the_sdist_makes_the_same_wheel(built, tmp_path):
    (sdist,), (wheel,) = built.glob("*.tar.gz"), built.glob("*.whl")
    make = ["wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run(
        [sys.executable, "-m", "pip", *make, "--wheel-dir", str(tmp_path), str(sdist)], check=True
    )
    (other,) = tmp_path.glob("*.whl")
    one, two = (zipfile.ZipFile(path) for path in (wheel, other))
    with one, two:
        assert {(i.filename, i.CRC) for i in one.infolist()} == {
            (i.filename, i.CRC) for i in two.infolist()
        }
