"""A certificate of a table of losses as a page: what ``latecomer certify --report`` writes."""

import math
from os import PathLike, fspath
from pathlib import Path

import numpy as np

from latecomer.eval.certificates.from_losses import LossCertificate
from latecomer.eval.certificates.shifted_losses import certify_shifted
from latecomer.eval.files import write_atomic
from latecomer.losses.certificate_lines import loss_certificate_lines
from latecomer.losses.certified import CertifiedLosses
from latecomer.losses.statements import loss_statements, shown_up, topics
from latecomer.render import number
from latecomer.reports.loss_page import Group, Line, LossPage, Part, loss_page

__all__ = ["write_report"]

_TITLES = {
    "shifts": "Other populations",
    "tails": "Clients with large losses",
    "groups": "Groups",
    "against": "Another model",
}
_POINTS = 41


def write_report(found: CertifiedLosses, path: str | PathLike[str], *, source: str) -> Path:
    """Write the page of a certificate: one file that needs no other and no network.

    Parameters
    ----------
    found : CertifiedLosses
    path : path
        Of the page.
    source : str
        What the losses are called in it.
    """
    place = Path(fspath(path))
    write_atomic(place, loss_page(_page(found, source)))
    return place


def _page(found: CertifiedLosses, source: str) -> LossPage:
    said = loss_statements(found)
    marks = {f"mean {number(found.mean, decimals=3)}": found.mean}
    if found.certificate is not None:
        marks[f"certified mean {shown_up(found.certificate)}"] = float(found.certificate)
    marks[f"next client {shown_up(found.next_client)}"] = float(found.next_client)
    lines = [line.strip() for line in loss_certificate_lines(found)]
    return LossPage(
        source=source,
        summary=[line for line in lines if line not in said],
        sentences=said,
        losses=found.losses,
        loss_max=found.loss_max,
        marks=marks,
        parts=[
            Part(
                topic.name,
                _TITLES[topic.name],
                topic.heading,
                [Line(one.about, one.value, one.shown.strip(), one.note) for one in topic.said],
                topic.sentences,
            )
            for topic in topics(found)
        ],
        curve=[] if found.curve is None else found.curve[1],
        shifts={ball: _along_radii(found, ball) for ball in found.shifts},
        groups=[
            Group(name, one.n_clients, one.mean, _bound(one)) for name, one in found.groups.items()
        ],
    )


def _along_radii(found: CertifiedLosses, ball: str) -> list[tuple[float, float]]:
    """Return radii and certified means there: certificates hold for all radii at once."""
    radii = _radii(found, ball)
    curve = certify_shifted(
        dict(enumerate(found.losses)),
        ball=ball,
        radii=radii,
        rule=found.rule,
        best_of=found.best_of,
        delta=found.delta,
        pool_size=found.pool_size,
        loss_max=found.loss_max,
        seed=found.seed,
    )
    return list(zip(radii, curve.certificate.value.ravel().tolist(), strict=True))


def _radii(found: CertifiedLosses, ball: str) -> list[float]:
    """Return radii from no shift to somewhat beyond all that was asked about."""
    shifted = found.shifts[ball]
    asked = [*found.radii[ball]]
    if shifted.breaking is not None and not math.isnan(shifted.breaking):
        asked.append(shifted.breaking)
    if ball == "subgroup":
        return [float(r) for r in np.linspace(max(0.01, 0.8 * min(asked, default=0.5)), 1, _POINTS)]
    most = 1.25 * max([*asked, 0.0]) or 0.1
    return [float(r) for r in np.linspace(0, min(most, 1.0) if ball == "tv" else most, _POINTS)]


def _bound(one: LossCertificate) -> float:
    return float(one.next_client if one.certificate is None else one.certificate)
