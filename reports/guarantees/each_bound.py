"""Every bound by itself: what it says, its values, what they are made of, its small print."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from latecomer.certify.page.svg import INK, WIDE
from latecomer.certify.words import DASH, count, magnitude, number, percent, shift_name
from latecomer.reports.display.drawing import (
    BOUND_MARKS,
    TERM_FILLS,
    TERM_HATCHES,
    beside,
    sheet,
    shown,
    styled,
)
from latecomer.reports.display.naming import model_called
from latecomer.reports.display.pictures import Plot, Table, counted
from latecomer.reports.display.section import (
    Block,
    Files,
    Group,
    Heading,
    Items,
    Listing,
    Material,
    Section,
    Text,
    tabled,
)
from latecomer.reports.frames.bounds import claims, ledger_of, status
from latecomer.reports.frames.errors import (
    CONDITION,
    MODEL,
    CellTables,
    first_record,
    in_order,
    joined,
    records,
)
from latecomer.reports.words import (
    bound_ids,
    bound_name,
    file_stem,
    in_one_unit,
    sentence_case,
    span,
)

Words = Callable[[float], str]


def _first_digit(value: float) -> str:
    """Write an estimated deviation in the digit that it has."""
    return number(float(f"{value:.1g}"))


QUANTITIES: tuple[tuple[str, str, Words], ...] = (
    ("gibbs_error", "error of drawn models", percent),
    ("mean_parameter_error", "error of the fixed weights", percent),
    ("prior_error", "error of the prior's fixed weights", percent),
    ("reference_error", "error before the update", percent),
    ("kl_hyper", "KL of the system (nats)", number),
    ("sum_kl", "KL of the clients' models, summed (nats)", number),
    ("mask_nats", "KL of the choice of classes, a client (nats)", number),
    ("bits", "bits of the update", number),
    ("alpha", "variance taken", number),
    ("n_priors", "variances tried", number),
    ("n_draws", "draws", number),
    ("orders", "orders averaged over", number),
    ("orders_sd", "sd over other orders", _first_digit),
)
"""Inputs of certificates that say how a value came about, with their headings."""
MEANT = {
    "empirical_risk": "measured",
    "source_risk": "measured",
    "price": "choice of clients",
    "clients": "choice of clients",
    "samples": "choice of samples",
    "draws": "Monte Carlo",
}
"""What the calculators' terms pay for; other terms keep their names."""
_OF_PRODUCT = "r1:product"


FEW = 6
"""Up to this many certificates of a bound are shown as columns; more as rows."""


def parts_frame(ledger: pd.DataFrame) -> pd.DataFrame:
    """Spread the recorded numbers of every certificate, of ``ledger_frame``, over columns.

    A row per certificate with its ``number``; columns ``total value``, ``term <name>``,
    ``delta <event>``, ``input <name>``, NaN where it has no such part.  For Theorem 3.2 the
    divergences are put together from its norms and variances.
    """
    keys = ["label", "seed", "bound", *CONDITION, "predictor"]
    told = ledger[ledger["kind"].isin(["total", "term", "delta", "input"])].copy()
    # Two entries of a study may ask for one bound at two levels: each begins with its total.
    begins = (told["kind"] == "total").astype("int64")
    told["number"] = begins.groupby([told[key] for key in keys], dropna=False).cumsum()
    told["part"] = told["kind"] + " " + told["name"]
    order = list(dict.fromkeys(told["part"]))
    wide = (
        told.drop_duplicates([*keys, "number", "part"])
        .set_index([*keys, "number", "part"])["value"]
        .unstack("part")
        .reindex(columns=order)
        .reset_index()
    )
    wide.columns.name = None
    return _with_divergences(wide)


def _with_divergences(wide: pd.DataFrame) -> pd.DataFrame:
    """Add the divergences of Theorem 3.2, whose inputs are norms and variances."""
    norms = {"eta_h_squared": "alpha_h", "eta_v_squared": "alpha_v"}
    names = [f"input {name}" for pair in norms.items() for name in pair]
    if not set(names) <= set(wide):
        return wide
    hyper = sum(wide[f"input {norm}"] / (2 * wide[f"input {v}"]) for norm, v in norms.items())
    own = wide["input sum_theta_squared"] / (2 * wide["input alpha_theta"])
    divergences = {
        "input kl_hyper": hyper,
        "input sum_kl": own,
        "input alpha": wide["input alpha_theta"],
    }
    for name, values in divergences.items():
        wide[name] = wide[name].fillna(values) if name in wide else values
    return wide


def parts_table(parts: pd.DataFrame, name: str, bound: str, labels: Sequence[str]) -> Table | None:
    """Show how each value of one bound is made up; None where a value has only one part.

    It has the errors, divergences and variances used, the value with its terms, in points of error
    or, where one of them is above 1, all as plain numbers, and the failure probability by event: a
    column per certificate where they are few, else a row.
    """
    own = in_order(parts[parts["bound"] == bound], labels).dropna(axis="columns", how="all")
    terms = [name for name in map(str, own) if name.startswith("term ")]
    events = [name for name in map(str, own) if name.startswith("delta ")]
    if own.empty or (len(terms) < 2 and len(events) < 2):
        return None
    shifted = bool((own["shift"] != "none").any())
    several = own.groupby("label")["predictor"].nunique().max() > 1
    summed = [column for column in (*terms, "total value") if column in own]
    write_value, unit = in_one_unit(own[summed].abs().to_numpy().ravel())
    write_term = number if unit else _in_points
    shown = []
    for row in records(own):
        cells = {"method": model_called(str(row["label"])), "seed": str(row["seed"])}
        if shifted:
            cells["condition"] = shift_name(row["shift"], row.get("severity", float("nan")))
        if several:
            cells["predictor"] = str(row["predictor"])
        for key, heading, words in QUANTITIES:
            if f"input {key}" in own:
                cells[heading] = words(row[f"input {key}"])
        for column in terms:
            cells[_term(column, bound) + (unit or " (points)")] = write_term(row[column])
        if "total value" in own:
            cells[f"value{unit}"] = write_value(row["total value"])
        for column in events:
            cells[column.replace("delta", "delta:", 1)] = number(row[column])
        shown.append(cells)
    caption = (
        "How each value is made up: what went in, the terms that add up to it, and the failure "
        "probability of each event."
    )
    if bound == _OF_PRODUCT:
        caption += (
            " The product rule does not start at the drawn models' mean error but at 1 less the"
            " geometric mean of 1 - error (errors kept below 1 by gamma), at least as large."
        )
    label = f"Parts of {sentence_case(bound_name(bound))}"
    if len(shown) > FEW:
        told = ("method", "condition", "predictor")
        return Table(name, caption, own, pd.DataFrame(shown), told, label=label)
    return Table(name, caption, own, _upright(shown), ("part",), label=label)


def _upright(shown: Sequence[Mapping[str, str]]) -> pd.DataFrame:
    """Turn a few certificates into columns, so that a phone shows them whole."""
    names = [key for key in ("method", "condition", "predictor") if key in shown[0]]
    alike = [key for key in names if len({cells[key] for cells in shown}) == 1]
    heads = [
        ", ".join([*(cells[key] for key in names if key not in alike), f"seed {cells['seed']}"])
        for cells in shown
    ]
    parts = [key for key in shown[0] if key not in (*names, "seed")]
    columns = {
        head: [cells[part] for part in parts] for head, cells in zip(heads, shown, strict=True)
    }
    # Two levels of one bound share their heading; both must stay.
    if len(columns) < len(shown):
        columns = {
            f"{head} ({place})": [cells[part] for part in parts]
            for place, (head, cells) in enumerate(zip(heads, shown, strict=True), start=1)
        }
    return pd.DataFrame({"part": parts, **columns})


def _term(column: str, bound: str) -> str:
    name = column.removeprefix("term ")
    # No error that anything has: drawn models that err 86% can have 97% here.
    if bound == _OF_PRODUCT and name == "empirical_risk":
        return "1 - geometric mean of (1 - error)"
    return f"+ {MEANT.get(name, name.replace('_', ' '))}".replace("+ measured", "measured error")


def _in_points(value: float) -> str:
    return DASH if pd.isna(value) else f"{100 * value:.1f}"


def variance_frame(tables: CellTables) -> pd.DataFrame:
    """Join the ``tuning`` artifacts of all cells: the variances that posteriors were tuned for.

    ``error`` and ``estimate`` are the mean error and the bound with one draw per client, used to
    choose one variance.
    """
    columns = ["label", "seed", "bound", "alpha", "kl_hyper", "error", "estimate", "chosen"]
    return joined(tables, columns, columns[3:])


def variance_table(frame: pd.DataFrame, labels: Sequence[str]) -> Table:
    """Show the variances tried, the one taken marked."""
    frame = in_order(frame, labels)
    bound, unit = in_one_unit(frame["estimate"])
    shown = [
        {
            "method": model_called(str(row["label"])),
            "seed": str(row["seed"]),
            "variance": number(row["alpha"]),
            "KL after tuning (nats)": number(row["kl_hyper"]),
            "error, one draw a client": percent(row["error"]),
            f"bound so estimated{unit}": bound(row["estimate"]),
            "taken": "yes" if row["chosen"] else "no",
        }
        for row in records(frame)
    ]
    bold = tuple((place, "variance") for place, row in enumerate(shown) if row["taken"] == "yes")
    caption = (
        "Variances that the posterior was tuned for, relative to each tensor's mean square. The "
        "one with the least estimate is taken, and the certificate pays for all of them."
    )
    words, label = ("method", "taken"), "Variances tried"
    return Table("variances", caption, frame, pd.DataFrame(shown), words, bold, label, "rows")


VARIANCES = Section(
    "variances",
    tabled(lambda material: variance_frame(material.tables("tuning")), variance_table),
    title="Variances that were tried",
)


# More stacked bars than this are unreadable: marks on one row per method replace them.
MOST_BARS = 45


def stackable(frame: pd.DataFrame) -> bool:
    """Whether the terms of a bound can be stacked: few bars, totals up to 1, nothing negative."""
    bars = len(frame[[*MODEL, *CONDITION, "seed", "delta"]].drop_duplicates())
    plain = (frame["total"] <= 1.0) & (frame["value"] >= 0)
    return bars <= MOST_BARS and bool(plain.all())


@styled
def anatomy_figure(frame: pd.DataFrame, *, width: float = WIDE) -> Figure:
    """Draw what one bound consists of: stacked bars, or marks on a log scale.

    For bounds up to 1, one bar per trained model stacks the terms.  Vacuous bounds span decades, so
    each of their terms is a mark: a row per method (per condition for a bound under shifts) holds
    the marks of all its models.

    Parameters
    ----------
    frame : pandas.DataFrame
        Rows of ``anatomy_frame`` of one bound.
    """
    draw = _stacked if stackable(frame) else _spread_terms
    return draw(frame, width)


def _stacked(frame: pd.DataFrame, width: float) -> Figure:
    keys = [*MODEL, *CONDITION, "seed", "delta"]
    bars = list(frame.groupby(keys, dropna=False, sort=False))
    terms = list(dict.fromkeys(frame["term"]))
    figure, axes = _rows(len(bars), width, each=0.17)
    names, previous = [], ""
    for row, (_, part) in enumerate(bars):
        left, amounts = 0.0, part.set_index("term")["value"]
        for place, term in enumerate(terms):
            amount = 100 * float(amounts.get(term, 0.0))
            axes.barh(row, amount, left=left, height=0.78, linewidth=0.5, **_fill(place))
            left += amount
        total = magnitude(float(part["total"].iloc[0]))
        axes.annotate(
            total, (left, row), (3, 0), textcoords="offset points", va="center", fontsize=7
        )
        first = first_record(part)
        name, seed = _row_name(first), f"seed {first['seed']}"
        names.append(seed if name == previous else f"{name}, {seed}")
        previous = name
    axes.set_yticks(range(len(names)), [beside(name, width) for name in names])
    axes.margins(x=0.12)
    axes.set_xlim(left=0)
    axes.set_xlabel("bound (%)")
    handles = [Patch(label=_words(t), linewidth=0.5, **_fill(i)) for i, t in enumerate(terms)]
    figure.legend(handles=handles, loc="outside lower center", ncols=2 if width < 5 else 5)
    return figure


def _spread_terms(frame: pd.DataFrame, width: float) -> Figure:
    keys = CONDITION if (frame["shift"] != "none").any() else MODEL
    rows = list(frame.groupby(keys, dropna=False, sort=False))
    terms = list(dict.fromkeys(frame["term"]))
    figure, axes = _rows(len(rows), width, each=0.26)
    for row, (_, part) in enumerate(rows):
        for place, term in enumerate(terms):
            values = part.loc[(part["term"] == term) & (part["value"] > 0), "value"]
            mark, fill = BOUND_MARKS[place % len(BOUND_MARKS)], TERM_FILLS[place % len(TERM_FILLS)]
            axes.plot(
                values, np.full(len(values), row), mark, color=INK, markerfacecolor=fill, ms=5.5,
                markeredgewidth=0.7,
            )  # fmt: skip
        totals = part["total"].drop_duplicates()
        axes.plot(totals, np.full(len(totals), row), "|", color=INK, markersize=13, mew=1.6)
        axes.annotate(
            span(list(totals)), (1.01, row), xycoords=("axes fraction", "data"), va="center",
            fontsize=7, annotation_clip=False,
        )  # fmt: skip
    axes.set_xscale("log")
    axes.axvline(1, color=INK, linewidth=0.8, linestyle=(0, (4, 2)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
    axes.xaxis.set_major_locator(LogLocator(base=10, numticks=5 if width < 5 else 8))
    axes.xaxis.set_minor_locator(NullLocator())
    firsts = [first_record(part) for _, part in rows]
    names = [
        shift_name(row["shift"], row["severity"]) if keys == CONDITION else _row_name(row)
        for row in firsts
    ]
    axes.set_yticks(range(len(names)), [beside(name, width) for name in names])
    axes.set_xlabel("value of the term (1 is an error of 100%)")
    handles = [
        Line2D(
            [], [], marker=BOUND_MARKS[i % len(BOUND_MARKS)], linestyle="", color=INK,
            markerfacecolor=TERM_FILLS[i % len(TERM_FILLS)], label=_words(term),
        )
        for i, term in enumerate(terms)
    ]  # fmt: skip
    handles.append(Line2D([], [], marker="|", linestyle="", color=INK, ms=11, label="bound"))
    figure.legend(handles=handles, loc="outside lower center", ncols=2 if width < 5 else 5)
    return figure


def _rows(n: int, width: float, *, each: float) -> tuple[Figure, Axes]:
    narrow = width < 5
    figure, [axes] = sheet(width, 1.3 + max(each, 0.32) * n if narrow else 1.0 + each * n)
    axes.set_ylim(n - 0.4, -0.6)
    axes.tick_params(axis="y", length=0, labelsize=6.5 if narrow else None)
    axes.grid(axis="x")
    axes.spines["left"].set_visible(False)
    return figure, axes


def _fill(place: int) -> dict[str, Any]:
    return {
        "facecolor": TERM_FILLS[place % len(TERM_FILLS)],
        "hatch": TERM_HATCHES[place % len(TERM_HATCHES)],
        "edgecolor": INK,
    }


def _words(term: str) -> str:
    return shown(term.replace("_", " "))


def _row_name(row: Mapping[str, Any]) -> str:
    where = "" if row["shift"] == "none" else f", {shift_name(row['shift'], row['severity'])}"
    predictor = "gibbs" if row["predictor"] == "gibbs" else ""
    return f"{model_called(row['label'], predictor)}{where}"


def _plot(frame: pd.DataFrame, name: str, bound: str) -> Plot:
    said = [
        f"{str(term).replace('_', ' ')} {span(list(part['value']))}"
        for term, part in frame.groupby("term", sort=False)
    ]
    models = len(frame[["label", "seed", "predictor"]].drop_duplicates())
    caption = "A bar per trained model; its parts add up to the value beside it."
    if not stackable(frame):
        caption = (
            f"A row per {'condition' if (frame['shift'] != 'none').any() else 'method'}, a mark "
            "per term and trained model, log scale; the upright bar is the whole bound. Right of "
            "the line at 1 (100%) a term alone makes the bound vacuous. A term that is 0 is not "
            "drawn."
        )
    return Plot(
        name,
        partial(anatomy_figure, frame),
        frame,
        title=f"Terms of {bound_name(bound)}",
        alt=f"Terms of the bound over {count(models, 'trained model')}: {'; '.join(said)}.",
        caption=caption,
    )


def bound_table(bounds: pd.DataFrame, name: str, bound: str) -> Table:
    """Values of one bound: a row per model and condition, a column per seed, never averaged."""
    own = bounds[bounds["bound"] == bound]
    shifted = bool((own["shift"] != "none").any())
    several = own["delta"].nunique() > 1
    next_client = bool((own["population"] == "next-client").all())
    clients = counted("", own.loc[own["n_novel"] > 0, "n_novel"]).strip()
    beside = f"new clients at or below it {clients.replace('(', '(of ').replace(' clients', '')}"
    beside = beside if next_client else f"measured new-client error {clients}"
    seeds = sorted(int(seed) for seed in own["seed"].unique())
    write, unit = in_one_unit(own["value"])
    write_other, unit_of_others = in_one_unit(own["others"])
    shown = []
    for _, part in own.groupby([*MODEL, "shift", "severity", "delta"], dropna=False, sort=False):
        by_seed = {int(row["seed"]): row for row in records(part)}
        first = first_record(part)
        cells = {"method": model_called(str(first["label"]))}
        if shifted:
            cells["condition"] = shift_name(first["shift"], first["severity"])
        if several:
            cells["delta"] = f"{first['delta']:g}"
        for seed in seeds:
            known = seed in by_seed
            cells[f"seed {seed}{unit}"] = write(by_seed[seed]["value"]) if known else DASH
        others = [by_seed[seed]["others"] for seed in seeds if seed in by_seed]
        if pd.notna(others).any():
            left = f"left for those not scored{unit_of_others}"
            cells[left] = ", ".join(write_other(value) for value in others)
        told = [_beside(by_seed.get(seed), next_client) for seed in seeds]
        shown.append({**cells, beside: ", ".join(told), "predictor": str(first["predictor"])})
    caption = "A column per seed: every value belongs to one trained model, none is an average."
    if len(seeds) > 1:
        caption += " The measured side lists the seeds in the same order."
    words = ("method", "predictor", "condition")
    title, noun = sentence_case(bound_name(bound)), "rows of values"
    return Table(name, caption, own, pd.DataFrame(shown), words, label=title, noun=noun)


def _beside(row: Mapping[str, Any] | None, next_client: bool) -> str:
    if row is None or not row["n_novel"]:
        return DASH
    return str(row["covered"]) if next_client else percent(row["measured"])


def _each_bound(material: Material) -> Iterator[Block]:
    bounds = material.ordered(material.bounds)
    if bounds.empty:
        return
    certificates = bounds.to_csv(index=False, lineterminator="\n")
    inputs = material.ledger.to_csv(index=False, lineterminator="\n")
    yield Files({"tables/certificates.csv": certificates, "tables/bound-inputs.csv": inputs})
    terms = material.ordered(material.anatomy)
    parts = parts_frame(material.ledger)
    for name, known_as in bound_ids(_order(material.study, bounds)).items():
        own, stem = bounds[bounds["bound"] == name], file_stem(known_as)
        title, told = sentence_case(bound_name(name)), status(own)
        yield Heading(title, f"bound-{stem}", told["word"], told["word"])
        yield from (Text(claim) for claim in claims(own))
        if told["text"]:
            yield Text(told["text"], "strong")
        yield bound_table(bounds, f"bound-{stem}", name)
        made_up = parts_table(parts, f"parts-{stem}", name, material.labels)
        if made_up:
            summary = "How each value is made up: errors, divergences, variances, terms, shares of"
            yield Group([made_up], f"{summary} delta")
        small_print = list(_small_print(ledger_of(material.ledger, name), title))
        if small_print:
            yield Group(small_print, "Assumptions, failure probability, inputs and source")
        anatomy = terms[terms["bound"] == name]
        if len(anatomy):
            yield _plot(anatomy, f"bound-{stem}-terms", name)


def _small_print(ledger: Mapping[str, list[dict[str, Any]]], title: str) -> Iterator[Block]:
    if ledger["assumption"]:
        yield Heading("Holds if", level=4)
        yield Items([item["text"] for item in ledger["assumption"]])
    if ledger["delta"]:
        yield Heading("Failure probability, event by event", level=4)
        yield Items([f"{item['name']}: {item['range']}" for item in ledger["delta"]])
    if ledger["input"]:
        yield Heading("Inputs", level=4)
        columns = {"input": "word", "value": "", "certificates": "", "where it comes from": "prose"}
        cells = [[item[key] for key in ("name", "range", "n", "text")] for item in ledger["input"]]
        yield Listing(f"Inputs of {title}", columns, cells)
    if ledger["source"]:
        yield Heading("Source", level=4)
        yield Items([item["text"] for item in ledger["source"]])


def _order(study: Mapping[str, Any], bounds: pd.DataFrame) -> list[str]:
    """Proven bounds first, then in the order of the study."""
    proven = bounds.groupby("bound")["rigorous"].any()
    declared = [f"{c['route']}:{c.get('rule', '')}" for c in study.get("certificates") or ()]
    asked = [one if isinstance(one, str) else one["name"] for one in study.get("bounds") or ()]
    place = {name: i for i, name in enumerate([*declared, *asked])}
    last = len(place)
    return sorted(
        proven.index,
        key=lambda name: (not proven[name], place.get(str(name).split("@")[0], last), name),
    )


EACH_BOUND = Section("each-bound", _each_bound)
