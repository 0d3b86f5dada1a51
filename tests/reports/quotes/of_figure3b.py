"""What the page of experiments quotes of OD-PFL's Figure 3b, made from rows."""

from kept_rows import error, minutes, rate, rates, read, right


def odpfl_figure3b():
    run, seeds = "odpfl-figure3b-500-rounds", ("0", "1", "2")

    def both(*at, over=seeds):
        labels = ("odpfl_hn", "fedavg")
        return [
            sum(error(run, label, "novel", seed=seed, at=at) for seed in over) / len(over)
            for label in labels
        ]

    def told(*at):
        return " and ".join(map(rate, both(*at)))

    angles = ("15.0", "30.0", "45.0", "60.0", "90.0")
    assert all(own < fedavg for own, fedavg in (both("rotation", angle) for angle in angles))
    first, second, last = (told("rotation", angles[number]) for number in (0, 1, -1))
    yield f"at every angle ({first} at 15 degrees, {second} at 30, {last} at 90)"
    effects = {row["label"]: float(row["effect"]) for row in read(run, "tables/shift-effect.csv")}
    themselves = f"{rate(effects['odpfl_hn'])} and {rate(effects['fedavg'])}"
    yield f"({told('photographs', '')}, of which the photographs themselves make {themselves})"
    widths = ("0.5", "1.0", "1.5", "2.0", "3.0")

    def ahead(over):
        pairs = {width: both("blur", width, over=over) for width in widths}
        return [width for width, (own, fedavg) in pairs.items() if own < fedavg]

    assert ahead(seeds) == ["0.5"]
    assert ahead("0") == ["0.5", "1.0", "3.0"]
    half, *more, three = (told("blur", width) for width in widths)
    yield f"half a pixel ({half}) and behind from one on ({', '.join(more)}, and {three} at three);"
    yield f"sharp, it is {told('none', '')}."
    own, fedavg = both("none", "")
    assert own < fedavg
    yield from of_single_newcomers(run)
    yield from joining([both("blur", width)[1] for width in widths], widths)
    yield from trained_again(run)


def of_single_newcomers(run):
    """Errors of the first seed's new clients at one pixel, and sharp."""
    own = {
        shift: [
            float(row["value"])
            for row in read(run, "rows.csv")
            if (row["label"], row["group"], row["metric"]) == ("odpfl_hn", "novel", "error")
            if row["client"] and (row["shift"], row["severity"], row["seed"]) == (*shift, "0")
        ]
        for shift in (("blur", "1.0"), ("none", ""))
    }
    assert {len(each) for each in own.values()} == {10}
    span, sharp = ((min(each), max(each)) for each in own.values())
    yield f"from {span[0]:.2f} to {span[1]:.2f} at one pixel ".replace("0.00", ".00")
    yield f"(sharp, from {sharp[0]:.2f} to {sharp[1]:.2f})".replace("0.", ".")


def joining(fedavg, widths):
    run = "odpfl-figure3b-joining"

    def mean(shift, width):
        at = (shift, width)
        return sum(error(run, "odpfl_hn", "novel", seed=seed, at=at) for seed in "012") / 3

    kinds = ("blurred-after", "blurred-before", "blur")
    after, before, whole = ([mean(kind, width) for width in widths] for kind in kinds)
    assert all(own < other for own, other in zip(after, fedavg, strict=True))
    sharp = rate(mean("none", ""))
    yield f"ones err {rates(after, ' and ')} from half a pixel to three (sharp, {sharp}), less than"
    yield f"measured on sharp ones {rates(before, ' and ')}; both blurred, {rates(whole, ' and ')}."


def trained_again(run):
    took = sum(minutes(run, label, seed) for label in ("odpfl_hn", "fedavg") for seed in "012")
    yield f"{took // 60} hours {took % 60} minutes of shared cores"
    for label in ("odpfl_hn", "fedavg"):
        assert error(run, label, "novel") == error("odpfl-table1-500-rounds", label, "novel")
    here, there = (
        " and ".join(rate(right(one, "odpfl_hn", "novel", seed=seed)) for seed in "12")
        for one in (run, "odpfl-table1-500-rounds-odpfl-hn")
    )
    yield f"{here} of the sharp samples are right, {there} in the table;"
    again, once = (rate(right(one, "odpfl_hn", "novel")) for one in ("odpfl-figure3b-joining", run))
    yield f"first seed, trained once more, has {again} instead of {once}."
