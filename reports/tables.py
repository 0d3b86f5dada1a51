"""Tables: each is made once as text and numbers, then written as HTML, CSV and LaTeX.

The CSV holds the frame's raw numbers; HTML and LaTeX show the same formatted cells.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from latecomer.reports.figures import model_names
from latecomer.reports.frames import (
    MODEL,
    accuracy_frame,
    gap_frame,
    gap_summary,
    in_order,
    personalization,
    rank_frame,
)
from latecomer.reports.words import DASH, FAMILIES, METRICS, magnitude, percent, points, shift_name

PLUS_MINUS = "\N{PLUS-MINUS SIGN}"


@dataclass(frozen=True)
class Table:
    """One table in all its forms.

    Attributes
    ----------
    name : str
        Stem of its files.
    caption : str
        What it shows, which spread, what the marks mean.
    frame : pandas.DataFrame
        The numbers behind it.
    shown : pandas.DataFrame
        The cells as text; column names are the headings.
    words : tuple of str
        Headings of columns that hold words; the others hold numbers.
    bold : tuple of (int, str)
        Row and heading of the cells that are marked.
    """

    name: str
    caption: str
    frame: pd.DataFrame
    shown: pd.DataFrame
    words: tuple[str, ...]
    bold: tuple[tuple[int, str], ...] = ()

    @property
    def rows(self) -> list[list[dict[str, object]]]:
        """Cells row by row for the page's template."""
        return [
            [
                {"text": text, "bold": (number, heading) in self.bold}
                for heading, text in zip(self.shown.columns, row, strict=True)
            ]
            for number, row in enumerate(self.shown.itertuples(index=False, name=None))
        ]

    def csv(self) -> str:
        """Write the numbers, full precision."""
        return self.frame.to_csv(index=False, lineterminator="\n")

    def latex(self) -> str:
        """Write a booktabs table."""
        cells = pd.DataFrame(
            [
                [
                    f"\\textbf{{{escape(str(cell['text']))}}}"
                    if cell["bold"]
                    else escape(str(cell["text"]))
                    for cell in row
                ]
                for row in self.rows
            ],
            columns=[escape(heading) for heading in self.shown.columns],
        )
        style = cells.style.hide(axis="index")
        text: str = style.to_latex(
            hrules=True,
            position_float="centering",
            caption=escape(self.caption),
            label=f"tab:{self.name}",
            column_format="".join("l" if h in self.words else "r" for h in self.shown.columns),
        )
        return f"% needs \\usepackage{{booktabs}}\n{text}"


_LATEX = {
    "\\": r"\textbackslash{}",
    **{char: f"\\{char}" for char in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "\N{MINUS SIGN}": "$-$",
    PLUS_MINUS: r"$\pm$",
    DASH: "--",
    "\n": " ",
}


def escape(text: str) -> str:
    r"""Escape text for LaTeX.

    >>> print(escape("a_b & 5%"))
    a\_b \& 5\%
    """
    return "".join(_LATEX.get(char, char) for char in text)


def _with_spread(mean: float, sd: float) -> str:
    return f"{percent(mean)} {PLUS_MINUS} {points(sd).lstrip('+')}"


def _counted(heading: str, counts: pd.Series) -> str:
    known = sorted({int(n) for n in counts.dropna()}) or [0]
    return f"{heading} ({DASH.join(str(n) for n in (known[0], known[-1])[: len(known)])} clients)"


def accuracy_table(rows: pd.DataFrame, labels: Sequence[str]) -> Table | None:
    """Seen and novel error per model, gap and comparison with the best; None without errors."""
    frame = in_order(accuracy_frame(rows), labels)
    if frame.empty:
        return None
    names = model_names(frame)
    served = personalization(rows)
    groups = {name: frame[frame["group"] == name].set_index(MODEL) for name in ("seen", "novel")}
    gaps = gap_summary(gap_frame(rows)).set_index(MODEL)
    heads = {
        name: _counted(f"{name} error", part["n_clients"])
        for name, part in groups.items()
        if len(part)
    }
    records, bold = [], []
    for place, (pair, name) in enumerate(names.items()):
        family = served.get(pair[0], "")
        record = {"method": name}
        for group, head in heads.items():
            known = pair in groups[group].index
            row = groups[group].loc[pair] if known else None
            record[head] = DASH if row is None else _with_spread(row["mean"], row["sd_seeds"])
            if group == "novel":
                record |= _novel_cells(row)
                if row is not None and row["tied"]:
                    bold.append((place, head))
        gap = gaps.loc[pair] if pair in gaps.index else None
        record["gap (points)"] = (
            DASH
            if gap is None
            else f"{points(gap['gap'])} {PLUS_MINUS} {points(gap['sd_seeds']).lstrip('+')}"
        )
        seeds = [part.loc[pair, "n_seeds"] for part in groups.values() if pair in part.index]
        record["seeds"] = str(int(max(seeds)))
        record["new clients get"] = FAMILIES.get(family, family)
        records.append(record)
    caption = (
        f"Error of seen and novel clients without shift: mean over clients, then over seeds; "
        f"{PLUS_MINUS} is one standard deviation over seeds, in points. The interval is the 95% "
        "t-interval over clients, each client averaged over seeds. Gap: novel minus seen accuracy. "
        "Bold: the lowest novel error and every one not significantly worse (paired t-test over "
        "clients, Holm, 5%)."
    )
    return Table(
        "accuracy",
        caption,
        frame,
        pd.DataFrame(records),
        ("method", "new clients get"),
        tuple(bold),
    )


def _novel_cells(row: "pd.Series | None") -> dict[str, str]:
    heads = ("95% over clients", "above the best (95%)", "worst client")
    if row is None:
        return dict.fromkeys(heads, DASH)
    best = row["difference"] == 0 and pd.isna(row["p_holm"])
    ends = f"[{points(row['difference_lower'])}, {points(row['difference_upper'])}]"
    return dict(
        zip(
            heads,
            (
                f"{percent(row['lower'])} to {percent(row['upper'])}",
                "best" if best else f"{points(row['difference'])} {ends}",
                percent(row["worst"]),
            ),
            strict=True,
        )
    )


def bound_table(bounds: pd.DataFrame, name: str, bound: str) -> Table:
    """Values of one bound: a row per model and condition, a column per seed, never averaged."""
    own = bounds[bounds["bound"] == bound]
    shifted = bool((own["shift"] != "none").any())
    several = own["delta"].nunique() > 1
    next_client = bool((own["population"] == "next-client").all())
    clients = _counted("", own.loc[own["n_novel"] > 0, "n_novel"]).strip()
    beside = f"novel clients at or below it {clients.replace('(', '(of ').replace(' clients', '')}"
    beside = beside if next_client else f"measured novel error {clients}"
    seeds = sorted(own["seed"].unique())
    records = []
    for key, part in own.groupby([*MODEL, "shift", "severity", "delta"], dropna=False, sort=False):
        label, predictor, shift, severity, delta = key
        record = {"method": str(label)}
        if shifted:
            record["condition"] = shift_name(shift, severity)
        if several:
            record["delta"] = f"{delta:g}"
        by_seed = part.set_index("seed")
        for seed in seeds:
            known = seed in by_seed.index
            record[f"seed {seed}"] = magnitude(float(by_seed.loc[seed, "value"])) if known else DASH
        told = [str(n) if next_client else percent(m) for n, m in _beside(by_seed, seeds)]
        records.append({**record, beside: ", ".join(told), "predictor": str(predictor)})
    caption = "A column per seed: every value belongs to one trained model, none is an average."
    if len(seeds) > 1:
        caption += " The measured side lists the seeds in the same order."
    words = ("method", "predictor", "condition")
    return Table(name, caption, own, pd.DataFrame(records), words)


def _beside(by_seed: pd.DataFrame, seeds: Sequence[int]) -> list[tuple[object, float]]:
    return [
        (by_seed.loc[s, "covered"], float(by_seed.loc[s, "measured"]))
        if s in by_seed.index
        else (DASH, float("nan"))
        for s in seeds
    ]


def shift_table(frame: pd.DataFrame, labels: Sequence[str]) -> Table:
    """Novel error per method (rows) and condition (columns)."""
    ordered = in_order(frame, labels)
    names = model_names(ordered)
    unshifted = ordered["shift"].eq("none").map({True: 0, False: 1})
    conditions = (
        ordered.assign(first=unshifted)
        .sort_values(["first", "shift", "severity"])[["shift", "severity", "n_clients"]]
        .drop_duplicates(["shift", "severity"])
    )
    cells = {
        (row.label, row.shift, f"{row.severity}"): _with_spread(row.mean_, row.sd_seeds)
        for row in ordered.rename(columns={"mean": "mean_"}).itertuples()
    }
    records = []
    for label, predictor in names:
        record = {"method": names[label, predictor]}
        for row in conditions.itertuples():
            head = f"{shift_name(row.shift, row.severity)} ({row.n_clients})"
            record[head] = cells.get((label, row.shift, f"{row.severity}"), DASH)
        seeds = ordered.loc[ordered["label"] == label, "n_seeds"]
        records.append({**record, "seeds": str(int(seeds.max()))})
    caption = (
        f"Novel error under each shift and severity: mean {PLUS_MINUS} one standard deviation over "
        "seeds, in points; the number of clients stands in brackets."
    )
    return Table("shift", caption, ordered, pd.DataFrame(records), ("method",))


def rank_table(diagnostics: pd.DataFrame, labels: Sequence[str]) -> Table:
    """Rank correlations of error with distance to the nearest training client."""
    frame = in_order(rank_frame(diagnostics), labels)
    records = []
    for label, part in frame.groupby("label", sort=False):
        record = {"method": str(label)}
        for row in part.itertuples():
            value = DASH if pd.isna(row.spearman) else f"{row.spearman:+.2f}"
            head = f"{METRICS[row.metric].split(' to ')[0]}, {row.clients} (n = {row.n})"
            record[head] = value.replace("-", "\N{MINUS SIGN}")
        records.append(record)
    caption = (
        "Spearman's rank correlation of a novel client's error (averaged over seeds) with its "
        "distance to the nearest training client. The same client under several shifts counts "
        "once per shift, so n overstates independence and no interval is given."
    )
    return Table("rank-correlation", caption, frame, pd.DataFrame(records), ("method",))
