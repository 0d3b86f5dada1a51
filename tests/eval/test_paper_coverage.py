"""Every table and figure of the papers has a study, and every study can be run at every scale."""

import csv
import re
from importlib import resources
from itertools import product
from pathlib import Path

import pytest
import yaml

from latecomer.eval.study import load_study, shipped_studies
from latecomer.models.methods import METHODS

ITEMS = yaml.safe_load(Path(__file__).with_name("paper_items.yaml").read_text("utf-8"))
STUDIES = {study.name: study for study in shipped_studies()}
JOBS = ("bound-vs-accuracy", "shift-robustness", "generalization-gap")


def answered() -> set[tuple[str, str]]:
    """Return (source, item) of every study and variant."""
    found = set()
    for name, study in STUDIES.items():
        for variants in ((), *((one,) for one in study.variants)):
            for item in load_study(name, variants=variants).paper or ():
                source, title, *_ = item.split(":")
                found.add((source, title))
    return found


def listed() -> tuple[set[tuple[str, str]], dict[tuple[str, str], str]]:
    """Return all items, and those that are missing with the reason."""
    every = {
        (source, item): said for source, items in ITEMS.items() for item, said in items.items()
    }
    missing = {key: said["missing"] for key, said in every.items() if isinstance(said, dict)}
    return set(every), missing


def test_every_item_has_a_study_or_says_why_not(capsys):
    every, missing = listed()
    with capsys.disabled():
        for (source, item), why in sorted(missing.items()):
            print(f"\n no study yet: {source}, {item}: {' '.join(why.split())}")
    assert every - set(missing) == answered()


def test_every_published_number_belongs_to_a_listed_item():
    try:
        text = (resources.files("latecomer.reports") / "paper_results.csv").read_text("utf-8")
    except FileNotFoundError:
        pytest.skip("the papers' numbers are not part of this package")
    every, _ = listed()
    assert {(row["source"], row["item"]) for row in csv.DictReader(text.splitlines())} <= every


def test_the_three_jobs_are_studies():
    assert set(JOBS) <= set(STUDIES)


@pytest.mark.parametrize("name", sorted(name for name in STUDIES if STUDIES[name].paper))
def test_every_variant_stands_at_every_scale(name):
    study = STUDIES[name]
    assert (study.scale, study.scales) == ("paper", ("smoke", "reduced", "paper"))
    choices = [(), *((variant,) for variant in study.variants)]
    for variants, scale in product(choices, study.scales):
        made = load_study(name, variants=variants, scale=scale)
        assert made.study == "-".join([name, *variants])
        assert (made.scale, bool(made.question), bool(made.paper)) == (scale, True, True)
        small = made.train.rounds <= 4
        assert small == (scale == "smoke")
    as_written = load_study(name)
    assert as_written == load_study(name, scale="paper")
    assert as_written.train.rounds in (500, 5000)


@pytest.mark.parametrize("name", sorted(STUDIES))
def test_scales_and_variants_name_methods_that_there_are(name):
    text = (resources.files("latecomer.eval") / "studies" / f"{name}.yaml").read_text("utf-8")
    named = set(re.findall(r"methods\.([a-z_]+)\.", text))
    assert named <= set(METHODS)
