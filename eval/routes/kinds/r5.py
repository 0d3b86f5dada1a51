"""R5: the system trained on first clients, moved by a short code that the others choose."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from latecomer.certify.sentences import (
    BOTH,
    FRESH,
    Certificate,
    Parts,
    are_independent,
    choice_of_clients,
    left_for_others,
)
from latecomer.eval.routes.kinds.declaration import (
    Route,
    TrainingRoute,
    first_trained,
    overlap_said,
)
from latecomer.eval.schema import Count, Positive, Size, sequence


class Compressed(TrainingRoute):
    """R5: the system trained on ``first`` clients, moved by a short code that ``clients`` choose.

    Attributes
    ----------
    rule : str
        ``occam_product``: by the product of one minus the scores; ``occam``: by their mean alone.
    weights : tuple of str
        Name prefixes of the server's weights that move.
    dimension : int
        Number of random directions.
    step : float
        Step along a direction, relative to the root mean square of each tensor.
    tries : int
        Codes that are scored besides the empty one.
    """

    route: Literal["r5"]
    rule: Literal["occam_product", "occam"] = "occam_product"
    weights: Annotated[tuple[str, ...], BeforeValidator(sequence), Field(min_length=1)]
    dimension: Size = 16
    step: Positive = 0.05
    tries: Count = 30


def _sentence(certificate: Certificate) -> Parts:
    return Parts(
        choice_of_clients(certificate),
        f"the mean error over {first_trained(certificate)}",
        "each served by the one model that the system moved by the code word makes for it",
        FRESH if are_independent(certificate) else BOTH,
        f"{left_for_others(certificate)} {overlap_said(certificate)}".strip(),
    )


ROUTES = (
    Route(
        name="r5",
        settings=Compressed,
        work="latecomer.eval.routes.r5_cell:evaluate_compressed",
        cell_kind="compressed",
        numbers_version=2,
        heading="update compressed (R5)",
        model_words="its update compressed (R5)",
        bound_names={
            "occam": "compressed update (R5)",
            "occam_product": "compressed update, product rule (R5)",
        },
        sentence=_sentence,
        colour="#df59f2",
        mark="X",
    ),
)
