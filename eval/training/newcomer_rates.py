"""Choice of the new clients' learning rate, on seen clients that are served as if they were new.

It uses no data of new or held-out clients: seen clients are refitted from their support, as
the method refits new clients, and scored on their validation data. The method was trained on these
supports: where refitting starts from weights that fit them (fine-tuned FedAvg, Per-FedAvg, FedRep,
LG-FedAvg, Ditto, APFL), the error hardly depends on the rate: the choice says little of new
clients.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from latecomer.errors import InputError
from latecomer.eval.federation.groups import Federation, Group
from latecomer.eval.results.artifacts import Artifact
from latecomer.eval.scoring.scores import group_score
from latecomer.eval.scoring.serving import score_group
from latecomer.models.engine.growing import subset
from latecomer.models.engine.method import Method
from latecomer.models.task.state import State
from latecomer.models.task.task import Task

# The usual number of new clients in a study; the same clients are used for all rates.
REFITTED = 10


@dataclass(frozen=True)
class Rates:
    """Learning rates tried on seen clients refitted as new clients.

    Attributes
    ----------
    tried : tuple of (float, float)
        Rates with their mean validation errors, in the study's order.
    chosen : float
        The rate with the lowest error (the first, if tied).
    n_clients : int
        Seen clients refitted.
    """

    tried: tuple[tuple[float, float], ...]
    chosen: float
    n_clients: int

    def findings(self, common: Mapping[str, Any]) -> tuple[dict[str, Any], Artifact]:
        """Return the row ``novel_lr`` and the table of the rates tried."""
        told = ", ".join(f"{rate:g}: {error:.3f}" for rate, error in self.tried)
        row = {
            **common,
            "group": "seen",
            "shift": "none",
            "n_clients": self.n_clients,
            "metric": "novel_lr",
            "value": self.chosen,
            "message": f"least validation error of seen clients refitted as new clients ({told})",
        }
        table = [
            {"rate": rate, "error": error, "chosen": int(rate == self.chosen)}
            for rate, error in self.tried
        ]
        return row, Artifact(kind="newcomer_rates", table=table, axes=("rate",))


def tune_newcomers(
    method: Method,
    task: Task,
    state: State,
    federation: Federation,
    rates: Sequence[float],
    *,
    classes: str,
    seed: int,
) -> tuple[Method, Rates]:
    """Choose ``novel_lr`` among ``rates``; return the method with it and the rates tried.

    Parameters
    ----------
    method, task, state
        The trained method, which trains new clients.
    federation : Federation
        Its first ``REFITTED`` seen clients (ids are permuted) are refitted.
    rates : sequence of float
        Each above 0.
    classes : str
        Masking of absent classes, as in all measurements.
    seed : int
        Training seed.

    Raises
    ------
    InputError
        A seen client has no validation data.
    """
    whole = federation.validation.clients
    if not len(whole):
        raise InputError("train.tune_newcomers needs validation data of every seen client")
    chosen = subset(whole, range(min(REFITTED, len(whole))))
    # Any name but ``seen``, so that the clients are served as new clients.
    group = Group("refitted", "none", None, chosen)
    tried = []
    for rate in rates:
        fitted = replace(method, novel_lr=rate)  # type: ignore[call-arg]
        predictor = fitted.predictors[-1]
        scores = score_group(
            fitted, task, state, group, classes=classes, predictor=predictor, seed=seed
        )
        tried.append((float(rate), group_score(scores).per_client))
    best = min(tried, key=lambda pair: pair[1])[0]
    tuning = Rates(tuple(tried), best, len(chosen))
    return replace(method, novel_lr=best), tuning  # type: ignore[call-arg]
