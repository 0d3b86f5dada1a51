"""What pages say that the calculators, or the kept benchmarks, give is what these give."""

import json
import math
from pathlib import Path

import pytest

from latecomer import bounds
from latecomer.bounds.binary_kl import kl_inverse_upper

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = ROOT / "reports" / "reference" / "benchmarks" / "cpu.json"
FIVE_RUNS = BENCHMARKS.with_name("cpu_five_runs.json")
TWO_MACHINES = BENCHMARKS.with_name("cpu_pefll_round.json")
GPU = BENCHMARKS.with_name("gpu.json")
LAUNCHES = ("python", "graph")
AT = {"delta": 0.05}


def words(name):
    return " ".join((ROOT / name).read_text("utf-8").split())


def up(value, digits=3):
    scale = 10**digits
    return f"{math.ceil(round(float(value) * scale, 9)) / scale:.{digits}f}"[1:]


def near(value, digits=3):
    return f"{float(value):.{digits}f}".removeprefix("0")


def held_out():
    price = bounds.reference_price(mean_loss=0, n_clients=10, **AT)
    yield "docs/pages/theory/held_out.md", f"error certify nothing below {near(price, 2)}."
    yield "bounds/README.md", f"ten certify nothing below {near(price, 2)},"
    price = bounds.reference_price(mean_loss=0.088, n_clients=10, **AT)
    yield "docs/pages/examples/certify_your_losses.md", f"less than .088 + {near(price)} if"


def one_data_set():
    given = {"empirical_risk": 0.05, "kl": 100, "n_samples": 5000, **AT}
    mcallester, maurer, pbb = (
        near(getattr(bounds, name)(**given)) for name in ("mcallester03", "maurer", "pbb_quad")
    )
    seeger, exact = (near(bound(**given), 4) for bound in (bounds.seeger, bounds.seeger_exact))
    thiemann, catoni = near(bounds.thiemann(**given, lam=0.5)), near(bounds.catoni(**given, c=1))
    yield (
        "docs/pages/theory/one_data_set.md",
        f"mcallester03 {mcallester}, maurer {maurer}, thiemann at $\\lambda = .5$ {thiemann}, "
        f"pbb_quad {pbb}, seeger {seeger}, seeger_exact {exact}, catoni at $c = 1$ {catoni}.",
    )


def learning_to_learn():
    page = "docs/pages/theory/learning_to_learn.md"
    given = {"empirical_risk": 0.1, "kl_hyper": 8, "sum_kl": 300, "n_samples": 100, **AT}
    two, one = (
        near(bound(**given, n_clients=200)) for bound in (bounds.two_step_kl, bounds.pefll_b1)
    )
    yield page, f"numbers checked: {two} against {one} for"


def routes():
    page = "docs/pages/theory/routes.md"

    def outer(n, kl):
        more = math.log(2 * math.sqrt(n)) if kl else 0
        return near(kl_inverse_upper(0.17, (more + math.log(1 / 0.025)) / n))

    fixed30, nested30, fixed50, nested50 = (outer(n, kl) for n in (30, 50) for kl in (0, 1))
    yield page, f"{fixed30} where {nested30} stood at 30 clients, {fixed50} where {nested50}"
    costs = [
        near(float(value) - 0.15)
        for bits in (1, 10)
        for value in (
            bounds.occam_product(losses=[0.15] * 50, bits=bits, **AT),
            bounds.occam_client(empirical_risk=0.15, bits=bits, n_clients=50, **AT),
        )
    ]
    yield page, "one bit costs {} instead of {}, ten bits {} instead of {}.".format(*costs)


def privacy():
    page = "docs/pages/theory/privacy.md"
    given = {"epsilon": 0.3, "dp_delta": 0.01, "sensitivity": 2 / 3000}
    smaller = float(bounds.gauss_classic(**given)) / float(bounds.gauss_analytic(**given))
    yield page, f"the exact noise is {smaller:.2f} times smaller"
    sigma = math.sqrt(2 * math.log(1.25e5)) / 10
    really = float(bounds.gauss_delta(epsilon=10, sigma=sigma, sensitivity=1))
    yield page, f"it really gives ${really * 1e5:.1f} \\cdot 10^{{-5}}$"


def domain_adaptation():
    root = float(bounds.vc_dev(dimension=50, n_samples=400, **AT))
    page = "docs/pages/theory/domain_adaptation.md"
    yield page, f"The root is {root:.1f} for dimension 50 and 400 points"
    few, many = (float(bounds.vc_dev(dimension=50, n_samples=n, **AT)) for n in (2.4e6, 2.5e6))
    assert many < 0.1 < few
    yield page, "falls below .1 only from some 2.5 million points on"
    yield "bounds/README.md", f"VC term: {root:.1f} at dimension 50 and 400 points"


def rounds():
    page = "docs/pages/round_time.md"
    findings = json.loads(BENCHMARKS.read_text("utf-8"))["findings"]

    def times(name, digits=2):
        found = findings[name]
        return sorted(near(v, digits) for v in (found["ratio"], *found.get("measured_again", ())))

    least, *_, most, odd = times("PeFLL round / best bare loop")
    fed, *_, slowest, odd_one = times("PeFLL round / plain loop fed by DataLoader")
    yield page, f"PeFLL round on one day: {least} to {most} times the best bare loop"
    yield page, f"{fed} to {slowest} times the loop fed by a `DataLoader`, but {odd} and {odd_one}"
    bare, pfl = times("FedAvg round / best bare loop"), times("FedAvg round / pfl")
    yield page, f"took {bare[0]} to {bare[-1]} times the best bare loop"
    yield page, f"and {pfl[0]} to {pfl[-1]} times pfl's"
    pefll, fedavg = (
        times(f"evaluating 1,000 clients, {name} / bare") for name in ("pefll", "fedavg")
    )
    yield page, f"FedAvg takes {fedavg[0]} to {fedavg[-1]} times its bare loop"
    yield page, f"PeFLL {pefll[0]} to {pefll[-1]} times its own"
    (biases,) = times("evaluating 1,000 clients, pefll / bare, labels as biases")
    yield page, f"takes 6.1: {biases} times (one run)"


def rounds_five_times():
    page = "docs/pages/round_time.md"
    findings = json.loads(FIVE_RUNS.read_text("utf-8"))["findings"]

    def ends(*names, runs=slice(None), when="runs"):
        ratios = sorted(ratio for name in names for ratio in findings[name][when][runs])
        return f"{near(ratios[0])} to {near(ratios[-1])}"

    bare, fed = "PeFLL round / best bare loop", "PeFLL round / plain loop fed by DataLoader"
    yield page, f"PeFLL's round {ends(bare)} times the best bare"
    own, pfl, flower = (
        ends(f"FedAvg round / {rival}") for rival in ("best bare loop", "pfl", "Flower")
    )
    yield page, f"FedAvg's {own}, {pfl} times pfl's and {flower} times Flower's"
    whole = ends("60 rounds with evaluation every 30 / rounds")
    yield page, f"a run that evaluates every 30 rounds {whole} times its rounds"
    fedavg, pefll = (
        ends(f"evaluating 1,000 clients, {name} / bare") for name in ("fedavg", "pefll")
    )
    yield page, f"{fedavg} (FedAvg) and {pefll} (PeFLL)"
    newcomers = ends(*(name for name in findings if name.startswith("newcomers of ")))
    yield page, f"new clients side by side {newcomers}."
    limited = {name: found for name, found in findings.items() if "holds_in" in found}
    assert [name for name, found in limited.items() if found["holds_in"] < len(found["runs"])] == [
        fed
    ]
    missed, fastest = findings[fed]["runs"][-1], findings[bare]["runs"][-1]
    yield page, f"{ends(fed, runs=slice(4))} four times and {near(missed)} once"
    yield page, f"in that run the best bare loop stood at {near(missed / fastest)}."
    later, beside = ends(fed, when="five_more"), ends(bare, when="five_more")
    yield page, f"a few hours later held, {later} (beside {beside} times the best bare loop)"
    assert max(findings[fed]["five_more"]) <= findings[fed]["at_most"]
    assert {len(found["runs"]) for found in limited.values()} == {5}


def rounds_on_two_machines():
    page = "docs/pages/round_time.md"
    kept = json.loads(TWO_MACHINES.read_text("utf-8"))
    limits = kept["at_most"]
    fed = "plain loop fed by DataLoader"
    missed = []
    for machine in ("third machine", "fourth machine"):
        ratios = kept[machine]["ratios"]
        for path in ("PeFLL round, blocked", "PeFLL round"):
            five, over_fed = ratios[f"{path} / best bare loop"], ratios[f"{path} / {fed}"]
            assert len(five) == len(over_fed) == 5
            yield page, f"| {', '.join(map(near, five))} | {', '.join(map(near, over_fed))} |"
        yield page, f"| {', '.join(map(near, ratios['PeFLL round / bare, blocked']))} | |"
        missed += [
            (machine, name, ratio - limit)
            for name, limit in limits.items()
            for ratio in ratios[name]
            if ratio > limit
        ]
    assert {missing[:2] for missing in missed} == {("third machine", f"PeFLL round / {fed}")}
    assert len(missed) == 3
    most = near(max(above for *_, above in missed))
    yield page, f"missed in three of five on the third, by {most} at most."


def rounds_on_a_gpu():
    page = "docs/pages/round_time.md"
    kept = json.loads(GPU.read_text("utf-8"))
    now, before, ways = kept["now"], kept["before"], kept["loop"]["ways"]
    assert now["round_ms"] > 20
    yield page, f"An {kept['machine']['gpu']}, torch {kept['machine']['torch'][:4]} ("
    yield (
        page,
        f"takes {now['round_ms']:.1f} ms, with a Gaussian posterior "
        f"{now['round_ms_gaussian_posterior']:.1f}; it took {before['round_ms']:.0f} and "
        f"{before['round_ms_gaussian_posterior']:.0f}.",
    )
    yield page, f"{now['round_ms']:.0f} are {100 * now['share_of_roofline']:.1f}% of what that GPU"

    def ms(kernel, precision="float32"):
        return [f"{ways[f'{kernel}, {precision}, {one}']['ms']:.0f}" for one in LAUNCHES]

    (python, graph), mapped = ms("grouped"), " and ".join(ms("vmap"))
    yield page, f"with groups, launched from Python, {python}, as a graph {graph}; `vmap` {mapped};"
    single, unfolded = (" and ".join(ms(one)) for one in ("one by one", "unfold and products"))
    yield page, f"one client after another {single}; `F.unfold` and products {unfolded}, for"
    yield page, f"in bf16 a graph with groups takes {ms('grouped', 'bf16')[1]}."
    yield page, f"TF32 gains nothing ({ms('grouped', 'tf32')[1]}). The"

    def off(kernel, digits, precision="float32"):
        return near(ways[f"{kernel}, {precision}, graph"]["off"], digits)

    products, groups, tf32 = (
        off("unfold and products", 4),
        off("grouped", 4),
        off("grouped", 3, "tf32"),
    )
    yield (
        page,
        f"off by {products} of the way moved with products, by {groups} with groups and by {tf32}",
    )
    found = kept["profile_before"]
    (share, _), (table, rest) = (
        found[key].values() for key in ("share_of_device_time", "ms_of_a_round")
    )
    yield page, f"Python launched {found['kernels_of_local_steps']:,} operations in"
    yield page, f"first layer's weights took {near(share, 2)} of the"
    yield page, f"a round's table took {table} ms, the encoder, the hypernetwork and AdamW {rest},"
    inexact = {way for way, one in ways.items() if "float32" in way and one["off"] > 0.01}
    assert inexact == {f"{one}, float32, {how}" for one in ("grouped", "vmap") for how in LAUNCHES}


@pytest.mark.parametrize(
    "quotes",
    [
        held_out,
        one_data_set,
        learning_to_learn,
        routes,
        privacy,
        domain_adaptation,
        rounds,
        rounds_five_times,
        rounds_on_two_machines,
        rounds_on_a_gpu,
    ],
)
def test_pages_quote_what_is_computed(quotes):
    for page, quote in quotes():
        assert quote in words(page)
