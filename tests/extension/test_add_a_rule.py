"""A rule of certificates is one file: studies, loss tables, help and reports know it by that."""

import math
from pathlib import Path

import pytest

EVERY_KIND = Path(__file__).parents[2] / "docs" / "building" / "every_kind.py"

RULE = '''
"""Hoeffding's inequality over the scores of held-out clients."""

import numpy as np

from latecomer.bounds.held_out.losses import hoeffding
from latecomer.certify.rules.declaration import Rule


def _hoeffding(a):
    mean = float(np.mean(a.losses))
    return hoeffding(empirical_risk=mean, n_samples=len(a.losses), delta=a.level)


RULES = (Rule(name="hoeffding", words="Hoeffding's inequality", bound=_hoeffding),)
'''
DOORS = """
import sys
from runpy import run_path

from latecomer.eval.routes.scored_clients import Scored, certify_best, certify_scores
from latecomer.eval.scoring.scores import ClientScore
from latecomer.eval.studies.loading import load_study
from latecomer.certify.sentences import statement
from latecomer.reports.words import bound_name

examples = dict(run_path(sys.argv[1])["examples"]())
study = load_study("quickstart", ["certificates=[{rule: hoeffding},"
    "{best_of: [product, hoeffding]}]"])
print(study.certificates[0].rule, study.certificates[1].best_of)
scored = Scored([ClientScore(i, 20, 10, 1, .3) for i in range(30)], "finite-pool", 40,
                "deterministic")
issued = certify_scores(scored, rule="hoeffding", level=.05)
print(round(float(issued), 4), issued.name, issued.population, issued.source)
print(round(float(certify_best(scored, rules=["product", "hoeffding"], delta=.05)), 4))
print(bound_name("r0:hoeffding"))
print(statement(examples["r0:hoeffding, finite pool, deterministic"]))
"""


@pytest.mark.slow
def test_one_file_opens_every_door_and_the_command_line(package):
    package.write("certify/rules/hoeffding.py", RULE)
    chosen, alone, best, name, sentence = package.run("-c", DOORS, str(EVERY_KIND)).splitlines()
    assert chosen == "hoeffding ('product', 'hoeffding')"
    value, said = alone.split(" ", 1)
    assert float(value) == pytest.approx(0.1 + math.sqrt(math.log(20) / 60), abs=1e-4)
    assert said.startswith("hoeffding unseen-client Hoeffding 1963")
    assert float(best) < float(value)
    assert name == "held-out clients, Hoeffding's inequality"
    assert "over the choice of these 30 clients, the mean error over the 40 clients" in sentence
    assert "it holds for their expected errors" in sentence
    assert len(package.written) == 1
    table = package.root / "losses.csv"
    table.write_text("client,loss\n" + "".join(f"{i},0.1\n" for i in range(30)), "utf-8")
    asked = ("certify", str(table), "--rule", "hoeffding")
    assert "rule hoeffding," in package.run("-m", "latecomer", *asked)
    told = package.run("-m", "latecomer", *asked, "--long")
    assert "<= 0.324   Hoeffding's inequality;" in told
    assert "Plan, to be fixed before the first loss is seen: rule hoeffding," in told
    assert "hoeffding" in package.run("-m", "latecomer", "certify", "--help")


def test_a_rule_that_is_declared_twice_is_refused(package):
    package.write("certify/rules/again.py", RULE.replace('"hoeffding"', '"product"'))
    say = "try: import latecomer.certify.rule\nexcept ValueError as error: print(error)"
    assert "'product' is declared twice, again by shipped" in package.run("-c", say)
