"""Checks a study as a whole; a mistake is one line: the key, what is legal, what was given."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from latecomer.certify.rule import held_to_contract, own_rule
from latecomer.certify.rules.declaration import is_own
from latecomer.checks import short, wrong
from latecomer.errors import InputError, nearest
from latecomer.eval.routes.kinds.r0 import HeldOut
from latecomer.eval.routes.registry import ROUTE_SETTINGS, ROUTES
from latecomer.eval.settings.study_sections import (
    Bounds,
    Evaluation,
    MethodSettings,
    bound_names,
    with_finite_extras,
)
from latecomer.eval.splits.further_clients import OTHER_LAWS
from latecomer.eval.splits.kinds.dealt import Natural
from latecomer.eval.splits.registry import SPLITS, Frozen, SplitSettings, check_outside
from latecomer.eval.splits.split import Split
from latecomer.eval.studies.settings import SPLIT_KINDS, Study, sections

if TYPE_CHECKING:
    from latecomer.models.engine.method import Method

__all__ = ["check_bounds", "check_scored"]

_ROUTES = tuple(ROUTE_SETTINGS)


def explain(error: ValidationError) -> str:
    """Word the first mistake; an unknown key comes before the required key it may stand for."""
    mistakes = error.errors(include_url=False)
    first = min(mistakes, key=lambda item: item["type"] != "extra_forbidden")
    loc = tuple(str(part) for part in first["loc"])
    key = _dotted(loc)
    kind = first["type"]
    if kind == "extra_forbidden":
        return unknown_key(loc)
    if kind == "missing":
        return f"{key} must be given"
    if kind.startswith("union_tag"):
        tag, choices = ("kind", SPLIT_KINDS) if loc[0] == "split" else ("route", _ROUTES)
        legal = ", ".join(choices)
        if not isinstance(first["input"], dict):
            return f"{key} must be a mapping of keys to values, got {short(first['input'])}"
        if kind == "union_tag_not_found":
            return f"{key}.{tag} must be given, one of {legal}"
        named = first["input"].get(tag)
        hint = nearest(named, choices) if isinstance(named, str) else ""
        return f"{key}.{tag} must be one of {legal}, got {short(named)}{hint}"
    return f"{key}: {wrong(first)}"


def _dotted(loc: Sequence[str]) -> str:
    """Join a location without kind and route, which pydantic adds: they are no keys of the file."""
    if len(loc) > 1 and loc[0] == "split" and loc[1] in SPLIT_KINDS:
        loc = (loc[0], *loc[2:])
    if len(loc) > 2 and loc[0] == "certificates" and loc[2] in _ROUTES:
        loc = (*loc[:2], *loc[3:])
    return ".".join(loc)


def unknown_key(loc: Sequence[str]) -> str:
    """Refuse a key; suggest one of the same section, or the place where its name belongs."""
    here = ".".join("*" if part.isdecimal() else part for part in loc[:-1])
    prefix = _dotted(loc).removesuffix(loc[-1])
    siblings = list(sections()[here].model_fields)
    homes = {
        _dotted((*place.split("."), loc[-1])).lstrip(".")
        for place, model in sections().items()
        if loc[-1] in model.model_fields and "*" not in place
    }
    hint = nearest(loc[-1], siblings).replace("'", "").replace("mean ", f"mean {prefix}")
    # The simulation has its own clients and rounds, which are seldom the ones that are meant.
    elsewhere = sorted(
        homes - {_dotted(loc)}, key=lambda home: (home.startswith("denoising."), home)
    )
    if elsewhere and (not prefix or not hint):
        hint = f"; did you mean {elsewhere[0]}?"
    kind = f" of a {loc[1]} split" if loc[0] == "split" else ""
    return f"{_dotted(loc)} is no setting{kind}{hint}"


def check_bounds(study: Study) -> None:
    """Import the study's own bounds and simulate their coverage, unless they are trusted.

    Refused is an entry that is none, or fails, or is listed again, and one in a study that holds
    out no clients that it could be asked of.
    """
    for key, bounds in _listed(study):
        named = bound_names(bounds)
        if len(named) < len(bounds):
            raise InputError(f"{key} must not repeat an entry, got {', '.join(named)}")
        for place, (name, trusted) in enumerate(named.items()):
            if not is_own(name):
                continue
            try:
                held_to_contract(name, trust=trusted, kind="bound")
            except InputError as error:
                raise InputError(f"{key}.{place}: {error}") from error
            if not isinstance(study.split, Frozen) and not study.split.certify:
                raise InputError(_no_clients(f"{key}.{place}", name))


def check_scored(study: Study, split: Split) -> None:
    """Refuse own bounds of a split that holds out too few clients for them."""
    held_out = len(split.certification)
    for key, bounds in _listed(study):
        for place, name in enumerate(bound_names(bounds)):
            if not is_own(name):
                continue
            if not held_out:
                raise InputError(_no_clients(f"{key}.{place}", name))
            if held_out < (n := own_rule(name, "bound").least):
                raise InputError(f"{key}.{place}: bound {name} needs {n} clients, got {held_out}")


def _no_clients(key: str, name: str) -> str:
    return f"{key}: bound {name} needs held-out clients: split.certify must be above 0"


def _listed(study: Study) -> Iterator[tuple[str, Bounds]]:
    """Yield every list of bounds of a study and its key."""
    yield "bounds", study.bounds
    for index, method in enumerate(study.methods):
        if method.bounds is not None:
            yield f"methods.{index}.bounds", method.bounds


_RESERVE = 0.2
_KL_APART = 1e-9
_EVERY = 30  # rounds, as in PeFLL's published code


def parse_study(raw: Mapping[str, Any]) -> Study:
    """Check a study given as plain data; what `Study.resolved` gives loads back to the same."""
    try:
        study = Study.model_validate(raw)
    except ValidationError as error:
        raise InputError(explain(error)) from None
    study = study.model_copy(
        update={
            "split": _completed_split(study),
            "methods": tuple(
                method.model_copy(update={"label": method.label or _label(index, method.name)})
                for index, method in enumerate(study.methods)
            ),
        }
    )
    _check_model(study)
    _check_methods(study)
    entries = enumerate(study.certificates)
    certificates = tuple(one.completed(f"certificates.{place}", study) for place, one in entries)
    study = study.model_copy(update={"certificates": certificates})
    _check_folds(study)
    _check_listed_once(study)
    check_bounds(study)
    study = study.model_copy(update={"evaluation": _completed_evaluation(study)})
    _check_groups(study)
    _check_other_laws(study)
    _check_asked(study)
    _check_certified(study)
    return study


def _completed_evaluation(study: Study) -> Evaluation:
    """Fill in how often rounds are measured if the best one is chosen."""
    if "convergence" in (study.evaluation.measures or ()) and not study.evaluation.every:
        raise InputError(
            "evaluation.every must be at least 1 for evaluation.measures=[convergence], "
            "which is measured along the training, got 0"
        )
    _check_validation(study)
    if study.train.selection == "last":
        return study.evaluation
    every = study.evaluation.every or min(_EVERY, study.train.rounds)
    return study.evaluation.model_copy(update={"every": every})


def _check_validation(study: Study) -> None:
    """Refuse choices by validation data if there are no such data."""
    from latecomer.eval.scoring.label_shift import PRIORS

    priors = {entry.serving.prior for entry in study.methods if entry.serving is not None}
    asked = {
        **{f"serving.prior={one}": PRIORS[one].reads_validation for one in sorted(priors)},
        "train.selection=validation": study.train.selection == "validation",
        "train.tune_newcomers": bool(study.train.tune_newcomers),
    }
    none = not isinstance(study.split, Frozen) and not study.split.validation
    for name, chooses in asked.items():
        if chooses and none:
            raise InputError(f"{name} needs split.validation above 0, got 0.0")
    own = [entry.route for entry in study.certificates if ROUTES[entry.route].trains_itself]
    if study.train.tune_newcomers and (own or study.evaluation.given_up):
        what = f"certificates of route {own[0]}" if own else "evaluation.given_up"
        raise InputError(
            f"train.tune_newcomers chooses for the study's models, not for those that {what} "
            "trains: set novel_lr in methods instead"
        )


def _completed_split(study: Study) -> SplitSettings:
    """Fill in what depends on other sections, and pin a frozen split by its checksum."""
    split = study.split
    if isinstance(split, Frozen):
        return split.completed()
    return split.model_copy(update={"reserve": _reserve(study, split.kind, split.reserve)})


def _reserve(study: Study, kind: str, reserve: float | None) -> float:
    natural = SPLITS[kind].natural
    if reserve is None:
        reserve = _RESERVE if dict(study.shifts)["extrapolation"] and not natural else 0.0
    if natural and reserve > 0:
        raise InputError(f"split.reserve must be 0 for a natural split, got {reserve}")
    if dict(study.shifts)["extrapolation"] and not reserve > 0:
        why = "which a natural split cannot have" if natural else f"got {reserve}"
        raise InputError(f"shifts.extrapolation needs split.reserve above 0, {why}")
    return reserve


def _check_folds(study: Study) -> None:
    """Refuse different numbers of folds: a held-out client is scored once."""
    folds = [(i, one.folds) for i, one in enumerate(study.certificates) if isinstance(one, HeldOut)]
    for index, number in folds[1:]:
        if number != folds[0][1]:
            raise InputError(
                f"certificates.{index}.folds must be {folds[0][1]} like certificates."
                f"{folds[0][0]}.folds, for a client is scored once, got {number}"
            )


def _check_listed_once(study: Study) -> None:
    """Refuse a rule that is listed again: rows tell certificates apart by route and rule."""
    told = dict[tuple[object, ...], int]()
    for index, entry in enumerate(study.certificates):
        for label in getattr(entry, "methods", None) or ("",):
            name = (entry.route, getattr(entry, "rule", ""), label)
            if name in told:
                raise InputError(
                    f"certificates.{index} must be of another route or rule than certificates."
                    f"{told[name]}, got {name[0]} {name[1]} again: levels are for two studies, "
                    "shifts, radii and thresholds for one entry"
                )
            told[name] = index


def _check_certified(study: Study) -> None:
    """Refuse to lead with the certificate of a model that the study does not have."""
    labels = [str(method.label) for method in study.methods]
    if study.certify_model is not None and study.certify_model not in labels:
        raise InputError(
            f"certify_model must be the label of one of the methods ({', '.join(labels)}), got "
            f"{study.certify_model}{nearest(study.certify_model, labels)}"
        )


def _check_groups(study: Study) -> None:
    split = study.split
    if study.evaluation.given_up and not isinstance(split, Frozen) and not split.certify:
        raise InputError("evaluation.given_up needs clients to give up: split.certify above 0")
    if isinstance(split, Frozen):
        return  # its groups are known once the file is read
    held_out = any(entry.needs_certification for entry in study.certificates)
    if held_out and not split.certify:
        raise InputError("certificates need held-out clients: split.certify must be above 0")
    if isinstance(split, Natural) and (split.certify_groups or split.novel_groups):
        return  # their sizes are known once the data are read
    shifted = [name for name, severities in study.shifts if severities]
    if shifted and not split.novel:
        raise InputError(f"shifts.{shifted[0]} needs new clients: split.novel must be above 0")
    groups = (split.certify, split.novel)
    shares = sum(part for part in groups if isinstance(part, float))
    counts = sum(part for part in groups if isinstance(part, int))
    clients = split.clients  # a natural split counts its clients when the data are read
    if shares >= 1 or (clients and counts + shares * clients >= clients):
        raise InputError(
            f"split.certify={split.certify} and split.novel={split.novel} leave no seen client"
            + (f" of {clients}" if clients else "")
        )
    if held_out and clients:
        sizes = [round(part * clients) if isinstance(part, float) else part for part in groups]
        check_outside(split.kind, *sizes)


def check_held_back(study: Study, split: Split) -> None:
    """Refuse what would train on clients of a held-back group, or takes all as drawn alike."""
    if not split.grouped:
        return
    if study.evaluation.given_up:
        raise InputError(
            "evaluation.given_up must be left out where split.certify_groups or split.novel_groups "
            "is given: it trains on the certified clients too, whatever their group"
        )
    for index, entry in enumerate(study.certificates):
        if not entry.needs_certification:
            raise InputError(
                f"certificates.{index}.route must be r0, r2 or r3 beside split.certify_groups and "
                f"split.novel_groups, got {entry.route}, which takes all clients as drawn alike"
            )


def _check_other_laws(study: Study) -> None:
    """Refuse populations that do not fit the split's kind, and two at the same distance from it."""
    for name, kind in OTHER_LAWS.items():
        told = dict[float, int]()
        for index, other in enumerate(getattr(study.shifts, name)):
            key = f"shifts.{name}.{index}"
            if isinstance(study.split, Frozen):
                continue  # its law is known once the file is read
            if study.split.kind != kind.split:
                raise InputError(f"{key} needs split.kind {kind.split}, got {study.split.kind}")
            first = getattr(study.split, kind.own)
            try:
                kind.check(other, len(first))
            except ValueError as error:
                raise InputError(f"{key} {error}") from error
            kl = kind.distances(first, other)["kl"]
            same = [one for far, one in told.items() if abs(far - kl) < _KL_APART]
            if same:
                raise InputError(
                    f"{key} must differ in its KL divergence, by which rows tell populations "
                    f"apart, from shifts.{name}.{same[0]}, got {kl:g} for both"
                )
            told[kl] = index


def _label(index: int, name: str) -> str:
    """Return the label of a method: its name, also where the study gives an import path."""
    from latecomer.models.methods import find_method
    from latecomer.models.outside import is_path

    if not is_path(name):
        return name
    try:
        return find_method(name).name
    except ValueError as error:
        raise InputError(f"methods.{index}: {error}") from None


def _check_model(study: Study) -> None:
    """Find networks of one's own and hold their settings to what they take."""
    from latecomer.models.generators.encoders import is_own_encoder
    from latecomer.models.outside import import_encoder, import_target, is_own_target

    own, model = study.model.own(), study.model
    try:
        if is_own_encoder(model.encoder):
            import_encoder(model.encoder)
    except ValueError as error:
        raise InputError(f"model.encoder: {' '.join(str(error).split())}") from None
    if (model.frozen is None) != (model.weights is None):
        absent, given = ("weights", "frozen") if model.frozen else ("frozen", "weights")
        raise InputError(f"model.{given} needs model.{absent} beside it, got none")
    if model.stem and not model.frozen:
        raise InputError(f"model.stem needs model.frozen beside it, got stem={model.stem!r} alone")
    if not is_own_target(model.target):
        for key in own:
            raise InputError(unknown_key(("model", key)))
        if model.frozen:
            raise InputError(f"model.frozen needs a network of one's own, got {model.target!r}")
        return
    if model.weights and not Path(model.weights).is_file():
        raise InputError(
            f"model.weights: there is no file {model.weights}, looked for from {Path.cwd()}"
        )
    try:
        import_target(study.model.target, own)
    except ValueError as error:
        raise InputError(f"model: {' '.join(str(error).split())}") from None


def _check_methods(study: Study) -> None:
    from latecomer.models.methods import known_names, make_method
    from latecomer.models.outside import is_path

    given: dict[str, int] = {}
    known = known_names()
    for index, entry in enumerate(study.methods):
        key = f"methods.{index}"
        if entry.name not in known and not is_path(entry.name):
            raise InputError(
                f"{key}: no method is called {entry.name!r}{nearest(entry.name, known)}"
            )
        label = entry.label or entry.name
        if label in given:
            raise InputError(
                f"{key}.label: methods.{given[label]} is already called {label!r}; give one a label"
            )
        given[label] = index
        _check_checkpoint(f"{key}.checkpoint", entry)
        try:
            method = make_method(entry.name, **entry.hyper())
            with_finite_extras(entry)  # what a method of one's own does not declare
        except (ValueError, TypeError) as error:
            raise InputError(f"{key}: {' '.join(str(error).split())}") from None
        _check_masking(study, key, entry, method.personalization)
        if entry.serving is not None:
            _check_serving(study, key, entry, method)


def _check_serving(study: Study, key: str, entry: MethodSettings, method: "Method") -> None:
    """Refuse a correction of models that read a client's labels, or that a route would miss."""
    if method.needs_labels:
        raise InputError(
            f"{key}.serving must be left out for methods that read a new client's labels, "
            f"got {entry.name}"
        )
    for index, asked in enumerate(study.certificates):
        theirs = getattr(asked, "methods", None)
        if ROUTES[asked.route].trains_itself and (theirs is None or entry.label in theirs):
            raise InputError(
                f"certificates.{index}: route {asked.route} trains and serves models of its own, "
                f"without {key}.serving: name its methods, or leave {key}.serving out"
            )


def _check_checkpoint(key: str, entry: MethodSettings) -> None:
    """Refuse a system that was trained elsewhere if its checkpoint file is missing."""
    file = entry.hyper().get("checkpoint")
    absent = isinstance(file, str) and not Path(file).is_file()
    if absent and entry.hyper().get("needs_training") is False:
        raise InputError(f"{key}: there is no file {file}, looked for from {Path.cwd()}")


def _check_asked(study: Study) -> None:
    """Refuse misspelt labels; other unknown labels may be of methods removed from the study.

    Also refuse a route that trains for a system that was trained elsewhere.
    """
    labels = [str(entry.label) for entry in study.methods]
    given = {one.label for one in study.methods if one.hyper().get("needs_training") is False}
    for index, entry in enumerate(study.certificates):
        for name in getattr(entry, "methods", None) or ():
            hint = nearest(name, labels)
            if name not in labels and hint:
                raise InputError(
                    f"certificates.{index}.methods must be labels of methods, got {name!r}{hint}"
                )
            if name in given:
                raise InputError(
                    f"certificates.{index}.methods must be of methods that train, for route "
                    f"{entry.route} trains models of its own, got {name!r}"
                )


def _check_masking(study: Study, key: str, entry: MethodSettings, protocol: str) -> None:
    masked = study.evaluation.classes
    blind = protocol in ("unlabelled", "global", "given")
    if masked != "all" and blind and study.evaluation.class_set != "given":
        raise InputError(
            f"evaluation.classes={masked} tells {key} ({entry.label}, protocol {protocol}) which "
            "classes a client has: say evaluation.class_set: given, or use all"
        )
