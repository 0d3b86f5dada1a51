"""What a user can get wrong, said in one line, and what an install without extras leaves out.

A missing module raises ``ImportError``, as everywhere in Python: nothing that the caller gave is
illegal, and code that can do without the module catches that error.  The command line turns it
into one line and exit code 2.
"""

import re
import textwrap
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def one_line(message: str) -> str:
    r"""Return a message on one line: a list over several lines becomes a list within it.

    >>> one_line("no such names:\n  a\n  b\n")
    'no such names: a; b'
    """
    joined = re.sub(r"(?<=[:;,])\s*[\r\n]+\s*", " ", message.strip())
    return re.sub(r"\s*[\r\n]+\s*", "; ", joined)


class InputError(ValueError):
    """Bad user input: the message is one plain line that names the key and what is legal."""

    def __init__(self, message: str) -> None:
        # What is shown of a value, of an array say, may span lines.
        super().__init__(one_line(message))


class CannotWriteError(OSError):
    """A run directory cannot be written: the message is one plain line that says what is safe."""


def nearest(name: str, choices: Iterable[str]) -> str:
    """Suggest the choice that a mistyped name probably meant.

    Parameters
    ----------
    name : str
        What the user wrote.
    choices : iterable of str
        The valid names.

    Returns
    -------
    str
        ``"; did you mean 'x'?"`` or, when nothing is near, the empty string.

    Examples
    --------
    >>> nearest("quickstrat", ["quickstart", "table1"])
    "; did you mean 'quickstart'?"
    >>> nearest("zzz", ["quickstart"]), nearest("FEDAVG", ["fedavg"])
    ('', "; did you mean 'fedavg'?")
    """
    listed = list(choices)
    # In other letters only where nothing is near as it is written.
    matches = get_close_matches(name, listed, n=1) or [
        one for one in listed if one.casefold() == name.casefold()
    ]
    return f"; did you mean {matches[0]!r}?" if matches else ""


# Import names of the packages in the extra "train".
TRAIN = (
    *("torch", "pandas", "sklearn", "matplotlib", "pydantic", "PIL", "safetensors"),
    *("threadpoolctl", "pooch", "requests", "ijson"),
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
    """Import a name from its module.

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
    """Raise at once if one of these modules, by default all of the extra "train", is missing.

    Raises
    ------
    ModuleNotFoundError
        With the line that says what to install.
    """
    for module in modules or TRAIN:
        if find_spec(module) is None:
            raise ModuleNotFoundError(advice(ModuleNotFoundError(name=module)), name=module)


def needed(module: str, what: str) -> Any:
    """Import a module that only ``what`` needs, or raise an error that says so.

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


WIDTH = 80


def wrapped(text: str, first: str = "", further: str = "") -> list[str]:
    """Wrap a line at 80 columns; words longer than that stay whole.

    Examples
    --------
    >>> wrapped("a" * 60 + " " + "b" * 30, further="  ")[1] == "  " + "b" * 30
    True
    """
    return textwrap.wrap(
        text,
        WIDTH - 1,
        initial_indent=first,
        subsequent_indent=further,
        break_long_words=False,
        break_on_hyphens=False,
    )
