"""A method is one file: listings, studies, cells and reports know it by that."""

import json

import pytest

from latecomer.eval.runs.directory import write_environment
from latecomer.eval.studies.loading import load_study
from latecomer.reports.page.method import citations

METHOD = '''
"""FedAvg whose server takes the median of what clients send."""

from dataclasses import dataclass
from typing import ClassVar

from latecomer.models.engine.method import Personalization
from latecomer.models.families.global_weights import AveragedWeights
from latecomer.models.task.state import State, nest, part


@dataclass(frozen=True, kw_only=True)
class Median(AveragedWeights):
    """Global weights moved by the coordinate-wise median of the cohort's changes."""

    name: ClassVar[str] = "median"
    paper: ClassVar[str] = "Yin et al., ICML 2018"
    cites: ClassVar[tuple[str, ...]] = (
        """@inproceedings{yin2018,
  title = {Byzantine-Robust Distributed Learning},
  year = {2018}
}""",
        "mcmahan2017",
    )
    shown_as: ClassVar[str] = "FedAvg (median)"
    personalization: ClassVar[Personalization] = "global"
    needs_labels: ClassVar[bool] = False

    def aggregate(self, task, state, cohort, start, uploads):
        old = part(state.server, "target")
        new = {key: old[key] + change.median(dim=0).values for key, change in uploads.items()}
        return State(nest("target", {**old, **new}), state.clients)
'''
SAY = """
import sys
from latecomer.models.methods import METHODS
from latecomer.reports.display.drawing import looks
from latecomer.reports.page.method import citations
from latecomer.reports.page.page import shown_name

print(list(METHODS)[-1], len(METHODS))
print([line for line in citations(["median"]).splitlines() if line.startswith("@")])
print(shown_name("median", "median", set()))
print(looks(["median", "pefll"])["pefll"] == looks(["pefll"])["pefll"])
print("torch" in sys.modules)
"""


@pytest.mark.slow
def test_one_file_is_listed_cited_and_shown(package):
    package.write("models/methods/median.py", METHOD)
    named, cited, shown, looks_kept, torch = package.run("-c", SAY).splitlines()
    assert named.startswith("median ")
    assert cited == "['@inproceedings{yin2018,', '@inproceedings{mcmahan2017,']"
    assert shown == "FedAvg (median)"
    assert (looks_kept, torch) == ("True", "False"), "a report is made without training code"
    assert len(package.written) == 1


def test_a_file_outside_the_package_is_cited_without_being_there(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(METHOD, "utf-8")
    monkeypatch.chdir(tmp_path)
    study = load_study("quickstart", ['methods=[{name: "mine.py:Median", local_lr: 0.02}]'])
    (tmp_path / "run").mkdir()
    write_environment(tmp_path / "run", study, {})
    told = json.loads((tmp_path / "run" / "env.json").read_text("utf-8"))
    found = citations(["median"], outside=told["cites"])
    assert "yin2018" in found
    assert "mcmahan2017" in found
    assert citations(["median"]) == ""


@pytest.mark.nightly
def test_one_file_trains_and_is_reported(package):
    package.write("models/methods/median.py", METHOD)
    listed = json.loads(package.run("-m", "latecomer", "methods", "--json"))
    assert [one["paper"] for one in listed if one["name"] == "median"] == ["Yin et al., ICML 2018"]
    page = package.run_study("methods: [{name: median, local_lr: 0.02}]")
    assert "FedAvg (median)" in page
    assert "yin2018" in (package.root / "run" / "references.bib").read_text("utf-8")
