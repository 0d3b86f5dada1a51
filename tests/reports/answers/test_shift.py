"""Who breaks first."""

import pandas as pd

from latecomer.reports.answers.shift import _breaks

COLUMNS = ["label", "predictor", "shift", "before", "doubles", "share"]


def test_a_model_without_error_before_neither_breaks_nor_holds() -> None:
    """Twice no error is no error, whatever comes then."""
    frame = pd.DataFrame(
        [
            ("perfect", "", "blur", 0.0, float("nan"), float("nan")),
            ("m", "", "blur", 0.1, 0.5, 0.5),
            ("steady", "", "blur", 0.1, float("nan"), float("nan")),
        ],
        columns=COLUMNS,
    )
    said = _breaks(frame, {(name, ""): name for name in ("perfect", "m", "steady")})
    assert "the error of m doubles at about blur 0.5" in said
    assert "that of steady never does" in said
    assert "perfect" not in said
