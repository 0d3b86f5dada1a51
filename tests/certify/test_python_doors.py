"""What the terminal answers about a table of losses, from Python: the same objects and numbers."""

import inspect
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from terminal import certified, text

import latecomer
from latecomer import certify
from latecomer.errors import InputError

FRAME = pd.DataFrame(
    {
        "client": [f"c{i}" for i in range(42)],
        "loss": [0.05 * (i % 7) for i in range(42)],
        "site": ["xyy"[i % 3] for i in range(42)],
    }
)
OTHERS = {f"c{i}": 0.6 for i in range(42)}


@pytest.fixture
def path(tmp_path: Path) -> str:
    FRAME.to_csv(tmp_path / "losses.csv", index=False)
    return str(tmp_path / "losses.csv")


@pytest.mark.slow
def test_a_certificate_is_what_the_terminal_prints(path: str) -> None:
    told = "--shift kl=0.05,0.1 --target 0.4 --above 0.2 --curve --by site --seed 5"
    asked = told.split()
    beside = {"target": 0.4, "above": [0.2], "curve": True, "by": "site", "seed": 5}
    found = latecomer.certify_losses(FRAME, shifts={"kl": [0.05, 0.1]}, **beside)
    assert f"{found}\n" == certified(path, *asked)
    assert f"{found.in_full}\n" == certified(path, *asked, "--long")
    assert f"{found.to_json()}\n" == certified(path, *asked, "--json")
    best = latecomer.certify_losses(path, rule="best_of", best_of=["product", "wsr_averaged"])
    repeated = ("--best-of", "product,wsr_averaged", "--seed", str(best.seed))
    assert f"{best}\n" == certified(path, "--rule", "best_of", *repeated)


def test_a_certificate_as_table_sentence_and_page() -> None:
    found = latecomer.certify_losses(
        FRAME, shifts={"kl": [0.1]}, above=[0.2], curve=True, by="site", against=OTHERS
    )
    table = found.table().set_index("about")
    assert list(table["topic"].unique()) == [
        *("mean", "next client", "shifts", "tails", "groups", "against")
    ]
    assert table.loc["mean loss", "bound"] == float(found.certificate)
    assert (
        table.loc["mean loss, KL(Q || P) <= 0.1", "bound"]
        == found.shifts["kl"].certificate.value[0]
    )
    assert table.loc["mean loss of y", "bound"] == float(found.groups["y"].certificate)
    assert table.loc["mean loss", "sentence"] == found.sentence
    assert found.sentence.startswith("With probability at least 95% over the choice of these 42")
    page = found._repr_html_()
    assert page.startswith(f"<p>{found.sentence}</p>")
    assert page.count("<tr") == len(table) + 1
    unsure = latecomer.certify_losses(FRAME, rule="conformal")
    assert "the loss of the next client" in unsure.sentence


@pytest.mark.slow
def test_a_plan_is_what_the_terminal_prints(path: str) -> None:
    for given, asked in (
        ({"expect": 0.17, "sd": 0.09}, ["--expect", ".17", "--sd", ".09"]),
        ({"pilot": path}, ["--pilot", path]),
        ({"pilot": FRAME}, ["--pilot", path]),
        ({"pilot": path, "hopeless": 0.01}, ["--pilot", path, "--hopeless", ".01"]),
    ):
        found = latecomer.plan_hold_out(0.35, **given)
        assert f"{found}\n" == text("plan", "--target", ".35", *asked)
        assert f"{found.to_json()}\n" == text("plan", "--target", ".35", *asked, "--json")
        assert f"With probability 9/10 {found.likely} clients" in found.sentence
    hopeless = latecomer.plan_hold_out(0.1, expect=0.17, sd=0.09)
    assert hopeless.table()["clients"].isna().all()
    assert "no number of clients" in hopeless.sentence
    assert "<NA>" not in hopeless._repr_html_()
    with pytest.raises(InputError, match="--expect and --sd are needed"):
        latecomer.plan_hold_out(0.1)
    for pilot, said in (
        ([0.1], "a pilot needs at least 2 clients, got 1"),
        ({"ann": 0.2, "bob": 0.2}, "a pilot's losses must differ, got 0.2 of every client"),
        ([0.1, 1.2], r"losses, client '1': loss must lie in \[0, 1\], got 1.2"),
    ):
        with pytest.raises(InputError, match=f"^{said}"):
            latecomer.plan_hold_out(0.1, pilot=pilot)


def test_arriving_clients_are_those_of_the_terminal(path: str) -> None:
    found = latecomer.watch_losses(FRAME, threshold=0.25)
    assert text("watch", path, "--once", "--threshold", ".25").endswith(f"{found}\n")
    lines = text("watch", path, "--once", "--threshold", ".25", "--json").splitlines()
    told = [json.loads(line) for line in lines]
    assert [one["certificate"] for one in told] == found.table()["certificate"].tolist()
    assert json.loads(found.to_json())["clients"][3]["client"] == "c3"
    assert [moment.client for moment in found] == FRAME["client"].tolist()
    assert "the mean loss over clients still to come" in found.sentence
    with pytest.raises(InputError, match="client 'c0' occurs twice"):
        latecomer.watch_losses(pd.concat([FRAME, FRAME]))
    with pytest.raises(InputError, match="holds no clients"):
        latecomer.watch_losses({})


def test_an_order_in_a_series_is_read_by_its_index() -> None:
    losses = pd.Series({"a": 0.9, "b": 0.1, "c": 0.2})
    order = pd.Series({"c": 1, "b": 2, "a": 3})
    by_index = latecomer.losses(losses, rule="wsr", order=order)
    assert (
        by_index.table.order == latecomer.losses(losses, rule="wsr", order=dict(order)).table.order
    )
    by_row = latecomer.losses(losses, rule="wsr", order=pd.Series([3, 2, 1]))
    assert by_row.table.order == by_index.table.order
    twice = pd.Series([1, 2, 3], index=["a", "a", "b"])
    with pytest.raises(InputError, match="order must name every client once"):
        latecomer.losses(losses, rule="wsr", order=twice)


def test_close_thresholds_and_numbers_of_numpy() -> None:
    losses = {str(client): client / 20 for client in range(20)}
    made = latecomer.certify_losses(
        losses, alpha=np.float64(0.1), above=[0.1000000001, 0.1], seed=1
    ).to_dict()
    assert [*made["tails"]["above"]] == ["0.1000000001", "0.1"]
    with pytest.raises(InputError, match="half a letter"):
        latecomer.certify_losses({"x\udc00": 0.1, "y": 0.2})


SMALL = pd.DataFrame({"client": range(12), "loss": [0.1, 0.2] * 6, "site": ["a", "b"] * 6})
POINTS = pd.DataFrame({"client": range(19), "label": [0, 1] * 9 + [0], "p_0": 0.4, "p_1": 0.6})
SCORED = latecomer.losses(SMALL, rule="product")
OF_CLIENT = (np.arange(4.0), np.array([0, 0, 1, 1]))
DOORS: dict[str, tuple[Any, dict[str, Any], list[str]]] = {
    "losses": (latecomer.losses, {"source": SMALL, "rule": "product"}, []),
    "certify_losses": (certify.certify_losses, {"losses": SMALL, "rule": "product"}, []),
    "certify_predictor": (
        certify.certify_predictor,
        {
            "predictor": lambda support, x: (x > 1).astype(int),
            "clients": {client: (OF_CLIENT, OF_CLIENT) for client in range(12)},
            "rule": "product",
        },
        [],
    ),
    "plan_hold_out": (
        certify.plan_hold_out,
        {"target": 0.6, "expect": 0.2, "sd": 0.1, "clients": 5, "rule": "product"},
        [],
    ),
    "a plan by a pilot": (
        certify.plan_hold_out,
        {"target": 0.6, "pilot": [0.1, 0.3], "clients": 5, "rule": "product"},
        [],
    ),
    "watch_losses": (
        certify.watch_losses,
        {"losses": SMALL, "threshold": 0.5},
        [*certify.watch_losses.__globals__["WatchPlan"].__dataclass_fields__],
    ),
    "score_points": (certify.score_points, {"source": POINTS}, []),
    "label_sets": (certify.label_sets, {"source": POINTS, "alpha": 0.1}, []),
    "next_client": (SCORED.next_client, {}, []),
    "above": (lambda threshold: SCORED.above(threshold), {}, []),
    "within": (SCORED.within, {"ball": "kl", "radii": [0.1]}, []),
    "by": (SCORED.by, {"column": "site"}, []),
    "against": (SCORED.against, {"other": SMALL}, []),
    "report": (lambda path: latecomer.certify_losses(SMALL, rule="product").report(path), {}, []),
    "write": (certify.label_sets(POINTS, alpha=0.1).write, {"path": "x"}, []),
}
NUMBERS = [True, -1, 0, 3, 0.3, math.nan, math.inf, 10**400, 1j, np.float32(0.2), np.array(5.0)]
HELD = [[], [0.2], [None], ["a", "b"], {}, {"kl": None}, {"kl": [math.nan]}, np.zeros((1, 2))]
STRANGE = [*NUMBERS, *HELD, None, "x", "", b"x", object(), np.array("x"), SMALL, SMALL["loss"]]


@pytest.mark.parametrize("door", DOORS)
def test_whatever_is_given_is_taken_or_refused_in_one_line(
    door: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    function, legal, more = DOORS[door]
    given = inspect.signature(function).parameters.values()
    names = [one.name for one in given if one.kind is not one.VAR_KEYWORD]
    refusals = []
    for name in dict.fromkeys([*names, *more]):
        for value in STRANGE:
            try:
                str(function(**legal | {name: value}))
            except InputError as error:
                refusals.append(str(error))
            except Exception as error:
                raise AssertionError(f"{door}: {name}={value!r}") from error
    assert len(refusals) >= 10
    assert [text for text in refusals if len(text.splitlines()) != 1] == []


def test_a_path_may_begin_with_the_home_folder(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    found = latecomer.certify_losses("~/losses.csv", rule="product", against="~/losses.csv")
    assert found.to_json() == latecomer.certify_losses(path, rule="product", against=path).to_json()
    assert len(latecomer.watch_losses("~/losses.csv").moments) == 42
    assert latecomer.plan_hold_out(0.6, pilot="~/losses.csv", rule="product").pilot_clients == 42
    with pytest.raises(InputError, match="must be another file than"):
        found.report("~/losses.csv")
    assert found.report("~/page.html") == tmp_path / "page.html"


def test_a_single_value_is_a_list_of_it_and_none_is_no_list() -> None:
    listed = latecomer.certify_losses(SMALL, shifts={"kl": [0.1]}, above=[0.2], seed=1)
    single = latecomer.certify_losses(SMALL, shifts={"kl": 0.1}, above=0.2, best_of=None, seed=1)
    assert single.to_json() == listed.to_json()
    none = latecomer.certify_losses(SMALL, shifts=None, above=None, best_of=None, seed=1)
    assert none.to_json() == latecomer.certify_losses(SMALL, seed=1).to_json()
    for asked, said in (
        ({"shifts": []}, r"shifts must map kl, tv, chi2, subgroup to radii"),
        ({"curve": "no"}, "curve must be True or False, got curve='no'"),
        ({"by": 3}, "by must be the name of a column, got 3"),
        ({"order": 3}, "order must be the name of a column, or one number a client, got 3"),
    ):
        with pytest.raises(InputError, match=f"^{said}"):
            latecomer.certify_losses(SMALL, **asked)
    settled = latecomer.watch_losses(SMALL).plan
    with pytest.raises(InputError, match="plan settles everything: leave delta out"):
        latecomer.watch_losses(SMALL, settled, delta=0.1)
