"""One class has one name, and what stands for no label is none; clear classes are taken."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latecomer.errors import InputError
from latecomer.reading.ids import are_characters, holds_quantity, is_gap, refuse_labels

GAPS = [
    *(None, float("nan"), pd.NA, pd.NaT, "", " ", "\u00a0", "NA", "na", "N/A", "#N/A", "NaN"),
    *("null", "None", "<NA>", "?", " ? ", "??", ".", "n.a.", "missing", "inf", "-inf", "Infinity"),
    *("-Inf", "1.#IND", "#DIV/0!", "#VALUE!", "#REF!"),
]


@pytest.mark.parametrize("cell", GAPS, ids=repr)
def test_what_stands_for_no_label_is_none(cell):
    assert is_gap(cell)


@pytest.mark.parametrize("cell", ["cat", "0", 0, 0.0, False, "-", "+", "no", "N", "naan", "info"])
def test_what_is_a_label_is_one(cell):
    assert not is_gap(cell)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["Cat", "cat"], "label 'Cat' and 'cat' differ only in letter case"),
        (["True", "true"], "differ only in letter case"),
        (["TRUE", "True", "False"], "differ only in letter case"),
        (["New York", "NewYork"], "differ only in how they are written"),
        (["New York", "New  York"], "differ only in how they are written"),
        (["<=50K", "<=50K."], "differ only in how they are written"),
        (["1", "01"], "'1' and '01' differ only in how they are written"),
        (["1", "1.0"], "'1' and '1.0' differ only in how they are written"),
        (["2", "+2"], "differ only in how they are written"),
        (["stage 1", "stage 01"], "differ only in how they are written"),
        (["1", "cat"], "of one kind, whole numbers or names, got name 'cat' and number '1'"),
        (["0", "yes"], "got name 'yes' and number '0'"),
        (["1.0", "high"], "got name 'high' and number '1.0'"),
        (["cat", "-"], "got mark '-' and name 'cat'"),
        (["0", "1", "*"], "got mark '*' and number '1'"),
        (["0,5", "1,5"], "got '0,5'; a decimal comma? Write 0.5"),
        (["cat", "0,5"], "got '0,5'; a decimal comma? Write 0.5"),
        (["1e5", "2e5"], "label '1e5' is in scientific notation"),
        (["1.0E+05", "ill"], "label '1.0E+05' is in scientific notation"),
        (["y", "Y", "n"], "differ only in letter case"),
    ],
)
def test_labels_that_are_not_clear_are_refused(names, said, refusal):
    assert said in refusal(refuse_labels, names)


@pytest.mark.parametrize(
    "names",
    [
        ["cat", "dog"],
        ["0", "1", "10"],
        ["03", "1.0"],
        ["0", "1", "2", "3+"],
        ["<50", ">=50"],
        ["10-20", "20-30", "older"],
        ["+", "-"],
        ["a-1", "a1", "a_1"],
        [*"abcdefgxyzAB0123?."],
        ["<=50K", ">50K"],
    ],
)
def test_labels_that_are_clear_are_taken(names):
    refuse_labels(names)


@given(st.lists(st.integers(0, 10**6), unique=True))
def test_whole_numbers_are_taken(numbers):
    refuse_labels([str(number) for number in numbers])


@given(st.lists(st.text(st.characters(codec="ascii", categories=["Ll"]), min_size=1), unique=True))
def test_a_name_in_capitals_beside_itself_is_refused(names):
    refuse_labels([name for name in names if not is_gap(name)])
    if names and not are_characters({*names, names[0].upper()}):
        with pytest.raises(InputError, match="letter case"):
            refuse_labels([*names, names[0].upper()])


def test_numbers_with_a_fraction_are_a_quantity():
    assert holds_quantity(["0.5", "1", "-2.25"])
    assert not holds_quantity(["0.0", "1.0"])
    assert not holds_quantity([".", "0.5"])
    assert not holds_quantity(np.array(["v0.5", "v1.5"]).tolist())
