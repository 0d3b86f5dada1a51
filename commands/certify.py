"""``latecomer certify``: what the losses of clients that took no part in training prove."""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import latecomer
from latecomer.certify.words import wrapped
from latecomer.checks import html_file, output_file
from latecomer.commands.arguments import Json, Long, numbers, real_option, whole_option
from latecomer.errors import InputError, nearest
from latecomer.files import ending, named

if TYPE_CHECKING:
    from latecomer.certify.losses import CertifiedLosses
    from latecomer.certify.points import PointRows
    from latecomer.certify.predicted_sets import LabelSets

_BALLS = ("kl", "tv", "chi2")
_OF_A_SUM = ("file", "log_sum", "clients", "gamma", "delta", "as_json")
File = Annotated[
    str | None,
    typer.Argument(
        metavar="FILE", help="CSV, JSON or Parquet: client, loss, maybe weight; - is stdin."
    ),
]
Delta = Annotated[float, real_option("--delta", "Failure probability for the mean loss.")]
RuleName = Annotated[str, typer.Option("--rule", help="How means are bounded. Choose beforehand.")]
BestOf = Annotated[
    str | None,
    typer.Option(metavar="RULES", help="Of which best_of takes the tightest, with commas."),
]
Alpha = Annotated[
    float | None, real_option("--alpha", "Failure probability for the next client; .1.")
]
PoolSize = Annotated[
    int | None, whole_option("--pool-size", "Untrained clients these were drawn from, if finite.")
]
LossMax = Annotated[float, real_option("--loss-max", "Largest possible loss.")]
Seed = Annotated[
    int | None,
    whole_option("--seed", "Repeats the orders that some rules average over; else drawn afresh."),
]
Order = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN", help="Numbers the clients in the order of a random draw: 1, 2, ..."
    ),
]
Shift = Annotated[
    list[str] | None,
    typer.Option(
        metavar="kl=RADII",
        help="Certify every population Q within radii of the certified P: kl=0.05,0.1 is"
        " KL(Q || P), chi2= is chi2(Q || P), tv= TV(Q, P).",
    ),
]
Subgroup = Annotated[
    str | None,
    typer.Option(metavar="SHARES", help="Certify every group of at least these shares."),
]
Target = Annotated[
    float | None, real_option("--target", "How far may clients shift before this loss breaks?")
]
Above = Annotated[
    str | None,
    typer.Option(metavar="LOSSES", help="Certify the share of clients above these losses."),
]
Curve = Annotated[bool, typer.Option("--curve", help="Certify the share above every loss at once.")]
By = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Certify every group of this column: the clients' own, settled before the losses.",
    ),
]
Against = Annotated[
    str | None, typer.Option(metavar="FILE", help="Another model's losses, same clients.")
]
Independent = Annotated[
    bool, typer.Option("--independent", help="The clients were drawn from no finite set.")
]
Joint = Annotated[
    bool, typer.Option("--joint", help="All that is printed shares delta and holds together.")
]
Trust = Annotated[
    bool,
    typer.Option("--trust", help="Use --rule file.py:name without simulating its coverage."),
]
Report = Annotated[str | None, typer.Option(metavar="FILE", help="Write a page, one HTML file.")]
Score = Annotated[
    str | None,
    typer.Option(
        metavar="SCORE",
        help="FILE holds points (client, label, prediction or p_0, p_1, ...): error, auc, brier or"
        " calibration of each client's.",
    ),
]
Sets = Annotated[
    float | None,
    real_option(
        "--sets", "Sets of labels that miss a new client's points so often; needs p_0, ..."
    ),
]
SetsScore = Annotated[
    str | None,
    typer.Option(
        "--sets-score",
        metavar="SCORE",
        help="What sets rule labels out by: probability (1 - p, the default) or adaptive (the"
        " probability of all labels at least as likely).",
    ),
]
SetsFor = Annotated[
    str | None,
    typer.Option("--sets-for", metavar="FILE", help="Points to make sets for; else FILE's own."),
]
LogSum = Annotated[
    str | None,
    typer.Option(
        metavar="SUMS",
        help="In place of FILE: sums of -ln(1 - b loss) for b = .2, .4, .6, .8 and 1 - gamma;"
        " or the last alone.",
    ),
]
Clients = Annotated[int | None, whole_option("--clients", "Clients behind --log-sum.")]
Gamma = Annotated[float | None, real_option("--gamma", "The one that --log-sum was made with.")]


def certify_file(
    file: File = None,
    delta: Delta = 0.05,
    rule: RuleName = "blend",
    best_of: BestOf = None,
    alpha: Alpha = None,
    pool_size: PoolSize = None,
    loss_max: LossMax = 1.0,
    seed: Seed = None,
    order: Order = None,
    shift: Shift = None,
    subgroup: Subgroup = None,
    target: Target = None,
    above: Above = None,
    curve: Curve = False,
    by: By = None,
    against: Against = None,
    independent: Independent = False,
    joint: Joint = False,
    report: Report = None,
    score: Score = None,
    sets: Sets = None,
    sets_score: SetsScore = None,
    sets_for: SetsFor = None,
    log_sum: LogSum = None,
    clients: Clients = None,
    gamma: Gamma = None,
    trust: Trust = False,
    long: Long = False,
    as_json: Json = False,
) -> None:
    """Certify any model from its losses on held-out clients.

    They must have played no part in training.  The last line says how surely all statements hold.
    """
    if _certified_sum(locals()):
        return
    source, wanted = _files(file, report, against, sets, sets_score, sets_for, joint=joint)
    losses, other, points = _scored(source, against, score, sets, by, order)
    certified = latecomer.certify_losses(
        losses,
        delta=delta,
        rule=rule,
        best_of=() if best_of is None else best_of.split(","),
        alpha=alpha,
        pool_size=pool_size,
        loss_max=loss_max,
        seed=seed,
        order=order,
        shifts=_balls(shift or [], subgroup),
        target=target,
        above=numbers("--above", above),
        curve=curve,
        by=by,
        against=other,
        independent=independent,
        joint=joint,
        trust=trust,
    )
    _show(certified, _made(wanted, points, delta), file, report, long=long, as_json=as_json)


@dataclass(frozen=True)
class _SetsWanted:
    """Sets of labels that are asked for: their level, what they rule out by, of what, and where."""

    alpha: float
    score: str
    serve: str | None
    out: str


def _files(
    file: str | None,
    report: str | None,
    against: str | None,
    sets: float | None,
    score: str | None,
    serve: str | None,
    *,
    joint: bool,
) -> tuple[Any, _SetsWanted | None]:
    """Return what is read, and the sets of labels that are written beside it, if any."""
    if file is None:
        raise InputError("missing argument 'FILE'")
    if report is not None:
        html_file("--report", report, [file, against, serve])
    with named("standard input"):
        source = ending(sys.stdin.buffer).read() if file == "-" else file
    if sets is None:
        for option, value in (("--sets-score", score), ("--sets-for", serve)):
            if value is not None:
                raise InputError(f"{option} goes with --sets, got {option} {value} alone")
        return source, None
    if joint:
        raise InputError("--joint cannot go with --sets, a statement at a level of its own")
    if file == "-":
        raise InputError("--sets needs FILE, beside which the sets are written, got -")
    sets_out = str(Path(file).with_suffix(".sets.csv"))
    output_file("--sets", sets_out, [file, against, serve, report])
    return source, _SetsWanted(sets, score or "probability", serve, sets_out)


def _scored(
    source: Any,
    against: str | None,
    score: str | None,
    sets: float | None,
    by: str | None,
    order: str | None,
) -> tuple[Any, Any, "PointRows | None"]:
    """Return tables of scores and the points that they were made of, else what was given."""
    if score is None and sets is None:
        return source, against, None
    from latecomer.certify.points import read_points, score_points

    each = score or "error"
    other = None if against is None else score_points(against, score=each)
    points = read_points(source, score=each, by=by, order=order)
    return score_points(points, score=each), other, points


def _made(
    wanted: _SetsWanted | None, points: "PointRows | None", delta: float
) -> "LabelSets | None":
    """Make the sets that are wanted from certified clients' points, and write them."""
    if wanted is None or points is None:
        return None
    from latecomer.certify.predicted_sets import label_sets

    level, score, serve = wanted.alpha, wanted.score, wanted.serve
    made = label_sets(points, alpha=level, delta=delta, score=score, serve=serve)
    made.write(wanted.out)
    return made


def _show(
    certified: "CertifiedLosses",
    made: "LabelSets | None",
    file: str | None,
    report: str | None,
    *,
    long: bool,
    as_json: bool,
) -> None:
    page = []
    if report is not None:
        made_of = "standard input" if file == "-" else str(file)
        page = [f"Page: {certified.report(report, source=made_of)}"]
    if as_json:
        sets = {} if made is None else {"sets": made.to_dict()}
        typer.echo(json.dumps(certified.to_dict() | sets, indent=2, allow_nan=False))
        return
    told = certified.in_full if long else str(certified)
    of_sets = [] if made is None else made.lines()
    if not long:
        of_sets = [part for line in of_sets for part in wrapped(line, further="    ")]
    typer.echo("\n".join([*page, told, *of_sets]))


def _certified_sum(given: Mapping[str, Any]) -> bool:
    """Certify a sum, if one is given."""
    if all(given[name] is None for name in ("log_sum", "clients", "gamma")):
        return False
    from latecomer.commands.secret_sum import certify_sum

    known = signature(certify_file).parameters
    others = [name for name in known if name not in _OF_A_SUM]
    beside = [
        f"--{name.replace('_', '-')}" for name in others if given[name] != known[name].default
    ]
    certify_sum(
        numbers("--log-sum", given["log_sum"]),
        *(given[name] for name in ("clients", "gamma")),
        delta=given["delta"],
        beside=["FILE", *beside] if given["file"] else beside,
        as_json=given["as_json"],
    )
    return True


def _balls(shifts: list[str], subgroup: str | None) -> dict[str, list[float]]:
    """Return the radii by ball."""
    radii_by_ball: dict[str, list[float]] = {}
    for text in shifts:
        ball, equals, radii = text.partition("=")
        if ball not in _BALLS or not equals:
            raise InputError(
                f"--shift must be kl=, tv= or chi2= with radii, got {text!r}{nearest(ball, _BALLS)}"
            )
        if "=" in radii:
            raise InputError(
                f"--shift {ball} must be numbers with commas between, got {radii!r}; several kinds "
                "are given one --shift each"
            )
        radii_by_ball[ball] = radii_by_ball.get(ball, []) + numbers(f"--shift {ball}", radii)
    if subgroup is not None:
        radii_by_ball["subgroup"] = numbers("--subgroup", subgroup)
    return radii_by_ball
