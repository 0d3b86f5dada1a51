"""Every table and figure of the papers has a study, and every study can be run at every scale."""

import re
from importlib import resources
from itertools import product
from pathlib import Path

import pandas as pd
import pytest
import yaml

from latecomer.eval.rows import COLUMNS
from latecomer.eval.study import load_study, shipped_studies
from latecomer.models.methods import METHODS
from latecomer.reports.paper import paper_frame, paper_numbers

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


def published() -> set[tuple[str, str]]:
    """Return (source, item) of every number that the papers give."""
    numbers = paper_numbers()
    return set(zip(numbers["source"], numbers["item"], strict=True))


def test_every_published_number_belongs_to_a_listed_item():
    every, _ = listed()
    assert published() <= every


# Figure 3 gives a correlation and no accuracy; Table 2 of pFedHN has a number for each size.
@pytest.mark.parametrize(
    "name",
    sorted(
        study.name
        for study in STUDIES.values()
        if study.name not in ("pefll-descriptors", "pfedhn-table2")
        and {tuple(item.split(":")[:2]) for item in study.paper} & published()
    ),
)
def test_a_report_finds_the_published_numbers_of_every_method(name):
    study = load_study(name)
    clients, novel = study.split.clients or 368, study.split.novel
    novel = round(novel * clients) if isinstance(novel, float) else novel
    about = {
        **dict.fromkeys(COLUMNS, ""),
        **dict.fromkeys(("severity", "lower", "upper", "delta"), float("nan")),
        **{"dataset": study.data.name, "seed": 0, "shift": "none", "metric": "error"},
        **{"value": 0.25, "n_query": 10, "predictor": "deterministic", "status": "ok"},
    }
    rows = [
        about
        | {"method": method.name, "label": method.label, "client": str(client)}
        | {"group": "novel" if client < novel else "seen"}
        for method in study.methods
        for client in range(clients)
    ]
    found = paper_frame(pd.DataFrame(rows), study.resolved())
    assert set(found["label"]) == {method.label for method in study.methods}


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
