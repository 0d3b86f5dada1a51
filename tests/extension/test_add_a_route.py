"""A route to certificates is one file: studies, cells, sentences and figures know it by that."""

from pathlib import Path

import pytest

EVERY_KIND = Path(__file__).parents[2] / "docs" / "building" / "every_kind.py"

ROUTE = '''
"""R9: Hoeffding's inequality for the held-out clients' errors."""

import math
from typing import ClassVar, Literal

import numpy as np

from latecomer.bounds.certificate import certificate
from latecomer.certify.sentences import Parts, choice_of_clients, clients_meant
from latecomer.eval.routes.kinds.declaration import Route
from latecomer.eval.schema import Probability
from latecomer.eval.settings.cell import RouteSettings


class Hoeffding(RouteSettings):
    needs_certification: ClassVar[bool] = True

    route: Literal["r9"]
    rule: Literal["hoeffding"] = "hoeffding"
    delta: Probability = 0.05


def certify(request):
    from latecomer.eval.routes.contract import Findings
    from latecomer.eval.routes.contract import certificate_rows

    rows = []
    for predictor, scores in request.model.held_out.items():
        price = math.sqrt(math.log(1 / request.entry.delta) / 2 / len(scores))
        terms = {"empirical_risk": float(np.mean([s.error for s in scores])), "price": price}
        issued = certificate("hoeffding", terms=terms, delta={"clients": request.entry.delta})
        where = {"predictor": predictor, "group": "certification", "n_clients": len(scores)}
        rows += certificate_rows(issued, bound="r9:hoeffding", common=where)
    return Findings(rows, [])


def _sentence(certificate):
    return Parts(
        choice_of_clients(certificate), f"the mean error over {clients_meant(certificate)}",
        "each served by the one model", "errors as measured",
    )


ROUTES = (
    Route(
        name="r9",
        settings=Hoeffding,
        work=f"{__name__}:certify",
        heading="Hoeffding (R9)",
        bound_names={"hoeffding": "Hoeffding's inequality (R9)"},
        sentence=_sentence,
        colour="#123456",
        mark="*",
    ),
)
'''
DOORS = """
import sys
from runpy import run_path

from latecomer.errors import InputError
from latecomer.eval.names import ROUTES, statement
from latecomer.eval.studies.loading import load_study
from latecomer.reports.display.naming import route_of
from latecomer.reports.words import bound_name

examples = dict(run_path(sys.argv[1])["examples"]())
print(*(cell.id for cell in load_study("quickstart").cells("data")))
study = load_study("quickstart", ["certificates=[{route: r9, delta: 0.1}]"])
print(study.certificates[0].delta, {cell.kind for cell in study.cells("data")} - {"split"})
for mistake in ("{route: r9, delta: 2}", "{route: r8}"):
    try:
        load_study("quickstart", [f"certificates=[{mistake}]"])
    except InputError as error:
        print(str(error).splitlines()[-1])
print(route_of("r9:hoeffding"), bound_name("r9:hoeffding"), ROUTES["r9"].colour)
told = examples["r0:product, finite pool, deterministic"]
print(statement(told | {"bound": "r9:hoeffding"}))
"""


@pytest.mark.slow
def test_one_file_opens_every_door(package, quickstart_ids):
    package.write("eval/routes/kinds/r9.py", ROUTE)
    ids, asked, wrong, unknown, names, said = package.run("-c", DOORS, str(EVERY_KIND)).splitlines()
    assert ids == quickstart_ids, "a study that does not ask for it has the cells it had"
    assert asked == "0.1 {'method'}"
    assert wrong.endswith("certificates.0.delta: must be less than 1, got 2")
    known = "r0, r1, r2, r3, r4, r5, r9, sets"
    assert f"certificates.0.route must be one of {known}, got 'r8'" in unknown
    assert names == "r9 Hoeffding's inequality (R9) #123456"
    assert said.startswith("With probability at least 95% over the choice of these 30 clients, the")
    assert len(package.written) == 1


@pytest.mark.nightly
def test_a_cell_follows_it_and_the_page_shows_it(package):
    package.write("eval/routes/kinds/r9.py", ROUTE)
    split = "split: {kind: iid, clients: 40, certify: 10, novel: 10, validation: 0}"
    page = package.run_study(f"{split}\ncertificates: [{{route: r9}}]")
    assert "r9:hoeffding" in (package.root / "run" / "rows.csv").read_text("utf-8")
    assert "Hoeffding's inequality (R9)" in page
