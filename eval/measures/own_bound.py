"""A bound of one's own on a trained model: from the errors of the clients held out of training."""

from collections.abc import Iterator
from dataclasses import replace
from types import MappingProxyType

from latecomer.certify.own_rule import coverage_of, own_rule
from latecomer.certify.rules.declaration import Asked
from latecomer.declared import without_folder
from latecomer.eval.measures.published_bounds import DELTA, PublishedBound
from latecomer.eval.splits.registry import sampling_of
from latecomer.eval.training.trained_model import TrainedModel

_SOURCE = "errors of the clients held out for certification, one a client"


def own_values(place: str, trusted: bool, model: TrainedModel) -> Iterator[PublishedBound]:
    """Ask the bound at ``file.py:name`` for the mean error of clients like those held out.

    For every predictor; whatever the bound proves, ``bounds`` are no certificates: as a rule of
    ``certificates`` it is one.
    """
    rule, group = own_rule(place, "bound"), model.federation.certification
    sampling = sampling_of(model.federation.split.kind)
    reason = _reason(place, trusted, sampling)
    for predictor, scores in model.held_out.items():
        if rule.bound is None or not scores:
            continue
        errors = [score.error for score in scores]
        issued = rule.bound(Asked(errors, DELTA, in_order=False))
        bound = replace(
            issued,
            rigorous=False,
            reason=reason,
            predictor=predictor,
            sampling=sampling,
            delta=MappingProxyType({"clients": issued.delta_total}),
        )
        inputs = (
            ("mean_error", sum(errors) / len(errors), f"their mean: {_SOURCE}"),
            ("n_clients", float(len(errors)), "clients held out for certification"),
        )
        yield PublishedBound(group, bound, inputs)


def _reason(place: str, trusted: bool, sampling: str) -> str:
    """Say what is known of a bound, and what is not."""
    short = without_folder(place)
    if trusted:
        known = f"bound {short}, whose proof is its author's, is taken on trust"
    else:
        known = coverage_of(own_rule(place, "bound"), "bound").sentence(short, "bound")
    return known if sampling == "iid" else f"{known}; the clients are a finite pool"
