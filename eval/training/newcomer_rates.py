"""Which rate newcomers train with, chosen on seen clients that are served as if they were new.

Nothing of a novel or certification client has part in it: seen clients are refitted from their
support, as the method refits newcomers, and judged by their validation data.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from latecomer.eval.errors import InputError
from latecomer.eval.federation.groups import Federation, Group
from latecomer.eval.results.artifacts import Artifact
from latecomer.eval.scoring.scores import group_score
from latecomer.eval.scoring.serving import score_group
from latecomer.models.engine.growing import subset
from latecomer.models.engine.method import Method
from latecomer.models.task.state import State
from latecomer.models.task.task import Task

# As many as a study's newcomers usually are; their errors are paired over rates.
REFITTED = 10


@dataclass(frozen=True)
class Rates:
    """Rates tried on seen clients refitted as newcomers.

    Attributes
    ----------
    tried : tuple of (float, float)
        Rate and mean validation error, in the study's order.
    chosen : float
        The rate of least error, the first of equals.
    n_clients : int
        Seen clients refitted.
    """

    tried: tuple[tuple[float, float], ...]
    chosen: float
    n_clients: int

    def findings(self, common: Mapping[str, Any]) -> tuple[dict[str, Any], Artifact]:
        """Return the row ``novel_lr`` and the table of what was tried."""
        told = ", ".join(f"{rate:g}: {error:.3f}" for rate, error in self.tried)
        row = {
            **common,
            "group": "seen",
            "shift": "none",
            "n_clients": self.n_clients,
            "metric": "novel_lr",
            "value": self.chosen,
            "message": f"least validation error of seen clients refitted as newcomers ({told})",
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
    """Choose ``novel_lr`` among ``rates``; the method with it, and what was tried.

    Parameters
    ----------
    method, task, state
        The trained method, which trains newcomers.
    federation : Federation
        Its first ``REFITTED`` seen clients (ids are permuted) are refitted.
    rates : sequence of float
        Each above 0.
    classes : str
        Masking, as for all that is measured.
    seed : int
        Training seed.

    Raises
    ------
    InputError
        When the seen clients have no validation data.
    """
    whole = federation.validation.clients
    if not len(whole):
        raise InputError("train.tune_newcomers needs validation data of every seen client")
    chosen = subset(whole, range(min(REFITTED, len(whole))))
    # Any name but that of the seen clients: they are served as newcomers.
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
