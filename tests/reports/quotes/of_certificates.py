"""What the page of experiments quotes of certificates, made from rows."""

from functools import cache

from kept_rows import error, errors, half_width, minutes, rate, rates, read, up
from scipy import stats

POOL_RULES = ("product", "wsr_wor", "product_wor", "product_wor_averaged")


@cache
def terms_of(name, rule):
    """A rule's certificate ("") and the terms beside it, each by seed."""
    rows = [
        row
        for row in read(name, "rows.csv")
        if row["metric"].startswith("certificate") and row["bound"] == f"r0:{rule}"
    ]
    found = {}
    for row in sorted(rows, key=lambda row: row["seed"]):
        found.setdefault(row["term"], []).append(float(row["value"]))
    return found


def pool_quotes(name):
    for rule in POOL_RULES:
        told = terms_of(name, rule)
        yield f"`{rule}` {rates(map(up, told['']))} ({rates(map(up, told['others']))})"


def independent_clients():
    name = "certificates-independent-cifar10"
    told = terms_of(name, "product")
    bounds, means = told[""], told["empirical_risk"]
    assert all(bound - mean <= 0.035 for bound, mean in zip(bounds, means, strict=True))
    yield f"mean error is {rates(means)},"
    for rule, end in (
        ("product", " by `product`"),
        ("betting_mixture", " by `betting_mixture`"),
        ("wsr_averaged", " by `wsr_averaged`"),
    ):
        yield f"{rates(map(up, terms_of(name, rule)['']))}{end}"
    rows = [errors(name)[("pefll", str(s), "novel", "deterministic", "none", "")] for s in range(3)]
    freedom = int(rows[0]["n_clients"]) - 1
    deviations = [half_width(row) / stats.t.ppf(0.975, freedom) for row in rows]
    yield f"had {rates(float(row['value']) for row in rows)} with standard errors of "
    yield f"{rates(deviations)}: above the bounds, each by less than one"
    novel = [float(row["value"]) for row in rows]
    assert all(0 < e - b < d for e, b, d in zip(novel, bounds, deviations, strict=True))


def independent_mnist():
    told = terms_of("certificates-independent-mnist-500", "product")
    bounds, means = told[""], told["empirical_risk"]
    assert all(bound - mean <= 0.012 for bound, mean in zip(bounds, means, strict=True))
    yield f"mean error {rates(means)}, at most {rates(map(up, bounds))} by `product`"


def certificates_cifar10():
    name = "certificates-cifar10"
    yield f"mean error is {rates(terms_of(name, 'product')['empirical_risk'], ' and ')}."
    for rule in POOL_RULES:
        told = terms_of(name, rule)
        yield f"| {rates(map(up, told['']))} | {rates(map(up, told['others']))} |"


def certificates_cifar10_50():
    name = "certificates-cifar10-50"
    took = [minutes(name, "pefll", seed) for seed in "012"]
    yield f"{min(took)} to {max(took)} minutes a seed"
    yield f"certified ones is {rates(terms_of(name, 'product')['empirical_risk'])};"
    yield from pool_quotes(name)


def certificates_mnist():
    name = "certificates-mnist"
    yield f"mean error {rates(terms_of(name, 'product')['empirical_risk'])}."
    yield from pool_quotes(name)


def certificates_without_holding_out():
    run, seeds = "certificates-no-holdout-cifar10", ("0", "1", "2")
    totals = {
        (row["bound"], row["seed"]): up(row["value"])
        for row in read(run, "rows.csv")
        if row["metric"] == "certificate" and row["term"] == ""
    }

    def means(label, group, predictor):
        return [error(run, label, group, seed=seed, predictor=predictor) for seed in seeds]

    def mean(*about):
        return rate(sum(means(*about)) / len(seeds))

    r4, r1 = ([totals[(f"{route}:product", seed)] for seed in seeds] for route in ("r4", "r1"))
    arriving = means("pefll r4:product", "arriving", "random-checkpoint")
    yield f"mean error {rates(arriving)}, the mean of the checkpoints' errors at most {rates(r4)}."
    parts = read(run, "tables/parts-r1-product.csv")
    kl = {row["seed"]: f"{float(row['input kl_hyper']):.2f}"[1:] for row in parts}
    yield f"(KL {rates(kl[seed] for seed in seeds)} nats)"
    yield (
        f"the error of drawn systems {rates(means('pefll r1:product', 'tuning', 'gibbs'))}, "
        f"at most {rates(r1)}."
    )
    yield f"error {mean('pefll', 'seen', 'deterministic')} of seen clients, "
    yield f"{mean('pefll', 'novel', 'deterministic')} of 10 new ones ("
    yield f"R4's last checkpoint {mean('pefll r4:product', 'novel', 'last-checkpoint')}, "
    yield f"R1's Gaussian {mean('pefll r1:product', 'novel', 'gibbs')})"
