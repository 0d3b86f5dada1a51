"""Words for figures: what they show, for readers who cannot see them, and how to read them."""

import pandas as pd

from latecomer.reports.display.drawing import MOST_CURVES, NAMED, leaders, model_names
from latecomer.reports.frames.errors import CONTROL, first_record, records
from latecomer.reports.words import chance, count, percent, sentence_case


def say_pairs(pairs: pd.DataFrame) -> str:
    """Say how many pairs of models differ significantly."""
    differing = int((pairs["p_holm"] <= 0.05).sum())
    clients = _counts(pairs["n_clients"], "client")
    return (
        f"{differing} of {count(len(pairs), 'pair')} of models "
        f"{'differs' if differing == 1 else 'differ'} at 5% "
        f"(paired t-test over {clients}, Holm over all pairs)."
    )


def _counts(values: pd.Series, noun: str) -> str:
    low, high = int(values.min()), int(values.max())
    text = count(high, noun) if low == high else f"{low:,} to {count(high, noun)}"
    return text.replace("classs", "classes")


def describe_ranks(frame: pd.DataFrame) -> str:
    """Describe ``rank_test_figure``."""
    names = model_names(frame)
    said = [
        f"{names[row['label'], row['predictor']]} {row['mean_rank']:.1f}" for row in records(frame)
    ]
    return f"Mean ranks over novel clients, 1 is best: {', '.join(said)}."


def ranks_caption(frame: pd.DataFrame) -> str:
    """Say what was tested and how to read ``rank_test_figure``."""
    first = first_record(frame)
    n_models, n_clients = len(frame), int(first["n_clients"])
    p = "below 0.001" if first["p"] < 0.001 else f"{first['p']:.2g}"
    text = (
        f"Every novel client ranks the {n_models} models by its error, averaged over "
        f"{count(int(first['n_seeds']), 'seed')}; marks are mean ranks over "
        f"{count(n_clients, 'client')}, bars reach half the critical difference "
        f"({first['critical_difference']:.2f}) to both sides. Two models differ at 5% where their "
        "bars do not overlap (Nemenyi); all that reach the dashed line cannot be told from the "
        f"first. Friedman test of all models alike: p {p}."
    )
    if first["p"] > 0.05:
        text += " It does not reject that all serve alike, so no difference should be read here."
    return text


def shift_caption(frame: pd.DataFrame, shift: str) -> str:
    """Say what in ``shift_figure`` does not explain itself: counts, the control, grey lines."""
    own = frame[frame["shift"] == shift]
    text = f"{_counts(own['n_clients'], 'novel client')}, {_counts(own['n_seeds'], 'seed')}. "
    text += leaders_caption(frame, "mean")
    if (frame["shift"] == shift + CONTROL).any():
        text += (
            f" {sentence_case(shift)}: the clients' classes filled with images of that data set; "
            "control (hollow): the same clients refilled, just as full, from their own data. The "
            "dashed line between them is the effect of the data alone."
        )
    return text.strip()


def distance_caption(frame: pd.DataFrame) -> str:
    """Say how many clients a ``diagnostics_figure`` of one distance shows, and who is in colour."""
    clients = count(int(frame["client"].nunique()), "novel client")
    return (
        f"{clients}, {_counts(frame['n_seeds'], 'seed')}. {leaders_caption(frame, 'error')}".strip()
    )


def leaders_caption(frame: pd.DataFrame, value: str) -> str:
    """Say who is drawn in colour; empty where everyone is."""
    others = frame["label"].nunique() - len(leaders(frame, value))
    if not others:
        return ""
    return f"In colour the {NAMED} methods of least mean error; grey the {others} others."


def describe_classes(frame: pd.DataFrame) -> str:
    """Describe ``class_figure``."""
    held = frame[frame["n"] > 0].groupby(["group", "client"])["class"].size()
    sizes = frame.groupby(["group", "client"], sort=False)["n"].sum()
    groups = [
        f"{count(len(part), f'{group} client')}"
        for group, part in sizes.groupby(level="group", sort=False)
    ]
    return (
        f"Map of {frame['class'].nunique()} classes by clients ({', '.join(groups)}): a client "
        f"holds {_counts(held, 'class')} and "
        f"{_counts(sizes, 'sample')}."
    )


def describe_distribution(frame: pd.DataFrame, band: pd.DataFrame | None) -> str:
    """Describe ``error_distribution_figure``: who has an error above 0 and above 10%."""
    names, said = model_names(frame), []
    for (label, predictor), name in names.items():
        own = frame[(frame["label"] == label) & (frame["predictor"] == predictor)]
        above = [float(own.loc[own["level"] <= t, "share"].iloc[-1]) for t in (0.0, 0.1)]
        said.append(f"{name} {percent(above[0], 0)} and {percent(above[1], 0)}")
    text = f"Share of novel clients with an error above 0 and above 10%: {'; '.join(said)}."
    return text if band is None else f"{text} A dashed certified bound lies above each curve."


def distribution_caption(frame: pd.DataFrame, band: pd.DataFrame | None) -> str:
    """Say what ``error_distribution_figure`` counts and what its band is."""
    clients = _counts(frame["n_clients"], "novel client")
    some = frame["label"].nunique() > MOST_CURVES
    whose = f"for each of the {MOST_CURVES} models of least mean error" if some else "per model"
    whose = f"A panel {whose}, the others in grey: the" if len(model_names(frame)) > 1 else "The"
    text = (
        f"{whose} share of {clients} "
        f"with an error above each level, {_counts(frame['n_seeds'], 'seed')} taken together."
    )
    if band is not None:
        level = chance(float(band["delta"].iloc[0]))
        text += (
            " Dashed, one line a seed: the certified bound on that share, from the certification "
            f"clients; for each trained model all levels hold at once with probability {level}."
        )
    return text


def describe_training(frame: pd.DataFrame) -> str:
    """Describe ``training_figure``: where each method starts and ends, by group."""
    said = []
    for (label, group), own in frame.groupby(["label", "group"], sort=False):
        means = own.groupby("round")["error"].mean()
        said.append(f"{label} {group} {percent(means.iloc[0])} to {percent(means.iloc[-1])}")
    rounds = f"{frame['round'].min():.0f} to {frame['round'].max():.0f}"
    return f"Error along the training, rounds {rounds}: {'; '.join(said)}."


def training_caption(frame: pd.DataFrame) -> str:
    """Say what ``training_figure`` averages and what it is not used for."""
    seeds = count(int(frame["seed"].nunique()), "seed")
    text = (
        f"Mean over clients, then over {seeds}; whole lines with marks are novel clients, dashed "
        "and dotted ones seen clients' validation and test data. Novel clients are measured along "
        "the way for this figure only."
    )
    others = frame["label"].nunique() - len(leaders(frame, "error"))
    return text + (f" The {NAMED} methods of least mean error are drawn." if others else "")
