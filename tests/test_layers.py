"""The walls between the layers and the floors within them, read from the imports themselves."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ("bounds", "certify", "models", "eval", "reports")
MAY_IMPORT = {
    "bounds": ("latecomer.bounds",),
    "certify": ("latecomer.bounds", "latecomer.certify"),
    "models": ("latecomer.bounds", "latecomer.models"),
    "eval": ("latecomer.bounds", "latecomer.certify", "latecomer.models", "latecomer.eval"),
    "reports": (
        *("latecomer.certify", "latecomer.eval.results.rows", "latecomer.eval.names"),
        "latecomer.reports",
    ),
}
# The ground that every layer stands on: how mistakes are told, files written, text read.
OPEN = (
    *("latecomer.extras", "latecomer.errors", "latecomer.files", "latecomer.declared"),
    *("latecomer.checks", "latecomer.reading"),
)
# From the ground up. A wing (a folder, or a module that lies beside the folders) imports from
# floors below its own alone; wings that share a floor do not know each other.
FLOORS = {
    "bounds": (
        ("certificate",),
        ("checks",),
        ("binary_kl", "privacy", "training"),
        ("unit_scale",),
        ("held_out", "one_data_set", "meta_learning", "unseen_clients", "uniform_convergence"),
        ("shift", "next_client"),
    ),
    "certify": (
        ("arguments", "rules", "table_rows", "words"),
        ("rule", "table"),
        ("planned", "points", "sample", "sentences", "watching"),
        ("ledger", "populations", "predicted_sets", "statements"),
        ("further_statements", "predictor", "watched"),
        ("together",),
        ("topics",),
        ("lines",),
        ("page",),
        ("losses",),
        ("predicted",),
    ),
    "models": (
        ("task",),
        ("engine",),
        ("generators", "posteriors", "outside", "class_literals"),
        ("families", "traffic"),
        ("methods",),
    ),
    "eval": (
        ("schema",),
        ("devices", "results", "datasets"),
        ("splits",),
        ("shifts",),
        ("settings",),
        ("federation", "denoising"),
        ("scoring",),
        ("training",),
        ("routes", "measures"),
        ("studies", "protocol", "names"),
        ("runs",),
    ),
    "reports": (
        ("words",),
        ("frames",),
        ("display", "two_runs"),
        ("accuracy", "clients", "guarantees", "shift"),
        ("checks",),
        ("page",),
    ),
}
TORCH_FREE = (
    *("latecomer", "latecomer.bounds", "latecomer.eval", "latecomer.eval.results.rows"),
    *("latecomer.eval.names", "latecomer.eval.studies.loading"),
    "latecomer.certify.statements",
    *("latecomer.certify.predictor", "latecomer.errors"),
    *("latecomer.eval.runs.cell_directory", "latecomer.eval.runs.job", "latecomer.eval.runs.lock"),
    *("latecomer.reports", "latecomer.commands.app", "latecomer.models.methods"),
)
SHUNNED = {"utils", "helpers", "common", "base", "misc", "manager"}


def modules(layer):
    return sorted((ROOT / layer).rglob("*.py"))


@cache
def parsed(path):
    return ast.parse(path.read_text("utf-8"))


def imports(path):
    """Yield what a file imports, relative imports with their dots."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = "." * node.level + (node.module or "")
            yield source
            yield from (f"{source}.{alias.name}" for alias in node.names)


def within(name, allowed):
    return any(name == home or name.startswith(home + ".") for home in allowed)


@pytest.mark.parametrize("layer", LAYERS)
def test_layers_import_only_what_lies_below(layer):
    assert modules(layer)
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in modules(layer)
        for name in imports(path)
        # `from latecomer.eval import rows` names the package first: the full name decides.
        if name.split(".")[0] == "latecomer" and name not in ("latecomer.eval", "latecomer")
        if not within(name, (*MAY_IMPORT[layer], *OPEN))
    ]
    assert wrong == []


def named(path):
    """Yield the modules that a file names: in imports, wherever they stand, and in strings."""
    yield from imports(path)
    for node in ast.walk(parsed(path)):
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and re.fullmatch(r"latecomer(\.\w+)+(:\w+)?", text):
            yield text.partition(":")[0]


def climbing(layer, folder):
    """Say which files below a folder, which stands for a layer, import a wing not below theirs."""
    floor = {wing: number for number, wings in enumerate(FLOORS[layer]) for wing in wings}
    found = []
    for path in sorted(folder.rglob("*.py")):
        inside = path.relative_to(folder).with_suffix("").parts
        if inside == ("__init__",):
            continue  # the layer's front door shows all of it, each on first use
        for name in named(path):
            package, _, rest = name.partition(f"latecomer.{layer}.")
            wing = rest.split(".")[0]
            if package or not rest or wing == inside[0]:
                continue
            if wing not in floor or floor[wing] >= floor[inside[0]]:
                found.append(f"{'/'.join(inside)} imports {name}")
    return found


@pytest.mark.parametrize("layer", LAYERS)
def test_every_wing_has_one_floor(layer):
    wings = {
        path.stem
        for path in (ROOT / layer).iterdir()
        if path.suffix == ".py" or (path / "__init__.py").is_file()
    }
    listed = [wing for floor in FLOORS[layer] for wing in floor]
    assert sorted(listed) == sorted(wings - {"__init__"})


@pytest.mark.parametrize("layer", LAYERS)
def test_imports_between_wings_go_down(layer):
    assert climbing(layer, ROOT / layer) == []


@pytest.mark.parametrize(
    "line",
    [
        "import latecomer.eval.runs.runner",
        "from latecomer.eval.runs import runner",
        "from latecomer.eval import runs",
        "from latecomer.eval.routes.settings import Training",
        "def later():\n    from latecomer.eval.runs.runner import run",
        "if TYPE_CHECKING:\n    from latecomer.eval.runs.runner import run",
        "PLACE = 'latecomer.eval.runs.runner:run'",
        "from latecomer.eval import run",
    ],
)
def test_an_import_that_climbs_is_found(tmp_path, line):
    measures = tmp_path / "measures"
    measures.mkdir()
    (measures / "mine.py").write_text(
        f"from latecomer.eval.scoring.scores import error_rate\n{line}\n"
    )
    (tmp_path / "__init__.py").write_text("from latecomer.eval.runs.runner import run\n")
    found = climbing("eval", tmp_path)
    assert found
    assert all(one.startswith("measures/mine imports latecomer.eval.r") for one in found)


def files():
    """Map the modules of the package to what each imports of it, wherever the import stands.

    Layers' front doors are left out: each shows all of its layer, on first use.
    """
    paths = {}
    for layer in (*LAYERS, "commands", "cli"):
        for path in modules(layer):
            inside = path.relative_to(ROOT).with_suffix("").parts
            name = ".".join(("latecomer", *(inside[1:] if layer == "cli" else inside)))
            if not name.endswith("__init__"):
                paths[name] = path
    return {name: {one for one in imports(path) if one in paths} for name, path in paths.items()}


def circles(graph):
    """Remove what imports nothing that is left, until all that is left runs in circles."""
    left = dict(graph)
    while ends := {name for name, to in left.items() if not to & left.keys()}:
        left = {name: to for name, to in left.items() if name not in ends}
    return sorted(left)


def test_no_file_imports_one_that_imports_it():
    graph = files()
    assert len(graph) > 250
    assert circles(graph) == []


def test_a_circle_of_files_is_found():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == ["a", "b", "c"]


@pytest.mark.parametrize("layer", [*LAYERS, "commands", "cli"])
def test_nothing_is_imported_by_folder_or_relatively(layer):
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in modules(layer)
        for name in imports(path)
        if name.startswith(".") or name.split(".")[0] in (*LAYERS, "commands", "cli")
    ]
    assert wrong == []


def test_bounds_stand_on_numpy_and_scipy_alone():
    allowed = {"numpy", "scipy", "latecomer", *sys.stdlib_module_names}
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in modules("bounds")
        for name in imports(path)
        if name.split(".")[0] not in allowed
    ]
    assert wrong == []


def test_modules_bear_no_empty_names():
    found = [
        path
        for layer in (*LAYERS, "commands", "cli")
        for path in modules(layer)
        if path.stem in SHUNNED
    ]
    assert found == []


@pytest.mark.parametrize("package", ["cli", *LAYERS, "models.methods", "eval.datasets"])
def test_no_module_bears_the_name_of_a_public_object_of_its_package(package):
    folder = ROOT / package.replace(".", "/")
    stems = {path.stem for path in folder.glob("*.py")}
    name = "latecomer" if package == "cli" else f"latecomer.{package}"
    public = set(__import__(name, fromlist=["__all__"]).__all__)
    assert stems & public == set()


@pytest.mark.parametrize("folder", [*LAYERS, "commands", "cli", "models/methods", "eval/datasets"])
def test_folders_refuse_to_be_imported_by_their_own_name(folder):
    parent, name = (ROOT / folder).parent, Path(folder).name
    code = f"import sys; sys.path.insert(0, {str(parent)!r}); import {name}"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd="/"
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("ImportError: import latecomer")


def test_light_modules_load_no_torch():
    code = (
        "import importlib, sys\n"
        f"for name in {TORCH_FREE!r}:\n"
        "    importlib.import_module(name)\n"
        "    if 'torch' in sys.modules:\n"
        "        sys.exit(name + ' loads torch')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.returncode == 0


@pytest.mark.parametrize("package", ["", *(f".{layer}" for layer in LAYERS)])
def test_public_names_resolve_and_are_listed(package):
    module = __import__(f"latecomer{package}", fromlist=["__all__"])
    assert set(module.__all__) <= set(dir(module))
    for name in module.__all__:
        assert getattr(module, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = module.no_such_name


def test_a_method_fits_on_a_few_pages():
    """What it says of its departures apart: a list, longer where more is known."""

    def length(path):
        text = path.read_text("utf-8")
        told = [
            line.end_lineno - line.lineno + 1
            for line in ast.walk(parsed(path))
            if isinstance(line, ast.AnnAssign) and getattr(line.target, "id", "") == "deviations"
        ]
        return len(text.splitlines()) - sum(told)

    longest = {path.name: length(path) for path in (ROOT / "models" / "methods").rglob("*.py")}
    assert len(longest) > 22
    assert {name: length for name, length in longest.items() if length > 150} == {}


def loaded_by(code):
    code += "\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_a_certificate_of_losses_loads_nothing_of_studies():
    loaded = loaded_by("import latecomer\nstr(latecomer.certify_losses([0.1] * 30))")
    assert not loaded & {"pydantic", "pydantic_core", "pandas", "torch", "typer"}
    own = {name.split(".")[1] for name in loaded if name.startswith("latecomer.")}
    assert own <= {"bounds", "certify", *(name.split(".")[1] for name in OPEN)}
