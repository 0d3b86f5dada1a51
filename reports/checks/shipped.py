"""Checks of certificates (who was held out, of whom they do not speak) and of trainings."""

import math
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from latecomer.certify.rule import RULES
from latecomer.certify.words import (
    count,
    inward,
    listing,
    magnitude,
    number,
    percent,
    shift_name,
)
from latecomer.reports.accuracy.comparison import sameness_frame, say_sameness
from latecomer.reports.accuracy.training import training_frame, training_losses
from latecomer.reports.checks.check import Check, Found
from latecomer.reports.display.naming import as_subject, model_called, model_names
from latecomer.reports.display.section import Material
from latecomer.reports.frames.chosen import held_out
from latecomer.reports.frames.errors import (
    ALIKE,
    CONFIDENCE,
    MODEL,
    half_width,
    paired_p,
    primary_predictor,
    records,
    split_tables,
    unshifted,
)
from latecomer.reports.guarantees.answer import least_price

Errors = NDArray[np.float64]
FEW_CLIENTS = 20
FEW_POINTS = 5
SHARE = 0.1  # of clients with few points
LEVEL = 0.01  # of the tests for new clients unlike the certified clients, one a method
PERMUTATIONS = 9999


def _few(material: Material) -> Iterator[Found]:
    declared = held_out(material.declared)
    few = declared[declared["n_clients"] < FEW_CLIENTS]
    if len(few):
        n, delta = int(few["n_clients"].min()), float(few["delta"].iloc[0])
        least = float(least_price(0.0, n, delta))
        yield Found(
            f"Certificates stand on {count(n, 'client')}: independent ones without any error "
            f"would still be certified at no less than {inward(100 * least, up=False)}%.",
            n,
        )


def _hopeless(material: Material) -> Iterator[Found]:
    declared = held_out(material.declared)
    scored = unshifted(material.errors, "certification")
    names = model_names(declared)
    for (label, predictor), own in declared[declared["value"] >= 1].groupby(MODEL, sort=False):
        rule = str(own["bound"].iloc[0]).partition(":")[2]
        if rule in RULES and not RULES[rule].ends_at_largest:
            continue  # says nothing for want of clients who are served, not because of one
        mine = scored[(scored["label"] == label) & (scored["predictor"] == predictor)]
        worst = mine.loc[mine["error"] >= 1, "client"].nunique()
        if worst:
            seeds = tuple(sorted(int(seed) for seed in own["seed"].unique()))
            yield Found(
                f"{as_subject(names[str(label), str(predictor)])} is wrong on every point of "
                f"{count(worst, 'certified client')}, and rule {rule} says nothing then.",
                worst,
                str(label),
                seeds,
            )


def _unlike(material: Material) -> Iterator[Found]:
    errors = primary_predictor(material.errors)
    plain = errors[errors["shift"] == "none"]
    for label in material.labels:
        mean = plain[plain["label"] == label].groupby(["group", "client"])["error"].mean()
        groups = [
            mean[name].to_numpy() if name in mean.index.get_level_values("group") else np.empty(0)
            for name in ("novel", "certification")
        ]
        if min(map(len, groups)) < 3:
            continue
        novel, certified = groups
        more = float(novel.mean() - certified.mean())
        level = LEVEL / len(material.labels)
        p = _permutation_p(novel, certified, max(PERMUTATIONS, round(2 / level)))
        if p < level:
            yield Found(
                f"{as_subject(model_called(label))} errs {100 * more:.1f} points more on new "
                f"clients than on the certified ones (permutation test, p = {p:.2g}): new clients "
                "seem not to be drawn like these.",
                more,
                label,
            )


def _permutation_p(novel: Errors, certified: Errors, permutations: int) -> float:
    """Return the chance of new clients erring so much more, if all are drawn alike.

    It is no smaller than one in as many permutations, which have to be more for more methods.
    A test by the t law fails for few clients, and for errors of few values: three new clients of
    one error have no variance.
    """
    spread = np.concatenate([novel, certified]).std()
    if _more(novel, certified, 0) <= 2 * spread * math.sqrt(1 / len(novel) + 1 / len(certified)):
        return 1.0  # too little for any level that is asked for, and most methods end here
    found = stats.permutation_test(
        (novel, certified), _more, vectorized=True, n_resamples=permutations, batch=100,
        alternative="greater", random_state=0,
    )  # fmt: skip
    return float(found.pvalue)


def _more(one: Errors, other: Errors, axis: int) -> Errors:
    return np.asarray(one.mean(axis=axis) - other.mean(axis=axis))


def _shifted(material: Material) -> Iterator[Found]:
    value = {key: float(own["shown"].max()) for key, own in material.declared.groupby(MODEL)}
    shifted = material.shifts[material.shifts["shift"] != "none"]
    for label in material.labels:
        above = [
            row
            for row in records(shifted[shifted["label"] == label])
            if row["mean"] > value.get((row["label"], row["predictor"]), np.inf)
        ]
        if above:
            worst = max(above, key=lambda row: float(row["mean"]))
            named = shift_name(worst["shift"], worst["severity"])
            held = value[worst["label"], worst["predictor"]]
            yield Found(
                f"Under {named} {model_called(label)} errs {percent(worst['mean'])}, above its "
                f"certificate of {magnitude(held)}, which speaks of clients without shift.",
                float(worst["mean"]),
                label,
            )


def _few_points(material: Material) -> Iterator[Found]:
    plain = unshifted(material.errors, "certification", "novel")
    sizes = plain.drop_duplicates(["group", "client"])
    few = sizes[sizes["n_query"] < FEW_POINTS]
    if len(few) > SHARE * len(sizes):
        yield Found(
            f"{len(few)} of {count(len(sizes), 'client')} that nobody trained on are scored on "
            f"fewer than {FEW_POINTS} points, the smallest on {int(sizes['n_query'].min())}.",
            len(few),
        )


def _copied(material: Material) -> Iterator[Found]:
    copies = material.run.env.get("copies") or {}
    if copies:
        yield Found(
            f"{count(copies['points'], 'sample')} are in more than one client, to the last bit "
            f"({count(copies['clients'], 'client')} share them).",
            copies["points"],
        )


IMPROVING = 0.01  # error lost over the last quarter of the rounds
DIVERGED = 0.05  # error gained since the best round measured
RISEN = 0.5  # training loss gained since the first rounds, where it has doubled as well
_LEAST = 8  # measurements before the last quarter means anything


def _same(material: Material) -> Iterator[Found]:
    frame = sameness_frame(material.rows)
    warned = frame[frame["warning"] != ""]
    for row, sentence in zip(records(warned), say_sameness(warned), strict=True):
        yield Found(sentence, float(row["model_spread"]), str(row["label"]))


def _curves(material: Material) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield each method's errors along the rounds, on seen clients: validation data where known.

    A row a round, a column a seed.
    """
    frame = training_frame(material.tables("training_curve"))
    for label, own in material.ordered(frame).groupby("label", sort=False):
        for group in ("validation", "seen"):
            chosen = own[own["group"] == group]
            if len(chosen):
                by_seed = chosen.groupby(["round", "seed"])["error"].mean().unstack("seed")
                yield str(label), by_seed.sort_index()
                break


def _improving(material: Material) -> Iterator[Found]:
    for label, curves in _curves(material):
        curve = curves.mean(axis=1)
        if len(curve) < _LEAST:
            continue
        quarter = len(curve) // 4
        before = float(curve.iloc[-2 * quarter : -quarter].mean())
        after = float(curve.iloc[-quarter:].mean())
        if before - after > IMPROVING:
            yield Found(
                f"{as_subject(model_called(label))} was still improving when training ended: "
                f"{percent(before)} error on seen clients in the quarter before the last, "
                f"{percent(after)} in the last.",
                before - after,
                label,
            )


def _diverged(material: Material) -> Iterator[Found]:
    if (material.study.get("train") or {}).get("selection") == "validation":
        return  # an earlier round is served then
    ended = {**_risen_losses(material), **_risen_errors(material)}
    for label in material.labels:
        seeds = sorted(seed for name, seed in ended if name == label)
        held = _held_by_means(material, label, seeds)
        for seed in seeds:
            told, value = ended[label, seed]
            subject = as_subject(f"{model_called(label)} of seed {seed}")
            yield Found(f"{subject} ended at {told}.{held}", value, label, (seed,))


def _risen_errors(material: Material) -> dict[tuple[str, int], tuple[str, float]]:
    """Say of each training that ended above its best measured error where it ended."""
    said = {}
    for label, curves in _curves(material):
        for seed in curves.columns:
            curve = curves[seed].dropna()
            best, last = float(curve.min()), float(curve.iloc[-1])
            if len(curve) > 1 and not last - best <= DIVERGED:
                where = f"{percent(best)} in round {curve.index[int(curve.argmin())]:.0f}"
                told = f"{percent(last)} error on seen clients, after {where}"
                said[label, int(seed)] = told, last - best
    return said


def _risen_losses(material: Material) -> dict[tuple[str, int], tuple[str, float]]:
    """Say of each training whose loss ended far above that of its first rounds where it ended.

    Medians of the first and last tenth: a loss is of a few clients, and jumps.
    """
    said = {}
    for _, own in training_losses(material.run).groupby(["label", "seed"]):
        losses = own.sort_values("round")["loss"]
        tenth = max(1, len(losses) // 10)
        first, last = float(losses.iloc[:tenth].median()), float(losses.iloc[-tenth:].median())
        if len(losses) > 1 and last - first > max(abs(first), RISEN):
            ends = [number(float(f"{loss:.2g}")) for loss in (last, first)]
            tenths = "medians of the last and of the first tenth of its rounds"
            told = f"a training loss of {ends[0]}, after {ends[1]} ({tenths})"
            said[str(own["label"].iloc[0]), int(own["seed"].iloc[0])] = told, last
    return said


def _held_by_means(material: Material, label: str, seeds: list[int]) -> str:
    """Say what a method's mean over seeds is with and without those that diverged."""
    errors = unshifted(primary_predictor(material.errors))
    mean = errors[errors["label"] == label].groupby("seed")["error"].mean()
    others = mean.drop(seeds, errors="ignore")
    if others.empty or len(others) == len(mean):
        return ""
    them = ("this seed", "it") if len(seeds) == 1 else (f"{len(seeds)} such seeds", "them")
    return (
        f" Its mean over {count(len(mean), 'seed')}, {percent(mean.mean())} error on new clients, "
        f"contains {them[0]}, and is {percent(others.mean())} without {them[1]}."
    )


def _winners(material: Material) -> Iterator[Found]:
    plain = unshifted(primary_predictor(material.errors))
    mean = plain.groupby(["seed", "label"])["error"].mean().unstack("label").dropna()
    if len(mean) < 2 or mean.shape[1] < 2:
        return
    lowest = mean.sub(mean.min(axis=1), axis=0) <= ALIKE
    if not lowest.all(axis=0).any():
        won = [label for label in material.labels if label in lowest and lowest[label].any()]
        yield Found(
            f"Over {count(len(mean), 'seed')} the smallest error on new clients is that of "
            f"{listing([model_called(label) for label in won], 'or')}, by the seed.",
            len(won),
        )


DRAWS = 400
"""Random supports that the error of the most frequent class is a mean over."""


def _novel(material: Material) -> pd.DataFrame:
    """Return each method's mean error over seeds on each unshifted new client."""
    plain = unshifted(primary_predictor(material.errors))
    return plain.groupby(["method", "label", "client"], sort=False)["error"].mean().reset_index()


def _worse(errors: pd.DataFrame, yardstick: pd.Series, called: str) -> Iterator[Found]:
    """Say which methods err more than a yardstick on the same clients, beyond chance.

    Each by a test of its own, not corrected for their number: ``BY_ITSELF`` tells.
    """
    for label, own in errors.groupby("label", sort=False):
        more = (own.set_index("client")["error"] - yardstick).dropna()
        if more.mean() > 0 and paired_p(more) < 1 - CONFIDENCE:
            half, over = half_width(more), count(len(more), "client")
            ends = f"{100 * (more.mean() - half):.1f} to {100 * (more.mean() + half):.1f}"
            told = f"each of {over}" if math.isnan(half) else f"95% interval {ends}, {over}"
            yield Found(
                f"{as_subject(model_called(str(label)))} errs {100 * more.mean():.1f} points more "
                f"than {called} on new clients ({told}).",
                float(more.mean()),
                str(label),
            )


def _than_method(material: Material, *, method: str, called: str) -> Iterator[Found]:
    errors = _novel(material)
    yardstick = errors[errors["method"] == method].groupby("client")["error"].mean()
    yield from _worse(errors[errors["method"] != method], yardstick, called)


def _than_majority(material: Material) -> Iterator[Found]:
    tables = split_tables(material.run, "label_counts")
    if len(tables) != 1:
        return  # several splits give several clients one number
    counted = pd.DataFrame(list(tables[0]))
    rows = material.rows[(material.rows["group"] == "novel") & (material.rows["metric"] == "error")]
    scored = rows[rows["client"] != ""].drop_duplicates("client")
    own = scored[["n_support", "n_query"]].astype(float).to_numpy().tolist()
    sizes = dict(zip(scored["client"].astype(str), own, strict=True))
    counted = counted[counted["group"] == "novel"] if len(counted) else counted
    wrong = {}
    for one in records(counted):
        client = f"{float(one['client']):.0f}"
        held = [int(many) for name, many in one.items() if str(name).startswith("class_")]
        if client in sizes:
            n_support, n_query = sizes[client]
            known = sum(held) - int(n_query) if math.isnan(n_support) else int(n_support)
            wrong[client] = majority_error(held, known)
    yardstick = pd.Series(wrong, dtype=float).rename_axis("client")
    yield from _worse(
        _novel(material), yardstick, "naming the most frequent class of a client's own points"
    )


def majority_error(held: Sequence[int], n_support: int) -> float:
    """Return the error of naming the class most frequent in a client's support on its other points.

    The support is a random part of the client's points (``held`` of each class), and the result a
    mean over ``DRAWS`` drawn by a fixed seed: the class most frequent in all points would have been
    chosen by the points that it is scored on, too.  NaN where none or all of the points are
    support.

    >>> majority_error([10, 0], 5), majority_error([0, 0], 0), round(majority_error([6, 6], 6), 2)
    (0.0, nan, 0.6)
    """
    if not 0 < n_support < sum(held):
        return math.nan
    drawn = np.random.default_rng(0).multivariate_hypergeometric(held, n_support, size=DRAWS)
    others = np.asarray(held) - drawn
    right = others[np.arange(DRAWS), drawn.argmax(axis=1)]
    return float(1 - right.mean() / (sum(held) - n_support))


BY_ITSELF = (
    " Each method is compared by itself, at 5% both ways: of forty methods that err as much as the "
    "yardstick about one is found here by chance."
)


CHECKS = (
    Check(
        "LC001",
        "Too few held-out clients",
        _few,
        f"With fewer than {FEW_CLIENTS} clients a certificate is wide whatever the models do: a "
        "share of clients as large as the margin could fail everywhere and still be missed.",
        "Hold out more clients (`split.certify`); `latecomer plan` says how many a target takes.",
        "You read the certificate as it is and do not take its width for a fault of the method.",
    ),
    Check(
        "LC002",
        "Hopeless clients void the rule",
        _hopeless,
        "A product of factors is 0 as soon as one is, so some rules certify 100% because of one "
        "client that is wrong everywhere, however well the others are served.",
        "Take the default rule, which puts little weight on any single client, or name one of its "
        "kind (`certificates: [{route: r0, rule: blend}]`).",
        "You want to show what the named rule gives.",
    ),
    Check(
        "LC010",
        "New clients are unlike the certified ones",
        _unlike,
        "A certificate is about clients drawn like the certified ones. Where new clients err more "
        "than those beyond chance, they come from elsewhere, and it is not about them.",
        "Certify clients like the new ones, or read the curve over distances (`latecomer certify "
        "--shift`, a population at a measured distance) in place of the mean.",
        "New clients come from another group by the study's own design, and the page says so.",
    ),
    Check(
        "LC011",
        "Points of a client that repeat in another",
        _copied,
        "A new client that holds points of a seen one was partly trained on: its error is too "
        "small, and clients are not independent, which certificates assume.",
        "Remove copies, or make clients of what shares them (a person in two hospitals).",
        "Inputs take few values, as answers to a questionnaire do, so that copies are no accident.",
    ),
    Check(
        "LC012",
        "Clients scored on a handful of points",
        _few_points,
        "The error of a client on four points is 0, 25, 50, 75 or 100%. Means over many such "
        "clients are right, but each one's figure, their spread and the worst are mostly noise.",
        "Raise `split.query` or `split.min_samples`.",
        "Clients have no more data, and you read means and certificates of means only.",
    ),
    Check(
        "LC013",
        "A shift that nobody certified",
        _shifted,
        "The certificate stands beside errors under shift and is about clients without it; a "
        "reader may take the one for the other.",
        "Certify other populations (a law that the certificate covers), or report the shifted "
        "errors alone.",
        "The shift is there to show what the certificate does not cover.",
    ),
    Check(
        "LC006",
        "One model for all",
        _same,
        "A method that makes models for clients can learn to ignore who the client is. Its errors "
        "look fine, and it is a federated average at a higher price.",
        "Train longer, raise the rate of what describes clients, or take a method that averages.",
        "Clients are alike, so that one model is the right answer.",
    ),
    Check(
        "LC007",
        "Still improving at the end",
        _improving,
        "Methods that learn at different speeds are compared at a moment that favours the quick.",
        "Raise `train.rounds`: other rounds are another training, which begins anew.",
        "The budget of rounds is what you compare at.",
    ),
    Check(
        "LC008",
        "Diverged",
        _diverged,
        "The model served is worse than one met on the way, or than one hardly trained, and a mean "
        "over seeds contains it.",
        "Lower the rates, or let seen clients' validation data choose the round "
        "(`train.selection: validation`, `split.validation`).",
        "The last round is what a published protocol reports.",
    ),
    Check(
        "LC009",
        "The winner hangs on the seed",
        _winners,
        "A ranking from one of these seeds would have been another one from the next.",
        "Add seeds or new clients, or rank none: the test beside the errors tells whom it can.",
        "You claim no ranking.",
    ),
    Check(
        "LC003",
        "Worse than training alone",
        partial(_than_method, method="local", called="training alone (Local)"),
        "Clients that would do better without the federation have no reason to join it."
        + BY_ITSELF,
        "Let new clients train longer, give methods more rounds or rates chosen by seen clients "
        "(`train.tune_newcomers`), or accept that these clients need no federation.",
        "New clients have no labels in your use, so that training alone is not on offer.",
    ),
    Check(
        "LC004",
        "Worse than naming the most frequent class",
        _than_majority,
        "A method that a constant beats has learnt nothing that serves the client. The constant is "
        "the class that the client's own support has most of, which takes labels to know; its "
        "error is the mean over random parts of the client's points in place of the support."
        + BY_ITSELF,
        "Check that the training learns at all (LC007, LC008) and that settings fit the data.",
        "New clients have no labels, or errors of rare classes are what you care about.",
    ),
    Check(
        "LC005",
        "Worse than a regression with an intercept a client",
        partial(
            _than_method, method="glmm", called="a regression with an intercept a client (glmm)"
        ),
        "Method `glmm` is what a statistician would have done: one regression for all, one number "
        f"a client. Anything larger has to earn its cost.{BY_ITSELF}",
        "Look for settings, by seen clients, under which the larger model earns it; or take glmm.",
        "The inputs are pictures or text, on which a regression is no sensible yardstick.",
    ),
)
