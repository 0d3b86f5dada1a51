"""How well descriptors rank clients by likeness, at the end and along the training."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from latecomer.reports.display.drawing import Looks, shown, styled
from latecomer.reports.display.style import MUTED, WIDE
from latecomer.reports.display.table import PLUS_MINUS, Table
from latecomer.reports.frames.comparison import half_width
from latecomer.reports.frames.errors import records
from latecomer.reports.words import DASH, signed

AGREEMENT = ("label", "spearman", "lower", "upper", "sd_seeds", "n_clients", "n_seeds")


def correlation_frame(
    tables: Iterable[tuple[str, int, Sequence[Mapping[str, Any]]]],
) -> pd.DataFrame:
    """Take the correlation of descriptors and classes along the training from its curves.

    Parameters
    ----------
    tables : iterable of (label, seed, records)
        The artifacts ``training_curve``.

    Returns
    -------
    pandas.DataFrame
        ``label seed round spearman n_clients``: the mean over the novel clients of
        ``spearman`` after so many rounds; rounds in which it is not defined are left out.
    """
    records = [
        (label, seed, *(record.get(name) for name in ("round", "spearman", "n_clients")))
        for label, seed, table in tables
        for record in table
        if record.get("group") == "novel"
    ]
    frame = pd.DataFrame(records, columns=["label", "seed", "round", "spearman", "n_clients"])
    for name in ("round", "spearman", "n_clients"):
        frame[name] = pd.to_numeric(frame[name], errors="coerce").astype(float)
    return frame.dropna(subset=["spearman"]).reset_index(drop=True)


@styled
def correlation_figure(frame: pd.DataFrame, look: Looks, *, width: float = WIDE) -> Figure:
    """Draw the rank correlation of descriptors and classes against rounds.

    A line per method, the mean over seeds, a ribbon of one standard deviation over seeds.

    Parameters
    ----------
    frame : pandas.DataFrame
        ``correlation_frame`` of the artifacts.
    look : mapping
        Colour and mark per label.
    width : float
        Inches.
    """
    figure = Figure(figsize=(width, 3.0 if width < 5 else 3.2))
    figure.set_layout_engine("constrained")
    axes = figure.subplots()
    axes.axhline(0, color=MUTED, linewidth=0.8)
    for label, own in frame.groupby("label", sort=False):
        by_round = own.groupby("round")["spearman"]
        mean, sd = by_round.mean(), by_round.std(ddof=1)
        one = look[str(label)]
        if sd.notna().any():
            axes.fill_between(mean.index, mean - sd, mean + sd, color=one.colour, alpha=0.18, lw=0)
        axes.plot(
            mean.index, mean, marker=one.mark, color=one.colour, linestyle=one.line, markersize=3.6,
            label=shown(str(label)),
        )  # fmt: skip
    axes.set_xlabel("rounds of training")
    axes.set_ylabel("rank correlation")
    axes.set_ylim(min(0.0, 1.1 * float(frame["spearman"].min())), 1.02)
    axes.set_xlim(0, 1.02 * float(frame["round"].max()))
    axes.grid()
    figure.legend(loc="outside lower center", ncols=2 if width < 5 else 5)
    return figure


def agreement_frame(rows: pd.DataFrame) -> pd.DataFrame:
    """Rank correlation of descriptors and classes of the trained models.

    For a novel client: Spearman's correlation, over the seen clients, of their descriptors'
    distance to its descriptor with the distance of class proportions (PeFLL, section 4.1).

    Returns
    -------
    pandas.DataFrame
        ``label spearman lower upper sd_seeds n_clients n_seeds``; ``lower`` and ``upper`` are the
        95% t-interval over clients, each averaged over seeds.
    """
    own = rows[(rows["metric"] == "spearman") & (rows["client"] != "") & (rows["method"] != "")]
    seeds = own.groupby(["label", "seed"])["value"].mean().groupby("label")
    clients = own.groupby(["label", "client"])["value"].mean().groupby("label")
    frame = pd.DataFrame(
        {
            "spearman": seeds.mean(),
            "half": clients.agg(half_width),
            "sd_seeds": seeds.std(ddof=1),
            "n_clients": clients.size(),
            "n_seeds": seeds.size(),
        }
    ).reset_index()
    frame["lower"] = (frame["spearman"] - frame["half"]).clip(lower=-1.0)
    frame["upper"] = (frame["spearman"] + frame["half"]).clip(upper=1.0)
    return frame[list(AGREEMENT)]


def agreement_table(
    frame: pd.DataFrame, published: Mapping[str, float], *, full: bool = True
) -> Table:
    """Show the correlation of descriptors and classes per method, and a paper's beside it.

    ``published`` has the papers' values by label; unless ``full``, the run is not of their length.
    """
    shown_rows = [
        {
            "method": row["label"],
            "rank correlation": f"{signed(row['spearman'])} {PLUS_MINUS} {_sd(row['sd_seeds'])}",
            **(_beside(row["spearman"], published.get(row["label"])) if published else {}),
            "95% over clients": f"{signed(row['lower'])} to {signed(row['upper'])}",
            "novel clients": str(row["n_clients"]),
            "seeds": str(row["n_seeds"]),
        }
        for row in records(frame)
    ]
    caption = (
        "Spearman's rank correlation, over the seen clients, of a novel client's distance in "
        "descriptors with its distance in class proportions, for the trained models: mean over "
        f"novel clients, then over seeds, {PLUS_MINUS} one standard deviation over seeds. The "
        "interval is the 95% t-interval over novel clients, each averaged over seeds."
    )
    if published:
        frame = frame.assign(paper=frame["label"].map(published))
        caption += " The paper gives no spread."
        caption += "" if full else " This run is not of the paper's length."
    return Table("descriptor-agreement", caption, frame, pd.DataFrame(shown_rows), ("method",))


def _beside(ours: float, paper: float | None) -> dict[str, str]:
    if paper is None:
        return {"paper": DASH, "difference": DASH}
    return {"paper": signed(paper), "difference": signed(ours - paper)}


def _sd(value: float) -> str:
    return DASH if pd.isna(value) else f"{value:.2f}"
