"""All that is asked of a table of losses, certified at once: what ``latecomer certify`` shows."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from os import PathLike, fspath
from pathlib import Path
from types import MappingProxyType
from typing import Any

from latecomer.certify.answers import LossAnswers
from latecomer.certify.further_statements import (
    Compared,
    certify_above,
    certify_against,
    certify_curve,
    certify_groups,
)
from latecomer.certify.populations import certify_shifted
from latecomer.certify.printed import plain
from latecomer.certify.result import Shown
from latecomer.certify.rule import DEFAULT_RULE
from latecomer.certify.sample import check_options, drawn_seed
from latecomer.certify.statements import LossCertificate, certificate_dict
from latecomer.certify.statements import certify_losses as certify_mean
from latecomer.certify.table import LossTable, Order, Source, read_losses
from latecomer.certify.together import Together, n_statements, together
from latecomer.certify.topics import loss_statements, of_ball, statement_rows, tails
from latecomer.errors import InputError

_BALLS = ("kl", "tv", "chi2", "subgroup")
_NOTHING: Mapping[Any, Any] = MappingProxyType({})


@dataclass(frozen=True, eq=False)
class CertifiedLosses(LossAnswers, Shown):
    """`LossAnswers` as the terminal, a notebook, JSON and a page show them."""

    @property
    def together(self) -> Together:
        """How surely all statements hold at once, and the level of each."""
        return together(self)

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, strings, lists and dicts: what was asked for and no more."""
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
        from latecomer.certify.lines import certified_lines

        return "\n".join(certified_lines(self))

    @property
    def sentence(self) -> str:
        """What is proved of the mean loss; with the rule conformal, of the next client's loss."""
        return loss_statements(self)[0]

    @property
    def closing(self) -> str:
        """How surely all statements hold together; empty for a single one."""
        return self.together.line

    def rows(self) -> list[dict[str, Any]]:
        """Return one record per statement: topic, what is bounded, by how much, its sentence."""
        return statement_rows(self)

    def report(self, path: str | PathLike[str], *, source: str = "losses") -> Path:
        """Write a page about it as one HTML file, in which ``source`` names the losses."""
        from latecomer.certify.page.report import write_report

        return write_report(self, path, source=source)

    def _shift(self, ball: str) -> dict[str, Any]:
        shifted = self.shifts[ball]
        said = [one.sentence for one in of_ball(self, ball) if one.sentence]
        record: dict[str, Any] = {"ball": ball, "statements": said}
        if self.radii[ball]:
            record["radii"] = list(shifted.radii)
            record["certificate"] = certificate_dict(shifted.certificate)
        if shifted.breaking is not None:
            breaking = None if math.isnan(shifted.breaking) else shifted.breaking
            record |= {"target": shifted.target, "breaking": breaking}
        return record

    def _tails(self) -> dict[str, Any]:
        if not self.above and self.curve is None:
            return {}
        record: dict[str, Any] = {}
        if self.above:
            record["above"] = {f"{t:g}": certificate_dict(one) for t, one in self.above.items()}
        if self.curve is not None:
            width, steps = self.curve
            names = ("threshold", "sampled", "upper")
            record["curve"] = {
                "certificate": certificate_dict(width),
                "steps": [dict(zip(names, step, strict=True)) for step in steps],
            }
        return record | {"statements": tails(self).sentences}


def _compared(compared: Compared | None) -> dict[str, Any]:
    if compared is None:
        return {}
    return {
        "difference": compared.difference,
        "certificate": certificate_dict(compared.certificate),
        "worse": certificate_dict(compared.worse) | {"n_worse": compared.n_worse},
    }


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
) -> CertifiedLosses:
    """Certify the mean loss of clients like these, the next client's loss, and what else is asked.

    Parameters
    ----------
    losses, delta, rule, pool_size, loss_max, seed, order, best_of
        As for :func:`latecomer.certify.statements.certify_losses`; each further
        statement is separate, at the same ``delta``.
    alpha : float, optional
        Failure probability of the next client's bound; 0.1 unless given.
    shifts : mapping of str to sequence of float
        Radii of other populations Q from the certified one, P: ``kl`` is KL(Q || P), ``chi2``
        chi2(Q || P), ``tv`` TV(Q, P); shares of a ``subgroup``.
    target : float, optional
        Mean loss to stay below: how far may clients shift?  Uses every ball if none is named.
    above, curve : sequence of float, bool
        Thresholds that a client's loss should not exceed; whether to bound all shares at once.
    by : str, optional
        Column that names each client's group, its own and settled before the losses.
    against : path, DataFrame or mapping, optional
        Another model's losses on the same clients.
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
    drawn = {"pool_size": pool_size, "loss_max": loss_max, "delta": delta}
    betting = {"rule": rule, "best_of": best_of, "seed": seed}
    further: dict[str, Any] = {"target": target, "above": above, "curve": curve}
    further |= {"by": by, "against": against, "balls": asked_balls(shifts, target)}
    holding: dict[str, Any] = {"alpha": alpha, "independent": independent, "joint": joint}
    return _read_and_certified(losses, order, drawn, betting, further, **holding)


def _read_and_certified(
    losses: Source,
    order: Order | None,
    drawn: dict[str, Any],
    betting: dict[str, Any],
    further: dict[str, Any],
    *,
    alpha: float | None,
    independent: bool,
    joint: bool,
) -> CertifiedLosses:
    """Check what is asked, by the names of `certify_losses`, read the losses and certify them."""
    ordered, at_alpha = order is not None, 0.1 if alpha is None else alpha
    chosen = check_options(alpha=at_alpha, ordered=ordered, **drawn, **betting)
    # One draw of orders for all that is asked of these losses.
    betting = {**betting, "seed": drawn_seed(betting["seed"], ordered=ordered)}
    _check_together(drawn["pool_size"], alpha, independent=independent, joint=joint)
    loss_max, by = float(drawn["loss_max"]), further["by"]
    table = read_losses(losses, loss_max=loss_max, by=by, order=order)
    if joint:
        whole_pool = drawn["pool_size"] == len(table.clients)
        at_alpha = float(drawn["delta"]) / n_statements(chosen, further, whole_pool=whole_pool)
        drawn = {**drawn, "delta": at_alpha}
    found = _certified(table, at_alpha, drawn, betting, **further)
    named = order if isinstance(order, str) else "order" if ordered else ""
    files = (losses, further["against"])
    read = tuple(str(fspath(one)) for one in files if isinstance(one, str | PathLike))
    return replace(found, independent=independent, order=named, places=table.order, sources=read)


def _check_together(
    pool_size: int | None, alpha: float | None, *, independent: bool, joint: bool
) -> None:
    if independent and pool_size is not None:
        raise InputError(
            f"independent cannot go with pool_size={pool_size}: clients drawn from a pool are not"
            " independent"
        )
    if joint and alpha is not None:
        raise InputError(
            f"alpha cannot go with joint, by which all statements share delta, got alpha={alpha}"
        )


def _certified(
    table: LossTable,
    alpha: float,
    drawn: dict[str, Any],
    betting: dict[str, Any],
    *,
    balls: Mapping[str, tuple[float, ...]],
    target: float | None,
    above: Sequence[float],
    curve: bool,
    by: str | None,
    against: Source | None,
) -> CertifiedLosses:
    mean = certify_mean(table, alpha=alpha, **drawn, **betting)
    return CertifiedLosses(
        **{one.name: getattr(mean, one.name) for one in fields(LossCertificate)},
        delta=float(drawn["delta"]),
        losses=table.losses,
        radii=balls,
        shifts={
            ball: certify_shifted(table, ball=ball, radii=reach, target=target, **drawn, **betting)
            for ball, reach in balls.items()
        },
        above=certify_above(table, above, **drawn) if len(above) else {},
        curve=certify_curve(table, **drawn) if curve else None,
        by=by or "",
        groups=_groups(table, by, alpha, **drawn, **betting),
        **_other(table, against, **drawn),
    )


def _other(table: LossTable, against: Source | None, **asked: Any) -> dict[str, Any]:
    if against is None:
        return {}
    named = str(fspath(against)) if isinstance(against, str | PathLike) else "another model"
    return {"against": certify_against(table, against, **asked), "other": named}


def asked_balls(
    shifts: Mapping[str, Sequence[float]], target: float | None
) -> dict[str, tuple[float, ...]]:
    """Return the radii by ball; every ball, without radii, if only a target is given.

    Examples
    --------
    >>> asked_balls({"kl": [0.1]}, 0.3), list(asked_balls({}, 0.3))
    ({'kl': (0.1,)}, ['kl', 'tv', 'chi2', 'subgroup'])
    """
    if target is not None and not shifts:
        return {ball: () for ball in _BALLS}
    return {ball: tuple(radii) for ball, radii in shifts.items()}


def _groups(
    table: LossTable, by: str | None, alpha: float, *, pool_size: int | None, **asked: Any
) -> Mapping[str, LossCertificate]:
    if by is None:
        return {}
    if pool_size is not None:
        raise InputError(
            "--by needs independent clients: the groups' parts of a pool are not known"
        )
    return certify_groups(table, by, alpha=alpha, **asked)
