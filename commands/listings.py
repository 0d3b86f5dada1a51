"""What there is to choose from: studies, methods, bounds and data sets, as records with a name."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from math import prod
from pathlib import Path
from typing import Any

from typer.core import TyperCommand

COUNTED = Path(__file__).with_name("counted.json")
"""What each method sends with the digits network, by name; a method without a line is counted."""
COUNTS = ("predictors", "bytes_up", "bytes_down", "kept_per_client")


def bounds() -> list[dict[str, Any]]:
    """List every calculator of the catalogue, family by family."""
    from latecomer.bounds import CATALOGUE
    from latecomer.commands.arguments import signature
    from latecomer.commands.render import entry_record

    entries = sorted(CATALOGUE.values(), key=lambda entry: (entry.family, entry.name))
    return [entry_record(entry, signature(entry)) for entry in entries]


def datasets() -> list[dict[str, Any]]:
    """List the data sets with the keys that each takes."""
    from latecomer.eval.datasets.registry import DATASETS

    return [
        {
            "name": name,
            "description": reader.description,
            "required": list(reader.required),
            "optional": list(reader.optional),
        }
        for name, reader in DATASETS.items()
    ]


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
"""Points of the newcomer that `newcomers` is about."""


def newcomers() -> list[dict[str, Any]]:
    """List what each built-in method makes for a client that never trained, and its cost.

    The record of a method has ``labels`` (whether serving reads the newcomer's), ``points`` (the
    fewest that it must have), ``gets``, ``steps`` (gradient steps it takes), ``rounds``, ``down``
    and ``up`` (times that the server answers, numbers sent to it and by it), by default settings,
    with the digits network, 40 seen clients and `SUPPORT` points of the newcomer.

    Examples
    --------
    >>> next(one for one in newcomers() if one["name"] == "fedavg")["down"]
    4538
    """
    from latecomer.models.engine.schedule import Schedule, TrainConfig
    from latecomer.models.methods import METHODS, make_method
    from latecomer.models.methods.registry import method_facts
    from latecomer.models.task.task import make_task
    from latecomer.models.traffic import random_population

    task = make_task(input_shape=(1, 8, 8), n_classes=10)
    clients = random_population(task, 40)
    schedule = Schedule(0, clients, TrainConfig(rounds=1, cohort=2, local_steps=1, batch_size=2))
    listed = []
    for name in METHODS:
        method, told = make_method(name), method_facts()[name]
        first = schedule.cohort(0, method.batches_per_step)
        state = method.init(task, clients, first, schedule.initial_noise())
        sent = method.serving_messages(task, state, SUPPORT)
        steps = prod(told["serving"].values()) if told["serving"] else 0
        listed.append(
            {
                "name": name,
                "called": method.called or method.shown_as or name,
                "labels": method.needs_labels,
                "points": method.least_support,
                "gets": method.newcomers_get,
                "steps": steps,
                **(sent._asdict() if sent else {}),
            }
        )
    return listed


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
