"""Names of columns: which have none of their own, which number rows, which mean the client."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from typing import Any

import numpy as np

from latecomer.eval.errors import InputError

# Written by pandas, pyarrow and readr for an index or a column without a name.
_UNNAMED = re.compile(r"Unnamed: \d+(_level_\d+|\.\d+)*|__index_level_\d+__|\.\.\.\d+")
# May number the rows: what pandas and R write, and what people call it.
_NUMBERING = (
    *("index", "level_0", "id", "row", "rows", "row_id", "rowid", "rownames", "row_names", "#"),
    *("no", "nr", "x", "v1", "obs", "sample", "sample_id", "observation"),
)
# Over what one client's rows are told apart, and words that stand beside these in names.
_OVER = frozenset(
    [
        "round",
        "epoch",
        "step",
        "seed",
        "iteration",
        "iter",
        "repeat",
        "repetition",
        "trial",
        "fold",
        "run",
        "replicate",
        "replication",
        "checkpoint",
        "snapshot",
    ]
)
_BESIDE = frozenset(
    [
        "num",
        "number",
        "no",
        "nr",
        "id",
        "idx",
        "index",
        "i",
        "n",
        "current",
        "global",
        "server",
        "communication",
        "comm",
        "comms",
        "fl",
        "fed",
        "local",
        "training",
        "train",
        "random",
        "cv",
    ]
)


def column_names(raw: Iterable[Any]) -> list[str]:
    """Return names without blanks at their ends, in one Unicode form; columns without one get it.

    Raises
    ------
    InputError
        The columns have several levels.

    Examples
    --------
    >>> column_names(["", " age ", "client"])
    ['Unnamed: 0', 'age', 'client']
    """
    names = []
    for place, name in enumerate(raw):
        if isinstance(name, tuple):
            raise InputError(f"columns must have one level of names, got {name!r:.60}")
        plain = unicodedata.normalize("NFC", str(name)).strip().strip("\ufeff\u200b").strip()
        names.append(plain or f"Unnamed: {place}")
    return names


def refuse_repeated(names: Sequence[str], asked: Sequence[str] = ()) -> None:
    """Refuse a name that occurs twice, among those that are asked for or, if none are, at all.

    Raises
    ------
    InputError

    Examples
    --------
    >>> refuse_repeated(["client", "note", "note"], ["client"])
    """
    for name in asked or names:
        if names.count(name) > 1:
            raise InputError(f"column {name!r} occurs twice")
    for name in names if asked else ():
        wanted = next((one for one in asked if one.casefold() == name.casefold()), "")
        if name not in asked and wanted in names:
            raise InputError(f"columns {wanted!r} and {name!r} differ only in letter case")
        if name.casefold() in ("weight", "weights") and "weight" in asked and name != "weight":
            raise InputError(f"column {name!r}: a column of weights is called 'weight'")


def is_unnamed(name: str) -> bool:
    """Whether a column has no name of its own: most often row numbers.

    Examples
    --------
    >>> is_unnamed("Unnamed: 0"), is_unnamed("__index_level_0__"), is_unnamed("age")
    (True, True, False)
    """
    return bool(_UNNAMED.fullmatch(name))


def numbers_rows(name: str, cells: Any) -> bool:
    """Whether a column counts the rows under a name that people give to row numbers.

    Examples
    --------
    >>> numbers_rows("id", [1, 2, 3]), numbers_rows("id", [1, 5, 3]), numbers_rows("age", [1, 2, 3])
    (True, False, False)
    """
    if name.casefold() not in _NUMBERING:
        return False
    array = np.asarray(cells)
    return array.dtype.kind in "iuf" and array.ndim == 1 and bool((np.diff(array) == 1).all())


def means_client(name: str) -> bool:
    """Whether a name is ``client``, perhaps in other letters or misspelt.

    Examples
    --------
    >>> [means_client(name) for name in ("Client", "clinet", "client_id", "patients", "age")]
    [True, True, True, False, False]
    """
    return SequenceMatcher(None, "client", name.casefold()).ratio() >= 0.8


def averaged_over(names: Sequence[str]) -> str:
    """Return the first name under which one client's rows are usually told apart, or no text.

    Examples
    --------
    >>> averaged_over(["client", "Round", "loss"]), averaged_over(["client", "loss"])
    ('Round', '')
    """
    for name in names:
        words = {word if word in _OVER else word.removesuffix("s") for word in name_words(name)}
        if words & _OVER and words <= _OVER | _BESIDE:
            return name
    return ""


def name_words(name: str) -> list[str]:
    """Split a name into its words in small letters.

    Examples
    --------
    >>> name_words("valLoss"), name_words("test/top-1 acc."), name_words("Server_Round")
    (['val', 'loss'], ['test', 'top', '1', 'acc'], ['server', 'round'])
    """
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).casefold()
    return [word for word in re.split(r"[\W_]+", apart) if word]
