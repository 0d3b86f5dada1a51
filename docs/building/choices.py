"""What there is to choose from, as the reference shows it: methods, networks, data, rules."""

import re
from collections.abc import Iterator
from inspect import getmodule, isfunction
from pathlib import Path

import click
import typer.main
from blocks import table
from python_names import docstring_of, place_of, plain
from settings import cell, setting_table

import latecomer.reports
from latecomer.bounds import CATALOGUE
from latecomer.certify.rule import BEST_OF, DEFAULT_RULE, RULES, rules_for
from latecomer.commands import entries
from latecomer.commands.app import app
from latecomer.commands.entries import RULE_STATES, Described, Setting
from latecomer.declared import documented
from latecomer.eval.datasets.registry import DATASETS
from latecomer.eval.results.rows import MEANINGS
from latecomer.eval.shifts.transforms import SHIFTS
from latecomer.models.methods.registry import known_names

README = Path(__file__).resolve().parents[2] / "bounds" / "README.md"


def _entry(told: Described) -> str:
    """Return an entry of a list: what it is, what else is known of it, and its settings."""
    facts = "; ".join(f"{heading}: {said}" for heading, said in told.facts.items() if said)
    settings = [_described(one) for one in told.settings]
    parts = [f"### {told.name}", _sentence(told.says), _sentence(facts)]
    parts += [setting_table(settings) if settings else "It has no settings."]
    return "\n\n".join([*filter(None, parts), f"    {told.example}"])


def _described(one: Setting) -> Setting:
    default = {"": "required", "none": "not set"}.get(one.default, f"`{one.default}`")
    return Setting(one.name, default, cell(one.legal), one.meaning)


def _sentence(text: str) -> str:
    said = cell(text)
    return f"{said[:1].upper()}{said[1:]}{'' if said.endswith(('.', '?')) else '.'}" if said else ""


def command_list() -> str:
    """Return every command with what it does and lines to start from."""
    return "\n\n".join(
        f"## {name}\n\n{does}\n\n{lines}"
        for name, does, lines in _commands(typer.main.get_command(app), "latecomer")
    )


def _commands(group: click.Command, called: str) -> Iterator[tuple[str, str, str]]:
    for name, command in getattr(group, "commands", {}).items():
        full = f"{called} {name}"
        if hasattr(command, "commands"):
            yield from _commands(command, full)
            continue
        epilog = command.epilog or ""
        does = " ".join((command.help or "").partition("\n\n")[0].split())
        lines = epilog.partition("Examples:\n")[2].splitlines()
        yield full, does, "\n".join(f"    {line.strip()}" for line in lines)


def method_list() -> str:
    """Return which method makes what for a new client, then every method with its settings."""
    told = {name: entries.method(name) for name in known_names()}
    made: dict[tuple[str, str], list[str]] = {}
    for name, one in told.items():
        gets, labels, _ = one.facts.values()
        made.setdefault((gets, labels), []).append(f"`{name}`")
    heads = ("a new client gets", "its labels are read", "methods")
    lines = table(heads, ((*cells, ", ".join(names)) for cells, names in made.items()))
    return "\n\n".join(["\n".join(lines), *map(_entry, told.values())])


def data_set_list() -> str:
    """Return every data set with the keys that its reader takes."""
    told = (entries.dataset(name) for name in DATASETS)
    return "\n\n".join(
        _entry(Described(one.name, one.says, {}, one.settings, one.example)) for one in told
    )


def shift_table() -> str:
    """Return the built-in shifts."""
    heads = ("shift", "what it does", "severity", "images only", "no certificate, for it")
    told = {name: entries.shift(name) for name in SHIFTS}
    rows = ((f"`{n}`", *map(cell, (one.says, *one.facts.values()))) for n, one in told.items())
    return "\n".join(table(heads, rows))


def network_lists() -> str:
    """Return the target networks and the encoders."""
    homes = {
        "Target networks (`model.target`)": "latecomer.models.task.targets.TARGETS",
        "Encoders that read labels (`model.encoder`)": "latecomer.models.generators.encoders"
        ".ENCODERS",
        "Encoders that read inputs alone (`model.encoder`)": "latecomer.models.generators"
        ".unlabelled_encoders.SET_ENCODERS",
    }
    parts = []
    for heading, full in homes.items():
        listed = docstring_of(full).partition("\n\n")[2].replace("``", "`")
        parts += [f"## {heading}", re.sub(r"\n  +", " ", listed)]
    return "\n\n".join(parts)


def rule_tables() -> str:
    """Return which rule is for what, then each of them."""
    which = []
    for states, words in RULE_STATES.items():
        own = [rule for rule in RULES.values() if rule.states == states]
        drawn = ([r.name for r in own if r.iid], [r.name for r in own if r.finite_pool])
        which.append((words, *map(_first_default, drawn)))
    each = []
    for name in RULES:
        told = entries.rule(name)
        facts = [said for heading, said in told.facts.items() if heading != "bounds"]
        each.append((f"`{name}`", *map(cell, (told.says, *facts))))
    zero_one = _first_default(list(rules_for("zero_one")))
    lines = [
        *table(("to be bounded", "independent clients", "a finite pool"), which),
        "",
        f"Where every loss is 0 or the largest: {zero_one}. The default: `{DEFAULT_RULE}`.",
        f"`{BEST_OF}` takes the smallest of several rules, each at its part of delta.",
        "",
        *table(("rule", "what it is", "proved for", "needs", "level", "says nothing"), each),
    ]
    return "\n".join(lines)


def _first_default(names: list[str]) -> str:
    listed = sorted(names, key=lambda name: name != DEFAULT_RULE)
    return ", ".join(f"`{name}`" for name in listed) or "none"


def bound_tables() -> str:
    """Return which bound is for which question, then every one by family."""
    page = README.read_text("utf-8")
    asked = page.partition("## Which bound for which question")[2].partition("\n\n|")[2]
    parts = [f"|{asked.partition(chr(10) * 2)[0]}"]
    for family in sorted({entry.family for entry in CATALOGUE.values()}):
        parts += [
            f"### {_sentence(family)[:-1]}",
            "\n".join(table(("bound", "claim", "source"), _family(family))),
        ]
    return "\n\n".join(parts)


def _family(family: str) -> Iterator[tuple[str, str, str]]:
    for name, entry in sorted(CATALOGUE.items()):
        if entry.family == family:
            home = getmodule(entry.function)
            link = place_of(f"{home.__name__}.{name}") if home else ""
            yield f"[`{name}`]({link})", cell(plain(entry.claim)), cell(entry.source)


def column_table() -> str:
    """Return the columns of ``rows.csv``, then those of the frames that reports make of it."""
    columns = ((f"`{name}`", cell(says)) for name, says in MEANINGS.items())
    frames = []
    for name in latecomer.reports.__all__:
        frame = getattr(latecomer.reports, name)
        returned = documented(frame.__doc__, "Returns", shown=plain) if isfunction(frame) else {}
        if name.endswith("_frame"):
            own = " ".join(one.meaning for one in returned.values())
            said = plain((frame.__doc__ or "").partition("\n\n")[0])
            frames.append((f"`{name}`", cell(said), cell(own)))
    lines = table(("column of `rows.csv`", "what it holds"), columns)
    return "\n".join([*lines, "", *table(("frame", "what it holds", "columns"), frames)])
