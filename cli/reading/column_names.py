"""Names of columns: which have none of their own, which number rows, which mean the client."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from typing import Any

import numpy as np

from latecomer.errors import InputError, nearest

# Written by pandas, pyarrow and readr for an index or a column without a name.
_UNNAMED = re.compile(r"Unnamed: \d+(_level_\d+|\.\d+)*|__index_level_\d+__|\.\.\.\d+")


def words_of(text: str) -> frozenset[str]:
    """Return the words of a text; tables of words are written so."""
    return frozenset(text.split())


# Words of which names of row numbers are made: those under which a count up or down is one,
_COUNTS = words_of(
    "x x1 v1 c0 f1 no nr num number n s sl sn sno serial counter seq sequence line lines obs "
    "case observation observations sample samples record records entry entries item items "
    "example examples instance instances row rows rn rownum rownumber rowname rownames name "
    "names level 0 1 column1 field1 unnamed #"
)
# and those under which any values are that differ from row to row.
_KEYS = words_of("id ids idx index indices rowid rowids uid uuid guid key pk unique")
# Whose rows are: people, places and devices, as clients are called in other tables.
_OWNERS = words_of(
    "client cid uid pid sid mid usr user patient pt subject subj person people participant "
    "respondent customer member household family student pupil teacher school worker employee "
    "writer author speaker annotator rater owner account hospital clinic center centre site "
    "institution institute organisation organization org ward bank branch store shop company "
    "station sensor device machine phone vehicle car robot meter node party silo edge"
)
_OF_OWNERS = words_of("id ids no nr num number code name idx index key hash label tag")
# Over what one client's rows are told apart, and words that stand beside these in names.
_OVER = words_of(
    "round epoch step seed iteration iter repeat repetition trial fold run replicate replication "
    "checkpoint snapshot"
)
_MODELS = words_of(
    "model method algorithm algo approach strategy learner classifier predictor system variant"
)
_BESIDE = words_of(
    "num number no nr id idx index i n current global server communication comm comms fl fed "
    "local training train random cv"
)


def column_names(raw: Iterable[Any]) -> list[str]:
    """Return names without blanks at their ends, in one Unicode form; columns without one get it.

    Refuses columns of several levels.

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

    Examples
    --------
    >>> refuse_repeated(["client", "note", "note"], ["client"])
    """
    times = Counter(names)
    for name in asked or names:
        if times[name] > 1:
            raise InputError(f"column {name!r} occurs twice")
    for name in names if asked else ():
        wanted = next((one for one in asked if one.casefold() == name.casefold()), "")
        if name not in asked and wanted in names:
            raise InputError(f"columns {wanted!r} and {name!r} differ only in letter case")
        first, _, number = name.rpartition(".")
        if first in asked and name not in asked and number.isdecimal():
            raise InputError(f"column {name!r} is a second {first!r}, as pandas renames it")
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


def may_number_rows(name: str) -> bool:
    """Whether a name is one that people give to columns that count or name the rows.

    Examples
    --------
    >>> [may_number_rows(name) for name in ("id", "Row Number", "X", "#", "age", "bid")]
    [True, True, True, True, False, False]
    """
    return (set(name_words(name)) or {name}) <= _COUNTS | _KEYS


def numbers_rows(name: str, cells: Any) -> bool:
    """Whether a column counts or names the rows, under a name that people give to such columns.

    Examples
    --------
    >>> numbers_rows("id", [3, 1, 7]), numbers_rows("id", [1, 5, 1]), numbers_rows("age", [1, 2, 3])
    (True, False, False)
    >>> numbers_rows("row number", [3, 1, 2]), numbers_rows("X", [3, 2, 1])
    (True, True)
    """
    if not may_number_rows(name):
        return False
    array = np.asarray(cells)
    if array.ndim != 1 or not all(isinstance(one, str | int | float) for one in array.tolist()):
        return False
    if counts_rows(array):
        return True
    if array.dtype.kind == "f" and not (array % 1 == 0).all():
        return False
    shuffled = len(name) > 2 and array.dtype.kind in "iuf" and counts_rows(np.sort(array))
    return (shuffled or _is_key(name)) and len(set(array.tolist())) == len(array) > 1


def _is_key(name: str) -> bool:
    words = set(name_words(name))
    return bool(words & _KEYS) and words <= _COUNTS | _KEYS


def counts_rows(cells: Any) -> bool:
    """Whether whole numbers go up, or down, by one from row to row.

    Examples
    --------
    >>> counts_rows([4, 5, 6]), counts_rows([3, 2, 1]), counts_rows([1, 2, 4])
    (True, True, False)
    """
    array = np.asarray(cells)
    if array.ndim != 1 or array.dtype.kind not in "iuf" or len(array) < 2:
        return False
    counted = array.astype(np.float64)
    steps = np.diff(counted)
    return bool((steps == steps[0]).all() and abs(steps[0]) == 1 and counted[0] % 1 == 0)


def names_owner(name: str) -> bool:
    """Whether a name is one that people give to the column that says whose the rows are.

    Examples
    --------
    >>> [names_owner(name) for name in ("patient_id", "Hospital", "userId", "id", "site age")]
    [True, True, True, True, False]
    """
    words = {_owner(word) for word in name_words(name)}
    return _is_key(name) or (bool(_OWNERS & words) and words <= _OWNERS | _OF_OWNERS)


def _owner(word: str) -> str:
    """Return a word without a plural's s and without the end ``id``, where an owner remains."""
    for end in ("s", "id", "ids", "no", "nr"):
        if word.removesuffix(end) in _OWNERS:
            return word.removesuffix(end)
    return word


def client_hint(names: Iterable[str]) -> str:
    """Suggest the column that was probably meant by ``client``, if any.

    Examples
    --------
    >>> client_hint(["age", "hospital"]), client_hint(["age"])
    ("; did you mean 'hospital'?", '')
    """
    held = list(names)
    return nearest("client", held) or next(
        (f"; did you mean {name!r}?" for name in held if names_owner(name)), ""
    )


def means_client(name: str) -> bool:
    """Whether a name is ``client``, perhaps in other letters or misspelt.

    Examples
    --------
    >>> [means_client(name) for name in ("Client", "clinet", "client_id", "patients", "age")]
    [True, True, True, False, False]
    """
    return SequenceMatcher(None, "client", name.casefold()).ratio() >= 0.8


def averaged_over(names: Sequence[str], *, models: bool = False) -> str:
    """Return the first name under which one client's rows are usually told apart, or no text.

    Of losses ``models`` tell them apart, too; of features a model is one.

    Examples
    --------
    >>> averaged_over(["client", "Round", "loss"]), averaged_over(["client", "loss"])
    ('Round', '')
    >>> averaged_over(["client", "Method"]), averaged_over(["client", "Method"], models=True)
    ('', 'Method')
    """
    over = _OVER | _MODELS if models else _OVER
    for name in names:
        words = {word if word in over else word.removesuffix("s") for word in name_words(name)}
        if words & over and words <= over | _BESIDE | {"name"}:
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
