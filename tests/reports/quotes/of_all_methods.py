"""What the page of experiments quotes of the runs of all methods, made from rows."""

from kept_rows import errors, rate, rates, read, right


def all_methods():
    run, seeds = "digits-all-methods", ("0", "1", "2")

    def by_seed(label, predictor="deterministic"):
        return [right(run, label, "novel", seed=seed, predictor=predictor) for seed in seeds]

    def mean(*model):
        return sum(by_seed(*model)) / len(seeds)

    def spread(*model):
        values = by_seed(*model)
        return max(values) - min(values)

    models = {
        (label, predictor) for label, _, group, predictor, *_ in errors(run) if group == "novel"
    }
    behind = {model: mean("fedavg") - mean(*model) for model in models}
    below = {model for model in models if behind[model] > 0}
    far = {m for m in below if behind[m] > max(spread("fedavg"), spread(*m))}
    assert far == {("pfl_sampled", "gibbs")}
    yield f"only PFL-sampled ({rate(mean(*far.pop()))})"

    # Below, by no more than SCAFFOLD's seeds differ, though by more than half of FedAvg's range.
    fedavg, scaffold = spread("fedavg"), spread("scaffold")
    assert 0.5 * fedavg < behind["scaffold", "deterministic"] < 1.5 * fedavg < scaffold
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
        *("pfl_ensemble", "pefll-stochastic", "fedma", "pfl_sampled")
    ]
    yield f"FedAvg has {served['fedavg'][0]} right, kNN-Per the most, {served[ranked[0]][0]}"
    assert ranked[0] == "knn_per"
    yield f"PFL-ensemble ({served['pfl_ensemble'][0]})"
    yield f"stochastic PeFLL ({served['pefll-stochastic'][0]}), FedMA ({served['fedma'][0]}) and"
    yield f"PFL-sampled ({served['pfl_sampled'][0]})"
