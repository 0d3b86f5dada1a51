"""A published bound is one file: studies, cells and reports know it by that."""

import pytest

PUBLISHED = '''
"""Hoeffding's inequality for the seen clients' risk, as if they were draws of newcomers."""

import math
from dataclasses import replace

from latecomer.bounds.certificate import certificate
from latecomer.eval.measures.kinds.declaration import Published


def values(model):
    from latecomer.eval.measures.published_bounds import PublishedBound

    risk = model.support_error("deterministic")
    price = math.sqrt(math.log(20) / 2 / len(model.federation.seen.clients))
    terms = {"empirical_risk": risk, "price": price}
    bound = certificate("hoeffding", terms=terms, delta={"clients": 0.05})
    bound = replace(bound, rigorous=False, reason="seen clients", predictor="deterministic")
    inputs = (("empirical_risk", risk, "0/1 error of the seen clients on their support data"),)
    yield PublishedBound(model.federation.seen, bound, inputs)


PUBLISHED = (
    Published(
        name="seen_hoeffding", words="seen clients, Hoeffding", work=f"{__name__}:values"
    ),
)
'''
DOORS = """
from latecomer.errors import InputError
from latecomer.eval.studies.loading import load_study
from latecomer.reports.words import bound_name

print(*(cell.id for cell in load_study("quickstart").cells("data")))
asked = ["bounds=[seen_hoeffding]", "methods.0.bounds=[seen_hoeffding, ben_david]"]
study = load_study("quickstart", asked)
print(study.bounds, study.methods[0].bounds, bound_name("seen_hoeffding"))
try:
    load_study("quickstart", ["bounds=[seen_hoefding]"])
except InputError as error:
    print(str(error).splitlines()[-1])
"""


@pytest.mark.slow
def test_one_file_opens_every_door(package, quickstart_ids):
    package.write("eval/measures/kinds/seen_hoeffding.py", PUBLISHED)
    ids, asked, unknown = package.run("-c", DOORS).splitlines()
    assert ids == quickstart_ids, "a study that does not ask for it has the cells it had"
    assert asked == "('seen_hoeffding',) ('seen_hoeffding', 'ben_david') seen clients, Hoeffding"
    assert "got 'seen_hoefding'; did you mean 'seen_hoeffding'?" in unknown
    assert len(package.written) == 1


@pytest.mark.nightly
def test_a_cell_computes_it_and_the_page_names_it(package):
    package.write("eval/measures/kinds/seen_hoeffding.py", PUBLISHED)
    page = package.run_study("bounds: [seen_hoeffding]")
    assert ",seen_hoeffding,price," in (package.root / "run" / "rows.csv").read_text("utf-8")
    assert "seen clients, Hoeffding" in page
