"""What there is to choose from: studies, methods, bounds and data sets, as records with a name."""

from dataclasses import asdict
from typing import Any

__all__ = ["bounds", "datasets", "methods", "studies"]


def bounds() -> list[dict[str, Any]]:
    """List every calculator of the catalogue, family by family."""
    from latecomer.arguments import signature
    from latecomer.bounds import CATALOGUE
    from latecomer.render import entry_record

    entries = sorted(CATALOGUE.values(), key=lambda entry: (entry.family, entry.name))
    return [entry_record(entry, signature(entry)) for entry in entries]


def datasets() -> list[dict[str, Any]]:
    """List the data sets with the keys that each takes."""
    from latecomer.eval.datasets.registry import DATASETS

    return [
        {
            "name": name,
            "description": reader.description,
            "required": list(reader.required),
            "optional": list(reader.optional),
        }
        for name, reader in DATASETS.items()
    ]


def methods() -> list[dict[str, Any]]:
    """List the federated methods: paper, protocol for new clients, kinds of predictor."""
    from latecomer.models.methods import METHODS, make_method

    return [
        {
            "name": name,
            "personalization": method.personalization,
            "needs_labels": method.needs_labels,
            "predictors": list(make_method(name).predictors),
            "paper": method.paper,
        }
        for name, method in METHODS.items()
    ]


def studies() -> list[dict[str, Any]]:
    """List the studies that come with the package."""
    from latecomer.eval.study import shipped_studies

    return [asdict(study) for study in shipped_studies()]
