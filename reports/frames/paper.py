"""The papers' published numbers beside a run's own.

``paper_results.csv`` holds every number of the three papers' tables.  A study names its
counterpart by ``paper: ["pefll-iclr:Table 1a"]``; words behind a second colon, as in
``odpfl:Table 1:dirichlet 10``, pick the lines whose data set or setting contains them.  A data set
``cifar10->stl10`` says that new clients' data come from ``stl10``, which is a shift of that name.
"""

import math
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
import pandas as pd

from latecomer.reports.frames.errors import GROUPS, client_errors, primary_predictor, records

NEAR = 0.02
RULE = (
    "Reproduced: within 2 points of accuracy, or within two standard errors of both numbers "
    "together. Theirs is the published one, or the published standard deviation over seeds by the "
    "root of 3; ours is over clients or over seeds, whichever is larger."
)
NOT_COMPARABLE = "not comparable"

# Papers whose published code averages over pooled samples; the others average over clients.
POOLED = frozenset({"pefll-iclr"})
# Names in pFedHN's Table 2 for the sizes of target networks that one method makes.
SIZES = {
    "lenet-s": "target network size S",
    "lenet": "target network size M",
    "lenet-l": "target network size L",
}
COLUMNS = (
    *("item", "number", "label", "group", "aggregation", "setting", "paper", "paper_spread"),
    *("paper_spread_kind", "paper_n_clients", "ours", "ours_spread", "difference"),
    *("n_clients", "n_seeds", "standard_error"),
)


@cache
def paper_numbers() -> pd.DataFrame:
    """Read the papers' numbers, a row per published number."""
    place = resources.files("latecomer.reports") / "paper_results.csv"
    with place.open(encoding="utf-8") as file:
        return pd.read_csv(file).fillna({"spread_kind": "", "setting": ""})


def paper_items(study: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """List the published items that a study answers to, as (source, item, words of the setting).

    Examples
    --------
    >>> paper_items({"paper": ["odpfl:Table 1:dirichlet 10", "pfedhn:Figure 7"]})
    [('odpfl', 'Table 1', 'dirichlet 10'), ('pfedhn', 'Figure 7', '')]
    """
    parts = [
        [part.strip() for part in str(name).split(":", 2)] for name in study.get("paper") or ()
    ]
    return [(part[0], part[1] if len(part) > 1 else "", "".join(part[2:])) for part in parts]


def paper_frame(
    rows: pd.DataFrame, study: Mapping[str, Any], targets: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Set published accuracy beside ours, for every label with a published number.

    A label is compared with the published lines of its method.  Where a label is not a method's
    name, lines whose setting contains the label are preferred; without any, a variant of a method
    that the study also has plain is left out.  Lines are of the run's data set and number of
    clients, under the shift that their data set names; another number of clients is accepted only
    when the item has no other.

    Parameters
    ----------
    rows : pandas.DataFrame
    study : mapping
    targets : pandas.DataFrame, optional
        ``label seed group client target`` where one method made target networks of several sizes:
        a line about a size is compared with the clients that have it; without targets, with none.

    Returns
    -------
    pandas.DataFrame
        ``item number label group aggregation setting paper paper_spread paper_spread_kind
        paper_n_clients ours ours_spread difference n_clients n_seeds standard_error``: accuracies,
        spreads and differences as fractions; ``number`` is the row of `paper_numbers`;
        ``ours_spread`` is of the paper's kind (sd over seeds, or standard error over clients), NaN
        where there is too little to spread; ``standard_error`` is of the difference.
    """
    errors = primary_predictor(client_errors(rows))
    plain = errors[errors["shift"] == "none"]
    sizes = plain.groupby("group")["client"].nunique()
    everyone = sum(int(sizes.get(group, 0)) for group in GROUPS)
    compared = []
    for source, item, words in paper_items(study):
        numbers = _lines(source, item, words, rows)
        for (group, shift), published in numbers.groupby(["group", "shift"], sort=False):
            for label, lines in _by_label(plain, published):
                own = errors[
                    (errors["label"] == label)
                    & (errors["group"] == group)
                    & (errors["shift"] == shift)
                ]
                lines = _of_size(lines, (int(sizes.get("seen", 0)), everyone))
                for line in records(lines) if len(own) else []:
                    theirs = own if words else _with_target(own, str(line["setting"]), targets)
                    if theirs.empty:
                        continue
                    about = {"item": f"{source}:{item}", "label": label, "group": group}
                    compared.append({**about, **_beside(line, theirs, pooled=source in POOLED)})
    return pd.DataFrame(compared, columns=list(COLUMNS))


def _beside(line: Mapping[str, Any], own: pd.DataFrame, *, pooled: bool) -> dict[str, Any]:
    """Set one published line beside our clients' errors."""
    kind, spread = line["spread_kind"], line["spread"] / 100
    ours = _ours(own, pooled=pooled, kind=kind)
    theirs = np.nan_to_num(spread / math.sqrt(3) if "3 seeds" in kind else spread)
    return {
        "number": line["number"],
        "aggregation": "pooled" if pooled else "per-client",
        "setting": f"{line['dataset']}, {line['setting']}".rstrip(", "),
        "paper": line["mean"] / 100,
        "paper_spread": spread,
        "paper_spread_kind": kind,
        "paper_n_clients": int(line["n_clients"]),
        **ours,
        "difference": ours["ours"] - line["mean"] / 100,
        "standard_error": math.hypot(ours["standard_error"], theirs),
    }


def paper_correlations(rows: pd.DataFrame, study: Mapping[str, Any]) -> dict[str, float]:
    """Map the labels of a run to published rank correlations of descriptors and classes.

    They are of the run's data set, method and number of clients (trained and novel together).
    """
    errors = client_errors(rows)
    everyone = errors[errors["shift"] == "none"].groupby("group")["client"].nunique().sum()
    means = {}
    for source, item, words in paper_items(study):
        lines = _lines(source, item, words, rows, metric="spearman")
        for label, own in _by_label(errors, lines[lines["n_clients"] == everyone]):
            means[label] = float(own["mean"].iloc[0])
    return means


def _lines(
    source: str, item: str, words: str, rows: pd.DataFrame, metric: str = "accuracy_percent"
) -> pd.DataFrame:
    """Return an item's numbers on the run's data set, each with the shift it is under."""
    numbers = paper_numbers()
    own = numbers[
        (numbers["source"] == source) & (numbers["item"] == item) & (numbers["metric"] == metric)
    ]
    text = own["dataset"] + " " + own["setting"]
    own = own[text.map(lambda one: _says(one, words)).astype(bool)]
    trained = own["dataset"].map(lambda name: _plain(name.split("->")[0]))
    own = own[trained.isin({_plain(name) for name in set(rows["dataset"])})]
    return own.assign(
        number=own.index, shift=own["dataset"].map(lambda name: name.partition("->")[2] or "none")
    )


def _with_target(own: pd.DataFrame, setting: str, targets: pd.DataFrame | None) -> pd.DataFrame:
    """Keep clients whose target network has the size that the setting names, if it names one."""
    names = [name for name, said in SIZES.items() if said in setting]
    if not names:
        return own
    if targets is None or targets.empty:
        return own.iloc[:0]
    keys = ["label", "seed", "group", "client"]
    sized = targets[targets["target"].isin(names)]
    held = pd.MultiIndex.from_frame(sized[keys].astype(str))
    return own[pd.MultiIndex.from_frame(own[keys].astype(str)).isin(held)]


def _by_label(errors: pd.DataFrame, published: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Match labels with the published lines of their methods."""
    pairs = errors[["label", "method"]].drop_duplicates().to_numpy().tolist()
    plain = {_plain(method) for label, method in pairs if _plain(label) == _plain(method)}
    matched = []
    for label, method in pairs:
        lines = published[published["method"].map(_plain) == _plain(method)]
        if _plain(label) != _plain(method):
            named = lines[lines["setting"].map(lambda one, words=label: _says(one, words))]
            if named.empty and _plain(method) in plain:
                continue
            lines = named if len(named) else lines
        if len(lines):
            matched.append((str(label), lines))
    return matched


def _of_size(lines: pd.DataFrame, sizes: Sequence[int]) -> pd.DataFrame:
    for size in sizes:
        if (lines["n_clients"] == size).any():
            return lines[lines["n_clients"] == size]
    return lines if lines["n_clients"].nunique() == 1 else lines.iloc[:0]


def _ours(own: pd.DataFrame, *, pooled: bool, kind: str) -> dict[str, Any]:
    correct = own.assign(accuracy=1 - own["error"], weight=own["n_query"].astype(float))
    if not pooled or correct["weight"].isna().any():
        correct["weight"] = 1.0
    weighted = correct.assign(accuracy=correct["accuracy"] * correct["weight"])
    by_seed = weighted.groupby("seed")[["accuracy", "weight"]].sum()
    seeds = by_seed["accuracy"] / by_seed["weight"]
    clients = correct.groupby("client")["accuracy"].mean()
    by_clients = float(clients.std(ddof=1)) / math.sqrt(len(clients))
    over = by_clients if "clients" in kind else float(seeds.std(ddof=1))
    by_seeds = float(seeds.std(ddof=1)) / math.sqrt(len(seeds))
    return {
        "ours": float(seeds.mean()),
        "ours_spread": over if kind else math.nan,
        "standard_error": float(np.nan_to_num(np.fmax(by_clients, by_seeds))),
        "n_clients": len(clients),
        "n_seeds": len(seeds),
    }


def with_verdicts(frame: pd.DataFrame, study: Mapping[str, Any]) -> pd.DataFrame:
    """Say of every number whether it was reproduced, by `RULE`.

    It is ``not comparable`` where the run is not at the paper's scale; ``margin`` is the largest
    difference that counts as reproduced.
    """
    margin = (2 * frame["standard_error"]).clip(lower=NEAR)
    near = frame["difference"].abs() <= margin
    verdict = near.map({True: "reproduced", False: "not reproduced"}).astype(object)
    full = study.get("scale") == "paper"
    return frame.assign(verdict=verdict if full else NOT_COMPARABLE, margin=margin)


def _says(text: str, words: str) -> bool:
    """Whether the text contains the words in sequence, each whole: 1 is not found in 10."""
    told, asked = (re.findall(r"[a-z0-9._=+/-]+", part.lower()) for part in (text, words))
    places = range(len(told) - len(asked) + 1)
    return any(told[place : place + len(asked)] == asked for place in places)


def _plain(text: str) -> str:
    return "".join(c for c in str(text).lower() if c.isalnum())
