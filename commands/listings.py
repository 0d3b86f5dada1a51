"""What there is to choose from: studies, methods, bounds and data sets, as records with a name."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from math import prod
from operator import itemgetter
from pathlib import Path
from typing import Any

from typer.core import TyperCommand

COUNTED = Path(__file__).with_name("counted.json")
"""What each method sends with the digits network, by name; a method without a line is counted."""
COUNTED_NEWCOMERS = COUNTED.with_name("counted_newcomers.json")
"""What each built-in method makes for a new client, by name; one without a line is counted."""
COUNTS = ("predictors", "bytes_up", "bytes_down", "kept_per_client")


def bounds() -> list[dict[str, Any]]:
    """List every calculator of the catalogue, family by family."""
    from latecomer.bounds import CATALOGUE
    from latecomer.commands.arguments import signature

    told = (
        *("name", "family", "kind", "claim", "source", "population", "predictor", "sampling"),
        *("assumptions", "vacuous_when", "rigorous", "reason"),
    )
    entries = sorted(CATALOGUE.values(), key=lambda entry: (entry.family, entry.name))
    return [
        {**{name: getattr(entry, name) for name in told}, "usage": signature(entry)}
        for entry in entries
    ]


def datasets() -> list[dict[str, Any]]:
    """List the data sets: how each gets onto this machine, and the keys that each takes."""
    from latecomer.eval.datasets.registry import DATASETS

    listed = []
    for name, reader in DATASETS.items():
        archives = () if reader.source is None else reader.source.archives
        origin = "fetch" if archives else "built in" if reader.source is None else "make it"
        if reader.source is not None and reader.source.extra:
            origin = f"extra {reader.source.extra}"
        listed.append(
            {
                "name": name,
                "origin": "your file" if "path" in reader.required else origin,
                "megabytes": round(sum(archive.size for archive in archives) / 1e6, 1) or "",
                "description": reader.description,
                "required": list(reader.required),
                "optional": list(reader.optional),
            }
        )
    return listed


def rules() -> list[dict[str, Any]]:
    """List the rules of certificates that `certify` takes, then those of studies alone."""
    from latecomer.certify.rule import RULES

    return [
        {
            "name": rule.name,
            "words": rule.certify_words or rule.words,
            "states": rule.states,
            "independent": rule.iid,
            "pool": rule.finite_pool,
            "doors": list(rule.doors),
        }
        for rule in RULES.values()
    ]


def shifts() -> list[dict[str, Any]]:
    """List the shifts of inputs and of labels, with the range of their severities."""
    from latecomer.eval.shifts.transforms import SHIFTS

    told = ("name", "description", "unit", "low", "high")
    return [{name: getattr(one, name) for name in told} for one in SHIFTS.values()]


def methods() -> list[dict[str, Any]]:
    """List the federated methods: protocol for new clients, traffic with the digits network.

    Of the package's own, files are read and not run, and traffic was counted once; without torch.
    """
    from latecomer.models.methods.registry import known_names, method_facts
    from latecomer.models.outside import offered

    facts, counts = method_facts(), json.loads(COUNTED.read_text("utf-8"))
    listed: list[dict[str, Any]] = []
    for name in known_names():
        built_in = name in facts and name not in offered()
        try:
            said = (
                _said(facts[name], counts[name]) if built_in and name in counts else counted(name)
            )
        except (ValueError, TypeError) as error:
            if built_in:
                raise
            # A mistake in another package does not stop the listing of other methods.
            said = {"paper": f"cannot be used: {error}"}
        listed.append({"name": name, **said})
    return listed


def counted(name: str) -> dict[str, Any]:
    """Make a method, which loads torch, and say what it tells and what it sends."""
    from latecomer.models.methods import make_method
    from latecomer.models.task.task import make_task
    from latecomer.models.traffic import traffic

    method = make_method(name)
    sent = traffic(method, make_task(input_shape=(1, 8, 8), n_classes=10))
    counts = {
        "predictors": list(method.predictors),
        "bytes_up": sent.up,
        "bytes_down": sent.down,
        "kept_per_client": sent.kept,
    }
    told = ("personalization", "needs_labels", "paper")
    return _said({place: getattr(method, place) for place in told}, counts)


def _said(facts: Mapping[str, Any], counts: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "personalization": facts["personalization"],
        "needs_labels": facts["needs_labels"],
        **{name: counts[name] for name in COUNTS},
        "paper": facts["paper"],
    }


SUPPORT = 32
"""Points of the new client that `newcomers` is about."""


def newcomers() -> list[dict[str, Any]]:
    """List what each built-in method makes for a client that never trained, and its cost.

    The record of a method has ``labels`` (whether serving reads the new client's), ``points`` (the
    fewest that it must have), ``gets``, ``steps`` (gradient steps it takes), ``rounds``, ``down``
    and ``up`` (times that the server answers, numbers sent to it and by it), by default settings,
    with the digits network, 40 seen clients and `SUPPORT` points of the new client.

    Examples
    --------
    >>> next(one for one in newcomers() if one["name"] == "fedavg")["down"]
    4538
    """
    from latecomer.models.methods.registry import METHODS

    kept = json.loads(COUNTED_NEWCOMERS.read_text("utf-8"))
    return [kept[name] if name in kept else counted_newcomer(name) for name in METHODS]


def counted_newcomer(name: str) -> dict[str, Any]:
    """Make a built-in method, which loads torch, and say what it makes for a new client."""
    from latecomer.models.engine.schedule import Schedule, TrainConfig
    from latecomer.models.methods import make_method
    from latecomer.models.methods.registry import method_facts
    from latecomer.models.task.task import make_task
    from latecomer.models.traffic import random_population

    task = make_task(input_shape=(1, 8, 8), n_classes=10)
    clients = random_population(task, 40)
    schedule = Schedule(0, clients, TrainConfig(rounds=1, cohort=2, local_steps=1, batch_size=2))
    method, told = make_method(name), method_facts()[name]
    first = schedule.cohort(0, method.batches_per_step)
    state = method.init(task, clients, first, schedule.initial_noise())
    sent = method.serving_messages(task, state, SUPPORT)
    return {
        "name": name,
        "called": method.called or method.shown_as or name,
        "labels": method.needs_labels,
        "points": method.least_support,
        "gets": method.newcomers_get,
        "steps": prod(told["serving"].values()) if told["serving"] else 0,
        **(sent._asdict() if sent else {}),
    }


class RulesInHelp(TyperCommand):
    """A command whose help lists the rules; only the help imports them, with numpy and scipy."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        from latecomer.certify.rule import BEST_OF, rules_for

        fitting = rules_for("table").values()
        means = [rule for rule in fitting if rule.states == "mean"]
        told = (
            ([rule.name for rule in means if rule.iid and rule.finite_pool], ""),
            ([rule.name for rule in means if not rule.finite_pool], " for independent clients"),
            ([rule.name for rule in means if not rule.iid], " for a pool"),
            ([r.name for r in fitting if r.states == "next"], " for the next client alone"),
            (list(rules_for("zero_one")), " for losses that are all 0 or the largest"),
            ([BEST_OF], " for the tightest of several, at its price"),
            (["file.py:name"], " for one of your own"),
        )
        listed = "; ".join(", ".join(names) + whom for names, whom in told)
        for option in self.params:
            if option.name == "rule":
                option.help += f" {listed}."  # type: ignore[attr-defined]
        super().format_help(ctx, formatter)


def studies() -> list[dict[str, Any]]:
    """List the studies that come with the package."""
    from latecomer.eval.studies.shipped import shipped_studies

    return [asdict(study) for study in shipped_studies()]


_JOBS = ("bound-vs-accuracy", "generalization-gap", "shift-robustness")
_FOLDERS = {
    "quickstart": "start here",
    "jobs": "three jobs",
    "general": "more on methods",
    "federations": "real federations",
    "certificates": "certificates",
    "pefll": "the PeFLL paper",
    "odpfl": "the OD-PFL paper",
    "pfedhn": "the pFedHN paper",
}
"""Headings of studies, in the order of the list; a folder that is not here is its own heading."""
Records = list[dict[str, Any]]
Groups = dict[str, list[tuple[str, str]]]


def study_groups(records: Records) -> Groups:
    """Group studies for reading: what to start with, then by what they follow."""

    def place(one: dict[str, Any]) -> str:
        name = one["name"]
        return name if name in _FOLDERS else "jobs" if name in _JOBS else one["follows"]

    rank = {folder: number for number, folder in enumerate(_FOLDERS)}
    ordered = sorted(records, key=lambda one: rank.get(place(one), len(rank)))
    return _by(ordered, lambda one: _FOLDERS.get(place(one), place(one)), itemgetter("question"))


def method_groups(records: Records) -> Groups:
    """Group methods by what they make for a new client."""
    from latecomer.models.methods.registry import method_facts

    facts = method_facts()

    def gets(one: dict[str, Any]) -> str:
        said = facts.get(one["name"], {}).get("newcomers_get")
        return f"a new client gets {said}" if said else "of installed packages"

    def says(one: dict[str, Any]) -> str:
        told = facts.get(one["name"], {})
        called = told.get("called") or told.get("shown_as")
        labels = "needs its labels" if one.get("needs_labels") else ""
        return "; ".join(filter(None, (called, labels, one["paper"])))

    return _by(records, gets, says)


def bound_groups(records: Records) -> Groups:
    """Group bounds by family."""
    return _by(records, itemgetter("family"), itemgetter("claim"))


def rule_groups(records: Records) -> Groups:
    """Group rules by what they bound, those of studies alone last."""
    from latecomer.commands.entries import RULE_STATES

    def heading(one: dict[str, Any]) -> str:
        doors = {"table", "zero_one"} & set(one["doors"])
        return RULE_STATES[one["states"]] + ("" if doors else ", in studies")

    def says(one: dict[str, Any]) -> str:
        drawn = {(True, False): "; independent clients", (False, True): "; clients of a pool"}
        return str(one["words"]) + drawn.get((one["independent"], one["pool"]), "")

    return _by(sorted(records, key=lambda one: heading(one).endswith("studies")), heading, says)


def shift_groups(records: Records) -> Groups:
    """List shifts under one heading."""

    def says(one: dict[str, Any]) -> str:
        return f"{one['description']}: {one['unit']}, {one['low']:g} to {one['high']:g}"

    return _by(records, lambda _: "what can happen to a new client's data", says)


_ORIGINS = {
    "built in": "built in",
    "your file": "your own file",
    "fetch": "fetched by 'latecomer data fetch NAME'",
    "make it": "made once, from what 'latecomer datasets NAME' says",
}


def dataset_groups(records: Records) -> Groups:
    """Group data sets by how they get onto this machine."""

    def heading(one: dict[str, Any]) -> str:
        extra = one["origin"].removeprefix("extra ")
        return _ORIGINS.get(one["origin"], f'by pip install "latecomer[{extra}]"')

    def says(one: dict[str, Any]) -> str:
        size = f"; {one['megabytes']} MB" if one["megabytes"] else ""
        return str(one["description"]) + size

    order = {"built in": 0, "your file": 1}
    ordered = sorted(records, key=lambda one: order.get(one["origin"], 2))
    return _by(ordered, heading, says)


def _by(
    records: Records,
    heading: Callable[[dict[str, Any]], str],
    says: Callable[[dict[str, Any]], str],
) -> Groups:
    groups: Groups = {}
    for one in records:
        groups.setdefault(heading(one), []).append((one["name"], says(one)))
    return groups


LISTED: Mapping[str, tuple[Callable[[], Records], Callable[[Records], Groups]]] = {
    "study": (studies, study_groups),
    "method": (methods, method_groups),
    "bound": (bounds, bound_groups),
    "rule": (rules, rule_groups),
    "shift": (shifts, shift_groups),
    "data set": (datasets, dataset_groups),
}
"""What each kind of list holds, and how that is grouped."""
