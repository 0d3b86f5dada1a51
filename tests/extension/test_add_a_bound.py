"""A bound is one file: the catalogue, the front door, the command line and reports know it."""

import pytest

BOUND = '''
"""Markov's inequality for one client."""

from latecomer.bounds.certificate import Certificate, catalogued, certificate
from latecomer.bounds.checks import between, failure_probability


@catalogued(
    family="one data set",
    claim="Markov's inequality for the mean loss of n samples",
    source="Markov 1884, page 3",
    cites=("""@article{markov1884,
  title = {On certain applications of continued fractions},
  author = {Markov, Andrey},
  year = {1884}
}""",),
    population="one-client",
    predictor="deterministic",
    sampling="iid",
    assumptions=("losses lie in [0, 1]",),
    vacuous_when="always, but for losses near 0",
)
def markov(*, empirical_risk: float, delta: float) -> Certificate:
    """Bound the risk by the mean loss over delta."""
    mean = between("empirical_risk", empirical_risk, 0, 1)
    share = failure_probability("delta", delta)
    return certificate("markov", terms={"scaled": mean / share}, delta={"samples": share})
'''
DOORS = """
import sys
import latecomer.bounds as bounds
print("markov" in bounds.__all__, "markov" in dir(bounds), "numpy" in sys.modules)
entry = bounds.CATALOGUE["markov"]
print(round(float(bounds.markov(empirical_risk=.01, delta=.05)), 6), entry.family)
from latecomer.reports.page.method import citations
print(citations([], [entry.source]).splitlines()[0])
"""


@pytest.mark.slow
def test_one_file_opens_every_door_and_the_command_line(package):
    package.write("bounds/unseen_clients/markov.py", BOUND)
    listed, value, cited = package.run("-c", DOORS).splitlines()
    assert listed == "True True False", "to list the names loads nothing"
    assert value == "0.2 one data set"
    assert cited == "@article{markov1884,"
    assert len(package.written) == 1
    assert "Markov's inequality for the mean loss" in package.run("-m", "latecomer", "bounds")
    told = package.run("-m", "latecomer", "bound", "markov", "empirical_risk=.01", "delta=.05")
    assert "0.2" in told
    assert "Markov 1884, page 3" in told
