"""What the page of experiments quotes of OD-PFL and of new clients without labels, from rows."""

from statistics import stdev

import pytest
from kept_rows import (
    REFERENCE,
    checks,
    half_width,
    interval,
    minutes,
    of_new_clients,
    published,
    rate,
    rates,
    read,
    right,
    table,
)
from scipy.stats import t

from latecomer.eval.results.kept_cells import cells_of


def odpfl_without_labels():
    runs = [f"odpfl-150-rounds-split{split}" for split in range(3)]
    novel = [right(run, "odpfl_hn", "novel") for run in runs]
    yield f"{rates(novel, ' and ')} (mean {rate(sum(novel) / 3)}) of new clients' samples right"
    fedavg, nearest = (
        right(f"odpfl-150-rounds-{run}-split0", label, "novel")
        for run, label in (("fedavg", "fedavg"), ("nearest", "pfl_nearest"))
    )
    assert novel[0] >= 0.60
    assert novel[0] > max(fedavg, nearest)
    yield f"FedAvg has {rate(fedavg)} and PFL-nearest {rate(nearest)}"
    wide = [100 * half_width(of_new_clients(run, "odpfl_hn")) for run in runs]
    yield f"95% intervals are {min(wide):.0f} to {max(wide):.0f} points wide on either side"

    def mean(label, group, data="digits", seeds=range(3)):
        run = f"without-labels-{data}"
        return sum(right(run, label, group, seed=str(seed)) for seed in seeds) / len(seeds)

    own, fedavg = mean("odpfl_hn", "novel"), mean("fedavg", "novel")
    yield f"ODPFL-HN has {rate(own)} and FedAvg {rate(fedavg)}, too near"
    assert fedavg > own > max(fedavg - 0.01, mean("odpfl_hn slow", "novel"))
    # Seen clients choose the rate that new clients do better with.
    seen, slow = mean("odpfl_hn", "seen"), mean("odpfl_hn slow", "seen")
    assert seen > slow
    yield f"({rate(seen)} against {rate(slow)})"
    for data, name in (("cifar10", "CIFAR-10"), ("mnist", "MNIST")):
        # The rate that seen clients choose.
        label = max(("odpfl_hn", "odpfl_hn slow"), key=lambda one: mean(one, "seen", data))
        assert label == "odpfl_hn slow"
        own, fedavg = (mean(one, "novel", data) for one in (label, "fedavg"))
        yield f"{rate(own)} and {rate(fedavg)}, {'seen' if name == 'CIFAR-10' else 'where'}"
    for data, told in (
        ("mnist", " on MNIST"),
        ("cifar10", ", CIFAR-10"),
        ("photographs", ", other"),
    ):
        where = (f"{data}-200", range(3) if data == "mnist" else range(1))
        label = max(("odpfl_hn", "odpfl_hn slow"), key=lambda one: mean(one, "seen", *where))
        own, fedavg = (mean(one, "novel", *where) for one in (label, "fedavg"))
        assert own > fedavg
        yield f"{rate(own)} and {rate(fedavg)}{told}"


def classes_of_nearest(run):
    """Classes of every newcomer, and of the seen client that PFL-nearest finds for it."""
    (found,) = cells_of(REFERENCE / run).glob("*/artifacts/label_counts.csv")
    counts = table(found)
    group = {row["client"]: row["group"] for row in counts}
    classes = {
        row["client"]: {key for key in row if key.startswith("class_") and int(row[key])}
        for row in counts
    }
    pairs = [(row["novel"], row["nearest"]) for row in read(run, "nearest.csv")]
    assert [one for one, _ in pairs] == [one for one in group if group[one] == "novel"]
    assert {group[found] for _, found in pairs} == {"seen"}
    return [(classes[novel], classes[found]) for novel, found in pairs]


def odpfl_paper():
    """OD-PFL's Table 1, CIFAR-10, pathological split, by method."""
    return {
        row["method"]: rate(float(row["mean"]) / 100)
        for row in published("odpfl")
        if row["item"] == "Table 1" and row["setting"].startswith("pathological")
    }


def odpfl_table1_at_length():
    run = "odpfl-table1-500-rounds"
    paper = odpfl_paper()
    own, fedavg = (right(run, label, "novel") for label in ("odpfl_hn", "fedavg"))
    low, high = interval(of_new_clients(run, "odpfl_hn"))
    yield f"ODPFL-HN {rate(own)}, 95% interval {low} to {high} over these ten (paper "
    yield f"{paper['ODPFL-HN']})"
    yield f"FedAvg {rate(fedavg)} (paper {paper['FedAvg']})"
    yield f"{rate(right(run, 'odpfl_hn', 'seen'))} of seen ones' samples right"
    rest = ("fedprox", "fedma", "pfl_ensemble", "pfl_nearest")
    fedprox, fedma, ensemble, nearest = (right(run, label, "novel") for label in rest)
    sampled = right(run, "pfl_sampled", "novel", predictor="gibbs")
    yield f"FedProx {rate(fedprox)} (paper {paper['FedProx']})"
    yield f"FedMA {rate(fedma)} (paper {paper['FedMA']})"
    yield f"PFL-ensemble {rate(ensemble)} (paper {paper['PFL-ensemble']})"
    yield f"PFL-sampled {rate(sampled)} (paper {paper['PFL-sampled']})"
    assert round(100 * (float(paper["PFL-ensemble"]) - ensemble)) == 3
    yield f"PFL-nearest has {rate(nearest)}, and the paper {paper['PFL-nearest']}"
    (pair,) = (
        row
        for row in read(run, "tables/pairs.csv")
        if (row["label"], row["other"]) == ("odpfl_hn", "pfl_nearest")
    )
    behind, low, high = (
        f"{100 * float(pair[name]):.1f}" for name in ("difference", "lower", "upper")
    )
    assert 100 * (nearest - own) == pytest.approx(float(behind))
    assert all(served <= found for served, found in classes_of_nearest(run))
    yield "finds all ten new clients a client that has every class of theirs"
    yield f"behind it here by {behind} points, 95% interval {low} to {high}"
    # In points, as the README has them above.
    assert round(100 * (fedma - float(paper["FedMA"]))) == 9
    assert round(100 * (sampled - float(paper["PFL-sampled"]))) == 1
    assert round(100 * (float(paper["FedProx"]) - fedprox)) == 13
    assert round(100 * (nearest - float(paper["PFL-nearest"]))) == 53


def odpfl_feroma():
    run, beside = "odpfl-table1-feroma", "odpfl-table1-500-rounds"
    own, nearest = right(run, "feroma", "novel"), right(beside, "pfl_nearest", "novel")
    yield f"{rate(own)} of new clients' samples right beside PFL-nearest's {rate(nearest)}"
    yield f"{rate(right(run, 'feroma', 'seen'))} of seen ones'"
    wrong, other = (
        {
            row["client"]: float(row["value"])
            for row in read(name, "rows.csv")
            if (row["label"], row["metric"], row["group"]) == (label, "error", "novel")
            and row["client"]
        }
        for name, label in ((run, "feroma"), (beside, "pfl_nearest"))
    )
    assert len(wrong) == 10
    more = [wrong[client] - other[client] for client in wrong]
    assert sum(one < 0 for one in more) == 6
    assert sum(one == 1 for one in wrong.values()) == 2
    yield "Six of the ten new clients are served better than by PFL-nearest, and two have no"
    mean = sum(more) / 10
    wide = t.ppf(0.975, 9) * stdev(more) / 10**0.5
    low, high = (f"{100 * (mean + by):.1f}" for by in (-wide, wide))
    yield f"{100 * mean:.1f} points, 95% interval {low} to {high}: not told apart"


def odpfl_fedavg_at_length():
    run = "odpfl-table1-500-rounds-fedavg"
    own = [right(run, "fedavg", "novel", seed=seed) for seed in "012"]
    assert own[0] == right("odpfl-table1-500-rounds", "fedavg", "novel")
    mean = sum(own) / 3
    yield f"{rates(own, ' and ')} of new clients' samples right, mean {rate(mean)} (paper "
    yield f"{odpfl_paper()['FedAvg']})."
    # In points, as the README has it above.
    assert round(100 * (float(odpfl_paper()["FedAvg"]) - mean)) == 1


RATES_TRIED = ("0.1", "0.05", "0.01", "0.005", "0.001")


def best(run, label):
    return max(checks(run, label, "validation").values())


def odpfl_fedavg_searched():
    found = [best("odpfl-search-fedavg-rates", f"fedavg-{one}") for one in RATES_TRIED]
    yield f"have {rates(found, ' and ')}; at"
    assert max(found) == found[RATES_TRIED.index("0.05")]
    epochs = ("1", "2", "5", "10")
    lasting = [best(f"odpfl-search-fedavg-epochs-{one}", "fedavg-0.05") for one in epochs]
    yield f"epochs have {rates(lasting, ' and ')}."
    assert max(lasting) == lasting[epochs.index("5")]
    run, default = "odpfl-search-fedavg-500-rounds", "odpfl-table1-500-rounds"
    chosen, kept = (best(one, "fedavg") for one in (run, default))
    yield f"{minutes(run, 'fedavg')} minutes beside other work: {rate(chosen)}, and"
    yield f"50 steps) {rate(kept)}."
    assert chosen < kept
    low, high = interval(of_new_clients(run, "fedavg"))
    own, before = (right(one, "fedavg", "novel") for one in (run, default))
    yield f"new clients have {rate(own)} right with the choice, interval {low} to {high}, and "
    yield f"{rate(before)} with the defaults (paper {odpfl_paper()['FedAvg']})"
    for size, tried in (("16", ("0.05", "0.01", "0.005")), ("64", ("0.1", "0.05", "0.01"))):
        others = [best(f"odpfl-search-fedavg-batch-{size}", f"fedavg-{one}") for one in tried]
        yield f": {rates(others, ' and ')})"
        assert max(others) < max(found)


ODPFL_HN_AT_LENGTH = "odpfl-search-odpfl-hn-500-rounds", "odpfl-table1-500-rounds-odpfl-hn"
"""With the settings that the search chose, and with the defaults."""


def odpfl_hn_searched():
    runs = {size: f"odpfl-search-odpfl-hn-batch-{size}" for size in ("16", "64")}
    runs["32"] = "odpfl-search-odpfl-hn-rates"
    tried = {"16": RATES_TRIED[2:], "32": RATES_TRIED, "64": RATES_TRIED[2:]}
    settings = [(size, each) for size, some in tried.items() for each in some]
    found = {at: best(runs[at[0]], f"odpfl-{at[1]}") for at in settings}
    novel = {at: right(runs[at[0]], f"odpfl-{at[1]}", "novel") for at in settings}

    def with_batches_of(size):
        return rates([found[size, each] for each in tried[size]], " and ")

    yield f"have {with_batches_of('32')} of validation samples right"
    yield f"have {with_batches_of('16')} with batches of 16, "
    yield f"{with_batches_of('64')} with batches of 64."
    default, choice = ("32", "0.005"), max(found, key=found.__getitem__)
    assert choice == ("64", "0.001")
    yield f"ahead by {100 * (found[choice] - found[default]):.1f} points, "
    yield f"and behind by {100 * (novel[default] - novel[choice]):.1f} on the ten new clients"
    most = max(novel, key=novel.__getitem__)
    assert most == ("64", "0.005")
    yield f"({rate(novel[choice])} and {rate(novel[default])} right; the most, {rate(novel[most])}"
    run, paper = ODPFL_HN_AT_LENGTH[0], odpfl_paper()["ODPFL-HN"]
    yield f"all 500 rounds, {minutes(run, 'odpfl_hn')} minutes beside other work, the choice has "
    chosen, kept = (best(one, "odpfl_hn") for one in ODPFL_HN_AT_LENGTH)
    yield f"{rate(chosen)} of validation samples right and the default {rate(kept)}; new clients"
    assert chosen > kept
    low, high = interval(of_new_clients(run, "odpfl_hn"))
    own, was = (right(one, "odpfl_hn", "novel") for one in ODPFL_HN_AT_LENGTH)
    yield f"have {rate(own)} right, interval {low} to {high}, and {rate(was)} with the default "
    yield f"(paper {paper}): what"
    assert own < was


def odpfl_hn_at_length():
    run, paper = "odpfl-table1-500-rounds-odpfl-hn", odpfl_paper()["ODPFL-HN"]
    own, seen = (
        [right(run, "odpfl_hn", group, seed=seed) for seed in "012"] for group in ("novel", "seen")
    )
    assert own[0] == right("odpfl-table1-500-rounds", "odpfl_hn", "novel") == max(own)
    mean = sum(own) / 3
    yield f"{rates(own, ' and ')} of new clients' samples right, mean {rate(mean)} (paper {paper}),"
    yield f"{rates(seen, ' and ')} of seen ones'"
    second, third = (minutes(run, "odpfl_hn", seed) for seed in "12")
    yield f"in {second} and {third} minutes"
    yield f"lose {100 * (own[0] - own[1]):.0f} points"
    single = [
        1 - float(row["value"])
        for row in read(run, "rows.csv")
        if (row["seed"], row["group"], row["metric"]) == ("1", "novel", "error") and row["client"]
    ]
    assert len(single) == 10
    yield f"from {min(single):.2f} to {max(single):.2f} right".replace("0.", ".")
    fedavg = right("odpfl-table1-500-rounds-fedavg", "fedavg", "novel", seed="1")
    assert own[1] < fedavg
    yield f"FedAvg's {rate(fedavg)} with that seed"
    # In points, as the README has it above.
    assert round(100 * (float(paper) - mean)) == 1


def odpfl_hn_as_published():
    run, ours = "odpfl-table1-published", "odpfl-table1-500-rounds-odpfl-hn"
    own, seen = (right(run, "odpfl_hn", group) for group in ("novel", "seen"))
    yield f": {rate(own)} of new clients' samples right (paper {odpfl_paper()['ODPFL-HN']}), "
    yield f"{rate(seen)} of seen ones', "
    novel, known = (right(ours, "odpfl_hn", group, seed="0") for group in ("novel", "seen"))
    yield f"where ours has {rate(novel)} and {rate(known)} with that seed"
