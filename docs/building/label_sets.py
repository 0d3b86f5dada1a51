"""What sets of labels hold on new clients, and how large they are, from the rows of a kept run."""

from collections.abc import Iterator

import pandas as pd
from blocks import table
from published import REFERENCE

from latecomer.certify.predicted_sets import LABEL_SCORES
from latecomer.certify.words import percent, shift_name
from latecomer.eval.results.rows import load_run
from latecomer.reports.display.naming import model_names
from latecomer.reports.display.section import Material
from latecomer.reports.frames.errors import model_of, primary_predictor, records
from latecomer.reports.guarantees.sets import CLIENTS, CONFIDENT, POOLED, answer_sets, sets_frame

_FORMS = (CLIENTS, CONFIDENT, POOLED)
_HEADS = (
    *("method", "error", "held", "labels", "a single one"),
    *("held, with confidence", "labels", "held, pooled", "labels"),
)


def set_tables(run: str) -> str:
    """Return what a kept run's first screen says of sets, and a table a score."""
    material = Material.of(load_run(REFERENCE / run))
    answer = answer_sets(material)
    if answer is None:
        raise ValueError(f"{run} holds no sets")
    every = primary_predictor(material.ordered(sets_frame(material.rows)))
    plain = every[every["shift"] == "none"]
    one = plain.iloc[0]
    lines = [
        " ".join((answer.sentence, *answer.more)),
        "",
        f"{one['n_clients']} new clients of each of {one['n_seeds']} seeds (`{run}`).",
    ]
    for score, own in plain.groupby("score", sort=False):
        words = LABEL_SCORES[str(score).partition(":")[2]].words
        lines += ["", f"By {words}:", "", *table(_HEADS, _rows(own), numbers=True)]
    shifted = every[(every["shift"] != "none") & (every["score"] == one["score"])]
    lines += _shifts(shifted[shifted["form"] == CLIENTS])
    return "\n".join(lines)


def _rows(frame: pd.DataFrame) -> Iterator[list[str]]:
    names = model_names(frame)
    told = records(frame)
    for row in (one for one in told if one["form"] == CLIENTS):
        forms = {one["form"]: one for one in told if model_of(one) == model_of(row)}
        cells = [names[model_of(row)], percent(row["error"])]
        for form in _FORMS:
            cells += [percent(forms[form]["coverage"]), f"{forms[form]['set_size']:.2f}"]
            cells += [percent(row["set_single"], 0)] if form == CLIENTS else []
        yield cells


def _shifts(frame: pd.DataFrame) -> list[str]:
    """Say what thresholds of unshifted clients hold where nothing is promised."""
    rows = []
    for _, own in frame.groupby(["shift", "severity"], sort=False, dropna=False):
        row = records(own)[0]
        spans = [
            f"{show(own[of].min())} to {show(own[of].max())}"
            for of, show in (("coverage", percent), ("set_size", "{:.2f}".format))
        ]
        rows.append((shift_name(row["shift"], row["severity"]), *spans))
    lines = table(("new clients", "held", "labels"), rows, numbers=True)
    return ["", "Under shift, where nothing is promised, by method:", "", *lines] if rows else []
