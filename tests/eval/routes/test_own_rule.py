"""A rule of somebody's own in a study: found beside it, simulated, and part of what a cell is."""

import pytest

from latecomer.errors import InputError
from latecomer.eval.studies.loading import load_study

STUDY = """
study: mine
data: {{name: digits}}
split: {{kind: environment, clients: 40, certify: 10, novel: 4, held_out: 0.3,
  classes_per_client: 2}}
methods: [fedavg]
train: {{rounds: 2}}
certificates: [{{rule: "mine.py:{rule}"{more}}}]
seeds: [0]
"""
RULES = """
from math import log, sqrt


def bound(losses, delta):
    return sum(losses) / len(losses) + sqrt(log(1 / delta) / (2 * len(losses)))


def least(losses, delta):
    return min(losses)
"""


def study(folder, rule, more=""):
    (folder / "mine.py").write_text(RULES)
    path = folder / "mine.yaml"
    path.write_text(STUDY.format(rule=rule, more=more))
    return load_study(path)


def test_it_is_found_beside_the_study_and_its_file_makes_the_cells(tmp_path):
    one = study(tmp_path, "bound")
    (entry,) = one.certificates
    assert entry.rule == f"{tmp_path / 'mine.py'}:bound"
    before = [cell.id for cell in one.cells("data")]
    assert [cell.id for cell in study(tmp_path, "bound").cells("data")] == before
    (tmp_path / "mine.py").write_text(RULES + "\n# another file\n")
    after = [cell.id for cell in load_study(tmp_path / "mine.yaml").cells("data")]
    assert len(set(before) & set(after)) == 1, "the split's cell alone"


def test_one_that_promises_too_much_is_refused_unless_it_is_trusted(tmp_path):
    with pytest.raises(InputError, match=r"certificates\.0\.rule .*mine.py:least failed in \d+ of"):
        study(tmp_path, "least")
    assert study(tmp_path, "least", ", trust: true").certificates[0].trust
    with pytest.raises(InputError, match="no function or Rule absent"):
        study(tmp_path, "absent")


def test_trust_is_about_rules_of_ones_own():
    with pytest.raises(InputError, match=r"certificates\.0\.trust is about rules of one's own"):
        load_study("quickstart", ["certificates=[{rule: product, trust: true}]"])
