"""R0: an inequality over the scores of clients that were held out of training."""

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field

from latecomer.bounds.checks import failure_probability
from latecomer.certify.further_statements import BANDS
from latecomer.certify.page.svg import CERTIFIED
from latecomer.certify.rule import (
    BEST_OF,
    DEFAULT_RULE,
    MEAN_RULES,
    RULE_WITHOUT_ORDERS,
    RULES,
    held_to_contract,
    level_of,
    rules_for,
)
from latecomer.certify.rules.declaration import is_own
from latecomer.checks import checked, short
from latecomer.errors import InputError
from latecomer.eval.routes.kinds.declaration import AskedShifts, Route, names_of, shifts_asked
from latecomer.eval.routes.scored_clients import BETS
from latecomer.eval.schema import Count, Legal, Number, Probability, Seed, one_of, sequence
from latecomer.eval.settings.cell import RouteSettings, StudyLike
from latecomer.eval.splits.registry import check_outside, sampling_of
from latecomer.eval.splits.split import Split
from latecomer.models.outside import file_hash

_DELTA = 0.05
_ALPHA = 0.1
_MEAN = ", ".join(MEAN_RULES)


def _with_an_order(value: Any) -> Any:
    if value == "wsr":
        raise ValueError("must not hang on the order of the clients: use wsr_averaged, got wsr")
    return value


_NAMED = one_of([*rules_for("r0"), *rules_for("zero_one"), BEST_OF], "file.py:name")


def _named_or_own(value: Any) -> Any:
    return value if is_own(value) else _NAMED(value)


MeanRule = Annotated[str, BeforeValidator(one_of(MEAN_RULES)), BeforeValidator(_with_an_order)]
RuleName = Annotated[
    str,
    BeforeValidator(_named_or_own),
    BeforeValidator(_with_an_order),
    Legal(", ".join(f"`{name}`" for name in (*_NAMED.names, "file.py:name"))),
]
Threshold = Annotated[Number, Field(ge=0, lt=1)]
Radius = Annotated[Number, Field(ge=0)]
ShareOfClients = Annotated[Number, Field(gt=0, le=1)]
_BALLS = tuple(name for name, rule in rules_for("r0").items() if rule.states == "populations")
# Settings that some rules require and no other rule accepts.
_GIVEN_FOR: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "thresholds": ("fraction_above",),
        "radii": tuple(name for name in _BALLS if name != "subgroup"),
        "shares": ("subgroup",),
    }
)
# Settings that some rules accept and no other rule does.
_TAKEN_BY: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"target": _BALLS, "bets": _BALLS, "band": ("error_curve",)}
)


class HeldOut(RouteSettings):
    """Route R0: an inequality over the scores of clients that were held out of training.

    Attributes
    ----------
    rule : str
        One of the rules for ``r0``, ``best_of``, or ``file.py:name`` of one's own, which is refused
        where its simulated coverage fails, unless ``trust`` is true.  Unless given, ``blend``; in a
        pool, where a predictor is gibbs and ``realised`` is not true, ``product_mixture``, which is
        about expected errors.
    best_of : tuple of str
        Rules of the mean; the smallest bound is taken, each at its part of ``delta``.
    delta : float
        Total failure probability; .05 unless given.
    alpha : float
        The same of the next client's quantile (``conformal``); .1 unless given.
    folds : int
        1: a client is served from its support and scored on its query data. More: its support and
        query points are cut into folds, each scored by the model served from the others.
    thresholds : tuple of float
        Errors for ``fraction_above``; they share ``delta``.
    radii : tuple of float
        How far other populations Q of clients may be from the certified one, P: TV(Q, P) for
        ``tv_ball``, KL(Q || P) for ``kl_ball``, chi2(Q || P) for ``chi2_ball``.  All bounds hold at
        once.
    shares : tuple of float
        Least shares of clients that a group makes up, for ``subgroup``; all hold at once.
    target : float
        Mean error for which these rules report the breaking radius.
    bets : str
        What these rules bet by: ``product_mixture``, near the radii declared, unless ``product``
        is asked for, which a single client with error 1 leaves nothing to say.
    band : str
        How ``error_curve`` is bounded for independent clients: ``local_levels`` unless ``dkw`` is
        asked for; a finite pool has its own band.
    shifts : bool or tuple of str
        The study's shifts under which the held-out clients are certified as well.
    orders_seed : int
        Seed of the permutations of the split's random order of clients that ``blend`` and the
        rules called averaged average over; 0 unless given.
    realised : bool
        Some rules for pools are about scores as measured: for a randomised predictor (gibbs) they
        certify the draws that were made, not its expected error, and are refused unless this is
        true.
    trust : bool
        Whether a rule of one's own is used without simulating its coverage.
    rule_source : str
        Hash of its file, filled in, no other is accepted: with another file the cell is another.
    """

    needs_certification: ClassVar[bool] = True

    route: Literal["r0"] = "r0"
    rule: RuleName | None = None
    best_of: Annotated[tuple[MeanRule, ...], BeforeValidator(sequence)] | None = None
    delta: Probability | None = None
    alpha: Probability | None = None
    folds: Count = 1
    thresholds: (
        Annotated[tuple[Threshold, ...], BeforeValidator(sequence), Field(min_length=1)] | None
    ) = None
    radii: Annotated[tuple[Radius, ...], BeforeValidator(sequence), Field(min_length=1)] | None = (
        None
    )
    shares: (
        Annotated[tuple[ShareOfClients, ...], BeforeValidator(sequence), Field(min_length=1)] | None
    ) = None
    target: Probability | None = None
    bets: Annotated[str, BeforeValidator(one_of(BETS))] | None = None
    band: Annotated[str, BeforeValidator(one_of(BANDS))] | None = None
    shifts: AskedShifts = False
    orders_seed: Seed | None = None
    realised: Annotated[bool, Field(strict=True)] | None = None
    trust: Annotated[bool, Field(strict=True)] | None = None
    rule_source: str | None = None

    @property
    def level(self) -> float:
        """Total failure probability, or the share of clients that a quantile leaves out."""
        level = getattr(self, level_of(str(self.rule)))
        return 0.0 if level is None else level

    @property
    def certified_shifts(self) -> tuple[str, ...]:
        """Shifts that held-out clients are certified under as well."""
        return names_of(self.shifts)

    @property
    def _rules(self) -> tuple[str, ...]:
        return self.best_of or (str(self.rule),)

    def completed(self, key: str, study: StudyLike) -> Self:
        """Fill in rule, level, orders and shifts; refuse what the rule cannot certify."""
        rule = self._rule(key, study)
        self._check_own(key, rule)
        rules = self.best_of or (rule,)
        level = level_of(rule)
        unused = "alpha" if level == "delta" else "delta"
        if getattr(self, unused) is not None:
            raise InputError(f"{key}.{unused} is no setting of rule {rule}, which takes {level}")
        self._check_given(key, rule)
        parts = len(self.best_of or self.thresholds or (rule,))
        split = partial(failure_probability, parts=parts)
        checked(split, f"{key}.{level}", getattr(self, level) or _DELTA)
        if rule == "error_curve" and (self.delta or _DELTA) > 0.5:
            raise InputError(
                f"{key}.delta must be at most 0.5 for an error curve, got {self.delta}"
            )
        kind = study.split.kind
        if kind != "frozen":  # what a file holds is known once it is read
            for one in rules:
                _check_sampling(key, one, kind)
        default = _ALPHA if level == "alpha" else _DELTA
        averaged = any(RULES[one].orders for one in rules)
        pooled = kind != "frozen" and sampling_of(kind) == "finite-pool"
        if self.band is not None and pooled:
            raise InputError(f"{key}.band is no setting of a finite pool, which has its own")
        if self.orders_seed is not None and not averaged:
            raise InputError(
                f"{key}.orders_seed is no setting of rule {rule}, which draws no order"
            )
        if self.realised is not None and not any(RULES[one].realised for one in rules):
            raise InputError(
                f"{key}.realised is no setting of rule {rule}, which covers expected errors too"
            )
        return self.model_copy(
            update={
                "rule": rule,
                "rule_source": self._source(key, rule),
                level: getattr(self, level) or default,
                "orders_seed": self.orders_seed or 0 if averaged else None,
                "bets": self.bets or BETS[0] if rule in _BALLS else None,
                "band": self.band or BANDS[0] if rule == "error_curve" and not pooled else None,
                "shifts": shifts_asked(f"{key}.shifts", self.shifts, study),
            }
        )

    def check_split(self, key: str, split: Split) -> None:
        """Refuse too few clients, too small ones, and a rule that does not cover their sampling."""
        k = len(split.certification)
        if not k:
            raise InputError("certificates need held-out clients, and the split has none")
        for rule in self._rules:
            _check_sampling(key, rule, split.kind)
            if k < RULES[rule].least:
                raise InputError(f"{key}.rule {rule} needs {RULES[rule].least} clients, got {k}")
        check_outside(split.kind, k, split.n_outside)
        points = min(len(client.support) + len(client.query) for client in split.certification)
        if self.folds > points:
            raise InputError(
                f"{key}.folds must be at most the {points} points of the smallest held-out "
                f"client, got {self.folds}"
            )

    def check_predictors(self, key: str, split_kind: str, predictors: Sequence[str]) -> None:
        """Refuse rules about scores as measured for randomised predictors, unless ``realised``."""
        if "gibbs" not in predictors or sampling_of(split_kind) == "iid" or self.realised:
            return
        for rule in self._rules:
            if RULES[rule].realised:
                raise InputError(
                    f"{key}.rule {rule} is about the scores of a pool as measured, not about the "
                    "expected errors of a gibbs predictor: say realised: true, or use "
                    f"{RULE_WITHOUT_ORDERS}"
                )

    def _source(self, key: str, rule: str) -> str | None:
        """Return the hash of a rule of one's own; refuse that of another file."""
        source = file_hash(rule) if is_own(rule) else None
        if self.rule_source not in (None, source):
            whose = f"the file of {rule}" if source else "a rule of one's own"
            raise InputError(
                f"{key}.rule_source is filled in with the hash of {whose}: leave it out, got "
                f"{short(self.rule_source)}"
            )
        return source

    def _check_own(self, key: str, rule: str) -> None:
        """Simulate the coverage of a rule of one's own, unless it is trusted."""
        if not is_own(rule):
            if self.trust is not None:
                raise InputError(f"{key}.trust is about rules of one's own, got rule {rule}")
            return
        try:
            held_to_contract(rule, trust=bool(self.trust))
        except InputError as error:
            raise InputError(f"{key}.{error}") from error

    def _check_given(self, key: str, rule: str) -> None:
        """Refuse settings of other rules, missing settings of the rule, and illegal radii."""
        for name, rules in _GIVEN_FOR.items():
            given = getattr(self, name) is not None
            if given != (rule in rules):
                why = "is no setting of" if given else "must be given for"
                raise InputError(f"{key}.{name} {why} rule {rule}")
        for name, rules in _TAKEN_BY.items():
            if getattr(self, name) is not None and rule not in rules:
                raise InputError(f"{key}.{name} is no setting of rule {rule}")
        if rule == "tv_ball" and max(self.radii or ()) > 1:
            raise InputError(
                f"{key}.radii must be at most 1 for tv_ball, got {max(self.radii or ()):g}"
            )

    def _rule(self, key: str, study: StudyLike) -> str:
        if self.best_of is None:
            if self.rule is None:
                return self._default_rule(study)
            if self.rule == BEST_OF:
                raise InputError(f"{key}.best_of must list two or more of {_MEAN}")
            return self.rule
        if len(self.best_of) < 2:
            given = list(self.best_of)
            raise InputError(f"{key}.best_of must list two or more of {_MEAN}, got {given}")
        if self.rule not in (None, BEST_OF):
            raise InputError(f"{key}: give either rule or best_of, got both")
        return BEST_OF

    def _default_rule(self, study: StudyLike) -> str:
        """Return the rule of the mean that covers every predictor of the study."""
        pool = sampling_of(study.split.kind) == "finite-pool"
        drawn = pool and not self.realised and "gibbs" in study.predictors
        return RULE_WITHOUT_ORDERS if drawn else DEFAULT_RULE


def _check_sampling(key: str, rule: str, split_kind: str) -> None:
    """Refuse a rule whose proof does not cover how the split's clients were drawn."""
    sampling = sampling_of(split_kind)
    if sampling == "finite-pool" and not RULES[rule].finite_pool:
        raise InputError(
            f"{key}.rule {rule} needs independent clients, and a {split_kind} split is a finite "
            "pool: leave the rule out, which is blend then"
        )
    if sampling == "iid" and not RULES[rule].iid:
        raise InputError(
            f"{key}.rule {rule} is for finite pools, and clients of the split {split_kind} are "
            "independent: leave the rule out, which is blend then"
        )


ROUTES = (
    Route(
        name="r0",
        settings=HeldOut,
        work="latecomer.eval.routes.r0_held_out:certify_held_out",
        pool_numbers_version=2,
        heading="clients held out (R0)",
        bound_names={BEST_OF: "held-out clients, best of several rules"},
        rule_words="held-out clients, {}",
        colour=CERTIFIED,
        mark="s",
    ),
)
