"""A certificate of a table of losses as a page: what ``latecomer certify --report`` writes."""

import math
from os import PathLike
from pathlib import Path

import numpy as np

from latecomer.certify.answers import LossAnswers
from latecomer.certify.lines import loss_certificate_lines
from latecomer.certify.page.losses import Group, Line, LossPage, Part, loss_page
from latecomer.certify.populations import certify_shifted, no_shift
from latecomer.certify.printed import rounded
from latecomer.certify.statements import LossCertificate
from latecomer.certify.together import together
from latecomer.certify.topics import loss_statements, shown_up, topics
from latecomer.checks import output_file
from latecomer.files import at_home, write_atomic

_TITLES = {
    "shifts": "Other populations",
    "tails": "Clients with large losses",
    "groups": "Groups",
    "against": "Another model",
}
_POINTS = 41


def write_report(certified: LossAnswers, path: str | PathLike[str], *, source: str) -> Path:
    """Write the page of a certificate: one self-contained file that needs no network.

    Parameters
    ----------
    certified : LossAnswers
    path : path
        The file to write.
    source : str
        What the page calls the losses.

    Raises
    ------
    InputError
        Where the file is one that the losses came from, a folder or another thing that is no file.
    """
    output_file("path", path, certified.sources)
    place = at_home(path)
    write_atomic(place, loss_page(_page(certified, source)))
    return place


def _page(certified: LossAnswers, source: str) -> LossPage:
    said = loss_statements(certified)
    marks = {f"mean {rounded(certified.mean, decimals=3)}": certified.mean}
    if certified.certificate is not None:
        marks[f"certified mean {shown_up(certified.certificate)}"] = float(certified.certificate)
    if certified.next_client is not None:
        marks[f"next client {shown_up(certified.next_client)}"] = float(certified.next_client)
    lines = [line.strip() for line in loss_certificate_lines(certified)]
    return LossPage(
        source=source,
        summary=[line for line in (*lines, certified.question) if line and line not in said],
        closing=together(certified).line,
        sentences=said,
        losses=certified.losses,
        loss_max=certified.loss_max,
        marks=marks,
        parts=[
            Part(
                topic.name,
                _TITLES[topic.name],
                topic.heading,
                [Line(one.about, one.value, one.shown.strip(), one.note) for one in topic.said],
                topic.sentences,
            )
            for topic in topics(certified)
        ],
        curve=[] if certified.curve is None else certified.curve[1],
        shifts={ball: _along_radii(certified, ball) for ball in certified.shifts},
        groups=[
            Group(name, one.n_clients, one.mean, _bound(one))
            for name, one in certified.groups.items()
        ],
    )


def _along_radii(certified: LossAnswers, ball: str) -> list[tuple[float, float]]:
    """Return radii and the certified means at them, from the mean's own certificate outwards."""
    radii, none = _radii(certified, ball), no_shift(ball)
    beyond = [radius for radius in radii if radius != none]
    start = math.nan if certified.certificate is None else float(certified.certificate)
    curve = certify_shifted(
        dict(enumerate(certified.losses)),
        ball=ball,
        radii=beyond,
        near=certified.radii[ball],
        rule=certified.rule,
        best_of=certified.best_of,
        delta=certified.delta,
        pool_size=certified.pool_size,
        loss_max=certified.loss_max,
        seed=certified.seed,
        order=dict(enumerate(certified.places)) if certified.places else None,
    )
    values = dict(zip(beyond, curve.certificate.value.ravel().tolist(), strict=True))
    return [(radius, max(start, values.get(radius, start))) for radius in radii]


def _radii(certified: LossAnswers, ball: str) -> list[float]:
    """Return radii from no shift to somewhat beyond all that was asked about."""
    shifted = certified.shifts[ball]
    asked = [*certified.radii[ball]]
    if shifted.breaking is not None and not math.isnan(shifted.breaking):
        asked.append(shifted.breaking)
    if ball == "subgroup":
        return [float(r) for r in np.linspace(max(0.01, 0.8 * min(asked, default=0.5)), 1, _POINTS)]
    most = 1.25 * max([*asked, 0.0]) or 0.1
    return [float(r) for r in np.linspace(0, min(most, 1.0) if ball == "tv" else most, _POINTS)]


def _bound(one: LossCertificate) -> float:
    bound = one.next_client if one.certificate is None else one.certificate
    return math.nan if bound is None else float(bound)
