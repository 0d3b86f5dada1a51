"""What an install without extras leaves out, and the line that brings it.

A module that is absent is an ``ImportError``, as everywhere in Python: nothing that a caller gave
is illegal, and code that can do without it asks for that error.  The command line makes one line
and exit code 2 of it.
"""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

# What the extra "train" brings, by the names that are imported.
TRAIN = (
    *("torch", "pandas", "sklearn", "matplotlib", "seaborn", "pydantic", "PIL", "safetensors"),
    *("threadpoolctl", "pooch", "requests", "ijson"),
)


def advice(error: ModuleNotFoundError) -> str:
    """Say in one line what to install; nothing where it is no module of an extra that is absent.

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


def homes(package: str, file: str) -> dict[str, str]:
    """Return in which module of a package each of its public names lies.

    Its ``__init__``, which is the file, says so to type checkers: from what it imports for them
    alone it is read here, and so stands in one place.

    Examples
    --------
    >>> from latecomer.eval import datasets
    >>> homes("latecomer.eval.datasets", datasets.__file__)["make_dataset"]
    'dataset'
    """
    with open(file, encoding="utf-8") as stream:
        lines = stream.read().replace(" (\n       ", "").splitlines()
    imported = [line.split() for line in lines if line.startswith(f"    from {package}.")]
    return {words[3]: words[1].removeprefix(f"{package}.") for words in imported}


def front_door(
    package: str, file: str
) -> tuple[dict[str, str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return `homes` of a package, and the ``__getattr__`` and ``__dir__`` that show them."""
    home = homes(package, file)

    def look_up(name: str) -> Any:
        if name in home:
            return first_use(f"{package}.{home[name]}", name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return home, look_up, partial(sorted, home)


def first_use(module: str, name: str) -> Any:
    """Import a name from where it lies.

    Raises
    ------
    ModuleNotFoundError
        With the line that says what to install where an extra is missing.
    """
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        if line := advice(error):
            raise ModuleNotFoundError(line, name=error.name) from error
        raise


def require(*modules: str) -> None:
    """Refuse to begin what would fail halfway without these, or any, modules of the extra "train".

    Raises
    ------
    ModuleNotFoundError
        With the line that says what to install.
    """
    for module in modules or TRAIN:
        if find_spec(module) is None:
            raise ModuleNotFoundError(advice(ModuleNotFoundError(name=module)), name=module)


def needed(module: str, what: str) -> Any:
    """Import a module that one thing alone needs, or say so.

    Raises
    ------
    ModuleNotFoundError

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
