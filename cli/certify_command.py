"""``latecomer certify``: what the losses of clients that took no part in training prove."""

import math
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import typer

from latecomer.eval.errors import InputError, nearest
from latecomer.tables import show_json

__all__ = ["Json", "certify_file", "real_option", "whole_option"]


def _reader(option: str, kind: type[float], legal: str) -> Callable[[Any], Any]:
    """Read an option's value, or say which option holds what instead of a number."""

    def read(text: Any) -> Any:
        try:
            return kind(text)
        except ValueError as error:
            raise typer.BadParameter(f"must be {legal}, got {text!r}", param_hint=option) from error

    return read


def real_option(option: str, meaning: str) -> Any:
    """Return an option that holds a number."""
    read = _reader(option, float, "a number")
    return typer.Option(option, parser=read, metavar="NUMBER", help=meaning)


def whole_option(option: str, meaning: str) -> Any:
    """Return an option that holds a whole number."""
    read = _reader(option, int, "a whole number")
    return typer.Option(option, parser=read, metavar="COUNT", help=meaning)


Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
_BALLS = ("kl", "tv", "chi2")
_COLUMNS = "CSV with columns client, loss, optionally weight."


def certify_file(
    file: Annotated[str | None, typer.Argument(metavar="FILE", help=_COLUMNS)] = None,
    delta: Annotated[
        float, real_option("--delta", "Failure probability for the mean loss.")
    ] = 0.05,
    rule: Annotated[
        str,
        typer.Option(
            help="product, chernoff_kl, betting_mixture; wsr_averaged, emp_bernstein for"
            " independent clients; product_wor_averaged, product_wor, betting_wor, wsr_wor for a"
            " pool; conformal for the next client alone. Choose beforehand."
        ),
    ] = "product",
    alpha: Annotated[
        float, real_option("--alpha", "Failure probability for the next client.")
    ] = 0.1,
    pool_size: Annotated[
        int | None,
        whole_option("--pool-size", "Untrained clients these were drawn from, if finite."),
    ] = None,
    loss_max: Annotated[float, real_option("--loss-max", "Largest possible loss.")] = 1.0,
    seed: Annotated[
        int,
        whole_option("--seed", "Draws the orders that some rules bet along; choose beforehand."),
    ] = 0,
    shift: Annotated[
        list[str] | None,
        typer.Option(
            metavar="kl=RADII",
            help="Certify other populations: kl=, tv= or chi2= with radii, as in kl=0.05,0.1.",
        ),
    ] = None,
    subgroup: Annotated[
        str | None,
        typer.Option(metavar="SHARES", help="Certify every group of at least these shares."),
    ] = None,
    target: Annotated[
        float | None, real_option("--target", "How far may clients shift before this loss breaks?")
    ] = None,
    above: Annotated[
        str | None,
        typer.Option(metavar="LOSSES", help="Certify the share of clients above these losses."),
    ] = None,
    curve: Annotated[
        bool, typer.Option("--curve", help="Certify the share above every loss at once.")
    ] = False,
    by: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Certify every group of this column.")
    ] = None,
    against: Annotated[
        str | None, typer.Option(metavar="FILE", help="Another model's losses, same clients.")
    ] = None,
    log_sum: Annotated[
        float | None,
        real_option("--log-sum", "In place of FILE: sum of -ln(1 - (1 - gamma) loss)."),
    ] = None,
    clients: Annotated[int | None, whole_option("--clients", "Clients behind --log-sum.")] = None,
    gamma: Annotated[
        float | None, real_option("--gamma", "Of --log-sum; 1/CLIENTS if not.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Certify any model from its losses on new clients.

    The clients must have played no part in training.  Rows of one client are averaged.  What is
    asked for beyond the mean is a statement of its own each, at the same delta.
    """
    from latecomer.render import loss_certificate_lines, loss_statements, plain

    if log_sum is not None or clients is not None:
        given = {"FILE": file, "--shift": shift, "--subgroup": subgroup, "--target": target}
        given |= {"--above": above, "--by": by, "--against": against, "--pool-size": pool_size}
        _certify_sum(
            log_sum, clients, gamma, delta, [key for key, v in given.items() if v], as_json
        )
        return
    if file is None:
        raise InputError("missing argument 'FILE'")
    from latecomer.eval.certificates.from_losses import certify_losses

    asked: dict[str, Any] = {"pool_size": pool_size, "loss_max": loss_max}
    betting = {"rule": rule, "seed": seed, **asked}
    if by is not None and pool_size is not None:
        raise InputError(
            "--by needs independent clients: the groups' parts of a pool are not known"
        )
    balls = _balls(shift or [], subgroup, target)
    thresholds = _numbers("--above", above)
    source: Any = file
    if (balls or thresholds or curve or by or against) and loss_max > 0:
        from latecomer.eval.certificates.loss_table import read_losses

        source = read_losses(file, loss_max=loss_max, by=by)
    found = certify_losses(source, delta=delta, alpha=alpha, **betting)
    told: dict[str, Any] = {}
    lines: list[str] = []
    for key, one, shown in (
        ("shifts", *_shifts(source, balls, target, delta, betting)),
        ("tails", *_tails(source, thresholds, curve, delta, asked)),
        ("groups", *_groups(source, by, delta, alpha, rule, loss_max, seed)),
        ("against", *_against(source, against, delta, seed, asked)),
    ):
        if one:
            told[key] = one
            lines += shown
    if as_json:
        show_json(plain(found.to_dict() | {"statements": loss_statements(found)} | told))
        return
    for line in [*loss_certificate_lines(found), *lines]:
        typer.echo(line)


def _numbers(option: str, text: str | None) -> list[float]:
    if text is None:
        return []
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise InputError(f"{option} must be numbers with commas between, got {text!r}") from error


def _balls(shifts: list[str], subgroup: str | None, target: float | None) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for text in shifts:
        ball, equals, radii = text.partition("=")
        if ball not in _BALLS or not equals:
            raise InputError(
                f"--shift must be kl=, tv= or chi2= with radii, got {text!r}{nearest(ball, _BALLS)}"
            )
        found[ball] = found.get(ball, []) + _numbers(f"--shift {ball}", radii)
    if subgroup is not None:
        found["subgroup"] = _numbers("--subgroup", subgroup)
    if target is not None and not found:
        found = {ball: [] for ball in (*_BALLS, "subgroup")}
    return found


def _record(issued: Any) -> dict[str, Any]:
    from latecomer.eval.certificates.from_losses import certificate_dict

    return certificate_dict(issued)


def _told(issued: Any, bound: str, value: str, n_clients: int, pool: int | None) -> str:
    from latecomer.reports.statements import FILE, statement

    return statement(
        {
            "bound": f"{FILE}:{bound}",
            "population": issued.population,
            "sampling": issued.sampling,
            "predictor": issued.predictor,
            "rigorous": issued.rigorous,
            "reason": issued.reason,
            "delta": float(issued.delta_total),
            "n_clients": n_clients,
            "pool": pool,
        },
        value,
    )


_ABOUT = {
    "kl": "mean loss within KL {}",
    "tv": "mean loss within TV {}",
    "chi2": "mean loss within chi-squared {}",
    "subgroup": "mean loss of any group of share {}",
}


def _line(about: str, value: str, note: str) -> str:
    return f"  {about:<34} <= {value}   {note}".rstrip()


def _shifts(
    table: Any,
    balls: dict[str, list[float]],
    target: float | None,
    delta: float,
    betting: dict[str, Any],
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return records and lines of populations that shift: a curve each, and where it breaks."""
    if not balls:
        return [], []
    from latecomer.eval.certificates.shifted_losses import certify_shifted

    records, lines = [], ["Other populations; each way to compare them is a statement of its own:"]
    said: list[str] = []
    for ball, radii in balls.items():
        found = certify_shifted(
            table, ball=ball, radii=radii, target=target, delta=delta, **betting
        )
        shown = [*_curve_lines(found, bool(radii)), *_breaking_lines(found)]
        sentences = [
            _told(
                found.certificate,
                f"{betting['rule']}@{ball}={radius}",
                value,
                len(table.clients),
                betting["pool_size"],
            )
            for _, radius, value in shown
            if radius
        ]
        record: dict[str, Any] = {"ball": ball, "statements": sentences}
        if radii:
            record |= {"radii": list(found.radii), "certificate": _record(found.certificate)}
        if found.breaking is not None:
            breaking = None if math.isnan(found.breaking) else found.breaking
            record |= {"target": target, "breaking": breaking}
        records.append(record)
        lines += [line for line, _, _ in shown]
        said += sentences
    return records, [*lines, *said]


def _curve_lines(found: Any, asked: bool) -> Iterator[tuple[str, str, str]]:
    """Yield a line a radius, with radius and bound as a sentence shows them."""
    from latecomer.render import number

    values = found.certificate.value.tolist() if asked else []
    for radius, value in zip(found.radii, values, strict=False):
        shown = number(value, decimals=3, up=True)
        empty = "says nothing" if value >= found.certificate.loss_max else ""
        yield _line(_ABOUT[found.ball].format(f"{radius:g}"), shown, empty), f"{radius:g}", shown


def _breaking_lines(found: Any) -> Iterator[tuple[str, str, str]]:
    """Yield the line of the breaking radius, with it and the target as a sentence shows them."""
    if found.breaking is None:
        return
    group = found.ball == "subgroup"
    about = "smallest share of any group" if group else f"breaking radius, {found.ball}"
    if math.isnan(found.breaking):
        yield f"  {about:<34}    none    above {found.target:g} without any shift", "", ""
        return
    at = _inward(found.breaking, up=group)
    note = f"so far the mean loss is certified to stay below {found.target:g}"
    yield f"  {about:<34}  = {at}   {note}", at, f"{found.target:g}"


def _inward(value: float, *, up: bool) -> str:
    """Return a radius rounded to the side on which the statement holds."""
    grain = 10.0 ** (math.floor(math.log10(value)) - 2) if value > 0 else 1.0
    steps = math.ceil(value / grain - 1e-9) if up else math.floor(value / grain)
    return f"{steps * grain:.6g}"


def _tails(
    table: Any, thresholds: list[float], curve: bool, delta: float, asked: dict[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """Return records and lines of the shares of clients with large losses."""
    from latecomer.eval.certificates.further_losses import certify_above, certify_curve
    from latecomer.render import number

    record: dict[str, Any] = {}
    if not thresholds and not curve:
        return record, []
    n, pool = len(table.clients), asked["pool_size"]
    lines, said = ["Clients with large losses:"], []
    if thresholds:
        found = certify_above(table, thresholds, delta=delta, **asked)
        record["above"] = {f"{t:g}": _record(issued) for t, issued in found.items()}
        for threshold, issued in found.items():
            shown = number(float(issued), decimals=3, up=True)
            bad = sum(loss > threshold for loss in table.losses)
            about = f"share of clients above {threshold:g}"
            lines.append(_line(about, shown, f"{bad} of {n} sampled"))
            said.append(_told(issued, f"fraction_above@{threshold:g}", shown, n, pool))
    if curve:
        width, steps = certify_curve(table, delta=delta, **asked)
        record["curve"] = {
            "certificate": _record(width),
            "steps": [{"threshold": t, "sampled": s, "upper": u} for t, s, u in steps],
        }
        lines += [
            _line(f"share above {t:g}", number(u, decimals=3, up=True), f"sampled {s:.3f}")
            for t, s, u in _tenths(steps)
        ]
        said.append(_told(width, "error_curve", number(float(width), decimals=3, up=True), n, pool))
    return record | {"statements": said}, [*lines, *said]


def _tenths(steps: list[tuple[float, float, float]]) -> Iterator[tuple[float, float, float]]:
    """Show at most a dozen steps of a curve; JSON has all of them."""
    every = max(1, -(-len(steps) // 12))
    return iter(steps[::every])


def _groups(
    table: Any, by: str | None, delta: float, alpha: float, rule: str, loss_max: float, seed: int
) -> tuple[dict[str, Any], list[str]]:
    """Return records and lines of the groups that a column names."""
    if by is None:
        return {}, []
    from latecomer.eval.certificates.further_losses import certify_groups
    from latecomer.render import number

    found = certify_groups(
        table, by, delta=delta, alpha=alpha, rule=rule, loss_max=loss_max, seed=seed
    )
    lines = [
        f"Groups by {by}: the {len(found)} share delta and alpha, all bounds hold at once with"
        f" probability {100 * (1 - delta):g}% (next clients {100 * (1 - alpha):g}%):"
    ]
    for name, one in found.items():
        mean = (
            "" if one.certificate is None else number(float(one.certificate), decimals=3, up=True)
        )
        following = number(float(one.next_client), decimals=3, up=True)
        lines.append(
            _line(
                f"mean loss of {name}",
                mean or "-",
                f"{one.n_clients} clients, mean {number(one.mean, decimals=3)}; next client"
                f" <= {following}",
            )
        )
    return {name: one.to_dict() for name, one in found.items()}, lines


def _against(
    table: Any, against: str | None, delta: float, seed: int, asked: dict[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """Return record and lines of one model against another on the same clients."""
    if against is None:
        return {}, []
    from latecomer.eval.certificates.further_losses import certify_against
    from latecomer.render import number

    found = certify_against(table, against, delta=delta, seed=seed, **asked)
    record = {
        "difference": found.difference,
        "certificate": _record(found.certificate),
        "worse": _record(found.worse) | {"n_worse": found.n_worse},
    }
    difference, worse = (
        number(float(one), decimals=3, up=True) for one in (found.certificate, found.worse)
    )
    return record, [
        f"Against {against}, on the same {found.n_clients} clients, each statement at delta"
        f" {delta:g}:",
        _line("mean difference of losses", difference, f"sampled {found.difference:+.3f}"),
        _line("share of clients served worse", worse, f"{found.n_worse} sampled"),
        f"Holds if: {'; '.join(found.certificate.assumptions)}.",
    ]


def _certify_sum(
    log_sum: float | None,
    clients: int | None,
    gamma: float | None,
    delta: float,
    beside: list[str],
    as_json: bool,
) -> None:
    """Certify from a sum that no client's loss can be read off."""
    from latecomer.bounds import product_from_sum
    from latecomer.render import number, plain

    if log_sum is None or clients is None:
        raise InputError("--log-sum and --clients go together: the sum, and of how many clients")
    if beside:
        raise InputError(f"{beside[0]} cannot go with --log-sum, which tells no losses")
    shrunk = 1 / max(clients, 2) if gamma is None else gamma
    try:
        found = product_from_sum(log_sum=log_sum, n_clients=clients, delta=delta, gamma=shrunk)
    except (TypeError, ValueError) as error:
        raise InputError(str(error)) from error
    if as_json:
        show_json(plain(_record(found) | {"n_clients": clients, "gamma": shrunk}))
        return
    typer.echo(f"{clients} clients, sum of -ln(1 - (1 - gamma) loss) {log_sum:g}")
    value = number(float(found), decimals=3, up=True)
    note = "says nothing" if bool(found.vacuous) else f"product rule from a sum, gamma {shrunk:g}"
    typer.echo(_line("mean loss of clients like these", value, note))
    typer.echo(f"Holds if: {'; '.join(found.assumptions)}.")
    typer.echo(f"Failure probability: {delta:g} on the clients.")
