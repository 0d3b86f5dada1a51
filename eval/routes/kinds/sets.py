"""Sets of labels for a new client's points, from the points of clients that were held out."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field

from latecomer.certify.predicted_sets import LABEL_SCORES, refuse_too_few
from latecomer.certify.sentences import (
    Certificate,
    Parts,
    are_independent,
    choice_of_clients,
    clients_meant,
    left_out_said,
    number_told,
)
from latecomer.certify.words import percent
from latecomer.errors import InputError
from latecomer.eval.routes.kinds.declaration import AskedShifts, Route, names_of, shifts_asked
from latecomer.eval.schema import Probability, one_of, sequence
from latecomer.eval.settings.cell import RouteSettings, StudyLike
from latecomer.eval.splits.registry import check_outside
from latecomer.eval.splits.split import Split

ScoreName = Annotated[str, BeforeValidator(one_of(LABEL_SCORES))]


class SetsOfLabels(RouteSettings):
    """Route sets: labels that a new client's points may have, from scores of held-out clients.

    Attributes
    ----------
    alpha : float
        Probability that a set misses the true label: of a random point of the next client, over
        certified clients and the next one together; with confidence 1 - ``delta`` over the
        certified clients, on average over new clients.
    delta : float
        Failure probability of the sets with confidence.
    scores : tuple of str
        Scores of labels, of which each makes sets by itself: ``probability``, 1 - p, and
        ``adaptive``, the probability of all labels at least as likely.
    shifts : bool or tuple of str
        The study's shifts under which the held-out clients give thresholds as well; under
        others the unshifted threshold is measured and nothing is promised.
    """

    needs_certification: ClassVar[bool] = True

    route: Literal["sets"]
    alpha: Probability = 0.1
    delta: Probability = 0.05
    scores: Annotated[tuple[ScoreName, ...], BeforeValidator(sequence), Field(min_length=1)] = (
        tuple(LABEL_SCORES)
    )
    shifts: AskedShifts = False

    @property
    def certified_shifts(self) -> tuple[str, ...]:
        """Shifts that held-out clients give thresholds under as well."""
        return names_of(self.shifts)

    def completed(self, key: str, study: StudyLike) -> Self:
        """Name the shifts asked for; refuse a level that a stated number of clients is below."""
        certify = getattr(study.split, "certify", None)
        if certify and isinstance(certify, int):
            refuse_too_few(certify, self.alpha, called=f"{key}.alpha")
        return self.model_copy(update={"shifts": shifts_asked(f"{key}.shifts", self.shifts, study)})

    def check_split(self, key: str, split: Split) -> None:
        """Refuse too few clients."""
        k = len(split.certification)
        if not k:
            raise InputError("certificates need held-out clients, and the split has none")
        refuse_too_few(k, self.alpha, called=f"{key}.alpha")
        check_outside(split.kind, k, split.n_outside)


def _sentence(certificate: Certificate) -> Parts:
    """Say what a threshold of scores promises; of the pooled one, what it would."""
    name, _, form = str(certificate["bound"]).partition("@")
    score = LABEL_SCORES[name.partition(":")[2]].words
    served = "served by the one model that the trained system makes for it"
    if certificate["predictor"] == "gibbs":
        served = "served by a model drawn anew from the posterior"
    kept = f"a set holds the labels whose score, {score}, as measured on one point, is no more"
    if form == "confident":
        alpha = number_told(certificate, "alpha")
        missed = "alpha" if alpha is None else percent(alpha)
        return Parts(
            choice_of_clients(certificate),
            "the score that is exceeded by the true labels of at most "
            f"{missed} of points, on average over {clients_meant(certificate)}",
            f"each {served}",
            kept,
            left_out_said(certificate),
        )
    drawn = "a fresh one of the same environment"
    if not are_independent(certificate):
        drawn = "drawn from the clients neither trained on nor scored"
    return Parts(
        "these clients and the next one together",
        f"the score of the true label of a random point of the next client ({drawn})",
        served,
        kept,
        left_out_said(certificate),
    )


ROUTES = (
    Route(
        name="sets",
        settings=SetsOfLabels,
        work="latecomer.eval.routes.set_thresholds:certify_sets",
        heading="sets of labels",
        bound_names={name: f"sets by {score.words}" for name, score in LABEL_SCORES.items()},
        sentence=_sentence,
        asks="sets",
        colour="#5a002d",
        mark="h",
    ),
)
