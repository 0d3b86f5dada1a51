"""How well descriptors rank clients by likeness, at the end and along the training."""

from collections.abc import Iterator, Mapping
from functools import partial

import pandas as pd
from matplotlib.figure import Figure

from latecomer.certify.page.svg import MUTED, WIDE
from latecomer.certify.words import DASH, PLUS_MINUS, count
from latecomer.reports.display.drawing import Looks, sheet, shown, styled
from latecomer.reports.display.naming import model_called
from latecomer.reports.display.pictures import Plot
from latecomer.reports.display.section import Block, Material, Section
from latecomer.reports.display.table import Table
from latecomer.reports.frames.artifacts import CellTables, joined
from latecomer.reports.frames.comparison import over_clients_and_seeds
from latecomer.reports.frames.errors import records
from latecomer.reports.frames.paper import paper_correlations
from latecomer.reports.words import signed

AGREEMENT = ("label", "spearman", "lower", "upper", "sd_seeds", "n_clients", "n_seeds")


def correlation_frame(tables: CellTables) -> pd.DataFrame:
    """Take the correlation of descriptors and classes along the training from its curves.

    Parameters
    ----------
    tables : iterable of (label, seed, records)
        The artifacts ``training_curve``.

    Returns
    -------
    pandas.DataFrame
        ``label seed round spearman n_clients``: the mean over the new clients of
        ``spearman`` after ``round`` rounds; rounds in which it is not defined are left out.
    """
    columns = ("label", "seed", "group", "round", "spearman", "n_clients")
    frame = joined(tables, columns, ("round", "spearman", "n_clients"))
    frame = frame[frame["group"] == "novel"].drop(columns="group")
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
    figure, [axes] = sheet(width, 3.0 if width < 5 else 3.2)
    axes.axhline(0, color=MUTED, linewidth=0.8)
    for label, own in frame.groupby("label", sort=False):
        by_round = own.groupby("round")["spearman"]
        mean, sd = by_round.mean(), by_round.std(ddof=1)
        one = look[str(label)]
        if sd.notna().any():
            axes.fill_between(mean.index, mean - sd, mean + sd, color=one.colour, alpha=0.18, lw=0)
        axes.plot(
            mean.index, mean, marker=one.mark, color=one.colour, linestyle=one.line, markersize=3.6,
            label=shown(model_called(str(label))),
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

    For a new client: Spearman's correlation, over the seen clients, of their descriptors'
    distance to its descriptor with the distance of class proportions (PeFLL, section 4.1).

    Returns
    -------
    pandas.DataFrame
        ``label spearman lower upper sd_seeds n_clients n_seeds``; ``lower`` and ``upper`` are the
        95% t-interval over clients, each averaged over seeds.
    """
    own = rows[(rows["metric"] == "spearman") & (rows["client"] != "") & (rows["method"] != "")]
    own = own.rename(columns={"value": "spearman"})
    frame = over_clients_and_seeds(own, ["label"], "spearman")
    frame["lower"] = (frame["spearman"] - frame["half"]).clip(lower=-1.0)
    frame["upper"] = (frame["spearman"] + frame["half"]).clip(upper=1.0)
    return frame[list(AGREEMENT)]


def agreement_table(
    frame: pd.DataFrame, published: Mapping[str, float], *, full: bool = True
) -> Table:
    """Show the correlation of descriptors and classes per method, and a paper's beside it.

    ``published`` has the papers' values by label; without ``full``, the run's length is not theirs.
    """
    shown_rows = [
        {
            "method": model_called(row["label"]),
            "rank correlation": f"{signed(row['spearman'])} {PLUS_MINUS} {_sd(row['sd_seeds'])}",
            **(_beside(row["spearman"], published.get(row["label"])) if published else {}),
            "95% over clients": f"{signed(row['lower'])} to {signed(row['upper'])}",
            "new clients": str(row["n_clients"]),
            "seeds": str(row["n_seeds"]),
        }
        for row in records(frame)
    ]
    caption = (
        "Spearman's rank correlation, over the seen clients, of a new client's distance in "
        "descriptors with its distance in class proportions, for the trained models: mean over "
        f"new clients, then over seeds, {PLUS_MINUS} one standard deviation over seeds. The "
        "interval is the 95% t-interval over new clients, each averaged over seeds."
    )
    if published:
        frame = frame.assign(paper=frame["label"].map(published))
        caption += " The paper gives no spread."
        caption += "" if full else " This run is not of the paper's length."
    cells, label = pd.DataFrame(shown_rows), "Correlation of descriptors and classes"
    return Table("descriptor-agreement", caption, frame, cells, ("method",), label=label)


def _beside(ours: float, paper: float | None) -> dict[str, str]:
    if paper is None:
        return {"paper": DASH, "difference": DASH}
    return {"paper": signed(paper), "difference": signed(ours - paper)}


def _sd(value: float) -> str:
    return DASH if pd.isna(value) else f"{value:.2f}"


def describe_correlation(frame: pd.DataFrame) -> str:
    """Describe ``correlation_figure``: where each method starts and ends."""
    said = []
    for label, own in frame.groupby("label", sort=False):
        means = own.groupby("round")["spearman"].mean()
        said.append(f"{model_called(str(label))} {means.iloc[0]:.2f} to {means.iloc[-1]:.2f}")
    rounds = f"{frame['round'].min():.0f} to {frame['round'].max():.0f}"
    text = f"Rank correlation of descriptors and classes, rounds {rounds}: {'; '.join(said)}."
    return text.replace("-", "\N{MINUS SIGN}")


def correlation_caption(frame: pd.DataFrame) -> str:
    """Say what ``correlation_figure`` averages."""
    seeds, clients = int(frame["seed"].nunique()), int(frame["n_clients"].max())
    ribbon = "; a ribbon of one standard deviation over seeds" if seeds > 1 else ""
    return (
        f"Spearman's rank correlation, over the seen clients, of a new client's distance in "
        f"descriptors with its distance in class proportions: 1 where descriptors rank clients as "
        f"their classes do. Mean over {count(clients, 'new client')}, then over "
        f"{count(seeds, 'seed')}{ribbon}."
    )


def _ranks(material: Material) -> Iterator[Block]:
    along = material.ordered(correlation_frame(material.tables("training_curve")))
    if along["round"].nunique() > 1:
        yield Plot(
            "descriptor-correlation",
            partial(correlation_figure, along, material.looks),
            along,
            title="Descriptors against classes along the training",
            alt=describe_correlation(along),
            caption=correlation_caption(along),
        )
    frame = material.ordered(agreement_frame(material.rows))
    if len(frame):
        published = paper_correlations(material.rows, material.study)
        yield agreement_table(frame, published, full=material.study.get("scale") == "paper")


RANKS = Section(
    "descriptor-ranks",
    _ranks,
    title="Whether descriptors rank clients as their classes do",
    cites=("spearman1904",),
)
