"""One client has one spelling, and what may be two clients or one is refused."""

import uuid
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latecomer.errors import InputError
from latecomer.reading.ids import Spellings, refuse_alike, refuse_clients, spelling, spelt_array


@pytest.mark.parametrize(
    ("given_id", "name"),
    [
        ("c00 ", "c00"),
        ("\u00a0c00\u2003", "c00"),
        ("\ufeffc00\u200b", "c00"),
        ("c00\r\n", "c00"),
        ("rene\u0301", "ren\u00e9"),
        ("Ann Lee", "Ann Lee"),
        ("007", "007"),
        ("7.00", "7"),
        (7, "7"),
        (7.0, "7"),
        (np.int32(7), "7"),
        (np.float32(7), "7"),
        (np.str_("c "), "c"),
        (b"c ", "c"),
        (np.array(7), "7"),
        (None, ""),
        (float("nan"), ""),
        (pd.NA, ""),
        (pd.NaT, ""),
        *((none, "") for none in ("nan", " ", "NA", "n/a", "#N/A", "NULL", " null ")),
    ],
)
def test_an_id_is_spelt_one_way(given_id, name):
    assert spelling(given_id) == name


@pytest.mark.parametrize(
    "given_id",
    [("c", 0), ["c"], {"c"}, True, np.True_, 1.5, 2.0**60, 1j, Fraction(1, 2), uuid.UUID(int=1),
     pd.Timestamp("2026-01-01"), b"\xff"],
)  # fmt: skip
def test_what_is_no_id_is_refused_by_its_type(given_id):
    with pytest.raises(InputError, match="an id must be text or a whole number, got"):
        spelling(given_id)


@pytest.mark.slow
@given(st.text())
def test_spelling_twice_changes_nothing(text):
    assert spelling(spelling(text)) == spelling(text)
    assert spelling(f" {text}\u00a0\n") == spelling(text)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["ann", "bob", "Ann"], "'ann' and 'Ann' differ only in letter case"),
        (["Straße", "STRASSE"], "differ only in letter case"),
        (["1", "01"], "'1' and '01' differ only in how they are written"),
        (["1.5", "1.50"], "differ only in how they are written"),
        (["Ann Lee", "AnnLee"], "differ only in how they are written"),
        (["Ann Lee", "Ann  Lee"], "differ only in how they are written"),
        (["Ann Lee", "Ann\u00a0Lee"], "differ only in how they are written"),
        (["site-1", "site\u20111"], "differ only in how they are written"),
        (["\uff11", "1"], "differ only in how they are written"),
        (["an\u200bn", "ann"], "differ only in how they are written"),
        (["1e5", "b"], "'1e5' is in scientific notation"),
        (["1.0E+05"], "'1.0E+05' is in scientific notation"),
        (["1,23457E+11", "c"], "scientific notation"),
        (["-2.E-3"], "scientific notation"),
        (["loss", "accuracy"], "'loss' is the name of a metric"),
        (["c1", "val_accuracy"], "'val_accuracy' is the name of a metric"),
        (["Top-1"], "'Top-1' is the name of a metric"),
        (["ann", "mean"], "'mean' is the name of a metric"),
        (["1,000", "1000"], "differ only in how they are written"),
        (["0", "-0"], "differ only in how they are written"),
        (["\u0661", "1"], "differ only in how they are written"),
        (['="ann"', "ann"], "differ only in how they are written"),
        (["'ann", "ann"], "differ only in how they are written"),
        (["# end", "ann"], "'# end' looks like a comment"),
        (["valLoss", "testAcc"], "'valLoss' is the name of a metric"),
        (["val/loss"], "'val/loss' is the name of a metric"),
        (["Grand Total", "ann"], "'Grand Total' is the name of a metric"),
        (["cross_entropy"], "'cross_entropy' is the name of a metric"),
        (["train", "val", "test"], "'train' is the name of a part of data"),
    ],
)
def test_ids_that_are_not_clear_are_refused(names, said, refusal):
    assert said in refusal(refuse_clients, names)


@pytest.mark.parametrize(
    "names",
    [
        [str(i) for i in range(200)],
        ["12e45678", "00a45678"],  # hexadecimal
        ["e5", "1e", "1e5x", "lossy", "meaning"],
        ["10", "100", "-10", "1.0.0"],
        ["a-1", "a1", "a_1"],
        *(["#1", "#2"], ["SD", "CE"], ["train", "plane"], ["Dice", "All"]),
    ],
)
def test_ids_that_are_clear_are_left_alone(names):
    refuse_clients(names)


def test_which_spellings_became_one_is_said():
    ids, notes = spelt_array(np.array(["a ", "a", "b", " b", "c"]))
    assert ids.tolist() == ["a", "a", "b", "b", "c"]
    (note,) = notes
    assert note.endswith("and 1 more")
    assert "are one client" in note
    group = Spellings("group")
    assert [group.of(one) for one in ("X ", "X", True, None, pd.NA, "none")] == [
        *("X", "X", "True", "", "", "none")
    ]
    assert group.notes() == ("'X ' and 'X' are one group, 'X'",)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["1.000", "2.000"], "'1.000' may be 1 or, with a point for thousands, 1000: write ids"),
        (["12.000"], "'12.000' may be 12 or, with a point for thousands, 12000"),
        (["1.5", "2.5"], "'1.5' is a number with a fraction"),
        (["1.234", "7"], "'1.234' is a number with a fraction"),
        ([".5", "1"], "'.5' is a number with a fraction"),
        (["1", "1.000"], "'1' and '1.000' differ only in how they are written"),
        (["1.234.567", "1234567"], "differ only in how they are written"),
        (["1'000", "1000"], "differ only in how they are written"),
        (["site1", "site01"], "'site1' and 'site01' differ only in how they are written"),
        (["h-7", "h-007"], "differ only in how they are written"),
        (["\u0430nn", "ann"], "differ only in how they are written"),
        (["\u041e1", "O1"], "differ only in how they are written"),
        (["Ann.", "Ann"], "differ only in how they are written"),
    ],
)
def test_numbers_and_letters_that_look_alike_are_refused(names, said, refusal):
    assert said in refusal(refuse_clients, [spelling(name) for name in names])


@pytest.mark.parametrize(
    "names",
    [
        ["7.0", "8.00", "10.0000"],
        ["192.168.100.1", "192.168.100.10"],
        ["f0000_14", "f0001_41", "f0140_01"],
        ["a01b1", "a1b01"],
        ["c10", "c1", "c100"],
    ],
)
def test_numbers_in_ids_that_are_clear_are_left_alone(names):
    refuse_clients([spelling(name) for name in names])


@pytest.mark.parametrize("names", [["0.05", "0.5"], ["12.05 mg", "12.5 mg"], ["-1.05", "-1.5"]])
def test_zeros_behind_a_decimal_point_count(names):
    refuse_alike(names, "dose")
    with pytest.raises(InputError, match="differ only in how they are written"):
        refuse_alike([*names, f"0{names[0]}".replace("0-", "-0")], "dose")
