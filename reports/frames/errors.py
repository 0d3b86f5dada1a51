"""Rows and artifacts to tidy frames: measured errors, and comparisons on the same clients.

All functions are pure.  Rows are those of ``latecomer.eval.results.rows.read_rows``.  Errors are
fractions; a client's error is averaged over seeds before any spread over clients is taken, and a
seed's error is averaged over clients before any spread over seeds is.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import combinations
from math import prod
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special, stats

from latecomer.eval.names import method_facts
from latecomer.eval.results.rows import Artifact, RunRecord
from latecomer.reports.words import METRICS, file_stem

# What one cell left: the model's label, its training seed, the records of a table.
CellTables = Iterable[tuple[str, int, Sequence[Mapping[str, Any]]]]


def cell_artifacts(run: RunRecord, kind: str) -> Iterator[tuple[str, int, Artifact]]:
    """Yield the artifacts of one kind that the models' cells left: label, seed, artifact."""
    cells = {cell.id: cell.config for cell in run.cells}
    for artifact in run.artifacts:
        if artifact.kind == kind:
            config = cells[artifact.cell]
            yield config["method"]["label"], config["seed"], artifact.load()


def cell_tables(run: RunRecord, kind: str) -> list[tuple[str, int, Any]]:
    """List the tables of one kind that the models' cells left: label, seed, records."""
    return [(label, seed, one.table or ()) for label, seed, one in cell_artifacts(run, kind)]


def split_tables(run: RunRecord, kind: str) -> list[Any]:
    """List the tables of one kind that belong to no model but to the split or a simulation."""
    return [one.load().table or () for one in run.artifacts if one.kind == kind]


def certified_order(run: RunRecord) -> tuple[str, ...]:
    """Return a run's held-out clients in the order in which its split drew them.

    Rules that bet along the clients, or average over permutations of their order, start from it.
    Empty where the run holds no split, or several.
    """
    splits = [one for one in run.artifacts if one.kind == "split"]
    if len(splits) != 1:
        return ()
    held = splits[0].load().arrays or {}
    n_seen, n_certified, *_ = held["groups"].tolist()
    return tuple(map(str, held["ids"][n_seen : n_seen + n_certified].tolist()))


def joined(
    tables: CellTables, columns: Sequence[str], numbers: Sequence[str] = (), fill: Any = None
) -> pd.DataFrame:
    """Join tables of cells, each record beside its model's label and seed.

    What a record lacks is ``fill``; ``numbers`` become floats, NaN where they are none.
    """
    rows = [
        {**{name: record.get(name, fill) for name in columns}, "label": label, "seed": seed}
        for label, seed, table in tables
        for record in table
    ]
    frame = pd.DataFrame(rows, columns=list(columns))
    for name in numbers:
        frame[name] = pd.to_numeric(frame[name], errors="coerce").astype("float64")
    return frame


def stems(labels: Iterable[str]) -> dict[str, str]:
    """Give each label a file stem of its own, even where labels differ only in dropped characters.

    >>> stems(["a b", "a/b", "a b"])
    {'a b': 'a-b', 'a/b': 'a-b_'}
    """
    named: dict[str, str] = {}
    for label in dict.fromkeys(labels):
        stem = file_stem(label)
        while stem in named.values():
            stem += "_"
        named[label] = stem
    return named


CONFIDENCE = 0.95
# Errors, and differences of them, are apart by more than this or equal up to rounding.
ALIKE = 1e-12
MODEL = ["label", "predictor"]
SYSTEM = [*MODEL, "seed"]
Model = tuple[str, str]
PAIR = ("difference", "lower", "upper", "p", "p_holm", "n_clients", "n_seeds")


def half_width(values: pd.Series) -> float:
    """Half of the 95% t-interval of a mean; NaN for fewer than two values, or for equal ones.

    Clients that are all alike, as with no error at all, tell nothing of how far others may be off.
    """
    n = len(values)
    if n < 2 or np.ptp(values) < ALIKE:
        return float("nan")
    return float(_quantile(n - 1) * values.std(ddof=1) / np.sqrt(n))


def over_clients_and_seeds(
    frame: pd.DataFrame, by: list[str], value: str, *, least: float, most: float, sort: bool = True
) -> pd.DataFrame:
    """Mean of a value over clients, then over seeds, with both spreads.

    ``lower`` and ``upper`` are the 95% t-interval over clients, each averaged over seeds, cut where
    the value ends, at ``least`` and ``most``; the t-interval does not know that.  Clients and seeds
    are summed up in order, or as they come unless ``sort``: sums depend on that in their last bit.
    """
    seeds, clients = (
        frame.groupby([*by, unit], dropna=False, sort=sort)[value]
        .mean()
        .reset_index()
        .groupby(by, dropna=False)[value]
        for unit in ("seed", "client")
    )
    columns = {
        value: seeds.mean(),
        "sd_seeds": seeds.std(ddof=1),
        "se_clients": clients.sem(ddof=1),
        "worst": clients.max(),
        "n_clients": clients.size(),
        "n_seeds": seeds.size(),
        "half": clients.agg(half_width),
    }
    table = pd.DataFrame(columns).reset_index()
    half = table.pop("half")
    table["lower"] = (table[value] - half).clip(lower=least)
    table["upper"] = (table[value] + half).clip(upper=most)
    return table


@cache
def _quantile(freedom: int) -> float:
    return float(special.stdtrit(freedom, 0.5 + CONFIDENCE / 2))


def comparison_frame(errors: pd.DataFrame) -> pd.DataFrame:
    """Error of every model against the lowest, paired over clients and seeds.

    The difference of two models is taken client by client on the seeds both have, averaged over
    seeds, and put to a paired t-test over clients.  The same errors decide which model is lowest,
    so p-values are corrected after Holm over all pairs, not only those with the lowest. ``tied``
    are the lowest model itself and those not found to err more than it does: their corrected
    p-value is above 0.05, or they err less on the seeds that both have, where those are not all.
    """
    names = ["difference", "difference_lower", "difference_upper", "p_holm", "tied"]
    if errors.empty:
        return pd.DataFrame(columns=[*MODEL, "group", *names])
    table = errors.pivot_table(index=["client", "seed"], columns=MODEL, values="error")
    lowest = table.groupby("seed").mean().mean().idxmin()
    compared: dict[Any, tuple[float, ...]] = {lowest: (0.0, 0.0, 0.0, np.nan)}
    for *models, middle, lower, upper, _, p, _, _ in pair_frame(errors).itertuples(index=False):
        one, other = tuple(models[:2]), tuple(models[2:])
        if other == lowest:
            compared[one] = (middle, lower, upper, p)
        elif one == lowest:
            compared[other] = (-middle, -upper, -lower, p)
    records = [(*model, "novel", *compared[model]) for model in table.columns]
    frame = pd.DataFrame(records, columns=[*MODEL, "group", *names[:4]])
    frame["tied"] = ~((frame["p_holm"] <= 1 - CONFIDENCE) & (frame["difference"] > 0))
    return frame


def lowest_first(frame: pd.DataFrame) -> pd.DataFrame:
    """Sort novel rows of ``accuracy_frame`` by their mean, the model compared with on top.

    Means that are equal up to rounding may come in either order otherwise.
    """
    compared = frame["difference"].ne(0) | frame["p_holm"].notna()
    order = np.lexsort([compared.to_numpy(), levels(frame["mean"].to_numpy(dtype=float))])
    return frame.iloc[order]


def levels(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Give values their places from 0 on, those equal up to rounding the same one; NaN has none.

    Means of the same errors, summed in another order, differ in their last bit and are ties.

    >>> levels(np.array([0.5, (0.1 + 0.2 + 0.3) / 3, (0.3 + 0.2 + 0.1) / 3, np.nan])).tolist()
    [1.0, 0.0, 0.0, nan]
    >>> levels(np.array([np.inf, 0.5, np.inf])).tolist()
    [1.0, 0.0, 1.0]
    """
    order = np.argsort(values, kind="stable")
    with np.errstate(invalid="ignore"):  # infinite values are equal
        apart = np.diff(values[order], prepend=values[order[:1]]) > ALIKE
    numbers = np.empty(len(values))
    numbers[order] = np.cumsum(apart)
    return np.where(np.isnan(values), np.nan, numbers)


def paired_p(differences: pd.Series) -> float:
    """Return the two-sided p of a paired t-test; NaN for fewer than two differences.

    Where all are alike the t statistic is infinite and no test; p is then that of the sign test.

    >>> paired_p(pd.Series([0.1, 0.1, 0.1])), paired_p(pd.Series([0.0, 0.0]))
    (0.25, 1.0)
    """
    n = len(differences)
    if n < 2:
        return float("nan")
    if np.ptp(differences) < ALIKE:
        return 1.0 if abs(differences.iloc[0]) < ALIKE else 0.5 ** (n - 1)
    t = differences.mean() / (differences.std(ddof=1) / np.sqrt(n))
    return float(2 * special.stdtr(n - 1, -abs(t)))


def holm(p: NDArray[np.float64]) -> list[float]:
    """Correct p-values for multiple testing, after Holm (1979); NaN stays NaN.

    >>> [round(x, 3) for x in holm(np.array([0.01, 0.04, 0.03]))]
    [0.03, 0.06, 0.06]
    """
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
    corrected = np.full(len(p), np.nan)
    steps = p[order] * np.arange(len(order), 0, -1)
    corrected[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return [float(x) for x in corrected]


def pair_frame(errors: pd.DataFrame) -> pd.DataFrame:
    """Compare every two models on the clients and seeds both have.

    Differences are taken client by client, averaged over seeds, and put to a paired t-test over
    clients, as in ``comparison_frame``; Holm's correction is over all pairs.  The 95% intervals
    are not corrected.  The unit is the client, so the results are about these trained models, not
    about training them again.

    Parameters
    ----------
    errors : pandas.DataFrame
        As for :func:`comparison_frame`.

    Returns
    -------
    pandas.DataFrame
        ``label predictor other other_predictor difference lower upper p p_holm n_clients n_seeds``,
        ``difference`` being the error of ``label`` minus that of ``other``; each pair once.
    """
    table = errors.pivot_table(index=["client", "seed"], columns=MODEL, values="error")
    seeds = table.index.get_level_values("seed")
    # Where every model has every client and seed, means over seeds are taken once per model.
    whole = table.groupby("client").mean() if table.notna().all(axis=None) else None
    n_seeds = seeds.nunique()
    records = []
    for one, other in combinations(table.columns, 2):
        if whole is not None:
            paired = whole[one] - whole[other]
        else:
            both = (table[one] - table[other]).dropna()
            paired = both.groupby("client").mean()
            n_seeds = both.index.get_level_values("seed").nunique()
        middle, half = float(paired.mean()), half_width(paired)
        numbers = (middle, middle - half, middle + half, paired_p(paired), np.nan)
        records.append((*one, *other, *numbers, len(paired), n_seeds))
    frame = pd.DataFrame(records, columns=[*MODEL, "other", "other_predictor", *PAIR])
    frame["p_holm"] = holm(frame["p"].to_numpy(dtype=float))
    return frame


def rank_test_frame(errors: pd.DataFrame, *, alpha: float = 1 - CONFIDENCE) -> pd.DataFrame:
    r"""Rank all models within each client: Friedman's test and Nemenyi's critical difference.

    A client's error is averaged over the seeds that all models have; ties, up to rounding, share
    their mean rank.
    Two models differ at level ``alpha`` when their mean ranks are further apart than

    .. math:: q_\alpha \sqrt{k (k + 1) / (6 N)}

    with k models, N clients and the studentized range quantile :math:`q_\alpha` over
    :math:`\sqrt 2` (Demsar 2006, section 3.2.2).

    Parameters
    ----------
    errors : pandas.DataFrame
        ``client_errors`` of one group of clients under one condition.
    alpha : float
        In (0, 1).

    Returns
    -------
    pandas.DataFrame
        ``label predictor mean_rank critical_difference friedman p n_clients n_seeds``, lowest
        first; empty for fewer than three models or two clients.
    """
    columns = [*MODEL, "mean_rank", "critical_difference", "friedman", "p", "n_clients", "n_seeds"]
    by_seed = errors.pivot_table(index=["seed", "client"], columns=MODEL, values="error").dropna()
    table = by_seed.groupby("client").mean()
    n_clients, n_models = table.shape
    if n_models < 3 or n_clients < 2:
        return pd.DataFrame(columns=columns)
    table[:] = np.apply_along_axis(levels, 1, table.to_numpy(dtype=float))
    ranks = table.rank(axis=1)
    if (ranks.nunique(axis=1) == 1).all():
        statistic, p = 0.0, 1.0  # every client ties all models: the test divides 0 by 0
    else:
        test = stats.friedmanchisquare(*table.to_numpy().T)
        statistic, p = float(test.statistic), float(test.pvalue)
    quantile = stats.studentized_range.ppf(1 - alpha, n_models, np.inf) / np.sqrt(2)
    frame = ranks.mean().rename("mean_rank").reset_index()
    frame["critical_difference"] = quantile * np.sqrt(n_models * (n_models + 1) / (6 * n_clients))
    frame["friedman"], frame["p"], frame["n_clients"] = statistic, p, n_clients
    frame["n_seeds"] = by_seed.index.get_level_values("seed").nunique()
    return frame[columns].sort_values("mean_rank", kind="stable", ignore_index=True)


CONDITION = ["shift", "severity"]
GROUPS = ("seen", "certification", "novel")
# A shift to other data is judged against the same clients refilled from their own data.
CONTROL = "-control"
# How clients are served that take no gradient step.
_UNTRAINED = (
    *("forward", "global", "unlabelled", "knn", "intercept", "chosen", "mixture", "gaussian"),
)


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """List a frame's rows as dicts of Python's own numbers, as ``DataFrame.to_dict`` does.

    That takes three times as long on a frame of few rows, and a page lists three hundred of them.
    """
    names = [str(name) for name in frame.columns]
    columns = [_natives(column) for _, column in frame.items()]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _natives(column: pd.Series) -> list[Any]:
    values: list[Any] = column.tolist()
    if column.dtype != object:
        return values
    return [value.item() if isinstance(value, np.generic) else value for value in values]


def first_record(frame: pd.DataFrame) -> dict[str, Any]:
    """Give a frame's first row as a dict."""
    return records(frame.head(1))[0]


def model_of(row: Mapping[str, Any]) -> Model:
    """Return the model that a row is about."""
    return row["label"], row["predictor"]


def models_in(frame: pd.DataFrame) -> list[Model]:
    """List the models of a frame in order of appearance."""
    return list(dict.fromkeys(frame[MODEL].itertuples(index=False, name=None)))


def by_model(frame: pd.DataFrame) -> dict[Model, dict[str, Any]]:
    """Map each model to its row."""
    return {model_of(row): row for row in records(frame)}


def unshifted(errors: pd.DataFrame, *groups: str) -> pd.DataFrame:
    """Keep the errors without shift of some groups of clients, of new ones unless told."""
    return errors[(errors["shift"] == "none") & errors["group"].isin(groups or ("novel",))]


def client_errors(rows: pd.DataFrame, metric: str = "error") -> pd.DataFrame:
    """Errors of single clients, one row per model, client and condition.

    Parameters
    ----------
    rows : pandas.DataFrame
        Rows of the run.
    metric : str
        ``error`` on their query data, or ``training_error``, where a run measured that.

    Returns
    -------
    pandas.DataFrame
        ``label method personalization predictor seed group client shift severity n_query error``;
        ``severity`` is NaN when the shift has none.  Such a frame given as ``rows`` is
        returned as it is, so functions that need only errors take either.
    """
    if "error" in rows:
        return rows
    chosen = (
        (rows["metric"] == metric)
        & (rows["client"] != "")
        & (rows["method"] != "")
        & (rows["status"] != "failed")
    )
    columns = ["label", "method", "personalization", "predictor", "seed", "group", "client"]
    frame = rows.loc[chosen, [*columns, "shift", "severity", "n_query", "value"]].rename(
        columns={"value": "error"}
    )
    return frame.astype({"seed": "int64"}).reset_index(drop=True)


def labels_in(rows: pd.DataFrame, methods: Iterable[Any] = ()) -> list[str]:
    """Labels of the methods in the study's order, then any others by name."""
    present = set(rows.loc[rows["method"] != "", "label"])
    declared = study_methods(methods)
    return [label for label in declared if label in present] + sorted(present - set(declared))


def study_methods(methods: Iterable[Any]) -> dict[str, dict[str, Any]]:
    """Map labels to the methods of a study, names or mappings, as their settings."""
    entries = [dict(one) if isinstance(one, Mapping) else {"name": one} for one in methods]
    return {str(one.get("label") or one["name"]): one for one in entries}


def personalization(rows: pd.DataFrame) -> dict[str, str]:
    """Map each label to how its method serves new clients; it is unknown for failed cells."""
    known = rows.loc[
        (rows["method"] != "") & (rows["personalization"] != ""), ["label", "personalization"]
    ]
    return dict(known.drop_duplicates("label").to_numpy().tolist())


def serving_steps(rows: pd.DataFrame, methods: Iterable[Any] = ()) -> dict[str, int]:
    """Map each label to the gradient steps that a new client takes before it is served.

    A label is left out where they are not known: systems trained elsewhere, and methods from
    outside the package whose new clients train.
    """
    settings = study_methods(methods)
    measured = rows.loc[rows["method"] != "", ["label", "method"]].drop_duplicates("label")
    served, told = personalization(rows), {}
    for label, method in measured.itertuples(index=False, name=None):
        steps = method_facts().get(method, {}).get("serving", {})
        own = settings.get(label, {})
        if steps:
            told[label] = prod(int(own.get(name, default)) for name, default in steps.items())
        elif served.get(label) in _UNTRAINED:
            told[label] = 0
    return told


def in_order(frame: pd.DataFrame, labels: Sequence[str]) -> pd.DataFrame:
    """Sort a frame by the position of its label in ``labels``, otherwise stably."""
    place = {label: position for position, label in enumerate(labels)}
    position = frame["label"].map(place).fillna(len(place))
    return frame.iloc[np.argsort(position.to_numpy(), kind="stable")].reset_index(drop=True)


def primary_predictor(frame: pd.DataFrame) -> pd.DataFrame:
    """Keep one predictor per label: the deterministic one where there is one."""
    has = frame.groupby("label")["predictor"].transform(lambda p: (p == "deterministic").any())
    return frame[~has | (frame["predictor"] == "deterministic")]


def dealt_shifts(errors: pd.DataFrame) -> tuple[str, ...]:
    """List the shifts under which none of the unshifted new clients is served, but others are."""
    novel = errors[errors["group"] == "novel"]
    own = {str(shift): set(part["client"]) for shift, part in novel.groupby("shift", sort=False)}
    plain = own.pop("none", set())
    return tuple(shift for shift, clients in own.items() if plain and plain.isdisjoint(clients))


def _spread(errors: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    frame = over_clients_and_seeds(errors, by, "error", least=0.0, most=1.0)
    return frame.rename(columns={"error": "mean"})


def accuracy_frame(rows: pd.DataFrame) -> pd.DataFrame:
    """Unshifted error per model and client group.

    Returns
    -------
    pandas.DataFrame
        ``label predictor group mean sd_seeds se_clients worst n_clients n_seeds lower upper`` and,
        for the novel group, ``difference difference_lower difference_upper p_holm tied`` against
        the model of least new-client error.  ``lower`` and ``upper`` are the 95% t-interval over
        clients.
    """
    errors = unshifted(client_errors(rows), "seen", "novel")
    frame = _spread(errors, [*MODEL, "group"])
    novel = errors[errors["group"] == "novel"]
    return frame.merge(comparison_frame(novel), on=[*MODEL, "group"], how="left")


def shift_frame(rows: pd.DataFrame) -> pd.DataFrame:
    """New-client error under every shift and severity, one predictor per label.

    Returns
    -------
    pandas.DataFrame
        ``label predictor shift severity mean sd_seeds se_clients worst n_clients n_seeds lower
        upper``; the unshifted control has shift ``none``.
    """
    errors = client_errors(rows)
    errors = primary_predictor(errors[errors["group"] == "novel"])
    return _spread(errors, [*MODEL, *CONDITION])


def diagnostics_frame(rows: pd.DataFrame) -> pd.DataFrame:
    """Distance of every new client to its nearest seen client, beside its error.

    Returns
    -------
    pandas.DataFrame
        ``label predictor client shift severity metric distance error n_seeds``, errors averaged
        over seeds; ``metric`` is one of ``words.METRICS``.  A client whose distance a
        shift leaves as it was (a blur moves no label) is listed unshifted only.
    """
    errors = client_errors(rows)
    errors = primary_predictor(errors[errors["group"] == "novel"])
    keys = ["client", *CONDITION]
    mean = errors.groupby([*MODEL, *keys], dropna=False)["error"].agg(["mean", "size"])
    known = list(METRICS)
    chosen = rows[(rows["method"] == "") & rows["metric"].isin(known) & (rows["client"] != "")]
    distances = chosen[[*keys, "metric", "value"]].rename(columns={"value": "distance"})
    frame = mean.reset_index().rename(columns={"mean": "error", "size": "n_seeds"})
    plain = distances.loc[distances["shift"] == "none", ["client", "metric", "distance"]]
    moved = distances.merge(
        plain.rename(columns={"distance": "before"}), on=["client", "metric"], how="left"
    )
    kept = (moved["shift"] == "none") | (moved["distance"] != moved["before"])
    merged = frame.merge(moved[kept].drop(columns="before"), on=keys, how="inner")
    order = merged["metric"].map({name: position for position, name in enumerate(known)})
    columns = [*MODEL, *keys, "metric", "distance", "error", "n_seeds"]
    return merged.loc[np.argsort(order.to_numpy(), kind="stable"), columns].reset_index(drop=True)


def rank_frame(diagnostics: pd.DataFrame) -> pd.DataFrame:
    """Spearman's rank correlation of error with each distance, per label.

    Returns
    -------
    pandas.DataFrame
        ``label metric clients spearman n``, over unshifted clients (``unshifted``) and over all
        conditions (``all``); NaN where either side is constant.  What is equal up to rounding ties.
    """
    records = []
    for (label, metric), frame in diagnostics.groupby(["label", "metric"], sort=False):
        for clients, part in (("unshifted", frame[frame["shift"] == "none"]), ("all", frame)):
            both = [levels(part[name].to_numpy(dtype=float)) for name in ("distance", "error")]
            rho = np.nan
            if len(part) and not any(side.max() == 0 for side in both):
                rho = float(np.corrcoef([stats.rankdata(side) for side in both])[0, 1])
            records.append((label, metric, clients, rho, len(part)))
    return pd.DataFrame(records, columns=["label", "metric", "clients", "spearman", "n"])


def failures_frame(rows: pd.DataFrame) -> pd.DataFrame:
    """Cells that failed: ``label seed cell message``."""
    chosen = rows[rows["status"] == "failed"]
    return chosen[["label", "seed", "cell", "message"]].reset_index(drop=True)


def group_sizes(rows: pd.DataFrame) -> dict[str, int]:
    """Clients measured per group without shift; a group without rows counts 0."""
    errors = client_errors(rows)
    plain = errors.loc[errors["shift"] == "none", ["group", "client"]]
    counts = plain.drop_duplicates()["group"].value_counts()
    return {name: int(counts.get(name, 0)) for name in GROUPS}
