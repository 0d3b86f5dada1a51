"""The routes to certificates, as their files declare them, and the settings of any of them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from latecomer.declared import declared
from latecomer.eval.routes.kinds.declaration import Route
from latecomer.eval.schema import one_of_models
from latecomer.eval.settings.certificate import RouteSettings

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
