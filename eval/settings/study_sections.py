"""The sections that a study and its cells share: defaults and legal ranges."""

import math
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    create_model,
    model_validator,
)

from latecomer.eval.schema import (
    AutoOrDepth,
    AutoOrSize,
    Count,
    CountFromZero,
    Name,
    Number,
    OneLine,
    Positive,
    Seed,
    Settings,
    Size,
    Text,
    sequence,
)
from latecomer.eval.shifts.kinds.declaration import Shift
from latecomer.eval.shifts.transforms import SHIFTS


def with_finite_extras(settings: Any) -> Any:
    """Refuse NaN and infinity, which no cell's id can hold, among arguments of somebody's own."""
    for key, value in (settings.model_extra or {}).items():
        _finite(key, value)
    return settings


def _finite(key: str, value: Any) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{key} must be a finite number, got {value}")
    if isinstance(value, dict):
        for name, one in value.items():
            _finite(f"{key}.{name}", one)
    elif isinstance(value, list | tuple):
        for place, one in enumerate(value):
            _finite(f"{key}.{place}", one)


def _is_code(code: str) -> str:
    if not re.fullmatch(r"LC\d{3}", code):
        raise ValueError("must be a check's code, such as LC004")
    return code


def _is_function(path: str) -> str:
    if not re.fullmatch(r".+:[A-Za-z_]\w*", path):
        raise ValueError("must read module:function or file.py:function")
    return path


def _without(default: str) -> AfterValidator:
    """Leave a setting out where it has its default."""
    return AfterValidator(lambda value: None if value == default else value)


class OwnBound(Settings):
    """A bound of one's own that is used without simulating its coverage.

    Attributes
    ----------
    name : str
        ``file.py:name`` or ``module:name``.
    trust : bool
        True; an entry that says false is its name alone.
    """

    name: Text
    trust: Literal[True] = True


Bounds = Annotated[tuple[str | OwnBound, ...], BeforeValidator(sequence)]
"""Names; a study accepts those of `eval.measures.registry`, and places of one's own."""


def bound_names(bounds: Iterable[str | OwnBound]) -> dict[str, bool]:
    """Map what entries of ``bounds`` name to whether it is taken on trust.

    >>> bound_names(["pefll_32", OwnBound(name="mine.py:b")])
    {'pefll_32': False, 'mine.py:b': True}
    """
    return {
        one.name if isinstance(one, OwnBound) else one: isinstance(one, OwnBound) for one in bounds
    }


class DataSettings(BaseModel):
    """The data set: its name and its reader's options, which the reader checks.

    Attributes
    ----------
    name : str
        Name of a reader; further keys are its own.
    """

    model_config = ConfigDict(extra="allow", frozen=True)
    name: str


class Hypernetwork(Settings):
    """Shape of the hypernetwork.

    Attributes
    ----------
    hidden : int or str
        Layers of ``width`` by ``width``; ``auto``: 3.
    width : int or str
        Their width; ``auto``: 100.
    spectral : bool
        Whether every layer's matrix is divided by its spectral norm.
    """

    hidden: AutoOrDepth = "auto"
    width: AutoOrSize = "auto"
    spectral: Annotated[bool, Field(strict=True)] = False


class ModelSettings(Settings):
    """Networks; ``auto`` chooses by the input shape.

    Attributes
    ----------
    target : str
        What every client gets weights for: a name, or a network of one's own: ``file.py:Net``,
        ``package.module:Net`` or an entry point's name, a class or function of ``(input_shape,
        n_out)``. Further keys are its own arguments.
    encoder : str
        What describes a client to a hypernetwork: a name, or a file or import path of a class or
        function of ``(input_shape, n_classes, dim)``.
    hypernetwork : Hypernetwork
        The network that writes the target network's weights.
    frozen : tuple of str, optional
        Names of its parameters or modules (``*``: anything), which are loaded from ``weights`` and
        neither trained nor sent nor generated.
    weights : str, optional
        The safetensors file of what is frozen.
    stem : str, optional
        Name of a frozen module that the network applies to its inputs first. What it gives is
        computed once a sample and stands in the inputs' place for all that methods do: they train,
        serve, describe and compare clients by it. Shifts are of the inputs themselves.
    generated_limit : int, optional
        Most weights that a network may make for a client; 5 million unless given.
    """

    model_config = ConfigDict(extra="allow")
    target: str = "auto"
    encoder: str = "auto"
    hypernetwork: Hypernetwork = Hypernetwork()
    frozen: Annotated[tuple[Text, ...], BeforeValidator(sequence), Field(min_length=1)] | None = (
        None
    )
    weights: Text | None = None
    stem: Text | None = None
    generated_limit: Count | None = None

    _check_extras = model_validator(mode="after")(with_finite_extras)

    def own(self) -> dict[str, Any]:
        """Only the arguments of a network of one's own."""
        return dict(self.model_extra or {})


class Serving(Settings):
    """What is done to the model that a client gets which took no part in training.

    Attributes
    ----------
    prior : str
        ``em`` reweighs the classes by the shares that are likeliest given the client's inputs,
        without labels (Saerens, Latinne, Decaestecker, 2002), against their shares among the seen
        clients' samples. ``bbse`` solves for the shares that explain what the client's model
        answers on its inputs, given the model's confusion matrix on the seen clients' validation
        data (Lipton, Wang, Smola, 2018); where that matrix cannot be inverted it is a ridge
        regression, and rows ``bbse_ridge`` say for which share of new clients. Both are right where
        only these shares differ.
    """

    prior: Literal["em", "bbse"]


class MethodSettings(BaseModel):
    """A method, its label, and its own hyper-parameters, which the method checks.

    Attributes
    ----------
    name : str
        A built-in method, or one of one's own: ``file.py:Method`` or an import path.
    label : str, optional
        What rows and pages call this entry; the name unless given.
    bounds : tuple of str, optional
        Bounds for this entry's models, instead of the study's.
    serving : Serving, optional
        What is done to the models of clients that took no part in training, for methods that read
        no labels of theirs.
    """

    model_config = ConfigDict(extra="allow", frozen=True)
    name: str
    label: OneLine | None = None
    bounds: Bounds | None = None
    serving: Serving | None = None

    def hyper(self) -> dict[str, Any]:
        """Only the hyper-parameters that the study sets."""
        return dict(self.model_extra or {})


class Train(Settings):
    """The training budget, the same for every method, and how a cohort's clients train.

    Attributes
    ----------
    rounds : int
        Rounds of training.
    cohort : int
        Clients drawn a round, without replacement.
    local_steps : int
        Gradient steps that a client takes in a round.
    batch_size : int
        Samples in a minibatch.
    path : str
        ``serial``, one client after another; ``blocked``, likewise, but convolutional nets keep
        images in oneDNN's own layout, which on a CPU is quicker; ``vectorised``, all at once; the
        result of all three is the same up to rounding; ``auto``, serial on a CPU and vectorised
        elsewhere, and on a CPU too for dense nets of at most 65,536 weights, which then take a
        fifth to two thirds of the time. New clients that train do so side by side if it is
        ``vectorised``.
    selection : str
        The model of the ``last`` round, or that of the round with the lowest mean ``validation``
        error of the seen clients, among the rounds that ``evaluation.every`` measures.
    device : str, optional
        ``cpu`` (the default); ``cuda``; or ``auto``, CUDA if the machine that starts the run has
        it. A cell on CUDA has another id than the same cell on the CPU.
    precision : str, optional
        ``float32`` (the default); ``bf16``; or ``tf32``, on CUDA only. It applies to the target
        network's multiplications in local steps; weights, losses, serving (fine-tuning too) and
        everything measured or certified are always float32.
    tune_newcomers : tuple of float, optional
        Learning rates from which ``novel_lr`` is chosen for each method, by refitting seen clients
        as new clients, on support that the method was trained on (which may say little of new
        clients); no effect on methods whose new clients do not train.
    """

    rounds: Count = 5000
    cohort: Count = 5
    local_steps: Count = 50
    batch_size: Size = 32
    path: Literal["auto", "serial", "blocked", "vectorised"] = "auto"
    selection: Literal["last", "validation"] = "last"
    device: Annotated[Literal["auto", "cpu", "cuda"] | None, _without("cpu")] = None
    precision: Annotated[Literal["float32", "bf16", "tf32"] | None, _without("float32")] = None
    tune_newcomers: (
        Annotated[tuple[Positive, ...], BeforeValidator(sequence), Field(min_length=1)] | None
    ) = None


class Evaluation(Settings):
    """What is measured on a trained model, and how.

    Attributes
    ----------
    classes : str
        What happens to the logits of classes absent from a client's support labels: nothing
        (``all``), minus infinity (``known``), or multiplication by 0 (``zero``).
    class_set : str, optional
        ``given``: a client names its classes to methods that read no labels, which ``classes``
        other than ``all`` needs.
    domain_classifier : str
        The classifier behind the A-distance.
    every : int
        Rounds between two measurements during training (of new clients too if serving them needs
        no training); 0: only at the end, or every 30 if ``train.selection`` chooses among rounds.
    given_up : bool, optional
        Train each method once more on seen and held-out clients together, to see what holding
        out held-out clients costs new clients.
    ignore : tuple of str, optional
        Codes of checks that the report is not to speak of, such as ``LC004``.
    measures : tuple of str, optional
        Further measurements of each trained model, see `latecomer.eval.measures.registry`.
    """

    classes: Literal["all", "known", "zero"] = "all"
    class_set: Literal["given"] | None = None
    domain_classifier: Literal["linear", "mlp"] = "linear"
    every: CountFromZero = 0
    given_up: Annotated[bool, Field(strict=True)] | None = None
    ignore: (
        Annotated[
            tuple[Annotated[str, AfterValidator(_is_code)], ...],
            BeforeValidator(sequence),
        ]
        | None
    ) = None
    measures: Annotated[tuple[str, ...], BeforeValidator(sequence)] | None = None


class DataShift(BaseModel):
    """Another data set with the same classes: its reader's options and its label.

    Attributes
    ----------
    name : str
        Name of a reader; further keys are its own.
    label : str
        What rows and pages call the shift.
    """

    model_config = ConfigDict(extra="allow", frozen=True)
    name: str
    label: Name


class FunctionShift(Settings):
    """A user's own shift.

    Attributes
    ----------
    path : str
        ``module:function`` or ``file.py:function``, called with inputs, severity and a generator.
    label : str
        What rows and pages call the shift.
    severities : tuple of float
        Severities that it is called with.
    """

    path: Annotated[str, AfterValidator(_is_function)]
    label: Name
    severities: Annotated[tuple[Number, ...], BeforeValidator(sequence), Field(min_length=1)] = (
        1.0,
    )


def _severities(shift: Shift) -> Any:
    """Return the type of the severities that a study may give for a shift."""
    least: Any = Field(gt=0) if shift.above_zero else Field(ge=shift.low)
    legal: Any = Annotated[Number, least, Field(le=shift.high)]
    return Annotated[tuple[legal, ...], BeforeValidator(sequence)]


if TYPE_CHECKING:
    _Severities = Settings
else:
    _Severities = create_model(
        "_Severities",
        __base__=Settings,
        **{name: (_severities(shift), ()) for name, shift in SHIFTS.items()},
    )
# Shifts written to every cell's configuration, requested or not. Shifts added later are written
# only if requested, so that the ids of other cells stay the same.
_ALWAYS_TOLD = frozenset(
    {
        *("blur", "rotation", "noise", "contrast", "brightness", "extrapolation"),
        *("dataset", "function"),
    }
)


class Shifts(_Severities):
    """Shifts under which new clients are measured: severities, other data, own functions.

    Attributes
    ----------
    dataset : tuple of DataShift
        Other data sets with the same classes.
    function : tuple of FunctionShift
        Functions of one's own.
    type_weights : tuple of tuple of float
        Populations of other clients, each given by its type weights (split ``client_types``).
    concentrations : tuple of tuple of float
        The same by Dirichlet concentrations (split ``client_mixtures``).
    """

    dataset: tuple[DataShift, ...] = ()
    function: tuple[FunctionShift, ...] = ()
    type_weights: tuple[tuple[Number, ...], ...] = ()
    concentrations: tuple[tuple[Number, ...], ...] = ()

    def told(self) -> dict[str, Any]:
        """Return the shifts as written in a cell's configuration."""
        plain = self.model_dump(mode="json", exclude_none=True)
        return {name: asked for name, asked in plain.items() if asked or name in _ALWAYS_TOLD}

    @model_validator(mode="after")
    def _labels_differ(self) -> "Shifts":
        labels = [entry.label for entry in self.dataset]
        labels += [entry.label for entry in self.function]
        taken = {
            *Shifts.model_fields,
            "none",
            *(f"{entry.label}-control" for entry in self.dataset),
        }
        for index, label in enumerate(labels):
            if label in taken or label in labels[:index]:
                raise ValueError(f"must name each shift by a label of its own, got {label} again")
        return self


class Denoising(Settings):
    """The linear hypernetwork of pFedHN's section 4.1, simulated: see `eval.protocol.denoising`.

    Attributes
    ----------
    clients : int
        Seen clients of a federation.
    novel : int
        New clients of it.
    weights : int
        Weights of a client's model.
    samples : int
        Rows of a client's data, at least ``weights``.
    variances : tuple of float
        Variances of the true models along as many directions, in whose span they lie.
    noise : tuple of float
        Standard deviations of a label, each simulated.
    dimensions : tuple of int
        Lengths of a descriptor, each simulated.
    draws : int
        Federations drawn for every ``noise``.
    rounds : int
        Steps of gradient descent for every one of ``dimensions``.
    seed : int
        Seed of all draws.
    """

    clients: Size = 100
    novel: Size = 100
    weights: Size = 30
    samples: Size = 60
    variances: Annotated[tuple[Positive, ...], Field(min_length=1)] = (4.0, 2.0, 1.0, 0.5, 0.25)
    noise: Annotated[tuple[Positive, ...], BeforeValidator(sequence), Field(min_length=1)] = (
        *(0.25, 0.5, 1.0),
    )
    dimensions: Annotated[tuple[Size, ...], BeforeValidator(sequence), Field(min_length=1)] = (
        *(1, 2, 3, 4, 5, 6, 8, 12, 20, 30),
    )
    draws: Count = 20
    rounds: Count = 2000
    seed: Seed = 0

    @model_validator(mode="after")
    def _fits(self) -> "Denoising":
        most = min(self.clients, self.weights)
        if max(self.dimensions) > most:
            raise ValueError(
                f"must have dimensions up to {most}, the smaller of clients and weights, "
                f"got {max(self.dimensions)}"
            )
        if self.samples < self.weights:
            raise ValueError(
                f"must have samples >= weights={self.weights}, got {self.samples}: "
                "columns are orthonormal"
            )
        if len(self.variances) > self.weights:
            raise ValueError(
                f"must have at most weights={self.weights} variances, got {len(self.variances)}"
            )
        return self


QUESTIONS: Mapping[str, str] = MappingProxyType(
    {
        "bounds": "How far are guarantees for a new client from the error that new clients really "
        "have?",
        "shift": "How robust are models of new clients to shifted inputs and to other labels?",
        "gap": "How much accuracy does each method lose on clients that join after training?",
        "accuracy": "How well does each method serve clients that join after training?",
        "paper": "Do the published numbers come out?",
        "certificate": "What can be guaranteed to a client that joins after training?",
        "sets": "Which labels can be ruled out for a client that joins after training?",
    }
)
