"""One entry of a list in full: what it is, its settings, its source and a line to start from.

All of it is read where it is declared: fields, signatures and docstrings.
"""

import ast
import inspect
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from latecomer.certify.words import WIDTH, wrapped
from latecomer.declared import Documented, documented, plain, prose
from latecomer.errors import InputError, nearest

if TYPE_CHECKING:
    from latecomer.eval.datasets.reader import Source

_NOTHING = Documented("", "")


@dataclass(frozen=True)
class Setting:
    """A setting: its default as text, empty where it must be given, its range, its meaning."""

    name: str
    default: str
    legal: str
    meaning: str


@dataclass(frozen=True)
class Described:
    """An entry of a list."""

    name: str  # what it is called in studies and commands
    says: str  # what it is
    facts: Mapping[str, str]  # what else is known of it, by heading
    settings: tuple[Setting, ...] = ()  # what may be set
    example: str = ""  # a line that uses it
    more: str = ""  # what ``--long`` adds

    def lines(self, *, long: bool = False) -> list[str]:
        """Show it in at most 80 columns."""
        shown = wrapped(f"{self.name}: {self.says}", further="  ")
        for heading, told in self.facts.items():
            shown += wrapped(f"{heading}: {told}", further="  ") if told else []
        if self.settings:
            shown += ["settings:", *_setting_lines(self.settings)]
        if self.example:
            shown += wrapped(f"example: {self.example}", further="    ")
        if long:
            return [*shown, *(["", *self.more.splitlines()] if self.more else [])]
        return [*shown, "all of it: --long"] if self.more else shown


def grouped(groups: Mapping[str, Sequence[tuple[str, str]]]) -> list[str]:
    r"""Show names and what they are, group by group, in at most 80 columns.

    A name that leaves what follows too little room stands on a line of its own.

    Examples
    --------
    >>> print("\n".join(grouped({"start here": [("quickstart", "How well?")]})))
    start here
      quickstart  How well?
    """
    names = [name for listed in groups.values() for name, _ in listed]
    column = max(map(len, names), default=0) + 4
    lines: list[str] = []
    for heading, listed in groups.items():
        lines += [*([""] if lines else []), *wrapped(heading)]
        for name, says in listed:
            if column > WIDTH // 3:
                lines += [f"  {name}", *wrapped(says, "      ", "      ")]
            else:
                lines += wrapped(says, f"  {name}".ljust(column), " " * column) or [f"  {name}"]
    return lines


def known(kind: str, name: str, names: Iterable[str]) -> None:
    """Refuse a name that is not in a list, in one line that names the nearest."""
    listed = list(names)
    if name not in listed:
        raise InputError(
            f"no {kind} {name!r}{nearest(name, listed)}; 'latecomer {_LISTS[kind]}' lists them"
        )


_LISTS = {
    "method": "methods",
    "study": "studies",
    "bound": "bounds",
    "data set": "datasets",
    "rule": "rules",
    "shift": "shifts",
}


def method(name: str) -> Described:
    """Describe a method: a built-in one from its file, another from its class."""
    from latecomer.models.class_literals import hyperparameters, said_of
    from latecomer.models.methods.registry import file_of, known_names, method_facts
    from latecomer.models.outside import is_path, offered

    if not is_path(name):
        known("method", name, known_names())
    if is_path(name) or name in offered():
        return _foreign_method(name)
    file, facts = file_of(name), method_facts()[name]
    settings = [
        Setting(
            one.name, shown_default(one.default), one.legal.removeprefix("must be "), one.meaning
        )
        for one in hyperparameters(file, name)
    ]
    return _as_method(name, said_of(file, name), facts, settings)


def _foreign_method(name: str) -> Described:
    from latecomer.models.engine.hyperparameters import legal
    from latecomer.models.methods.registry import find_method

    try:
        cls = find_method(name)
    except ValueError as error:
        raise InputError(str(error)) from error
    told = documented(cls.__doc__, "Attributes")
    settings = [
        Setting(
            one.name,
            shown_default(one.default),
            legal(one).removeprefix("must be "),
            told.get(one.name, _NOTHING).meaning,
        )
        for one in fields(cls)
        if one.metadata
    ]
    facts = {place: getattr(cls, place) for place in ("newcomers_get", "needs_labels", "paper")}
    return _as_method(name, cls.__doc__ or "", facts, settings)


def _as_method(
    name: str, docstring: str, facts: Mapping[str, Any], settings: Sequence[Setting]
) -> Described:
    first, _, rest = prose(docstring).partition("\n\n")
    own = settings[0] if settings else None
    example = f"{{name: {name}, {own.name}: {own.default}}}" if own else name
    return Described(
        name,
        " ".join(first.split()),
        {
            "a new client gets": facts.get("newcomers_get", ""),
            "reads its labels": "yes" if facts.get("needs_labels") else "no",
            "source": facts.get("paper", ""),
        },
        tuple(settings),
        f"methods: [{example}]",
        rest,
    )


def study(name: str) -> Described:
    """Describe a shipped study: its question, what it can be run as, and its file."""
    from latecomer.eval.studies.shipped import read_yaml, shipped_study, shipped_texts

    texts = shipped_texts()
    known("study", name, texts)
    shipped, text = shipped_study(name), texts[name]
    raw = read_yaml(text, f"study {name}")
    scales = [one if one != shipped.scale else f"{one} (as written)" for one in shipped.scales]
    methods = [
        str(m.get("label") or m["name"]) if isinstance(m, Mapping) else str(m)
        for m in raw.get("methods") or ()
    ]
    return Described(
        name,
        shipped.question,
        {
            "note": " ".join(shipped.note.split()),
            "scales": ", ".join(scales),
            "variants": ", ".join(shipped.variants),
            "methods": ", ".join(methods),
            **{key: _flow(raw[key]) for key in ("data", "split", "train") if raw.get(key)},
            "seeds": _flow(raw.get("seeds") or [0]),
            "source": ", ".join(shipped.paper),
        },
        (),
        f"latecomer run {name}"
        + (f" --scale {shipped.scales[0]}" if len(shipped.scales) > 1 else ""),
        text.rstrip("\n"),
    )


def bound(name: str) -> Described:
    """Describe a bound: the catalogue's entry, and its arguments as its docstring has them."""
    from latecomer.bounds import CATALOGUE
    from latecomer.commands.arguments import signature
    from latecomer.commands.render import about

    known("bound", name, CATALOGUE)
    entry = CATALOGUE[name]
    docstring = inspect.getdoc(entry.function)
    told = _arguments(name)
    settings = [
        Setting(key, "" if one.default is one.empty else shown_default(one.default), *told[key])
        for key, one in inspect.signature(entry.function).parameters.items()
    ]
    return Described(
        name,
        entry.claim,
        {
            "source": entry.source,
            "about": about(entry),
            "holds if": "; ".join(entry.assumptions),
            "vacuous when": entry.vacuous_when,
            "not a proven bound": "" if entry.rigorous else entry.reason,
            "usage": signature(entry),
        },
        tuple(settings),
        _called(name, docstring or ""),
        prose(docstring),
    )


def _arguments(bound: str) -> dict[str, Documented]:
    """Say of each argument of a bound what it may be and what it is.

    Its docstring may say it as for another bound; what arguments of one name are everywhere stands
    at the head of the package.
    """
    import latecomer.bounds
    from latecomer.bounds import CATALOGUE

    function = CATALOGUE[bound].function
    told = documented(function.__doc__)
    shared = _shared(latecomer.bounds.__doc__ or "")
    names = inspect.signature(function).parameters
    return {key: _in_full(key, told.get(key, _NOTHING), shared, set(names)) for key in names}


def _in_full(
    key: str, said: Documented, shared: Mapping[str, str], names: Collection[str]
) -> Documented:
    """Put what is said of another bound's argument in place of a reference to it."""
    from latecomer.bounds import CATALOGUE

    alike = re.match(r"As for (\w+)\W*(.*)", said.meaning)
    if not alike or alike[1] not in CATALOGUE:
        return said._replace(meaning=said.meaning or shared.get(key, ""))
    there, more = _arguments(alike[1]).get(key, _NOTHING), alike[2]
    # What is added of one of several arguments begins with its name.
    if more.split(" ")[0] in {*names} - {key}:
        more = ""
    added = f" {more[:1].upper()}{more[1:]}" if more else ""
    return Documented(said.kind or there.kind, f"{there.meaning}{added}")


@cache
def _shared(docstring: str) -> Mapping[str, str]:
    """Return what the head of the package says of arguments that bounds share."""
    found = re.findall(r"^(\w+)\n((?:    .+\n)+)", docstring, re.MULTILINE)
    return {key: plain(" ".join(text.split())) for key, text in found}


def _called(name: str, docstring: str) -> str:
    """Return the first call in a docstring's examples as it is typed, if it holds literals."""
    code = "\n".join(re.findall(r"^\s*(?:>>>|\.\.\.) (.*)$", docstring, re.MULTILINE))
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return ""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=function), args=[], keywords=given) if function == name:
                try:
                    words = [f"{one.arg}={_typed(_literal(one.value))}" for one in given]
                except ValueError:
                    continue
                line = " ".join([f"latecomer bound {name}", *words])
                return line if len(line) <= 3 * WIDTH else ""
    return ""


def _literal(node: ast.expr) -> Any:
    match node:
        case ast.BinOp(left=ast.List() as part, op=ast.Mult(), right=ast.Constant(value=many)):
            return ast.literal_eval(part) * many
        case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=power)):
            return ast.literal_eval(left) ** power
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _literal(left) + _literal(right)
    return ast.literal_eval(node)


def _typed(value: Any) -> str:
    text = str(list(value) if isinstance(value, tuple) else value).replace(", ", ",")
    return text.replace("'", "")


def dataset(name: str, root: Path | None = None) -> Described:
    """Describe a data set: its keys, and how it gets onto this machine, below ``root``."""
    from latecomer.eval.datasets.columns import from_columns
    from latecomer.eval.datasets.reader import ENVIRONMENT, data_root
    from latecomer.eval.datasets.registry import DATASETS

    known("data set", name, DATASETS)
    reader = DATASETS[name]
    docstring = inspect.getdoc(getattr(reader.read, "func", reader.read))
    told = documented(from_columns.__doc__) | {
        key: one for key, one in documented(docstring).items() if one.meaning
    }
    given = {**inspect.signature(from_columns).parameters}
    given |= inspect.signature(reader.read).parameters
    settings = [
        Setting(
            key,
            "" if key in reader.required else shown_default(given[key].default),
            told.get(key, _NOTHING).kind,
            told.get(key, _NOTHING).meaning,
        )
        for key in (*reader.required, *reader.optional)
    ]
    keys = "".join(f", {key}: ..." for key in reader.required)
    source, facts = reader.source, dict[str, str]()
    if source is not None:
        below = f"put below {data_root(root)} (or --root, {ENVIRONMENT}, data.root)"
        facts = {"publisher": source.home, "licence": source.licence, below: source.place}
    made = () if source is None else _made_from(source)
    return Described(
        name,
        reader.description,
        facts,
        tuple(settings),
        f"data: {{name: {name}{keys}}}",
        "\n".join([*made, *prose(docstring).splitlines()]),
    )


def _made_from(source: "Source") -> Iterator[str]:
    """Say what is downloaded, or how the files are made."""
    for archive in source.archives:
        yield f"download: {archive.file}, {archive.size:,} bytes"
        yield from (f"  from {url}" for url in archive.urls)
        sums = {"sha256": archive.sha256, "md5": archive.md5}
        known_sums = [f"  {algorithm} {digest}" for algorithm, digest in sums.items() if digest]
        yield from known_sums or ["  no published sum: unverified, recorded at the first download"]
    yield from source.recipe.splitlines()


def shift(name: str) -> Described:
    """Describe a shift: what its severities are, and where they lie."""
    from latecomer.eval.shifts.transforms import SHIFTS

    known("shift", name, SHIFTS)
    one = SHIFTS[name]
    low = "above 0" if one.above_zero and one.low == 0 else f"at least {one.low:g}"
    neutral = "" if one.neutral is None else f"{one.neutral:g} changes nothing"
    middle = one.low + (one.high - one.low) / 4
    return Described(
        name,
        one.description,
        {
            "severity": f"{one.unit}, {low} and at most {one.high:g}"
            + (f"; {neutral}" if neutral else ""),
            "needs images": "yes" if one.images else "no",
            "no certificate": one.joint,
        },
        (),
        f"shifts: {{{name}: [{middle:g}, {one.high:g}]}}",
    )


def rule(name: str) -> Described:
    """Describe a rule of certificates: what it bounds, and whose clients its proof covers."""
    from latecomer.certify.rule import RULES

    known("rule", name, RULES)
    one = RULES[name]
    drawn = [
        text
        for text, holds in (
            ("independent clients", one.iid),
            ("clients of a finite pool", one.finite_pool),
        )
        if holds
    ]
    needs = [
        text
        for text, holds in (
            (f"{one.least} clients or more", one.least > 1),
            ("the random order in which clients were drawn", one.ordered),
            ("orders drawn at random", one.orders),
        )
        if holds
    ]
    typed = {"table", "zero_one"} & set(one.doors)
    return Described(
        name,
        one.certify_words or one.words,
        {
            "bounds": RULE_STATES[one.states],
            "proved for": " and ".join(drawn),
            "needs": "; ".join(needs),
            "level": one.level,
            "says nothing": "as soon as one client has the largest loss"
            if one.ends_at_largest
            else "",
        },
        (),
        f"latecomer certify losses.csv --rule {name}"
        if typed
        else f"certificates: [{{rule: {name}, {one.level}: ...}}]",
    )


RULE_STATES = {
    "mean": "the mean loss of new clients",
    "next": "the loss of the next client",
    "share": "the share of clients above a loss",
    "curve": "the share of clients above every loss at once",
    "populations": "the mean loss of other populations of clients",
}


def _setting_lines(settings: Sequence[Setting]) -> Iterator[str]:
    """Show each setting, and once what several in a row mean."""
    for meaning, alike in groupby(settings, lambda one: one.meaning):
        for one in alike:
            head = f"  {one.name} = {one.default}" if one.default else f"  {one.name}, to be given"
            yield from wrapped(f"{head}   {one.legal}".rstrip(), "", "      ")
        yield from wrapped(meaning, "      ", "      ")


def shown_default(value: Any) -> str:
    """Write a default as a study does, and ``none`` where there is none."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return _flow(list(value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _flow(value: Any) -> str:
    """Write plain values as a study does on one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_flow(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return shown_default(value)


DESCRIBED: Mapping[str, Callable[[str], Described]] = {
    "method": method,
    "study": study,
    "bound": bound,
    "rule": rule,
    "shift": shift,
}
"""What describes an entry, by the kind of list; data sets need a folder too."""
