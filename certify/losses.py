"""All that is asked of a table of losses, certified at once: what ``latecomer certify`` shows."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from latecomer.bounds.certificate import Certificate
from latecomer.bounds.checks import failure_probability, flag
from latecomer.certify.arguments import ASKED, LOSSES, Shown, Stated, told_in_full
from latecomer.certify.rule import DEFAULT_RULE
from latecomer.certify.sample import (
    Sample,
    check_options,
    drawn_seed,
    has_order,
    sampled,
)
from latecomer.certify.statements import (
    LossCertificate,
    MeanLoss,
    NextClient,
    certificate_dict,
    certified_sample,
    mean_loss,
    next_client,
)
from latecomer.certify.table import LossTable, Order, Source, named, read_losses
from latecomer.certify.table_rows import column_named
from latecomer.certify.together import LossAnswers
from latecomer.checks import checked, several
from latecomer.errors import InputError

if TYPE_CHECKING:
    from latecomer.certify.further_statements import Compared, Step
    from latecomer.certify.populations import Shifted
    from latecomer.certify.together import Together

_BALLS = ("kl", "tv", "chi2", "subgroup")
_NOTHING: Mapping[Any, Any] = MappingProxyType({})


@dataclass(frozen=True, eq=False)
class CertifiedLosses(LossAnswers, Shown):
    """`LossAnswers` as the terminal, a notebook, JSON and a page show them."""

    @property
    def together(self) -> "Together":
        """How surely all statements hold at once, and the level of each."""
        from latecomer.certify.together import together

        return together(self)

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, strings, lists and dicts: what was asked for and no more."""
        from latecomer.certify.topics import loss_statements
        from latecomer.certify.words import plain

        told: dict[str, Any] = {
            "shifts": [self._shift(ball) for ball in self.shifts],
            "tails": self._tails(),
            "groups": {name: one.to_dict() for name, one in self.groups.items()},
            "against": _compared(self.against),
            "question": self.question,
            "together": self.together.to_dict(),
        }
        asked = {name: record for name, record in told.items() if record}
        record: dict[str, Any] = plain(
            LossCertificate.to_dict(self)
            | {"order": self.order or None, "statements": loss_statements(self)}
            | asked
        )
        return record

    def __str__(self) -> str:
        """Return what ``latecomer certify`` prints."""
        from latecomer.certify.lines import short_lines

        return "\n".join(short_lines(self))

    @property
    def in_full(self) -> str:
        """What ``latecomer certify --long`` prints: every statement as a full sentence."""
        from latecomer.certify.lines import certified_lines

        return "\n".join(certified_lines(self))

    @property
    def sentence(self) -> str:
        """What is proved of the mean loss; with the rule conformal, of the next client's loss."""
        from latecomer.certify.topics import loss_statements

        return loss_statements(self)[0]

    @property
    def closing(self) -> str:
        """How surely all statements hold together; empty for a single one."""
        return self.together.line

    def rows(self) -> list[dict[str, Any]]:
        """Return one record per statement: topic, what is bounded, by how much, its sentence."""
        from latecomer.certify.topics import statement_rows

        return statement_rows(self)

    def report(self, path: str | PathLike[str], *, source: str = "losses") -> Path:
        """Write a page about it as one HTML file, in which ``source`` names the losses."""
        from latecomer.certify.page.losses import write_report

        return write_report(self, path, source=source)

    def _shift(self, ball: str) -> dict[str, Any]:
        from latecomer.certify.topics import of_ball

        shifted = self.shifts[ball]
        said = [one.sentence for one in of_ball(self, shifted, self.radii[ball]) if one.sentence]
        record: dict[str, Any] = {"ball": ball, "statements": said}
        if self.radii[ball]:
            record["radii"] = list(shifted.radii)
            record["certificate"] = certificate_dict(shifted.certificate)
        if shifted.breaking is not None:
            breaking = None if math.isnan(shifted.breaking) else shifted.breaking
            record |= {"target": shifted.target, "breaking": breaking}
        return record

    def _tails(self) -> dict[str, Any]:
        from latecomer.certify.topics import tails
        from latecomer.certify.words import exact

        if not self.above and self.curve is None:
            return {}
        record: dict[str, Any] = {}
        if self.above:
            record["above"] = {exact(t): certificate_dict(one) for t, one in self.above.items()}
        if self.curve is not None:
            width, steps = self.curve
            names = ("threshold", "sampled", "upper")
            record["curve"] = {
                "certificate": certificate_dict(width),
                "steps": [dict(zip(names, step, strict=True)) for step in steps],
            }
        return record | {"statements": tails(self, self.above, self.curve).sentences}


def _alpha(alpha: float | None) -> float:
    """Return the next client's failure probability, as Python's own number."""
    return 0.1 if alpha is None else float(checked(failure_probability, "alpha", alpha))


def _compared(compared: "Compared | None") -> dict[str, Any]:
    if compared is None:
        return {}
    return {
        "difference": compared.difference,
        "certificate": certificate_dict(compared.certificate),
        "worse": certificate_dict(compared.worse) | {"n_worse": compared.n_worse},
    }


@dataclass(frozen=True, eq=False)
class SharesAbove(Stated):
    """Bounds of the shares of clients above thresholds, which share delta.

    Attributes
    ----------
    certificates : mapping of float to Certificate
        By threshold.
    """

    certificates: Mapping[float, Certificate]


@dataclass(frozen=True, eq=False)
class ShareCurve(Stated):
    """A bound of the share of clients above every threshold at once.

    Attributes
    ----------
    certificate : Certificate
        Its value is the largest excess of a bound over the sampled share.
    steps : tuple of (threshold, sampled share above, bound)
        By rising threshold: each holds from it up to the next.
    """

    certificate: Certificate
    steps: "tuple[Step, ...]"


@dataclass(frozen=True, eq=False)
class ByGroup(Stated):
    """Certificates of groups of clients, which share delta and alpha.

    Attributes
    ----------
    groups : mapping of str to LossCertificate
        By name of the group.
    """

    groups: Mapping[str, LossCertificate]


@dataclass(frozen=True, eq=False)
class Losses:
    """One loss a client, read and checked once, and what can be proved of clients to come.

    Every method is one statement and returns one small object, whose ``str()`` is what ``latecomer
    certify`` prints of it.  Each holds at the sample's ``delta`` (`next_client` at its ``alpha``)
    by itself; several hold together with the probability that is left by the sum of their levels.
    `latecomer.losses` makes it.

    Attributes
    ----------
    sample : Sample
        The losses, how their clients were drawn, and the rule of the mean.
    delta : float
        Failure probability of each statement.
    best_of : tuple of str
        Rules of which ``best_of`` takes the tightest.
    table : LossTable
        As it was read.
    source : path, bytes, DataFrame, mapping or sequence
        Where `by` reads the column of groups.
    """

    sample: Sample
    delta: float
    best_of: tuple[str, ...]
    table: LossTable
    source: Source

    @property
    def rule(self) -> str:
        """Name of the rule of the mean."""
        return self.sample.rule.name

    @property
    def n_clients(self) -> int:
        """Clients with a loss."""
        return self.sample.n_clients

    @property
    def pool_size(self) -> int | None:
        """Clients of the pool they were drawn from; None for independent clients."""
        return self.sample.pool_size

    @property
    def in_order(self) -> bool:
        """Whether the order in which the clients were drawn is known."""
        return self.sample.in_order

    @property
    def seed(self) -> int | None:
        """Seed of the orders that the rule averages over; None where it draws none."""
        return self.sample.seed if self.sample.rule.orders else None

    @property
    def losses(self) -> tuple[float, ...]:
        """One loss a client, the smallest first."""
        return self.table.losses

    def __str__(self) -> str:
        from latecomer.certify.lines import sampled_lines

        given = self.sample
        return "\n".join(sampled_lines(given.n_clients, given.mean, given.sd, given.notes))

    def mean(self) -> MeanLoss:
        """Bound the mean loss of clients like these, with probability ``1 - delta``.

        Returns
        -------
        MeanLoss

        Raises
        ------
        InputError
            The rule bounds no mean.
        """
        from latecomer.certify.lines import mean_lines

        found = mean_loss(self.sample, self.best_of, self.delta)
        return replace(found, words=tuple(mean_lines(found)))

    def next_client(self, alpha: float = 0.1) -> NextClient:
        """Bound the loss of one client more, with probability ``1 - alpha`` over all of them.

        Parameters
        ----------
        alpha : float, in (0, 1)

        Returns
        -------
        NextClient

        Raises
        ------
        InputError
            ``alpha`` is illegal, or the whole pool was scored.
        """
        from latecomer.certify.lines import next_lines

        found = next_client(self.sample, float(checked(failure_probability, "alpha", alpha)))
        return replace(found, words=tuple(next_lines(found)))

    def above(self, *thresholds: float) -> SharesAbove:
        """Bound the share of clients whose loss is above each threshold; they share delta.

        Parameters
        ----------
        *thresholds : float, in [0, loss_max)
            Different ones, settled before the losses were seen.

        Returns
        -------
        SharesAbove
        """
        from latecomer.certify.further_statements import shares_above
        from latecomer.certify.topics import tails

        found = shares_above(self.sample, thresholds, self.delta)
        return SharesAbove(found, words=tuple(tails(self, found, None).lines))

    def curve(self) -> ShareCurve:
        """Bound the share of clients above every loss at once; delta is at most 1/2.

        Returns
        -------
        ShareCurve
        """
        from latecomer.certify.further_statements import share_curve
        from latecomer.certify.topics import tails

        width, steps = share_curve(self.sample, self.delta)
        told = tails(self, {}, (width, steps)).lines
        return ShareCurve(width, tuple(steps), words=tuple(told))

    def within(
        self, ball: str, radii: Sequence[float] = (), *, target: float | None = None
    ) -> "Shifted":
        """Bound the mean loss of every population within radii of the one that was scored.

        Parameters
        ----------
        ball : {"kl", "tv", "chi2", "subgroup"}
            KL(Q || P) in nats, TV(Q, P), chi2(Q || P), or every group of at least a share.
        radii : sequence of float
            Radii, or shares, settled before the losses were seen.
        target : float, optional
            Mean loss to stay below: how far may clients shift?

        Returns
        -------
        Shifted
        """
        from latecomer.certify.populations import within
        from latecomer.certify.topics import shifts

        reach = several(radii)
        found = within(self.sample, ball, reach, target, delta=self.delta)
        return replace(found, words=tuple(shifts(self, (found, reach)).lines))

    def by(self, column: str, *, alpha: float = 0.1) -> ByGroup:
        """Bound the mean and the next client of every group; they share delta and alpha.

        Parameters
        ----------
        column : str
            Column of the source that names each client's group, its own and settled before the
            losses.
        alpha : float, in (0, 1)
            Failure probability of all groups' next clients.

        Returns
        -------
        ByGroup

        Raises
        ------
        InputError
            The clients are of a pool, or the source has no such column or no longer these losses.
        """
        from latecomer.certify.further_statements import certify_groups
        from latecomer.certify.topics import groups

        column_named("by", column)
        if self.pool_size is not None:
            raise InputError(
                "--by needs independent clients: the groups' parts of a pool are not known"
            )
        found = certify_groups(
            self._grouped(column),
            column,
            delta=self.delta,
            rule=self.rule,
            alpha=alpha,
            loss_max=self.sample.loss_max,
            seed=self.sample.seed,
            best_of=self.best_of,
            trust=self.sample.trust,
        )
        told = groups(column, found, self.delta, alpha).lines
        return ByGroup(found, words=tuple(told))

    def _grouped(self, column: str) -> LossTable:
        if self.table.by == column:
            return self.table
        read = read_losses(self.source, loss_max=self.sample.loss_max, by=column)
        if (read.clients, read.losses) != (self.table.clients, self.table.losses):
            raise InputError(f"{column}: the source no longer holds the losses that were read")
        return replace(read, order=self.table.order)

    def against(self, other: Source) -> "Compared":
        """Compare with another model's losses on the same clients: mean difference, share worse.

        Parameters
        ----------
        other : path, DataFrame or mapping

        Returns
        -------
        Compared
        """
        from latecomer.certify.further_statements import compared
        from latecomer.certify.topics import against

        theirs = read_losses(other, loss_max=self.sample.loss_max)
        found = compared(self.sample, theirs, self.delta)
        told = against(found, _called(other), self.delta).lines
        return replace(found, words=tuple(told))


@told_in_full(LOSSES, ASKED)
def losses(
    source: Source,
    *,
    delta: float = 0.05,
    rule: str = DEFAULT_RULE,
    pool_size: int | None = None,
    loss_max: float = 1.0,
    seed: int | None = None,
    order: Order | None = None,
    best_of: Sequence[str] = (),
    trust: bool = False,
) -> Losses:
    """Read the losses of clients that took no part in training, to prove statements one by one.

    Parameters
    ----------
    source : path, DataFrame, mapping or sequence
        One loss per client: a CSV, JSON or Parquet file or DataFrame with columns ``client``,
        ``loss`` and optionally ``weight``; a mapping client -> loss; or bare losses.
    delta : float, in (0, 1)
        Failure probability of each statement.
    rule, pool_size, loss_max, seed, order, best_of
        As for :func:`latecomer.certify.statements.certify_losses`.
    trust : bool
        Whether a rule of one's own (``rule="mine.py:r"``) is used without simulating its coverage.

    Returns
    -------
    Losses
        Frozen.  ``mean()``, ``next_client()``, ``above(*losses)``, ``curve()``, ``within(kind,
        radii)``, ``by(column)`` and ``against(other)`` prove a statement each; ``print`` says how
        the losses were read.

    Raises
    ------
    InputError
        One line naming the argument, or the file and line, what is legal and what was given.

    Examples
    --------
    >>> scored = losses({f"client {i}": 0.1 + 0.1 * (i % 2) for i in range(60)}, seed=3)
    >>> round(scored.mean().value, 3), round(scored.next_client().value, 3)
    (0.194, 0.2)
    >>> round(float(scored.above(0.3).certificates[0.3]), 3)
    0.049
    >>> scored.within("kl", [0.1]).certificate.value.round(3).tolist()
    [0.305]
    """
    return _read(source, delta, rule, pool_size, loss_max, seed, order, best_of, trust)


def _read(
    source: Source,
    delta: float,
    rule: str,
    pool_size: int | None,
    loss_max: float,
    seed: int | None,
    order: Order | None,
    best_of: Sequence[str],
    trust: bool,
    by: str | None = None,
    alpha: float = 0.1,
) -> Losses:
    """Check what is asked, then read; one draw of orders serves all that is asked of the losses."""
    ordered = has_order(source, order)
    chosen = check_options(
        rule,
        best_of,
        delta=delta,
        pool_size=pool_size,
        loss_max=loss_max,
        seed=seed,
        alpha=alpha,
        ordered=ordered,
        trust=trust,
    )
    table = read_losses(source, loss_max=float(loss_max), by=by, order=order)
    one_draw = drawn_seed(seed, ordered=bool(table.order))
    sample = sampled(table, chosen, float(loss_max), pool_size, one_draw, trust=trust)
    return Losses(sample, float(delta), several(best_of), table, source)


@told_in_full(LOSSES, ASKED)
def certify_losses(
    losses: Source,
    *,
    delta: float = 0.05,
    rule: str = DEFAULT_RULE,
    alpha: float | None = None,
    pool_size: int | None = None,
    loss_max: float = 1.0,
    seed: int | None = None,
    order: Order | None = None,
    best_of: Sequence[str] = (),
    shifts: Mapping[str, Sequence[float]] = _NOTHING,
    target: float | None = None,
    above: Sequence[float] = (),
    curve: bool = False,
    by: str | None = None,
    against: Source | None = None,
    independent: bool = False,
    joint: bool = False,
    trust: bool = False,
) -> CertifiedLosses:
    """Certify the mean loss of clients like these, the next client's loss, and what else is asked.

    Parameters
    ----------
    losses, delta, rule, pool_size, loss_max, seed, order, best_of, trust
        As for `latecomer.losses`; each further statement is separate, at the same ``delta``.
    alpha : float, optional
        Failure probability of the next client's bound; 0.1 unless given.
    shifts : mapping of str to sequence of float
        Radii of other populations Q from the certified one, P: ``kl`` is KL(Q || P), ``chi2``
        chi2(Q || P), ``tv`` TV(Q, P); shares of a ``subgroup``.
    target : float, optional
        Mean loss to stay below: how far may clients shift?  Uses every ball if none is named.
    above, curve : sequence of float, bool
        Thresholds that a client's loss should not exceed; whether to bound all shares at once.
    by, against : str, path or DataFrame or mapping, optional
        Column of each client's group, its own and settled beforehand; another model's losses.
    independent, joint : bool
        That clients are of no finite set; that all statements share ``delta``, to hold together.

    Raises
    ------
    InputError
        One line naming the argument, or the file and line, what is legal and what was given.

    Examples
    --------
    >>> certified = certify_losses({f"client {i}": 0.1 for i in range(30)}, above=[0.2])
    >>> round(float(certified.certificate), 3), round(float(certified.above[0.2]), 3)
    (0.186, 0.095)
    """
    _check_together(pool_size, alpha, curve=curve, independent=independent, joint=joint)
    balls, level, lowest = asked_balls(shifts, target), _alpha(alpha), several(above)
    one = _read(losses, delta, rule, pool_size, loss_max, seed, order, best_of, trust, by, level)
    if joint:
        one = _sharing(one, balls, lowest, curve, by, against)
    found = _all_of(one, one.delta if joint else level, balls, target, lowest, curve, by, against)
    files = tuple(named(at) for at in (losses, against) if isinstance(at, str | PathLike))
    return replace(found, independent=independent, order=_named(order), sources=files)


def _named(order: Order | None) -> str:
    return order if isinstance(order, str) else "" if order is None else "order"


def _sharing(
    one: "Losses",
    balls: Mapping[str, tuple[float, ...]],
    above: tuple[float, ...],
    curve: bool,
    by: str | None,
    against: Source | None,
) -> "Losses":
    """Give each statement that is asked for its share of delta."""
    from latecomer.certify.together import n_statements

    number = n_statements(
        one.sample.rule,
        balls=len(balls),
        above=bool(above),
        curve=curve,
        by=by is not None,
        against=against is not None,
        whole_pool=one.pool_size == one.n_clients,
    )
    # Thresholds, rules and groups split their statement's share once more.
    in_each = max(1, len(one.best_of)) * max(1, len(set(one.table.groups)))
    parts = number * max(len(above), in_each)
    checked(partial(failure_probability, parts=parts), "delta", one.delta)
    return replace(one, delta=one.delta / number)


def _all_of(
    one: "Losses",
    alpha: float,
    balls: Mapping[str, tuple[float, ...]],
    target: float | None,
    above: tuple[float, ...],
    curve: bool,
    by: str | None,
    against: Source | None,
) -> CertifiedLosses:
    """Put every statement asked for beside those on the mean and the next client."""
    mean = certified_sample(one.sample, one.best_of, one.delta, alpha)
    return CertifiedLosses(
        **{field.name: getattr(mean, field.name) for field in fields(LossCertificate)},
        delta=one.delta,
        losses=one.losses,
        radii=balls,
        shifts={ball: one.within(ball, radii, target=target) for ball, radii in balls.items()},
        above=one.above(*above).certificates if above else {},
        curve=_curve(one) if curve else None,
        by=by or "",
        groups={} if by is None else one.by(by, alpha=alpha).groups,
        against=None if against is None else one.against(against),
        other="" if against is None else _called(against),
        places=one.table.order,
        trust=one.sample.trust,
    )


def _curve(one: "Losses") -> "tuple[Certificate, list[Step]]":
    found = one.curve()
    return found.certificate, list(found.steps)


def _check_together(
    pool_size: int | None, alpha: float | None, *, curve: bool, independent: bool, joint: bool
) -> None:
    for name, asked in (("curve", curve), ("independent", independent), ("joint", joint)):
        checked(flag, name, asked)
    if independent and pool_size is not None:
        raise InputError(
            f"independent cannot go with pool_size={pool_size}: clients drawn from a pool are not"
            " independent"
        )
    if joint and alpha is not None:
        raise InputError(
            f"alpha cannot go with joint, by which all statements share delta, got alpha={alpha}"
        )


def _called(against: Source) -> str:
    return str(fspath(against)) if isinstance(against, str | PathLike) else "another model"


def asked_balls(
    shifts: Mapping[str, Sequence[float]] | None, target: float | None
) -> dict[str, tuple[float, ...]]:
    """Return the radii by ball; every ball, without radii, if only a target is given.

    Examples
    --------
    >>> asked_balls({"kl": [0.1]}, 0.3), list(asked_balls({}, 0.3))
    ({'kl': (0.1,)}, ['kl', 'tv', 'chi2', 'subgroup'])
    """
    asked = _NOTHING if shifts is None else shifts
    if not isinstance(asked, Mapping):
        raise InputError(
            f"shifts must map {', '.join(_BALLS)} to radii, as in {{'kl': [0.1]}}, got {asked!r}"
        )
    if target is not None and not asked:
        return {ball: () for ball in _BALLS}
    return {ball: several(radii) for ball, radii in asked.items()}
