"""Clients' ids and labels, which decide who trains and what is told apart: each has one spelling.

A class that is written in two ways, a number among names, or a program's mark for a missing value
would each become a class of its own; they are refused, whichever door they come through.

Clients' ids come with blanks at their ends, in several Unicode forms, as whole numbers or as
floats; that is smoothed once, here.  Ids that may be one client, or several made one by a
spreadsheet, are refused.
"""

import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from latecomer.checks import ScientificNumber
from latecomer.errors import InputError
from latecomer.reading.column_names import name_words, words_of
from latecomer.reading.delimited import decimal_comma

# What frames, R, databases and spreadsheets write as text for no id.
_MISSING = ("", "nan", "none", "nat", "<na>", "na", "n/a", "#n/a", "null")
_LEGAL = "an id must be text or a whole number"
_SCIENTIFIC = re.compile(r"[-+]?[0-9]+([.,][0-9]*)?[eE][-+]?[0-9]+")
_HEX = re.compile(r"[0-9a-f]{6,}|[0-9A-F]{6,}")
_BEYOND_E = re.compile(r"[abcdfABCDF]")
_THOUSANDS = re.compile(r"[-+]?[0-9]{1,3}((,[0-9]{3})+|(\.[0-9]{3}){2,}|('[0-9]{3})+)")
# 1 with a fraction of zeros, or with a point for thousands.
_POINTED = re.compile(r"[-+]?[1-9][0-9]{0,2}\.000")
_FRACTION = re.compile(r"[-+]?[0-9]*\.[0-9]+")
_NUMBER = re.compile(r"([-+]?)0*([0-9]+)(?:\.([0-9]*?)0*)?")
# Before a number; with a decimal point it is the first group, where those behind it count.
_ZEROS = re.compile(r"(?<![0-9.])([0-9]+\.[0-9]+)(?![0-9.])|(?<![0-9])0+(?=[0-9])")
# Dashes and apostrophes that look alike in print.
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
_APOSTROPHES = "\u2018\u2019\u02bc\u00b4\u0060"
_INVISIBLE = "".join(
    c for c in map(chr, range(0x10000)) if c.isspace() or unicodedata.category(c) == "Cf"
)
# Small letters of other scripts that look like Latin ones, and those.
_LOOKALIKES = dict(
    zip(
        "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0455\u0458\u04bb\u03bf\u03b1\u03bd",
        "aeopcyxisjhoav",
        strict=True,
    )
)
_ALIKE = str.maketrans(dict.fromkeys(_DASHES, "-") | dict.fromkeys(_APOSTROPHES, "'") | _LOOKALIKES)
# Words of which names of metrics and of summaries are made: one of the first, any of the others.
_METRICS = words_of(
    "loss losses accuracy acc accuracies error errors err auc auroc auprc f1 precision recall mse "
    "mae rmse nll bce xent perplexity ppl metric metrics top1 top5 mean avg average median std "
    "total overall sum summary aggregate miou iou"
)
_OF_METRICS = words_of(
    "train training val valid validation test testing eval evaluation mean global local grand all "
    "client clients weighted macro micro balanced cross entropy log score scores rate top 1 5 k "
    "at roc pr per central centralized distributed final best last learning squared absolute"
)
_METRIC_OF_TWO = words_of(
    "cross_entropy log_loss learning_rate error_rate top_1 top_5 roc_auc f1_score all_clients"
)
_SPLITS = words_of("train training val valid validation test testing eval evaluation")
_COMMENT = ("#", "%", "//")


def spelling(value: Any) -> str:
    r"""Return an id as text in one spelling; the empty text where it is missing.

    Blanks and invisible characters at the ends go, Unicode takes its composed form (NFC), and whole
    numbers lose a fraction of zeros.  All else is refused.

    Examples
    --------
    >>> spelling(" Ann\u00a0"), spelling(7.0), spelling("7.0"), spelling(None)
    ('Ann', '7', '7', '')
    """
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            raise InputError(f"{_LEGAL}, got bytes that are not UTF-8: {value!r:.60}") from None
    if isinstance(value, str | ScientificNumber):
        return _spelt(str(value))
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return str(int(value))
    if is_missing(value):
        return ""
    if isinstance(value, float | np.floating):
        return _of_float(float(value))
    if getattr(value, "ndim", None) == 0 and not isinstance(value, np.generic):
        return spelling(value.item())
    means = ": take one mean a client first, as in losses.groupby('client').mean()"
    hint = means if isinstance(value, tuple) else ""
    raise InputError(f"{_LEGAL}, got {type(value).__name__} {value!r:.60}{hint}")


def is_missing(value: Any) -> bool:
    """Whether a value stands for none: None, NaN, and what pandas has in their place."""
    kind = type(value).__name__
    return value is None or kind in ("NAType", "NaTType") or ("float" in kind and value != value)


def stands_for_none(cell: Any) -> bool:
    """Whether a cell is missing, or is what programs write as text where nothing is known.

    Examples
    --------
    >>> [stands_for_none(cell) for cell in (None, "", " NA ", "NULL", "nan", "ann", 0)]
    [True, True, True, True, True, False, False]
    """
    return _trimmed(cell).casefold() in _MISSING if isinstance(cell, str) else is_missing(cell)


def _trimmed(text: str) -> str:
    if text.isascii() and text.isalnum():
        return str(text)
    return unicodedata.normalize("NFC", text.strip(_INVISIBLE))


def _spelt(text: str) -> str:
    plain = _trimmed(text)
    if plain.casefold() in _MISSING:
        return ""
    whole = re.fullmatch(r"([-+]?[0-9]+)\.0+", plain)
    return whole[1] if whole and not _POINTED.fullmatch(plain) else plain


def _of_float(value: float) -> str:
    if not value.is_integer() or abs(value) >= 2**53:
        raise InputError(f"{_LEGAL}, got {value!r}: floats lose digits, read ids as text")
    return str(int(value))


def _folded(name: str) -> str:
    """Return an id without letter case, blanks, widths of letters and ways to write a number."""
    once = unicodedata.normalize("NFKC", name).casefold().translate(_ALIKE)
    if name.isascii() and name.isalnum():
        bare = once
    else:
        unspaced = "".join(unicodedata.normalize("NFKC", once).split())
        shown = (c for c in unspaced if unicodedata.category(c) not in ("Cc", "Cf"))
        bare = "".join(str(unicodedata.decimal(c, c)) for c in shown)
    bare = bare.strip("='\"").rstrip(".,;") or bare  # what spreadsheets put around text
    plain = re.sub("[,.']", "", bare) if _THOUSANDS.fullmatch(bare) else bare
    number = _NUMBER.fullmatch(plain)
    if not number:
        return bare
    value = f"{int(number[2])}.{number[3] or ''}"
    return value if value == "0." else number[1].strip("+") + value


def refuse_alike(names: Iterable[str], what: str = "client") -> None:
    """Refuse names that differ only in letter case, in blanks, or in how a number is written.

    Examples
    --------
    >>> refuse_alike(["ann", "Ann"])
    Traceback (most recent call last):
    latecomer.errors.InputError: client 'ann' and 'Ann' differ only in letter case: write \
each client one way, or name them apart
    """
    seen: dict[str, str] = {}
    padded: dict[str, tuple[str, str]] = {}
    for name in names:
        folded = _folded(name)
        first = seen.setdefault(folded, name)
        # Zeros before a number: names of one length differ in more than these.
        bare = _ZEROS.sub(lambda found: (found[1] or "").lstrip("0"), folded)
        known, other = padded.setdefault(bare, (folded, name))
        first = first if len(known) == len(folded) else other
        if first != name:
            how = "letter case" if first.casefold() == name.casefold() else "how they are written"
            raise InputError(
                f"{what} {first!r} and {name!r} differ only in {how}: write each {what} one way,"
                " or name them apart"
            )


def refuse_clients(names: Collection[str]) -> None:
    """Refuse ids that are alike, that a spreadsheet has shortened, or that name a metric.

    Hexadecimal ids of one length, such as ``12e45678``, are legal.

    Examples
    --------
    >>> refuse_clients(["1.0E+05", "100007"])
    Traceback (most recent call last):
    latecomer.errors.InputError: client '1.0E+05' is in scientific notation, as spreadsheets \
write long numbers, and several may have become one: write ids in full, as text
    """
    refuse_scientific(names, "client")
    of_split = len(names) > 1 and all(name.casefold() in _SPLITS for name in names)
    for name in names:
        if of_split or _names_metric(name):
            raise InputError(
                f"client {name!r} is the name of a {'part of data' if of_split else 'metric'}: one"
                " loss a client is needed, as in {'client 1': 0.1, 'client 2': 0.3}"
            )
    marked = [name for name in names if name.startswith(_COMMENT)]
    if 0 < len(marked) < len(names):
        raise InputError(
            f"client {marked[0]!r} looks like a comment: comment lines are not read, leave them out"
        )
    refuse_alike(names)
    pointed = next(filter(_POINTED.fullmatch, names), None)
    if pointed is not None:
        whole, _, thousand = pointed.partition(".")
        raise InputError(
            f"client {pointed!r} may be {whole} or, with a point for thousands, {whole}{thousand}:"
            " write ids as whole numbers"
        )
    broken = next(filter(_FRACTION.fullmatch, names), None)
    if broken is not None:
        raise InputError(
            f"client {broken!r} is a number with a fraction, of which programs keep as many digits"
            f" as they like: write ids as whole numbers, or as text, such as 'site {broken}'"
        )


def refuse_scientific(names: Collection[str], what: str) -> None:
    """Refuse numbers in scientific notation, several of which may have become one."""
    short = [name for name in names if _SCIENTIFIC.fullmatch(name)]
    if short and not _hexadecimal(names):
        raise InputError(
            f"{what} {short[0]!r} is in scientific notation, as spreadsheets write long numbers,"
            f" and several may have become one: write {'ids' if what == 'client' else what + 's'}"
            " in full, as text"
        )


def _names_metric(name: str) -> bool:
    """Whether a name is made of a metric's words, however they are joined."""
    words = name_words(name)
    if "_".join(words) in _METRIC_OF_TWO:
        return True
    return not _METRICS.isdisjoint(words) and _METRICS.union(_OF_METRICS).issuperset(words)


def _hexadecimal(names: Collection[str]) -> bool:
    of_one_length = len({len(name) for name in names}) == 1
    return of_one_length and all(map(_HEX.fullmatch, names)) and any(map(_BEYOND_E.search, names))


@dataclass
class Spellings:
    """Spells the ids of one table, and remembers which were written in two ways.

    Names of groups and classes (``what`` is no client) may be anything, and stay as they are but
    for their ends and their Unicode form.
    """

    what: str = "client"
    _known: dict[str, str] = field(default_factory=dict)
    _first: dict[str, str] = field(default_factory=dict)
    _others: dict[str, str] = field(default_factory=dict)

    def of(self, value: Any) -> str:
        """Return an id's one spelling; see `spelling`."""
        if not isinstance(value, str):
            if self.what == "client":
                return spelling(value)
            value = "" if is_missing(value) else str(value)
        known = self._known.get(value)
        if known is None:
            if any("\ud800" <= letter <= "\udfff" for letter in value):
                raise InputError(f"a {self.what} must be text, got half a letter in {value!a}")
            known = self._known[value] = (_spelt if self.what == "client" else _trimmed)(value)
            if self._first.setdefault(known, value) != value:
                self._others.setdefault(known, value)
        return known

    def notes(self) -> tuple[str, ...]:
        """Say which ids became one."""
        if not self._others:
            return ()
        name, other = next(iter(self._others.items()))
        more = f", and {len(self._others) - 1} more" if len(self._others) > 1 else ""
        return (f"{self._first[name]!a} and {other!a} are one {self.what}, {name!r}{more}",)


def spelt_array(ids: Any, what: str = "client") -> tuple[np.ndarray[Any, Any], tuple[str, ...]]:
    """Spell an array of text, each different entry once; return it with what became one.

    Examples
    --------
    >>> spelt_array(np.array(["ann ", "ann", "bob"]))
    (array(['ann', 'ann', 'bob'], dtype='<U3'), ("'ann' and 'ann ' are one client, 'ann'",))
    """
    different, places = np.unique(np.asarray(ids), return_inverse=True)
    spellings = Spellings(what)
    spelt = np.array([spellings.of(one) for one in different.tolist()])
    return spelt[places.reshape(-1)], spellings.notes()


ALPHABET = 11
"""From so many names of one character each on, the classes are characters: all may be one."""
# Marks that publishers of data put where nothing is known, what infinity is written as, and what
# spreadsheets put where a formula failed.
_GAP = re.compile(
    r"\?+|\.|n\.a\.?|missing|[-+]?(inf|infinity)|[-+]?1\.#(ind|inf|qnan)|#(value!|ref!|div/0!|name\?|num!|null!)",
    re.IGNORECASE,
)
_ANY_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")


def is_gap(cell: Any) -> bool:
    """Whether a cell stands for no label: missing, or what programs write as text for that.

    Examples
    --------
    >>> [is_gap(cell) for cell in (None, float("nan"), "NA", " ?", "inf", "", "cat", 0)]
    [True, True, True, True, True, True, False, False]
    """
    if stands_for_none(cell):
        return True
    return isinstance(cell, str) and bool(_GAP.fullmatch(cell.strip()))


def are_characters(names: Collection[str]) -> bool:
    """Whether classes are characters, among which ``a`` and ``A`` are two and ``?`` is one.

    Examples
    --------
    >>> are_characters(set("abcdefghijkA?")), are_characters({"y", "n", "?"})
    (True, False)
    """
    return len(names) >= ALPHABET and all(len(name) == 1 for name in names)


def first_gap(cells: Sequence[Any]) -> int | None:
    """Return the place of the first cell that stands for no label; None where there is none.

    Where all labels are characters, marks and blanks among them are labels, too.

    Examples
    --------
    >>> first_gap(["cat", "?"]), first_gap(["cat", "dog"]), first_gap([*"abcdefghijk?"])
    (1, None, None)
    """
    gaps = (place for place, cell in enumerate(cells) if is_gap(cell))
    found = next(gaps, None)
    if found is None or not are_characters({str(cell) for cell in cells}):
        return found
    return next((place for place, cell in enumerate(cells) if not isinstance(cell, str)), None)


def holds_quantity(names: Collection[str]) -> bool:
    """Whether names are all numbers, some of them with a fraction: a quantity as text.

    Examples
    --------
    >>> holds_quantity(["0.5", "1"]), holds_quantity(["1", "2.0"]), holds_quantity(["0.5", "high"])
    (True, False, False)
    """
    numbers = all(map(_ANY_NUMBER.fullmatch, names))
    return numbers and any(not float(name).is_integer() for name in names)


def refuse_labels(names: Collection[str]) -> None:
    """Refuse names of classes that may be one class, or that are no names beside the others.

    They are the different names, blanks at their ends taken off.  Refused are two that differ only
    in letter case, in blanks, or in how a number is written; a number and a name; a decimal comma;
    scientific notation.  Names of one character each are legal from eleven of them on, and so are
    numbers beside what holds digits and signs alone, as in ``0``, ``1``, ``2+``.

    Examples
    --------
    >>> refuse_labels(["0", "1", "2+"])
    >>> refuse_labels(["1", "cat"])
    Traceback (most recent call last):
    latecomer.errors.InputError: labels must be of one kind, whole numbers or names, got name \
'cat' and number '1'
    """
    if are_characters(names):
        return
    for name in names:
        if hint := decimal_comma(name):
            raise InputError(f"labels must be whole numbers or names, got {name!r}{hint}")
    refuse_scientific(names, "label")
    of_kind = {_kind(name): name for name in names}
    of_kind.pop("range", None)
    if len(of_kind) > 1:
        told = " and ".join(f"{kind} {name!r}" for kind, name in sorted(of_kind.items()))
        raise InputError(f"labels must be of one kind, whole numbers or names, got {told}")
    refuse_alike(names, "label")


def _kind(text: str) -> str:
    """Return what a label is; a range or an open end of numbers (``3+``, ``<5``) goes with any."""
    if _ANY_NUMBER.fullmatch(text):
        return "number"
    if any(map(str.isalpha, text)):
        return "name"
    return "range" if any(map(str.isdigit, text)) else "mark"
