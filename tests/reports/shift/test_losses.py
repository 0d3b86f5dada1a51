"""What is lost under shifts whose neutral value is not 0, on both of its sides."""

import numpy as np
import pandas as pd
import pytest

from latecomer.reports.frames.errors import client_errors, shift_frame
from latecomer.reports.shift.answer import curves_from_start, loss_frame, shifted_errors

KEYS = ("label", "shift", "severity", "value")
CONSTANT = {
    "method": "pefll", "predictor": "deterministic", "personalization": "forward", "group": "novel",
    "metric": "error", "seed": 0, "status": "done", "n_query": 100,
}  # fmt: skip


def errors_of(*lines: tuple[str, str, float, float]) -> pd.DataFrame:
    """Lay out errors as rows, eight clients around each mean."""
    frame = pd.DataFrame(lines, columns=list(KEYS)).assign(**CONSTANT)
    clients = {name: 0.02 * (-1) ** place for place, name in enumerate("abcdefgh")}
    each = [frame.assign(client=name, value=frame["value"] + by) for name, by in clients.items()]
    return pd.concat(each, ignore_index=True)


def told(*lines: tuple[str, str, float, float]) -> pd.DataFrame:
    return loss_frame(shifted_errors(client_errors(errors_of(*lines)))).set_index("label")


def test_contrast_of_one_is_no_shift() -> None:
    frame = told(
        ("m", "none", np.nan, 0.1),
        ("m", "contrast", 0.25, 0.5), ("m", "contrast", 0.5, 0.3), ("m", "contrast", 1.5, 0.1),
    )  # fmt: skip
    assert frame.loc["m", "severity"] == 0.25
    assert frame.loc["m", "loss"] == pytest.approx(0.4)
    # All eight lose alike, which the sign test knows, and 80 samples of 800 were wrong.
    assert frame.loc["m", "wrong"] == pytest.approx(80)
    assert frame.loc["m", "doubles"] == 0.5


def test_of_two_severities_as_far_from_nothing_the_dearer_counts_for_all() -> None:
    frame = told(
        ("m", "none", np.nan, 0.1), ("m", "brightness", -0.3, 0.2), ("m", "brightness", 0.3, 0.6),
        ("n", "none", np.nan, 0.1), ("n", "brightness", -0.3, 0.3), ("n", "brightness", 0.3, 0.2),
    )  # fmt: skip
    assert set(frame["severity"]) == {0.3}
    assert frame["loss"].to_dict() == pytest.approx({"m": 0.5, "n": 0.1})
    assert frame.loc["n", "doubles"] == -0.3


def test_where_nothing_is_known_of_the_start_nothing_doubles() -> None:
    frame = told(
        ("m", "none", np.nan, 0.1), ("m", "mine.py:tilt", 1.0, 0.5),
        ("m", "extrapolation", 0.1, 0.2), ("m", "extrapolation", 1.0, 0.9),
    )  # fmt: skip
    assert frame["doubles"].isna().all()


def test_an_error_that_doubles_by_chance_or_from_few_samples_has_not_doubled() -> None:
    """Ten times the samples, or eight clients that lose alike, and it has; two may by chance."""
    lines = [("m", "none", np.nan, 0.1), ("m", "blur", 1.0, 0.4)]
    alike = errors_of(*lines)
    few = alike.assign(n_query=10)
    two = alike[alike["client"].isin(["a", "b"])]
    one = 0.9 * ((alike["client"] == "a") & (alike["shift"] == "blur"))
    uneven = alike.assign(value=0.1 + one)
    doubles = {
        name: loss_frame(shifted_errors(client_errors(rows)))["doubles"].item()
        for name, rows in (("alike", alike), ("few", few), ("uneven", uneven), ("two", two))
    }
    assert doubles["alike"] == 1.0
    assert np.isnan(doubles["few"])
    assert np.isnan(doubles["uneven"])
    assert np.isnan(doubles["two"])


def test_a_curve_starts_where_nothing_happens() -> None:
    errors = errors_of(
        ("m", "none", np.nan, 0.1), ("m", "contrast", 0.5, 0.3), ("m", "extrapolation", 1.0, 0.2)
    )
    frame = curves_from_start(shift_frame(errors))
    starts = frame[(frame["start"] == "none") & (frame["label"] == "m")].set_index("shift")
    assert starts["severity"]["contrast"] == 1.0
    assert np.isnan(starts["severity"]["extrapolation"])
    assert set(starts["place"]) == {0}


def test_a_model_that_no_shift_was_measured_on_has_no_curve() -> None:
    """As those have that a route trains, beside shifted ones of a study."""
    measured = ("m", "none", np.nan, 0.1), ("m", "blur", 1.0, 0.3)
    errors = client_errors(errors_of(*measured, ("m r4:product", "none", np.nan, 0.2)))
    assert set(curves_from_start(shift_frame(errors))["label"]) == {"m"}
