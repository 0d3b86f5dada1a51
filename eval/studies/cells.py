"""Cells: the units of work of a study, and the configuration that each is a function of."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from latecomer.certify.rules.declaration import is_own
from latecomer.eval.measures.registry import MEASURES
from latecomer.eval.results.rows import ROWS_SCHEMA_VERSION
from latecomer.eval.routes.registry import ROUTES, read_cell
from latecomer.eval.settings.cell import DenoisingCell, SplitCell, TrainingCell
from latecomer.eval.splits.registry import IID_SPLITS
from latecomer.files import sum_of

WHOLE = "whole"
"""Kind of the cells that train on held-out clients as well, to measure what these add."""

# Raised when the code gives other numbers for the same configuration ("Numbers that changed" in the
# documentation): finished cells of the older numbers are then no longer reused.  A method's own
# version is the class attribute ``numbers_version`` (1 when it has none).
NUMBERS_VERSION: Mapping[str, int] = {"split": 1, "metrics": 1, "train": 2}
# For certificates that average over orders of the clients.
ORDERS_VERSION: Mapping[str, int] = {"orders": 2}
# What cells do not record: a setting's value from the time when there was no such setting.
_UNRECORDED: Mapping[str, str] = MappingProxyType({"bets": "product", "band": "dkw"})
# For routes that train on independent clients: the rows beside these certificates are numbers too.
OVERLAP_VERSION: Mapping[str, int] = {"overlap": 2}
DENOISING_VERSION: Mapping[str, int] = {"denoising": 1}
# For models that hold nobody out and are corrected for a new client's shares of the classes.
CORRECTED_WHOLE_VERSION: Mapping[str, int] = {"whole": 2}

# The same for single target networks; one that is not listed has never changed.
TARGET_NUMBERS_VERSION: Mapping[str, int] = {"dense500": 2}

# The same for cells that train off the CPU, or in another way than one client after another.
WAY_NUMBERS_VERSION: Mapping[str, Mapping[str, int]] = {
    "device": {"cuda": 2},
    "path": {"vectorised": 2},
}

# A network's files: their content is among the versions.
_HASHED_OF_MODEL = ("target", "encoder", "weights")

Ways = Mapping[str, tuple[str, int | None]]
"""By a method's label: the path that its cells record, and that path's version, if not as above."""
NO_WAYS: Ways = MappingProxyType({})

# The same for settings of a method.
SETTING_NUMBERS_VERSION: Mapping[str, Mapping[str, int]] = {
    "training_objective": {"bound": 2, "bound_kl": 2},
}


@dataclass(frozen=True)
class Cell:
    """One unit of work."""

    id: str  # short hash of the configuration
    config: dict[str, Any]  # plain data, everything that the cell's numbers depend on

    @property
    def kind(self) -> str:
        """``split`` (no method changes it), ``method``, ``whole``, a route's own, ``denoising``."""
        return str(self.config["kind"])

    @property
    def label(self) -> str:
        """Label of the method, with the route if that trains its own model; otherwise the kind."""
        method = self.config["method"]
        return str(method["label"]) if method else self.kind

    @property
    def seed(self) -> int | None:
        """Training seed; None for the split's own cell."""
        seed: int | None = self.config["seed"]
        return seed

    @cached_property
    def settings(self) -> SplitCell | DenoisingCell | TrainingCell:
        """The configuration, typed."""
        return read_cell(self.config)

    @property
    def rounds(self) -> int | None:
        """Rounds of training; None for the split's own cell."""
        settings = self.settings
        return settings.rounds if isinstance(settings, TrainingCell) else None


def content_id(config: Mapping[str, Any]) -> str:
    """Twelve hexadecimal digits that name a configuration; the order of keys does not matter.

    Nor does it matter in which folders files lie whose content it holds too.

    Examples
    --------
    >>> content_id({"a": 1, "b": 2}) == content_id({"b": 2, "a": 1})
    True
    >>> content_id({"data": {"name": "mnist", "root": "/data"}}) == content_id(
    ...     {"data": {"name": "mnist"}}
    ... )
    True
    """
    told = without_folders(config)
    text = json.dumps(told, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:12]


def without_folders(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out of a cell's configuration, or of a study, where the files lie that ids hash.

    Those are data sets, frozen splits and functions that shift, a network's or an encoder's file
    and weights, and a method's file and checkpoint.  Rules and bounds of one's own keep their
    paths, which rows bear.

    Examples
    --------
    >>> without_folders({
    ...     "data": {"name": "mnist", "root": "data"}, "model": {"target": "/home/me/net.py:Net"}
    ... })
    {'data': {'name': 'mnist'}, 'model': {'target': 'net.py:Net'}}
    """
    told = dict(settings)
    told |= {key: _names(told[key]) for key in ("data", "split", "shifts") if key in told}
    model = told.get("model")
    if isinstance(model, Mapping):
        hashed = {key: _names(model[key], is_path=True) for key in _HASHED_OF_MODEL if key in model}
        told["model"] = {**model, **hashed}
    if isinstance(told.get("method"), Mapping):
        told["method"] = _without_method_folders(told["method"])
    if isinstance(told.get("methods"), list | tuple):
        told["methods"] = [_without_method_folders(entry) for entry in told["methods"]]
    return told


def _without_method_folders(entry: Any) -> Any:
    if not isinstance(entry, Mapping):
        return entry
    hashed = ("name", "checkpoint") if entry.get("needs_training") is False else ("name",)
    return {**entry, **{key: _names(entry[key], is_path=True) for key in hashed if key in entry}}


def _names(value: Any, *, is_path: bool = False) -> Any:
    """Copy plain data with names of files in place of paths, and without roots."""
    if isinstance(value, Mapping):
        return {
            key: _names(one, is_path=key == "path") for key, one in value.items() if key != "root"
        }
    if isinstance(value, list | tuple):
        return [_names(one) for one in value]
    named = isinstance(value, str) and (is_path or os.path.isabs(value))
    return Path(value).name if named else value


def cells_of(resolved: Mapping[str, Any], data_hash: str, ways: Ways = NO_WAYS) -> tuple[Cell, ...]:
    """List the cells of a resolved study: one for the split, one per seed and method.

    The split's cell holds only what it depends on: another method or seed leaves it unchanged.  A
    certificate whose route trains models of its own has a cell per seed and method (only the
    methods it names, if any), and so has training with nobody held out (``given_up``); a system
    that was trained elsewhere has neither.  The simulation of ``denoising`` is a cell that depends
    on nothing else.

    What ``path`` means hangs on the shapes of data and networks: ``ways`` says it.
    """
    shared = {name: resolved[name] for name in ("study", "data", "split", "shifts")}
    shared |= {"data_hash": data_hash, "rows_schema": ROWS_SCHEMA_VERSION}
    evaluation = dict(resolved["evaluation"])
    given_up = evaluation.pop("given_up", False)
    evaluation.pop("ignore", None)  # what a report says changes no number
    split = _split(shared, evaluation.pop("domain_classifier"))
    n_seeds = len(resolved["seeds"])
    entries = [_as_recorded(entry) for entry in resolved["certificates"]]
    certificates = [_with_seeds(entry, n_seeds) for entry in entries]
    held = [entry for entry in certificates if not ROUTES[entry["route"]].trains_itself]
    routed = [entry for entry in certificates if ROUTES[entry["route"]].trains_itself]
    independent = resolved["split"]["kind"] in IID_SPLITS
    common = {**shared, "evaluation": evaluation, "certificates": held}
    models = list(_models(common, resolved, ways))
    of_routes = _held_versions(held, independent)
    made = [
        *({**one, "numbers_version": {**one["numbers_version"], **of_routes}} for one in models),
        *(
            _own(one, entry, independent)
            for one in models
            for entry in routed
            if one["train"]["rounds"]
            and one["method"]["label"] in entry.get("methods", [one["method"]["label"]])
        ),
        *(_whole(one) for one in models if given_up and one["train"]["rounds"]),
        *([_denoising(entry)] if (entry := resolved.get("denoising")) else []),
    ]
    return tuple(Cell(content_id(config), config) for config in (split, *made))


def _split(shared: Mapping[str, Any], classifier: str) -> dict[str, Any]:
    """Return the configuration of the cell that no method changes."""
    return {
        **shared,
        "kind": "split",
        **dict.fromkeys(("model", "method", "train", "seed")),
        "evaluation": {"domain_classifier": classifier},
        "bounds": [],
        "certificates": [],
        "numbers_version": {"split": NUMBERS_VERSION["split"]},
    }


def _models(
    shared: Mapping[str, Any], resolved: Mapping[str, Any], ways: Ways
) -> Iterator[dict[str, Any]]:
    """Yield the configuration of every seed and method, whatever is certified of it."""
    versions = _method_versions({method["name"] for method in resolved["methods"]})
    of_target = _target_version(resolved["model"])
    measures = resolved["evaluation"].get("measures", ())
    versions_of_measures = {name: MEASURES[name].numbers_version for name in measures}
    of_measures = {name: version for name, version in versions_of_measures.items() if version > 1}
    for seed in resolved["seeds"]:
        for method in resolved["methods"]:
            train = _train_of(method, resolved["train"])
            path, version = ways.get(method["label"], ("", None)) if "path" in train else ("", None)
            train |= {"path": path} if path else {}
            bounds = method.get("bounds", resolved["bounds"])
            yield {
                **shared,
                "kind": "method",
                "model": resolved["model"],
                "method": {key: value for key, value in method.items() if key != "bounds"},
                "train": train,
                "bounds": bounds,
                "seed": seed,
                "numbers_version": {
                    **NUMBERS_VERSION,
                    **versions[method["name"]],
                    **_checkpoint_version(method),
                    **of_target,
                    **of_measures,
                    **_bound_sources(bounds),
                    **_versions_of(train, WAY_NUMBERS_VERSION),
                    **({} if version is None else {"path": version}),
                    **_versions_of(method, SETTING_NUMBERS_VERSION),
                },
            }


def _versions_of(
    chosen: Mapping[str, Any], changed: Mapping[str, Mapping[str, int]]
) -> dict[str, int]:
    """Return the versions of settings whose numbers have changed."""
    return {
        key: versions[chosen[key]]
        for key, versions in changed.items()
        if chosen.get(key) in versions
    }


def _held_versions(held: Sequence[Mapping[str, Any]], independent: bool) -> dict[str, int]:
    """Return the versions of the routes on a trained model, where they have changed."""
    asked = sorted({str(entry["route"]) for entry in held})
    versions = {name: ROUTES[name].version(independent=independent) for name in asked}
    averaged = any("orders_seed" in entry for entry in held)
    # A route whose numbers never changed records nothing.
    return {name: version for name, version in versions.items() if version > 1} | {
        **(ORDERS_VERSION if averaged else {})
    }


def _own(model: Mapping[str, Any], entry: Mapping[str, Any], independent: bool) -> dict[str, Any]:
    """Return the configuration of a model that a route trains by itself."""
    route = ROUTES[entry["route"]]
    label = f"{model['method']['label']} {entry['route']}:{entry['rule']}"
    of_route = {
        "routes": route.version(independent=independent),
        **(OVERLAP_VERSION if independent else {}),
    }
    return {
        **model,
        "kind": route.cell_kind,
        "method": {**model["method"], "label": label},
        "bounds": [],
        "certificates": [{key: value for key, value in entry.items() if key != "methods"}],
        "numbers_version": {**model["numbers_version"], **of_route},
    }


def _whole(model: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration of a model that holds nobody out."""
    label = model["method"]["label"]
    corrected = CORRECTED_WHOLE_VERSION if "serving" in model["method"] else {}
    return {
        **model,
        "kind": WHOLE,
        "numbers_version": {**model["numbers_version"], **corrected},
        "method": {**model["method"], "label": f"{label}, all clients"},
        "of": label,
        "bounds": [],
        "certificates": [],
    }


def _denoising(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration of the simulation, which has data and a split of its own."""
    return {
        "study": "linear-denoising",
        "kind": "denoising",
        "data": {"name": "linear regression"},
        "split": {"kind": "simulated", "seed": settings["seed"]},
        "denoising": settings,
        "rows_schema": ROWS_SCHEMA_VERSION,
        **dict.fromkeys(("model", "method", "train", "seed")),
        **{"shifts": {}, "evaluation": {}, "bounds": [], "certificates": []},
        "numbers_version": dict(DENOISING_VERSION),
    }


def _train_of(method: Mapping[str, Any], train: Mapping[str, Any]) -> dict[str, Any]:
    """Leave rates for new clients out of the cells of methods that do not train them.

    If nothing is trained at all, only the device is left.
    """
    if method.get("needs_training") is False:
        kept = {"device": train["device"]} if "device" in train else {}
        return {"rounds": 0, "cohort": 1, "local_steps": 1, "batch_size": 1, **kept}
    if not train.get("tune_newcomers"):
        return dict(train)
    from latecomer.models.methods import make_method

    said = ("label", "bounds", "serving")
    hyper = {key: value for key, value in method.items() if key not in said}
    if make_method(**hyper).trains_newcomers:
        return dict(train)
    return {key: value for key, value in train.items() if key != "tune_newcomers"}


def _as_recorded(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out of a certificate how it was made before there was a choice: cells keep their id."""
    return {key: value for key, value in entry.items() if _UNRECORDED.get(key) != value}


def _with_seeds(entry: Mapping[str, Any], n_seeds: int) -> dict[str, Any]:
    """Say how many seeds share a certificate's failure probability, if they do."""
    return {**entry, **({"n_seeds": n_seeds} if entry.get("per_seed") == "union" else {})}


def _checkpoint_version(method: Mapping[str, Any]) -> dict[str, str]:
    """Return the content hash of the checkpoint of a system that was trained elsewhere."""
    file = method.get("checkpoint")
    if method.get("needs_training") is not False or not isinstance(file, str):
        return {}
    return {"checkpoint": sum_of(file)}


def _target_version(model: Mapping[str, Any]) -> dict[str, Any]:
    """Say what networks' numbers depend on besides their names: a version, or their files."""
    from latecomer.models.generators.encoders import is_own_encoder
    from latecomer.models.outside import file_hash, is_own_target, target_source_hash

    target, encoder = model["target"], model["encoder"]
    read = {"encoder_source": file_hash(encoder)} if is_own_encoder(encoder) else {}
    if is_own_target(target):
        return {"target_source": target_source_hash(target, model.get("weights")), **read}
    known = {"target": TARGET_NUMBERS_VERSION[target]} if target in TARGET_NUMBERS_VERSION else {}
    return {**known, **read}


def _bound_sources(bounds: Sequence[Any]) -> dict[str, Any]:
    """Return the content hashes of the files that hold bounds of one's own."""
    from latecomer.models.outside import file_hash

    named = (one if isinstance(one, str) else one["name"] for one in bounds)
    sources = {name: file_hash(name) for name in named if is_own(name)}
    return {"bound_sources": sources} if sources else {}


def _method_versions(names: set[str]) -> dict[str, dict[str, Any]]:
    """Say what a method's numbers depend on: its version, and its source if it is not built in."""
    from latecomer.models.methods import METHODS, find_method
    from latecomer.models.outside import source_hash

    versions: dict[str, dict[str, Any]] = {}
    for name in names:
        method = find_method(name)
        versions[name] = {"method": int(method.numbers_version)}
        if name not in METHODS:
            versions[name]["method_source"] = source_hash(method)
    return versions
