"""The schema of a study file: sections, defaults, legal ranges."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from latecomer.certify.rules.declaration import is_own
from latecomer.eval.measures.registry import MEASURES, PUBLISHED
from latecomer.eval.routes.registry import ROUTE_SETTINGS, CertificateSettings
from latecomer.eval.schema import Legal, Name, Seed, Settings, Text, one_of, sequence
from latecomer.eval.settings.study_sections import (
    QUESTIONS,
    DataSettings,
    Denoising,
    Evaluation,
    FunctionShift,
    Hypernetwork,
    MethodSettings,
    ModelSettings,
    OwnBound,
    Serving,
    Shifts,
    Train,
)
from latecomer.eval.splits.registry import SPLIT_SETTINGS, SplitSettings
from latecomer.eval.studies.cells import NO_WAYS, Cell, Ways, cells_of

SPLIT_KINDS = tuple(SPLIT_SETTINGS)


def _named(value: Any) -> Any:
    """Accept a method by its bare name."""
    return {"name": value} if isinstance(value, str) else value


# Published counterparts, shown beside our numbers; no cell depends on them.
def _item(name: str) -> str:
    source, _, item = name.partition(":")
    if not source.strip() or not item.strip():
        raise ValueError("must be source:item, as in 'pefll-iclr:Table 1a'")
    return name


PaperItem = Annotated[str, AfterValidator(_item)]


# What the report answers first; no cell depends on it.
Ask = Annotated[str, BeforeValidator(one_of(QUESTIONS))]


_NAMED = one_of(PUBLISHED, "file.py:name")


def _bound(value: Any) -> Any:
    """Accept a published bound's name, the place of one's own, and the same with ``trust``."""
    if not isinstance(value, dict):
        return value if is_own(value) else _NAMED(value)
    place, trusted = value.get("name"), value.get("trust", False)
    if not is_own(place) or not isinstance(trusted, bool) or not set(value) <= {"name", "trust"}:
        raise ValueError("must be a name, file.py:name, or {name: file.py:name, trust: true}")
    return OwnBound(name=str(place)) if trusted else place


Bounds = Annotated[
    tuple[
        Annotated[
            str | OwnBound,
            BeforeValidator(_bound),
            Legal(
                ", ".join(f"`{name}`" for name in (*PUBLISHED, "file.py:name"))
                + ", `{name: file.py:name, trust: true}`"
            ),
        ],
        ...,
    ],
    BeforeValidator(sequence),
]
Measures = Annotated[
    tuple[Annotated[str, BeforeValidator(one_of(MEASURES))], ...], BeforeValidator(sequence)
]


class StudyEvaluation(Evaluation):
    """The section of cells, with the measures that there are."""

    measures: Measures | None = None


class StudyMethod(MethodSettings):
    """The section of cells, with the bounds that there are."""

    bounds: Bounds | None = None


class Study(Settings):
    """The study file.

    Attributes
    ----------
    study : str
        Its name, which is that of its run directory too.
    question : str
        What it asks, in one sentence.
    asks : tuple of str, optional
        The questions that its report opens with, in their order; if left out, guessed from what
        the study holds.
    certify_model : str, optional
        The label of the model whose certificate its report leads with; if left out, the seen
        clients' own data choose among all models and seeds.
    note : str, optional
        What its report says beside the question.
    scale : str, optional
        ``paper`` if every setting is the published one, ``reduced`` or ``smoke`` if it is smaller;
        published numbers are judged at ``paper`` alone.
    paper : tuple of str, optional
        Published tables beside which its report sets its numbers, as ``source:item``.
    data : DataSettings
        The data set.
    split : SplitSettings
        Who holds which samples, and which clients train.
    model : ModelSettings
        The networks.
    methods : tuple of StudyMethod
        What is compared; a bare name stands for a method with its defaults.
    train : Train
        The budget of training.
    evaluation : StudyEvaluation
        What is measured.
    shifts : Shifts
        Under what else it is measured.
    bounds : tuple of str
        Bounds that are computed on the same models and are no certificates: published ones, and by
        ``file.py:name`` functions of one's own of ``(losses, delta)``, the errors of the clients
        held out for certification and .05, that return an upper bound of the mean error of clients
        like them. One whose simulated coverage fails is refused, unless ``trust`` is true.
    certificates : tuple of RouteSettings
        What is certified, an entry a certificate; ``route`` says how, ``r0`` unless given.
    denoising : Denoising, optional
        A simulation beside the study; it uses none of its data, methods or training.
    seeds : tuple of int
        Training seeds; every method is trained with each.
    """

    study: Name
    question: str = ""
    asks: Annotated[tuple[Ask, ...], BeforeValidator(sequence), Field(min_length=1)] | None = None
    certify_model: Text | None = None
    note: str | None = None
    scale: Literal["smoke", "reduced", "paper"] | None = None
    paper: Annotated[tuple[PaperItem, ...], BeforeValidator(sequence)] | None = None
    data: DataSettings
    split: SplitSettings
    model: ModelSettings = ModelSettings()
    methods: Annotated[
        tuple[Annotated[StudyMethod, BeforeValidator(_named)], ...], Field(min_length=1)
    ]
    train: Train = Train()
    evaluation: StudyEvaluation = StudyEvaluation()
    shifts: Shifts = Shifts()
    bounds: Bounds = ()
    certificates: tuple[CertificateSettings, ...] = ()
    denoising: Denoising | None = None
    seeds: Annotated[tuple[Seed, ...], BeforeValidator(sequence), Field(min_length=1)] = (0,)

    @property
    def predictors(self) -> frozenset[str]:
        """All predictors of its methods; ``gibbs`` draws a client's weights anew."""
        from latecomer.models.methods import make_method

        made = (make_method(method.name, **method.hyper()) for method in self.methods)
        return frozenset(name for method in made for name in method.predictors)

    def resolved(self) -> dict[str, Any]:
        """Every setting as plain data; what is not set at all is left out."""
        plain = self.model_dump(mode="json", exclude_none=True)
        plain["shifts"] = self.shifts.told()
        plain["model"] |= self.model.own()
        plain["methods"] = [
            {
                "name": method.name,
                "label": method.label,
                **({"bounds": told["bounds"]} if "bounds" in told else {}),
                **({} if method.serving is None else {"serving": method.serving.model_dump()}),
                **method.hyper(),
            }
            for method, told in zip(self.methods, plain["methods"], strict=True)
        ]
        return plain

    def cells(self, data_hash: str = "", ways: Ways = NO_WAYS) -> tuple[Cell, ...]:
        """List the cells on data with this content hash: the split, then seeds x methods.

        ``ways`` says of each method's label which path its cells record, and that path's version.
        """
        return cells_of(self.resolved(), data_hash, ways)


def sections() -> Mapping[str, type[Settings]]:
    """Map the dotted place of each closed section to its model.

    ``*`` stands for a list index; behind ``split`` comes its kind, behind a certificate its route.
    """
    return {
        "": Study,
        **{f"split.{kind}": model for kind, model in SPLIT_SETTINGS.items()},
        "model": ModelSettings,
        "model.hypernetwork": Hypernetwork,
        "methods.*.serving": Serving,
        "train": Train,
        "evaluation": StudyEvaluation,
        "denoising": Denoising,
        "shifts": Shifts,
        "shifts.function.*": FunctionShift,
        "certificates.*": ROUTE_SETTINGS["r0"],
        **{f"certificates.*.{route}": model for route, model in ROUTE_SETTINGS.items()},
    }
