"""One JSON card per trained model: settings, data, population, errors with counts, certificates."""

import json
import math
import shlex
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import yaml

from latecomer.eval.names import rules_for, statement
from latecomer.reports.display.section import Material
from latecomer.reports.frames.errors import CONDITION, half_width, records, unshifted
from latecomer.reports.words import PROTOCOLS, over_what

SCHEMA = 1
# What tells one certificate of a run from another, but for the severity of its shift.
_ISSUED = ("label", "seed", "predictor", "shift", "bound")


def stem_of(label: str, seed: int) -> str:
    """Name the files of one trained model.

    >>> stem_of("pefll, big", 0)
    'pefll--big-0'
    """
    shown = label[:60]  # a file's name has at most 255 bytes
    return "".join(c if c.isalnum() or c in "._-" else "-" for c in shown) + f"-{seed}"


def model_command(study: Mapping[str, Any], label: str, seed: int) -> str:
    """Give the command that trains and measures one model of a run again, from ``study.yaml``.

    A model that a route trains is made together with its method's own model.
    """
    own = label
    for certificate in study.get("certificates") or ():
        own = own.removesuffix(f" {certificate.get('route')}:{certificate.get('rule')}")
    entry = next(
        (m for m in study.get("methods") or () if isinstance(m, dict) and m.get("label") == own),
        {"name": own},
    )
    methods = yaml.safe_dump([entry], default_flow_style=True, width=10**6, sort_keys=False)
    words = ["latecomer", "run", "study.yaml", f"methods={methods.strip()}", f"seeds=[{seed}]"]
    return shlex.join([*words, "--out", stem_of(label, seed)])


def certify_command(certificate: Mapping[str, Any], scores: str, *, seed: int = 0) -> str:
    """Give the command that computes one certificate again from a file of its clients' scores.

    Empty where the command line has no such rule, or the file lacks what the rule needs.  ``seed``
    permutes the file's column ``order`` for rules that average over orders.
    """
    route, _, name = str(certificate["bound"]).partition(":")
    rule = rules_for("table").get(name)
    if route != "r0" or rule is None or rule.ordered or certificate["shift"] != "none":
        return ""
    level = f"--{rule.level}"
    words = ["latecomer", "certify", scores, "--rule", name, level, f"{certificate['delta']:g}"]
    if certificate["sampling"] == "finite-pool":
        words += ["--pool-size", str(int(certificate["pool"]))]
    if rule.orders:
        words += ["--order", "order", "--seed", str(seed)]
    return shlex.join(words)


def cards(material: Material) -> dict[str, str]:
    """Make the cards of a run and the files of scores their commands read, by their names."""
    study, env, errors = material.study, material.run.env, material.errors
    issued, facts = _by(material.bounds, "label", "seed"), _by(material.ledger, *_ISSUED)
    held = unshifted(errors, "certification")
    measured, scored = _errors(errors), dict(list(held.groupby(["label", "seed"], sort=False)))
    gaps = {label: _gaps(own) for label, own in material.mean_gaps.groupby("label")}
    files: dict[str, str] = {}
    taken: set[str] = set()
    for first in records(errors.drop_duplicates(["label", "seed"])):
        label, seed = str(first["label"]), int(first["seed"])
        stem = stem_of(label, seed)
        while stem.casefold() in taken:
            stem += "_"  # labels may differ only in what stems drop, or in letter case
        taken.add(stem.casefold())
        scores = _score_files(scored.get((label, seed), held.iloc[:0]), stem)
        files |= scores
        entry = [m for m in study.get("methods") or () if isinstance(m, dict)]
        card = {
            "schema": SCHEMA,
            "label": label,
            "seed": seed,
            "method": first["method"],
            "serves_new_clients": PROTOCOLS.get(first["personalization"], first["personalization"]),
            "hyper_parameters": next((m for m in entry if m.get("label") == label), {}),
            **{name: study.get(name) for name in ("study", "scale", "data", "split", "model")},
            **{name: study.get(name) for name in ("train", "evaluation")},
            "made_with": dict(env.get("versions") or {}),
            "commit": env.get("git_commit"),
            "command": model_command(study, label, seed),
            "errors": measured[label, seed],
            "gap": gaps.get(label, []),
            "certificates": [
                _certificate(one, facts, stem, scores, _orders_seed(study, one["bound"]))
                for one in issued[label, seed]
            ],
        }
        files[f"cards/{stem}.json"] = json.dumps(_plain(card), indent=1, allow_nan=False) + "\n"
    return files


def _by(frame: pd.DataFrame, *columns: str) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
    """List a frame's rows by their values in some columns; nothing where there is no such row."""
    listed: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in records(frame):
        listed[tuple(row[name] for name in columns)].append(row)
    return listed


def _score_files(own: pd.DataFrame, stem: str) -> dict[str, str]:
    """Write held-out clients' scores for ``latecomer certify``, one file per predictor.

    Column ``order`` is the split's random order of the clients: some rules bet along it.
    """
    return {
        f"cards/{stem}-{predictor}.csv": part[["client", "error"]]
        .rename(columns={"error": "loss"})
        .assign(order=range(1, len(part) + 1))
        .to_csv(index=False, lineterminator="\n")
        for predictor, part in own.groupby("predictor", sort=False)
    }


def _errors(errors: pd.DataFrame) -> dict[tuple[str, int], list[dict[str, Any]]]:
    """List per model the mean error of every group and condition, its interval and counts."""
    keys = ["predictor", "group", *CONDITION]
    groups = errors.groupby(["label", "seed", *keys], sort=False, dropna=False)
    frame = groups["error"].agg(mean="mean", half=half_width, n="size")
    # A sum of counts is unknown if one of them is.
    frame["n_query"] = groups["n_query"].sum()
    frame["known"] = groups["n_query"].count() == frame["n"]
    measured: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in records(frame.reset_index()):
        measured.setdefault((row["label"], row["seed"]), []).append(
            {
                **{name: row[name] for name in keys},
                "mean": row["mean"],
                "lower": max(row["mean"] - row["half"], 0.0),
                "upper": min(row["mean"] + row["half"], 1.0),
                "spread": "95% t-interval over clients",
                "n_clients": row["n"],
                "n_query": int(row["n_query"]) if row["known"] else None,
            }
        )
    return measured


def _gaps(own: pd.DataFrame) -> list[dict[str, Any]]:
    """List a model's gap over all its seeds, by predictor."""
    names = ("predictor", "gap", "lower", "upper", "n_seen", "n_novel", "n_seeds")
    return [
        {
            **{name: row[name] for name in names},
            "is": "new- minus seen-client error: positive where new clients are served worse",
            "spread": f"95% interval over {over_what(int(row['n_seeds']))}",
        }
        for row in records(own)
    ]


def _orders_seed(study: Mapping[str, Any], bound: str) -> int:
    """Return the seed for the orders of one of the study's certificates; 0 if it has none."""
    for entry in study.get("certificates") or ():
        if f"{entry.get('route')}:{entry.get('rule')}" == bound:
            return int(entry.get("orders_seed", 0))
    return 0


def _certificate(
    one: Mapping[str, Any],
    facts: Mapping[tuple[Any, ...], Sequence[Mapping[str, Any]]],
    stem: str,
    scores: Mapping[str, str],
    seed: int,
) -> dict[str, Any]:
    severity = one["severity"]
    own: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for fact in facts[tuple(one[name] for name in _ISSUED)]:
        if fact["severity"] == severity or pd.isna(severity):
            own[fact["kind"]].append(fact)

    def values(kind: str) -> dict[str, Any]:
        return {str(fact["name"]): fact["value"] for fact in own[kind]}

    def texts(kind: str) -> list[str]:
        return list(dict.fromkeys(fact["text"] or fact["name"] for fact in own[kind]))

    path = f"cards/{stem}-{one['predictor']}.csv"
    names = ("bound", "value", "delta", "population", "predictor", "sampling", "shift", "severity")
    return {
        **{name: one[name] for name in names},
        "rigorous": bool(one["rigorous"]),
        "reason": one["reason"],
        "vacuous": bool(one["vacuous"]),
        "statement": statement(one),
        "left_for_others": None if pd.isna(one["others"]) else float(one["others"]),
        "n_clients": int(one["n_clients"]),
        "measured_on_novel_clients": one["measured"],
        "n_novel": int(one["n_novel"]),
        "terms": values("term"),
        "delta_ledger": values("delta"),
        "inputs": values("input"),
        "assumptions": texts("assumption"),
        "source": texts("source"),
        "command": certify_command(one, path, seed=seed) if path in scores else "",
    }


def _plain(value: Any) -> Any:
    """Make a value JSON can hold: NaN and infinities become null and text."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    if isinstance(value, float):
        return None if math.isnan(value) else value if math.isfinite(value) else str(value)
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return _plain(float(value)) if hasattr(value, "__float__") else str(value)
