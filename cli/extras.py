"""What an install without extras leaves out, and the line that says how to install it.

A missing module raises ``ImportError``, as everywhere in Python: nothing that the caller gave is
illegal, and code that can do without the module catches that error.  The command line turns it
into one line and exit code 2.
"""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

# Import names of the packages in the extra "train".
TRAIN = (
    *("torch", "pandas", "sklearn", "matplotlib", "pydantic", "PIL", "safetensors"),
    *("threadpoolctl", "platformdirs", "requests", "ijson"),
)


def advice(error: ModuleNotFoundError) -> str:
    """Say in one line what to install; empty unless a module of the extra "train" is missing.

    Examples
    --------
    >>> advice(ModuleNotFoundError(name="no_such_module"))
    ''
    """
    module = (error.name or "").partition(".")[0]
    if module not in TRAIN or find_spec(module) is not None:
        return ""
    return (
        f"{module} is not installed; training, data sets and reports of runs need"
        ' pip install "latecomer[train]"'
    )


def homes(file: str) -> dict[str, str]:
    """Return the module in which each public name of a package is defined.

    ``file`` is the package's ``__init__``: the names are read from its imports for type checkers,
    so that they are listed in one place.

    Examples
    --------
    >>> from latecomer.eval import datasets
    >>> homes(datasets.__file__)["make_dataset"]
    'latecomer.eval.datasets.dataset'
    """
    with open(file, encoding="utf-8") as stream:
        lines = stream.read().replace(" (\n       ", "").splitlines()
    imported = [line.split() for line in lines if line.startswith("    from latecomer.")]
    return {words[3]: words[1] for words in imported}


def front_door(
    package: str, file: str
) -> tuple[dict[str, str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return `homes` of a package, and the ``__getattr__`` and ``__dir__`` that show them."""
    home = homes(file)

    def look_up(name: str) -> Any:
        if name in home:
            return first_use(home[name], name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return home, look_up, partial(sorted, home)


def first_use(module: str, name: str) -> Any:
    """Import a name from its module; where an extra is missing the error says what to install."""
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        if line := advice(error):
            raise ModuleNotFoundError(line, name=error.name) from error
        raise


def require(*modules: str) -> None:
    """Raise at once if one of these modules, by default all of the extra "train", is missing."""
    for module in modules or TRAIN:
        if find_spec(module) is None:
            raise ModuleNotFoundError(advice(ModuleNotFoundError(name=module)), name=module)


def version_of(package: str) -> str | None:
    """Return the version of an installed package, None where there is none."""
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def needed(module: str, what: str) -> Any:
    """Import a module that only ``what`` needs, or raise an error that says so.

    Examples
    --------
    >>> needed("no_such_module", "a table")
    Traceback (most recent call last):
    ModuleNotFoundError: a table needs no_such_module, which is not installed: pip install \
no_such_module
    """
    if find_spec(module) is None:
        line = f"{what} needs {module}, which is not installed: pip install {module}"
        raise ModuleNotFoundError(line, name=module)
    return import_module(module)
