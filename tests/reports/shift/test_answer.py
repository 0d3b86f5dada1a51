"""By when errors have doubled is said where samples and test allow it."""

import pandas as pd

from latecomer.reports.shift.answer import _doubled_words, at_severest, distance_from_none

COLUMNS = ["label", "predictor", "shift", "doubles", "wrong"]
NAN = float("nan")


def said(*lines: tuple[str, str, str, float, float]) -> str:
    frame = pd.DataFrame(lines, columns=COLUMNS)
    return _doubled_words(frame, {(line[0], ""): line[0] for line in lines})


def test_by_which_severity_errors_have_doubled() -> None:
    told = said(
        ("m", "", "rotation", 15.0, 20.0),
        ("n", "", "rotation", 30.0, 12.0),
        ("o", "", "rotation", 15.0, 40.0),
        ("steady", "", "rotation", NAN, 25.0),
    )
    assert told == "Beyond chance, errors have doubled by 15 for m and o and by 30 for n."


def test_of_a_handful_of_wrong_samples_nothing_doubles() -> None:
    told = said(("m", "", "blur", NAN, 1.0), ("n", "", "blur", 1.0, 30.0))
    assert told.startswith("Beyond chance, errors have doubled by 1 for n. When it doubles is not")
    assert "said of m: fewer than 10 samples were wrong without shift (1)." in told
    told = said(("m", "", "blur", NAN, 1.0), ("n", "", "blur", NAN, 5.0))
    assert told == (
        "When it doubles is not said of every model: fewer than 10 samples were wrong without "
        "shift (1 to 5)."
    )


def test_where_the_start_is_unknown_nothing_is_said() -> None:
    assert said(("m", "", "extrapolation", NAN, 1.0)) == ""


def test_of_severities_equally_far_from_none_the_one_of_more_error_is_the_severest() -> None:
    # 1 - 0.6 is larger than 1.4 - 1 in its last bit.
    shifted = pd.DataFrame({"shift": "contrast", "severity": [0.6, 1.4], "error": [0.2, 0.3]})
    shifted["distance"] = distance_from_none("contrast", shifted["severity"])
    assert at_severest(shifted)["severity"].tolist() == [1.4]
