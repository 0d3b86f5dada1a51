"""The walls between the layers, read from the imports themselves."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ("bounds", "models", "eval", "reports")
MAY_IMPORT = {
    "bounds": ("latecomer.bounds",),
    "models": ("latecomer.bounds", "latecomer.models"),
    "eval": ("latecomer.bounds", "latecomer.models", "latecomer.eval"),
    "reports": ("latecomer.eval.rows", "latecomer.reports"),
}
TORCH_FREE = (
    *("latecomer", "latecomer.bounds", "latecomer.eval", "latecomer.eval.rows"),
    *("latecomer.eval.study", "latecomer.eval.client_losses", "latecomer.eval.errors"),
    *("latecomer.eval.status", "latecomer.eval.work", "latecomer.eval.locks"),
    *("latecomer.reports", "latecomer.cli", "latecomer.models.methods"),
)
SHUNNED = {"utils", "helpers", "common", "base", "misc", "manager"}


def modules(layer):
    return sorted((ROOT / layer).rglob("*.py"))


def imports(path):
    """Yield what a file imports, relative imports with their dots."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
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
        if not within(name, MAY_IMPORT[layer])
    ]
    assert wrong == []


@pytest.mark.parametrize("layer", [*LAYERS, "cli"])
def test_nothing_is_imported_by_folder_or_relatively(layer):
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in modules(layer)
        for name in imports(path)
        if name.startswith(".") or name.split(".")[0] in (*LAYERS, "cli")
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
    found = [path for layer in (*LAYERS, "cli") for path in modules(layer) if path.stem in SHUNNED]
    assert found == []


@pytest.mark.parametrize("package", ["cli", *LAYERS, "models.methods", "eval.datasets"])
def test_no_module_bears_the_name_of_a_public_object_of_its_package(package):
    folder = ROOT / package.replace(".", "/")
    stems = {path.stem for path in folder.glob("*.py")}
    name = "latecomer" if package == "cli" else f"latecomer.{package}"
    public = set(__import__(name, fromlist=["__all__"]).__all__)
    assert stems & public == set()


@pytest.mark.parametrize("folder", [*LAYERS, "cli", "models/methods", "eval/datasets"])
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
    longest = {
        path.name: len(path.read_text("utf-8").splitlines())
        for path in (ROOT / "models" / "methods").glob("*.py")
    }
    assert len(longest) > 17
    assert {name: length for name, length in longest.items() if length > 150} == {}
