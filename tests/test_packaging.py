"""What is built and shipped is what lies in the tree."""

import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ("bounds", "certify", "models", "eval", "reports", "commands")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def packages_in_the_tree():
    found = {"latecomer"} | {
        f"latecomer.{path.parent.name}" for path in ROOT.glob("cli/*/__init__.py")
    }
    for layer in LAYERS:
        for path in (ROOT / layer).rglob("__init__.py"):
            found.add(".".join(["latecomer", *path.parent.relative_to(ROOT).parts]))
    return found


def files_in_the_tree():
    """Map each file that must be shipped to its place in the wheel."""
    shipped = {}
    for folder in ("cli", *LAYERS):
        place = "latecomer" if folder == "cli" else f"latecomer/{folder}"
        for path in (ROOT / folder).rglob("*"):
            inside = path.relative_to(ROOT / folder).as_posix()
            data = path.suffix in (".yaml", ".csv", ".bib") or path.name == "py.typed"
            data = data or "templates/" in inside
            # Kept in the repository to be looked at or gone on with: nothing at run time reads it.
            kept = inside.startswith(("reference/", "unfinished/"))
            if path.is_file() and not kept and (path.suffix == ".py" or data):
                shipped[f"{place}/{inside}"] = f"{folder}/{inside}"
    return shipped


def test_every_package_of_the_tree_is_listed():
    listed = PROJECT["tool"]["setuptools"]["packages"]
    assert len(listed) == len(set(listed))
    assert set(listed) == packages_in_the_tree()


def test_folders_with_modules_are_packages():
    for layer in ("cli", *LAYERS):
        for path in (ROOT / layer).rglob("*.py"):
            assert (path.parent / "__init__.py").is_file(), path


def test_version_is_the_same_everywhere():
    import latecomer

    assert latecomer.__version__ == PROJECT["project"]["version"]


@pytest.mark.slow
def test_wheel_and_sdist_hold_every_module_and_data_file(built):
    wanted = files_in_the_tree()
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        assert set(wanted) <= set(wheel.namelist())
        assert not [name for name in wheel.namelist() if name.startswith("tests/")]
    with tarfile.open(next(built.glob("*.tar.gz"))) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
        assert set(wanted.values()) <= names


ABOVE = """
import sys, latecomer
print(latecomer.__file__, len(sys.modules["latecomer"].__path__))
print(latecomer.certify_losses([0.1] * 30).sentence[:30])
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["hook", "path"])
def test_the_folder_above_a_clone_imports_what_is_installed(how, tmp_path, built):
    """An editable install is a hook that Python asks last; a wheel is a folder on the path."""
    clone, site = tmp_path / "work" / "latecomer", tmp_path / "site"
    clone.mkdir(parents=True)
    shutil.copy(ROOT / "__init__.py", clone)
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        wheel.extractall(site)
    home = site / "latecomer" / "__init__.py"
    before = f"sys.path.append({str(site)!r})" if how == "path" else HOOK.format(home=str(home))
    code = f"import sys\n{before}\n{ABOVE}"
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    # -S: the environment of these tests may have an editable install of its own.
    paths = ":".join(one for one in sys.path if one.endswith("-packages"))
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        cwd=clone.parent,
        env=bare | {"PYTHONPATH": paths},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [f"{home} 1", "With probability at least 95% "]


HOOK = """
from importlib.util import spec_from_file_location
class Hook:
    def find_spec(fullname, path=None, target=None):
        if fullname == "latecomer":
            return spec_from_file_location(fullname, {home!r})
sys.meta_path.append(Hook)
"""


def test_a_clone_without_an_install_says_what_to_type(tmp_path):
    clone = tmp_path / "latecomer"
    clone.mkdir()
    shutil.copy(ROOT / "__init__.py", clone)
    done = subprocess.run(
        [sys.executable, "-S", "-c", "import latecomer"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"]},
        check=False,
        capture_output=True,
        text=True,
    )
    said = f"ModuleNotFoundError: latecomer is not installed: pip install -e {clone}"
    assert done.stderr.splitlines()[-1] == said
