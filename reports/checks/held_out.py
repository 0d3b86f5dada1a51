"""Checks of certificates: who was held out, and whom a certificate does not speak of."""

from collections.abc import Iterator

import numpy as np
from scipy import stats

from latecomer.certify.words import count, magnitude, percent, shift_name
from latecomer.reports.checks.check import Check, Found
from latecomer.reports.display.naming import as_subject, model_called
from latecomer.reports.display.section import Material
from latecomer.reports.frames.chosen import held_out
from latecomer.reports.frames.errors import MODEL, primary_predictor, records
from latecomer.reports.guarantees.answer import least_price
from latecomer.reports.guarantees.certificate import declared_certificates

FEW_CLIENTS = 20
FEW_POINTS = 5
SHARE = 0.1  # of clients with few points
LEVEL = 0.01  # of the test for new clients unlike the certified clients


def _few(material: Material) -> Iterator[Found]:
    declared = held_out(declared_certificates(material.bounds, material.study))
    few = declared[declared["n_clients"] < FEW_CLIENTS]
    if len(few):
        n, delta = int(few["n_clients"].min()), float(few["delta"].iloc[0])
        least = float(least_price(0.0, n, delta))
        yield Found(
            f"Certificates stand on {count(n, 'client')}: independent ones without any error "
            f"would still be certified at no less than {percent(least)}.",
            n,
        )


def _hopeless(material: Material) -> Iterator[Found]:
    declared = held_out(declared_certificates(material.bounds, material.study))
    errors = material.errors
    scored = errors[(errors["group"] == "certification") & (errors["shift"] == "none")]
    for (label, predictor), own in declared[declared["value"] >= 1].groupby(MODEL, sort=False):
        mine = scored[(scored["label"] == label) & (scored["predictor"] == predictor)]
        worst = mine.loc[mine["error"] >= 1, "client"].nunique()
        if worst:
            rule = str(own["bound"].iloc[0]).partition(":")[2]
            seeds = tuple(sorted(int(seed) for seed in own["seed"].unique()))
            yield Found(
                f"{as_subject(model_called(str(label)))} is wrong on every point of "
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
        more = novel.mean() - certified.mean()
        if more > 0 and np.ptp(novel) + np.ptp(certified) > 0:
            p = float(stats.ttest_ind(novel, certified, equal_var=False).pvalue)
            if p < LEVEL:
                yield Found(
                    f"{as_subject(model_called(label))} errs {100 * more:.1f} points more on new "
                    f"clients than on the certified ones (Welch's test, p = {p:.2g}): new clients "
                    "are not drawn like these.",
                    float(more),
                    label,
                )


def _shifted(material: Material) -> Iterator[Found]:
    declared = declared_certificates(material.bounds, material.study)
    value = {key: float(own["shown"].max()) for key, own in declared.groupby(MODEL)}
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
    errors = material.errors
    plain = errors[(errors["shift"] == "none") & errors["group"].isin(["certification", "novel"])]
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
)
