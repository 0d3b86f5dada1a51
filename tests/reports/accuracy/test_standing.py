"""Who stands out on new clients: of the models shown, on what they have in common."""

from pathlib import Path

import numpy as np
import pandas as pd
from sketches import answered, rows_of

from latecomer.eval.results.rows import RunRecord
from latecomer.reports.display.section import Material

WOBBLE = np.linspace(-0.01, 0.01, 12)
SEEN = np.full((1, 6), 0.2)


def material(*rows: pd.DataFrame) -> Material:
    return Material.of(RunRecord(Path(), {}, {}, pd.concat(rows, ignore_index=True), (), ()))


def made(label: str, *means: float, sign: float = 1.0, seen: bool = True) -> pd.DataFrame:
    """Rows of one model, a mean error of new clients for every seed."""
    errors = {"novel": np.array([mean + sign * WOBBLE for mean in means])}
    return rows_of(errors | ({"seen": np.repeat(SEEN, len(means), 0)} if seen else {}), label)


def test_a_predictor_that_is_not_shown_makes_no_other_stand_out() -> None:
    fixed = [made("a", 0.3), made("b", 0.301, sign=-1.0), made("c", 0.302, sign=0.5)]
    random = made("b", 0.05).assign(predictor="gibbs")
    with_it, without = (answered("accuracy", material(*rows)) for rows in ([*fixed, random], fixed))
    assert with_it.sentence.startswith("No method stands out: from 30.0% to 30.2% error")
    assert (with_it.sentence, with_it.more) == (without.sentence, without.more)
    assert with_it.numbers == without.numbers
    assert with_it.numbers["n_tied"] == 2


def test_a_model_of_the_easy_seed_alone_does_not_stand_out_by_it() -> None:
    # On the seed that both have the second errs less.
    answer = answered("accuracy", material(made("a", 0.13), made("b", 0.1, 0.5, sign=0.5)))
    assert answer.sentence == (
        "No method stands out: from 13.0% to 30.0% error on clients that they never saw, over 12 "
        "clients and 1 to 2 seeds."
    )
    gaps = answered("gap", material(made("a", 0.13), made("b", 0.1, 0.5, sign=0.5)))
    assert "over 12 new clients and 1 to 2 seeds" in gaps.sentence


def test_one_gap_less_that_of_training_alone_goes_from_nowhere_to_nowhere() -> None:
    alone = made("local", 0.3).assign(method="local")
    parts = answered("gap", material(alone, made("pefll", 0.4, sign=-1.0))).more[1]
    assert "paired by client, the gap less that one is +10.0 [" in parts
    assert parts.endswith("of PeFLL (95% interval, not corrected).")
    # All clients alike within their group: no interval, and none is spoken of.
    parts = answered("gap", material(alone, made("pefll", 0.4))).more[1]
    assert parts.endswith("paired by client, the gap less that one is +10.0 of PeFLL.")
    three = material(alone, made("pefll", 0.4, sign=-1.0), made("fedavg", 0.5, sign=-1.0))
    assert "gaps less that one go from +10.0 [" in answered("gap", three).more[1]
