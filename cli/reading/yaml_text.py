"""YAML 1.2 as studies, plans and the command line read it: numbers as they look, no key twice.

PyYAML reads YAML 1.1, where 0100 is 64, 1:30 is 90, 1e-1 is text and ``no`` is false.  Here plain
scalars follow the core schema of YAML 1.2 (section 10.3.2); dates, which it lacks, are text.
"""

import re
from collections.abc import Callable
from typing import Any

import yaml

from latecomer.errors import InputError

_CORE = {
    "null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    "bool": (r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    "int": (r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    "float": (
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
}
# What cuts a plain text short and looks like a part of it: set #2.npz.
_CUT = re.compile(r"[ \t]+(#[^\s#!].*)")
# What PyYAML says of the commonest mistakes, and what they are.
_PLAINLY = {
    "found character '\\t' that cannot start any token": "a tab stands here: write blanks",
    "mapping values are not allowed here": "a colon within a value, or keys that are not indented"
    " alike: quote values with a colon",
}
_MOST_DIGITS = 300  # whole numbers become floats
_TAG = "tag:yaml.org,2002:"


class _Loader(yaml.SafeLoader):
    """Safe YAML whose plain scalars follow the core schema."""

    yaml_implicit_resolvers = {}  # noqa: RUF012


class _Dumper(yaml.SafeDumper):
    """Quotes what either version of YAML would read as something other than text."""


for _kind, (_pattern, _firsts) in _CORE.items():
    for _one in (_Loader, _Dumper):
        _one.add_implicit_resolver(_TAG + _kind, re.compile(rf"(?:{_pattern})\Z"), _firsts)


def _whole(loader: _Loader, node: yaml.ScalarNode) -> int:
    text = node.value
    if len(text) > _MOST_DIGITS:
        raise ValueError(f"a whole number has at most {_MOST_DIGITS} digits, got {len(text)}")
    base = {"0o": 8, "0x": 16}.get(text[:2], 10)
    return int(text, base)


def _real(loader: _Loader, node: yaml.ScalarNode) -> float:
    text = node.value.lower()
    return float(text.replace(".inf", "inf").replace(".nan", "nan"))


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[str, Any]:
    held: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        wrong = "" if isinstance(key, str) else f"{key!r} is no key"
        if isinstance(key, int | float) and value_node.value == "":
            wrong += "; a decimal comma? Write a point"
        if not wrong and key in held:
            wrong = f"key {key!r} is given twice"
        if wrong:
            raise yaml.MarkedYAMLError(problem=wrong, problem_mark=key_node.start_mark)
        held[key] = loader.construct_object(value_node, deep=True)
    return held


def _text(loader: _Loader, node: yaml.ScalarNode) -> str:
    """Return text, unless what stands behind it may be its end, or a comment."""
    if node.style is None and node.end_mark is not None:
        text = str(node.end_mark.buffer or "")
        line = text[node.end_mark.pointer :].partition("\n")[0].rstrip("\0\r")
        cut = _CUT.match(line)
        if cut:
            wrong = (
                f"{cut[1]!r:.60} behind {node.value!r:.60} begins a comment: quote all of it if it"
                " belongs to the value, or write a blank behind #"
            )
            raise yaml.MarkedYAMLError(problem=wrong, problem_mark=node.end_mark)
    return str(node.value)


class _QuickLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """The same by libyaml, where PyYAML has it; comments that may be text it cannot see."""

    yaml_implicit_resolvers = _Loader.yaml_implicit_resolvers


_Loader.add_constructor(_TAG + "str", _text)
for _one in (_Loader, _QuickLoader):
    _one.add_constructor(_TAG + "int", _whole)
    _one.add_constructor(_TAG + "float", _real)
    _one.add_constructor(_TAG + "map", _mapping)


def read_mapping(
    text: str, where: str, legal: str, *, broken: str = "broken YAML"
) -> dict[str, Any]:
    r"""Read keys and their values.

    Broken YAML and a key that is given twice are refused with the number of the line.  In messages
    ``where`` names the text's origin, ``legal`` says what it should be where it holds no keys, and
    ``broken`` what it is called where it cannot be parsed.

    Examples
    --------
    >>> read_mapping("run_length: 0100\nthreshold: 1e-1\nnote: no", "plan", "a mapping")
    {'run_length': 100, 'threshold': 0.1, 'note': 'no'}
    """
    held = _read(text.removeprefix("\ufeff"), lambda place: f"{where}{place}: {broken}: ")
    if not isinstance(held, dict):
        shown = " ".join(repr(held).split())
        raise InputError(
            f"{where}: {legal}, got {shown if len(shown) < 61 else shown[:57] + '...'}"
        )
    return held


def read_shipped(text: str) -> dict[str, Any]:
    r"""Read a file that comes with the package, eight times as quickly as `read_mapping`.

    Nobody made a mistake in it: a test reads every such file in both ways.

    Examples
    --------
    >>> read_shipped("run_length: 0100\nthreshold: 1e-1\nnote: no")
    {'run_length': 100, 'threshold': 0.1, 'note': 'no'}
    """
    held: dict[str, Any] = yaml.load(text, Loader=_QuickLoader)
    return held


def read_value(text: str, name: str) -> Any:
    """Read what stands behind ``key=`` on a command line.

    A text that does not begin with a bracket, brace or quotation mark is one plain scalar, kept
    whole: ``#`` begins no comment in it.

    Broken YAML, and a key within it that is given twice, are refused in the key's ``name``.

    Examples
    --------
    >>> read_value("set #2.npz", "data.path"), read_value("05000", "n_samples")
    ('set #2.npz', 5000)
    >>> read_value("[1e-1, .2]", "losses")
    [0.1, 0.2]
    """
    plain = text.strip()
    loader = _Loader("")
    try:
        if not plain.startswith(("[", "{", '"', "'")):
            tag = loader.resolve(yaml.ScalarNode, plain, (True, False))  # type: ignore[no-untyped-call]
            return loader.construct_object(yaml.ScalarNode(tag, plain))
    except ValueError as error:
        raise InputError(f"{name}: {plain!r:.60} is no YAML value: {error}") from error
    finally:
        loader.dispose()
    return _read(plain, lambda _: f"{name}: {plain!r} is no YAML value: ", whole=True)


def _read(text: str, blame: Callable[[str], str], *, whole: bool = False) -> Any:
    """Return the one document that a text holds; ``whole`` allows nothing behind it."""
    try:
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            if whole and node is not None and node.end_mark.index < len(text):
                behind = text[node.end_mark.index :].strip()
                raise yaml.MarkedYAMLError(problem=f"{behind!r} stands behind it; quote all of it")
            return None if node is None else loader.construct_document(node)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f", line {mark.line + 1}" if mark else ""
        said = error.problem or error.context or ""
        raise InputError(f"{blame(place)}{_PLAINLY.get(said, said)}") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise InputError(f"{blame('')}{' '.join(str(error).split())}") from None


def write_yaml(value: Any) -> str:
    """Write plain data so that `read_mapping` gives it back, keys in their order.

    Examples
    --------
    >>> print(write_yaml({"note": "1e-1", "delta": 0.05}), end="")
    note: '1e-1'
    delta: 0.05
    """
    return str(yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True))
