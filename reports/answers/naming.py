"""What a model is called in sentences: labels are short for files, sentences are for people."""

from collections.abc import Iterable

import pandas as pd

from latecomer.reports.frames.comparison import MODEL

__all__ = ["model_called", "named"]

CALLED = {
    "pefll": "PeFLL",
    "pfedhn": "pFedHN",
    "pfedhn_pc": "pFedHN-PC",
    "odpfl_hn": "ODPFL-HN",
    "fedavg": "FedAvg",
    "fedprox": "FedProx",
    "fedma": "FedMA (one-shot matching)",
    "fedper": "FedPer",
    "fedrep": "FedRep",
    "lg_fedavg": "LG-FedAvg",
    "per_fedavg": "Per-FedAvg",
    "pfedme": "pFedMe",
    "knn_per": "kNN-Per",
    "pfl_sampled": "PFL-sampled",
    "pfl_nearest": "PFL-nearest",
    "pfl_ensemble": "PFL-ensemble",
    "local": "Local training",
}
ROUTED = {
    "r1": "its posterior tuned (R1)",
    "r4": "certified while training (R4)",
    "r5": "its update compressed (R5)",
}
PREDICTED = {"gibbs": "weights drawn anew", "deterministic": "mean weights"}


def model_called(label: str, predictor: str = "") -> str:
    """Say a model's name as a sentence does; a label that no method begins stays as it is.

    >>> model_called("fedavg r4:product"), model_called("pefll without ridges")
    ('FedAvg, certified while training (R4)', 'PeFLL without ridges')
    >>> model_called("pefll-stochastic", "gibbs"), model_called("mine")
    ('PeFLL-stochastic, weights drawn anew', 'mine')
    """
    plain, _, route = label.rpartition(" ")
    told = ROUTED.get(route.partition(":")[0]) if ":" in route else None
    words = plain if told else label
    for name in sorted(CALLED, key=len, reverse=True):
        if words == name or words.startswith((f"{name} ", f"{name}-")):
            words = CALLED[name] + words.removeprefix(name)
            break
    if predictor:
        told = ", ".join(one for one in (told, PREDICTED.get(predictor, predictor)) if one)
    return f"{words}, {told}" if told else words


def named(frame: pd.DataFrame) -> dict[tuple[str, str], str]:
    """Name every (label, predictor) of a frame; the predictor where a label has two.

    >>> named(pd.DataFrame({"label": ["pefll", "pefll"], "predictor": ["gibbs", "deterministic"]}))
    ... # doctest: +NORMALIZE_WHITESPACE
    {('pefll', 'gibbs'): 'PeFLL, weights drawn anew',
     ('pefll', 'deterministic'): 'PeFLL, mean weights'}
    """
    pairs: Iterable[tuple[str, str]] = dict.fromkeys(
        frame[MODEL].itertuples(index=False, name=None)
    )
    labels = [label for label, _ in pairs]
    return {
        (label, predictor): model_called(label, predictor if labels.count(label) > 1 else "")
        for label, predictor in pairs
    }
