"""A question is its words, which studies accept, and a module that answers it."""

import html
import shutil
from pathlib import Path

import pytest

QUESTION = '''
"""Answers how far apart clients are served."""

import pandas as pd

from latecomer.certify.words import percent
from latecomer.reports.display.section import Answer, Question
from latecomer.reports.display.pictures import Table
from latecomer.reports.frames.errors import client_errors


def answer_spread(material):
    """Say how far the best and the worst served novel client are apart."""
    errors = client_errors(material.rows)
    novel = errors[(errors["group"] == "novel") & (errors["shift"] == "none")]["error"]
    if novel.empty:
        return None
    spread = float(novel.max() - novel.min())
    frame = pd.DataFrame({"spread": [spread]})
    shown = pd.DataFrame({"spread": [percent(spread)]})
    table = Table("spread", "From best to worst.", frame, shown, ("spread",))
    return Answer(f"Newcomers' errors lie {percent(spread)} apart.", (), table)


SPREAD = Question("spread", answer_spread)
'''
DOORS = """
from latecomer.commands.app import app
from latecomer.errors import InputError
from latecomer.eval.studies.loading import load_study
from latecomer.reports.page.questions import ASKS, asking

print(load_study("quickstart", ["asks=[spread, gap]"]).asks)
try:
    load_study("quickstart", ["asks=[spred]"])
except InputError as error:
    print(str(error).splitlines()[-1])
print("spread" in ASKS, asking({}, ["spread"])["question"])
app(["report", "run", "--asks", "spread"], standalone_mode=False)
"""


def added(package):
    """Write the two files."""
    package.write("reports/clients/spread.py", QUESTION)
    more = '        "spread": "How far apart are newcomers served?",\n'
    last = (
        '        "certificate": "What can be guaranteed to a client that joins after training?",\n'
    )
    package.edit("eval/settings/study_sections.py", (last, last + more))
    assert sorted(path.name for path in package.written) == ["spread.py", "study_sections.py"]


@pytest.mark.slow
def test_studies_and_reports_know_it_and_a_page_opens_with_it(package):
    added(package)
    kept = Path(__file__).resolve().parents[2] / "reports" / "reference" / "pfedhn-newcomers"
    shutil.copytree(kept, package.root / "run")
    asked, unknown, known, *_ = package.run("-c", DOORS).splitlines()
    assert asked == "('spread', 'gap')"
    assert unknown.endswith("got 'spred'; did you mean 'spread'?")
    assert known == "True How far apart are newcomers served?"
    page = html.unescape((package.root / "run" / "report-spread.html").read_text("utf-8"))
    assert "How far apart are newcomers served?" in page
    assert "Newcomers' errors lie " in page
