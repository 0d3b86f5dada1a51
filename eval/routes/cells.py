"""A cell's configuration with the certificates that it asks for, each as settings of its route."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Discriminator, Tag, TypeAdapter

from latecomer.eval.routes.registry import CertificateSettings
from latecomer.eval.settings.cell import DenoisingCell, SplitCell, TrainingCell


class _CertifiedCell(TrainingCell):
    certificates: tuple[CertificateSettings, ...] = ()


def _form(config: Mapping[str, Any]) -> str:
    return config["kind"] if config["kind"] in ("split", "denoising") else "training"


_CELL: TypeAdapter[SplitCell | DenoisingCell | TrainingCell] = TypeAdapter(
    Annotated[
        Annotated[SplitCell, Tag("split")]
        | Annotated[DenoisingCell, Tag("denoising")]
        | Annotated[_CertifiedCell, Tag("training")],
        Discriminator(_form),
    ]
)


def read_cell(config: Mapping[str, Any]) -> SplitCell | DenoisingCell | TrainingCell:
    """Read the content of a cell's ``config.json``.

    Examples
    --------
    >>> read_cell({"kind": "denoising", "denoising": {"draws": 2}}).denoising.draws
    2
    """
    return _CELL.validate_python(config)
