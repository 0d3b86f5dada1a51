"""The routes to certificates, as their files declare them, and the settings of any of them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Discriminator, Tag, TypeAdapter

from latecomer.declared import declared
from latecomer.eval.routes.kinds.declaration import Route
from latecomer.eval.schema import one_of_models
from latecomer.eval.settings.cell import DenoisingCell, RouteSettings, SplitCell, TrainingCell

ROUTES: Mapping[str, Route] = declared("latecomer.eval.routes.kinds", "ROUTES")
"""Every route that a module of ``kinds`` declares."""
ROUTE_SETTINGS: Mapping[str, type[RouteSettings]] = MappingProxyType(
    {name: route.settings for name, route in ROUTES.items()}
)
CELL_ROUTES: Mapping[str, Route] = MappingProxyType(
    {route.cell_kind: route for route in ROUTES.values() if route.trains_itself}
)
"""The routes that train models of their own, by the kind of the cells that do it."""

if TYPE_CHECKING:
    CertificateSettings = RouteSettings
else:
    CertificateSettings = one_of_models(ROUTE_SETTINGS, "route", "r0")


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
