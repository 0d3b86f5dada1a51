"""What the README quotes of the runs of all methods, made from rows."""

from kept_rows import rate, rates, read, right


def all_methods():
    run, seeds = "digits-all-methods", ("0", "1", "2")

    def by_seed(label, group="novel"):
        return [right(run, label, group, seed=seed) for seed in seeds]

    def mean(label, group="novel"):
        return sum(by_seed(label, group)) / len(seeds)

    # Below, by no more than SCAFFOLD's seeds differ, though by more than half of FedAvg's range.
    behind = mean("fedavg") - mean("scaffold")
    spread = [max(by_seed(label)) - min(by_seed(label)) for label in ("fedavg", "scaffold")]
    assert 0.5 * spread[0] < behind < 1.5 * spread[0] < spread[1]
    yield f"FedAvg {rates(by_seed('fedavg'), ' and ')} (mean {rate(mean('fedavg'))})"
    yield f"fine-tuned {rate(mean('fedavg_ft'))}, FedBABU {rate(mean('fedbabu'))}"
    yield f"APFL {rate(mean('apfl'))}, Ditto {rate(mean('ditto'))}"
    yield f"SCAFFOLD {rates(by_seed('scaffold'), ' and ')} (mean {rate(mean('scaffold'))})"


def all_methods_on_an_npz():
    run = "digits-all-methods-16x16"
    served = {
        row["label"]: (rate(value := 1 - float(row["value"])), value)
        for row in read(run, "rows.csv")
        if (row["metric"], row["group"], row["shift"], row["aggregation"], row["client"])
        == ("error", "novel", "none", "per-client", "")
    }
    assert len(served) == 23
    ranked = sorted(served, key=lambda label: served[label][1], reverse=True)
    below = ranked[ranked.index("fedavg") + 1 :]
    assert [one for one in below if served[one][1] < served["fedavg"][1]] == [
        *("pfl_ensemble", "pefll-stochastic", "fedma", "pfl_sampled"),
    ]
    yield f"FedAvg has {served['fedavg'][0]} right, kNN-Per the most, {served[ranked[0]][0]}"
    assert ranked[0] == "knn_per"
    yield f"PFL-ensemble ({served['pfl_ensemble'][0]})"
    yield f"stochastic PeFLL ({served['pefll-stochastic'][0]}), FedMA ({served['fedma'][0]}) and"
    yield f"PFL-sampled ({served['pfl_sampled'][0]})"
