"""The papers' numbers beside ours: what is matched with what, and when nothing is."""

import math

import numpy as np
import pandas as pd
import pytest

from latecomer.certify.words import MINUS
from latecomer.eval.results.rows import COLUMNS, make_row
from latecomer.reports import paper_figure, paper_frame
from latecomer.reports.accuracy.published import describe_paper, one_number_each, paper_table
from latecomer.reports.clients.descriptors import agreement_table
from latecomer.reports.display.drawing import looks
from latecomer.reports.frames.paper import (
    NOT_COMPARABLE,
    paper_correlations,
    paper_items,
    paper_numbers,
    with_verdicts,
)


@pytest.fixture
def make(read):
    """Rows of runs: {(label, method): error per client}, on so many seen and novel clients."""

    def run(models, *, dataset="cifar10", seen=90, novel=10, n_query=20, seeds=(0, 1)):
        rows = [
            make_row(label=label, method=method, seed=seed, dataset=dataset, metric="error",
                     group=group, client=client, shift="none", value=error, n_query=n_query,
                     predictor="deterministic", status="done", cell=f"{label}{seed}")
            for (label, method), error in models.items() for seed in seeds
            for group, clients in (("seen", range(seen)), ("novel", range(seen, seen + novel)))
            for client in clients
        ]  # fmt: skip
        return read(rows)

    return run


TABLE = {"paper": ["pefll-iclr:Table 1a", "pefll-iclr:Table 1b"], "scale": "reduced"}


def test_package_data_are_the_344_numbers_of_the_three_papers():
    numbers = paper_numbers()
    assert len(numbers) == 344
    assert set(numbers["source"]) == {"pefll-iclr", "pfedhn", "odpfl"}
    assert numbers["mean"].notna().all()
    accuracy = numbers[numbers["metric"] == "accuracy_percent"]["mean"]
    assert accuracy.between(0, 100).all()


def test_methods_groups_data_and_sizes_are_matched(make):
    frame = paper_frame(make({("pefll", "pefll"): 0.1, ("fedavg", "fedavg"): 0.5}), TABLE)
    found = frame.set_index(["label", "group"])
    assert len(frame) == 4
    numbers = paper_numbers()
    line = numbers[
        (numbers["item"] == "Table 1a") & (numbers["dataset"] == "cifar10")
        & (numbers["method"] == "FedAvg") & (numbers["n_clients"] == 90)
    ]  # fmt: skip
    mine = found.loc[("fedavg", "seen")]
    assert mine["paper"] == pytest.approx(line["mean"].item() / 100) == pytest.approx(0.4753)
    assert mine["ours"] == pytest.approx(0.5)
    assert mine["difference"] == pytest.approx(0.5 - 0.4753)
    assert (mine["n_clients"], mine["n_seeds"], mine["aggregation"]) == (90, 2, "pooled")
    assert found.loc[("pefll", "novel"), "n_clients"] == 10


def test_the_figure_has_both_numbers_of_every_method_and_group(make):
    frame = paper_frame(make({("pefll", "pefll"): 0.1, ("local", "local"): 0.2}), TABLE)
    seen, novel = paper_figure(frame, looks(["pefll", "local"])).axes
    assert [text.get_text() for text in seen.get_yticklabels()] == ["Local training", "PeFLL"]

    def marks(axes):
        return [
            (line.get_ydata()[0], round(float(line.get_xdata()[0]), 2), line.get_markerfacecolor())
            for line in axes.get_lines()
            if len(line.get_xdata()) == 1
        ]

    assert [(row, x) for row, x, _ in marks(seen)] == [(0, 82.24), (0, 80.0), (1, 88.9), (1, 90.0)]
    assert [fill == "none" for _, _, fill in marks(seen)] == [True, False] * 2
    # The paper has no number of Local for clients that did not train.
    assert [(row, x) for row, x, _ in marks(novel)] == [(1, 88.9), (1, 90.0)]
    assert "PeFLL novel 88.9% and 90.0%" in describe_paper(frame)
    assert one_number_each(frame)
    assert not one_number_each(pd.concat([frame, frame.head(1)]))
    assert not one_number_each(frame.head(0))


def test_another_number_of_clients_is_not_compared(make):
    assert paper_frame(make({("pefll", "pefll"): 0.1}, seen=48), TABLE).empty


def test_settings_are_picked_by_words_and_clients_counted_together(make):
    rows = make({("odpfl_hn", "odpfl_hn"): 0.4}, seen=90, novel=10)
    study = {"paper": ["odpfl:Table 1:dirichlet 10"]}
    frame = paper_frame(rows, study)
    assert frame["setting"].str.startswith("cifar10, dirichlet 10").all()
    assert (frame["group"].item(), frame["paper_n_clients"].item()) == ("novel", 100)
    assert frame["paper_spread_kind"].item() == "standard error over novel clients"
    assert frame["ours_spread"].item() == pytest.approx(0.0, abs=1e-12)


def test_another_data_set_is_not_compared(make):
    assert paper_frame(make({("pefll", "pefll"): 0.1}, dataset="mnist"), TABLE).empty


def test_names_of_data_sets_are_compared_by_their_letters(make):
    rows = make({("odpfl_hn", "odpfl_hn"): 0.4}, dataset="yahoo_answers", seen=900, novel=100)
    frame = paper_frame(rows, {"paper": ["odpfl:Table 2:User-1K"]})
    assert frame["paper"].item() == pytest.approx(0.358)


def test_other_data_of_newcomers_are_compared_under_that_shift(make):
    """OD-PFL trains on CIFAR-10 and gives STL-10's accuracy: CIFAR-10's is no counterpart."""
    study = {"paper": ["odpfl:Section 6.8"]}
    plain = make({("odpfl_hn", "odpfl_hn"): 0.4, ("fedavg", "fedavg"): 0.5})
    assert paper_frame(plain, study).empty
    moved = plain[plain["group"] == "novel"].assign(shift="stl10")
    moved["value"] += 0.2
    found = paper_frame(pd.concat([plain, moved]), study).set_index("label")
    assert found["ours"].to_dict() == pytest.approx({"odpfl_hn": 0.4, "fedavg": 0.3})
    assert found["paper"].to_dict() == pytest.approx({"odpfl_hn": 0.431, "fedavg": 0.347})


def test_sizes_of_target_networks_are_compared_each_with_its_own_clients(make):
    """Table 2 of pFedHN has a number for each size, none for all clients together."""
    rows = make({("pfedhn", "pfedhn"): 0.0}, seen=75, novel=0, seeds=(0, 1))
    names, errors = ("lenet-s", "lenet", "lenet-l"), (0.1, 0.2, 0.4)
    place = rows["client"].astype(int) % 3
    rows["value"] = [errors[one] for one in place]
    targets = rows[["label", "seed", "group", "client"]].assign(target=[names[i] for i in place])
    study = {"paper": ["pfedhn:Table 2"]}
    assert paper_frame(rows, study).empty
    targets["client"] = targets["client"].astype(int)  # as artifacts have them
    found = paper_frame(rows, study, targets)
    sizes = found["setting"].str.extract("size ([SML])")[0]
    assert dict(zip(sizes, found["ours"], strict=True)) == pytest.approx(
        {"S": 0.9, "M": 0.8, "L": 0.6}
    )
    assert found["paper"].tolist() == pytest.approx([0.8538, 0.8692, 0.8720])
    assert set(found["n_clients"]) == {25}


@pytest.mark.parametrize(("seen", "full"), [(900, True), (900, False), (90, True)])
def test_a_correlation_is_compared_at_the_papers_number_of_clients(make, seen, full):
    rows = make({("pefll", "pefll"): 0.1}, seen=seen, novel=100, seeds=(0,))
    found = paper_correlations(rows, {"paper": ["pefll-iclr:Figure 3"]})
    assert found == ({"pefll": 0.93} if seen == 900 else {})
    frame = pd.DataFrame(
        {"label": ["pefll"], "spearman": [0.9], "lower": [0.8], "upper": [1.0], "sd_seeds": [0.1],
         "n_clients": [100], "n_seeds": [1]}
    )  # fmt: skip
    table = agreement_table(frame, found, full=full)
    assert ("difference" in table.shown.columns) == bool(found)
    if found:
        assert table.shown[["paper", "difference"]].iloc[0].tolist() == ["+0.93", MINUS + "0.03"]
        assert ("not of the paper's length" in table.caption) is not full
        assert table.frame["paper"].tolist() == [0.93]


def test_a_variant_is_compared_by_its_setting_or_not_at_all(make):
    variants = {("pefll", "pefll"): 0.1, ("embedding network CNN", "pefll"): 0.2,
                ("pefll-stochastic", "pefll"): 0.3}  # fmt: skip
    frame = paper_frame(make(variants), {"paper": ["pefll-iclr:Table 7"]})
    cnn = frame[frame["label"] == "embedding network CNN"]
    assert cnn["setting"].str.contains("CNN").all()
    assert len(cnn)
    assert "pefll-stochastic" not in set(frame["label"])


def test_pooled_and_per_client_means_differ_for_unequal_clients(make):
    rows = make({("pefll", "pefll"): 0.0}, seeds=(0,))
    first = (rows["client"] == "0") & (rows["group"] == "seen")
    rows.loc[first, ["value", "n_query"]] = [1.0, 200]
    pooled = paper_frame(rows, TABLE).set_index("group").loc["seen", "ours"]
    assert pooled == pytest.approx(1 - 200 / (200 + 89 * 20))
    assert list(rows.columns) == list(COLUMNS)


def test_the_rule_is_two_points_or_two_standard_errors():
    frame = pd.DataFrame(
        {"difference": [0.019, -0.021, 0.03, -0.041], "standard_error": [0.0, 0.0, 0.02, 0.02]}
    )
    judged = with_verdicts(frame, {"scale": "paper"})
    assert judged["verdict"].tolist() == ["reproduced", "not reproduced"] * 2
    assert judged["margin"].tolist() == [0.02, 0.02, 0.04, 0.04]
    assert set(with_verdicts(frame, {"scale": "reduced"})["verdict"]) == {NOT_COMPARABLE}


def test_the_standard_error_is_of_both_numbers(make):
    """Ours over clients or over seeds, the larger; a sd over three seeds by the root of 3."""
    rows = make({("pefll", "pefll"): 0.0}, seeds=(0, 1))
    lost = (pd.to_numeric(rows["client"]) % 2 == 0) & (rows["group"] == "novel")
    rows.loc[lost, "value"] = 0.5
    frame = paper_frame(rows, TABLE).set_index("group")
    line = paper_numbers().loc[frame.loc["novel", "number"]]
    assert (line["method"], line["group"], line["n_clients"]) == ("PeFLL", "novel", 90)
    ours = np.std([0.5, 1.0] * 5, ddof=1) / math.sqrt(10)
    theirs = line["spread"] / 100 / math.sqrt(3)
    assert frame.loc["novel", "standard_error"] == pytest.approx(math.hypot(ours, theirs))
    rows.loc[rows["seed"] == 1, "value"] = 0.9
    seeds = paper_frame(rows, TABLE).set_index("group").loc["seen", "standard_error"]
    seen = paper_numbers().loc[frame.loc["seen", "number"], "spread"] / 100 / math.sqrt(3)
    assert seeds == pytest.approx(math.hypot(0.9 / math.sqrt(2) / math.sqrt(2), seen))


@pytest.mark.parametrize(("scale", "said"), [("paper", True), ("reduced", False), (None, False)])
def test_a_verdict_is_given_at_the_papers_scale_only(make, scale, said):
    rows = make({("pefll", "pefll"): 0.1})
    study = {**TABLE, "scale": scale}
    table = paper_table(paper_frame(rows, study), ["pefll"], study)
    judged = {"reproduced", "not reproduced"}
    assert (set(table.shown["verdict"]) <= judged) is said
    assert ("two standard errors" in table.caption) is said


def test_items_without_numbers_or_rows_give_an_empty_frame(make):
    rows = make({("pefll", "pefll"): 0.1})
    assert paper_frame(rows, {"paper": ["pefll-iclr:Figure 4"]}).empty
    assert paper_frame(rows, {}).empty
    assert paper_frame(rows[rows["metric"] == "none"], TABLE).empty
    assert paper_items({}) == []
    assert np.isfinite(paper_frame(rows, TABLE)["paper"]).all()
