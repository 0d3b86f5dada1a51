"""Tables of what was tried for new clients without labels, from the rows of its program."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from blocks import table
from published import REFERENCE
from scipy.stats import t

ROWS = REFERENCE / "newcomers-options" / "accuracies.csv"
SHOWN: Mapping[str, str] = {
    "sharp": "as they are",
    "blur 1": "blur 1",
    "blur 2": "blur 2",
    "blur 1 described sharp": "blur 1, described sharp",
    "blur 2 described sharp": "blur 2, described sharp",
}
CALLED: Mapping[str, str] = {
    "fedavg": "FedAvg",
    "as it is": "ODPFL-HN as it is",
    "parts": "`undescribed: 0.7`",
    "unit parts": "`undescribed: 0.7`, `encoder: unit-deepsets`",
    "views": "descriptors averaged over 8 random halves, in serving",
    "together": "three trainings, probabilities averaged",
    "held back last round": "trained on 24, the last round",
    "held back best round": "trained on 24, the round that 12 held back choose",
}
OWN = ["classes", "seed"]


def _first(rows: pd.DataFrame, stage: str) -> pd.DataFrame:
    """Return a stage's accuracies of first trainings, a column a condition."""
    own = rows[(rows["stage"] == stage) & (rows["training"] == 0)]
    return own.pivot_table(index=["option", *OWN], columns="condition", values="accuracy")


def chosen(rows: pd.DataFrame) -> str:
    """Return the option with which the clients held back have most right as they are."""
    means = _first(rows, "choose")["sharp"].groupby(level="option").mean()
    return str(means.drop(["fedavg", "as it is"]).idxmax())


def paired(one: pd.Series, other: pd.Series) -> tuple[float, float, float]:
    """Return the mean difference of two options over seeds, and its 95% t interval.

    A seed's difference is the mean over the numbers of classes: its clients and draws are its own.

    >>> at = pd.MultiIndex.from_product([[2, 4], [0, 1, 2]], names=OWN)
    >>> right = pd.Series([0.9, 0.8, 0.7, 0.9, 0.8, 0.7], index=at)
    >>> apart = pd.Series([0.0, 0.2, 0.4, 0.2, 0.2, 0.2], index=at)
    >>> [round(value, 3) for value in paired(right, right - apart)]
    [0.2, -0.048, 0.448]
    """
    apart = (one - other).groupby(level="seed").mean().to_numpy()
    mean, half = apart.mean(), t.ppf(0.975, len(apart) - 1) * apart.std(ddof=1) / len(apart) ** 0.5
    return float(mean), float(mean - half), float(mean + half)


def tried_table(stage: str) -> str:
    """Return what every option of a stage has right, and the paired differences, as a table."""
    rows = pd.read_csv(ROWS)
    right = _first(rows, stage)
    plain, seeds = right.loc["as it is"], right.index.get_level_values("seed")
    columns = ["option", *SHOWN.values(), "sd over seeds", "beside as it is", "beside FedAvg"]
    rows_of_options = []
    for option in [one for one in CALLED if one in right.index.get_level_values("option")]:
        own = right.loc[option]
        means = [f"{own[condition].mean():.3f}" for condition in SHOWN]
        means.append(f"{own['sharp'].groupby(level='seed').mean().std(ddof=1):.3f}")
        beside = [
            "" if option == name else _interval(paired(own["sharp"], right.loc[name]["sharp"]))
            for name in ("as it is", "fedavg")
        ]
        rows_of_options.append([CALLED[option], *means, *beside])
    by_classes = plain.index.get_level_values("classes")
    about = (
        f"Seeds {_listed(sorted(set(seeds)))}, each with {_listed(sorted(set(by_classes)))} "
        "classes a client; shares of clients' samples that are right, mean over seeds. Differences "
        "are of clients as they are, with the same clients and draws, and 95% t intervals over "
        "seeds."
    )
    told = [about, "", *table(columns, rows_of_options, numbers=True)]
    return "\n".join(told if stage == "choose" else [*told, "", *verdict(rows)])


def verdict(rows: pd.DataFrame) -> list[str]:
    """Return what the rows say of the chosen option, of seeds, of the round, and of blur."""
    right, best = _first(rows, "report"), chosen(rows)
    plain, option = right.loc["as it is"], right.loc[best]
    gains = [
        f"{SHOWN[one]} {_interval(found)}, {_apart(found)}"
        for one in ("sharp", "blur 1", "blur 2")
        for found in [paired(option[one], plain[one])]
    ]
    single = paired(right.loc["together"]["sharp"], _of_trainings(rows).mean())
    rounds = paired(right.loc["held back best round"]["sharp"], plain["sharp"])
    blurred = [
        f"{SHOWN[one]} {_interval(paired(plain[f'{one} described sharp'], plain[one]))}"
        for one in ("blur 1", "blur 2")
    ]
    fedavg = [
        f"{SHOWN[one]} {_interval(paired(plain[one], right.loc['fedavg'][one]))}"
        for one in ("sharp", "blur 1", "blur 2")
    ]
    return [
        f"- **Chosen by the clients held back**: {CALLED[best]}. Beside the method as it is, of "
        f"new clients' samples right: {'; '.join(gains)}.",
        f"- **Seeds**: trainings of the method as it is on the same clients lie {spread(rows):.3f} "
        "(one standard deviation) apart in what new clients have right. Three together, beside the "
        f"mean of the three: {_interval(single)}, {_apart(single)}.",
        "- **Holding 12 of 36 seen clients back to choose the round**, beside training on all to "
        f"the last round: {_interval(rounds)}, {_apart(rounds)}.",
        f"- **A sharp description of blurred clients** gains {'; '.join(blurred)}.",
        f"- **Beside FedAvg**, ODPFL-HN as it is: {'; '.join(fedavg)}.",
    ]


def _of_trainings(rows: pd.DataFrame) -> Any:
    """Return what new clients have right as they are, with the method as it is, by split."""
    at = (rows["stage"] == "report") & (rows["option"] == "as it is")
    return rows[at & (rows["condition"] == "sharp")].groupby(OWN)["accuracy"]


def _apart(found: tuple[float, float, float]) -> str:
    return "told apart" if found[1] > 0 or found[2] < 0 else "not told apart"


def spread(rows: pd.DataFrame) -> float:
    """Return the deviation between trainings of the method as it is on the same clients.

    The root of the mean variance, over all splits of the report, of what new clients have right.
    """
    return float(np.sqrt(_of_trainings(rows).var(ddof=1).mean()))


def _interval(found: tuple[float, float, float]) -> str:
    mean, low, high = found
    return f"{mean:+.3f} ({low:+.3f} to {high:+.3f})"


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers[:-1])) + f" and {numbers[-1]}"
