"""Every table and figure of the papers has a study, and every study can be run at every scale."""

import re
from dataclasses import fields
from importlib import resources
from itertools import product
from pathlib import Path

import pandas as pd
import pytest
import yaml

from latecomer.eval.results.rows import COLUMNS
from latecomer.eval.studies.loading import load_study
from latecomer.eval.studies.settings import Study
from latecomer.eval.studies.shipped import shipped_studies
from latecomer.models.methods import METHODS, make_method
from latecomer.reports.frames.paper import paper_frame, paper_numbers

ITEMS = yaml.load(Path(__file__).with_name("paper_items.yaml").read_bytes(), yaml.CSafeLoader)
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


def listed() -> set[tuple[str, str]]:
    """Return (source, item) of all that the papers have."""
    return {(source, item) for source, items in ITEMS.items() for item in items}


@pytest.mark.slow
def test_every_item_has_a_study():
    assert listed() == answered()


def published() -> set[tuple[str, str]]:
    """Return (source, item) of every number that the papers give."""
    numbers = paper_numbers()
    return set(zip(numbers["source"], numbers["item"], strict=True))


def test_every_published_number_belongs_to_a_listed_item():
    assert published() <= listed()


def imagined(study: Study, dealt: int) -> pd.DataFrame:
    """Return rows as a run of the study would have them, all of one error, without running it."""
    clients, novel = study.split.clients or dealt, study.split.novel
    novel = round(novel * clients) if isinstance(novel, float) else novel
    conditions = ["none", *(one.label for one in study.shifts.dataset)]
    about = {
        **dict.fromkeys(COLUMNS, ""),
        **dict.fromkeys(("severity", "lower", "upper", "delta"), float("nan")),
        **{"dataset": study.data.name, "seed": 0, "metric": "error"},
        **{"value": 0.25, "n_query": 10, "predictor": "deterministic", "status": "ok"},
    }
    rows = [
        (method.name, method.label, str(client), "novel" if client < novel else "seen", shift)
        for method in study.methods
        for client in range(clients)
        for shift in (conditions if client < novel else ["none"])
    ]
    names = ["method", "label", "client", "group", "shift"]
    same = {name: value for name, value in about.items() if name not in names}
    return pd.DataFrame(rows, columns=names).assign(**same)


def targets_of(rows: pd.DataFrame) -> pd.DataFrame:
    """Deal three target networks in turn to all clients."""
    sizes = ("lenet-s", "lenet", "lenet-l")
    return rows.assign(target=[sizes[int(client) % 3] for client in rows["client"]])


# The settings of the papers' tables that stand behind variants: words in a row go together.
SIZED = ("", "clients-500", "clients-1000")
TABLES = {
    "pefll-table1": [
        *product(("", "cifar100"), (*SIZED, "local", "local-500", "local-1000")),
        ("femnist",),
        ("local-femnist",),
    ],
    "pefll-table5": list(product(("", "cifar100"), ("", "small", "large"), SIZED)),
    "pefll-table6": [()],
    "pefll-table7": list(product(("", "cifar100"), ("", "mlp"), SIZED)),
    "pfedhn-c5": [()],
    "pfedhn-figure6b": [("",), ("hidden-4",)],
    "pfedhn-table1": [
        *product(
            ("", "cifar100"),
            ("", "baselines", "pfedme", "lg-fedavg"),
            ("", "clients-10", "clients-100"),
        ),
        *product(("", "cifar100"), ("local-10", "local-50", "local-100")),
        *product(("omniglot",), ("", "baselines", "pfedme", "lg-fedavg", "local-50")),
    ],
    "pfedhn-table2": [
        ("",),
        ("cifar100",),
        *product(("", "cifar100"), ("baselines-s", "baselines-m", "baselines-l"), ("", "pfedme")),
    ],
    "pfedhn-table3": list(product(("", "baselines", "pfedme"), ("", "clients-10", "clients-100"))),
    "pfedhn-table4": [("",), ("clients-10",), ("clients-100",)],
    "odpfl-table1": list(
        product(("", "cifar100"), ("", "dirichlet-0.1", "dirichlet-1", "dirichlet-10"))
    ),
    "odpfl-table2": [("",), ("geo-300",), ("landmarks",), ("yahoo-answers",)],
    "odpfl-stl10": [()],
}
WRITERS = {"femnist": 3597, "local-femnist": 3597, "omniglot": 50, "geo-300": 1208}
WRITERS |= {"landmarks": 1262}
# Tables of which the study has one row, because its settings are that row's: their own studies have
# all rows.
REPEATED = {
    "pefll-table1": {("pefll-iclr", f"Table {number}") for number in (5, 6, 7)},
    "pfedhn-table1": {("pfedhn", "Figure 6b")},
}


def told(item: str, setting: str, n_clients: int, group: str, percent: float) -> str:
    """Name a published accuracy."""
    return f"{item}: {setting.rstrip(', ')}: {n_clients} {group}: {percent:.2f}"


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(TABLES))
def test_a_report_sets_every_published_number_beside_ours(name):
    numbers = paper_numbers()
    items = {tuple(item.split(":")[:2]) for item in STUDIES[name].paper}
    repeated = REPEATED.get(name, set())
    items -= repeated
    asked = {
        told(f"{n.source}:{n.item}", f"{n.dataset}, {n.setting}", n.n_clients, n.group, n.mean)
        for n in numbers.itertuples()
        if (n.source, n.item) in items and n.metric == "accuracy_percent"
    }
    found, again = set(), []
    for words in TABLES[name]:
        variants = [word for word in words if word]
        study = load_study(name, variants=variants)
        dealt = next((WRITERS[word] for word in variants if word in WRITERS), 368)
        rows = imagined(study, dealt)
        sized = "sizes" in study.methods[0].hyper()
        frame = paper_frame(rows, study.resolved(), targets_of(rows) if sized else None)
        assert set(frame["label"]) == {method.label for method in study.methods}
        for one in frame.itertuples():
            if (item := tuple(one.item.split(":"))) in repeated:
                again.append(item)
            else:
                found.add(
                    told(one.item, one.setting, one.paper_n_clients, one.group, 100 * one.paper)
                )
    assert found == asked
    assert sorted(again) == sorted(repeated)


def test_every_published_accuracy_is_of_such_a_study():
    items = {tuple(item.split(":")[:2]) for name in TABLES for item in STUDIES[name].paper}
    numbers = paper_numbers()
    accuracies = numbers[numbers["metric"] == "accuracy_percent"]
    assert set(zip(accuracies["source"], accuracies["item"], strict=True)) <= items


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
        small = made.train.rounds <= 5  # FedMA has a phase for each layer of LeNet
        assert small == (scale == "smoke")
    as_written = load_study(name)
    assert as_written == load_study(name, scale="paper")
    assert as_written.train.rounds in (500, 5000)


@pytest.mark.parametrize("name", sorted(STUDIES))
def test_scales_and_variants_name_methods_that_there_are(name):
    folder = Path(str(resources.files("latecomer.eval.studies"))) / "yaml"
    text = next(folder.glob(f"*/{name}.yaml")).read_text("utf-8")
    named = set(re.findall(r"methods\.([a-z_]+)\.", text))
    assert named <= set(METHODS)


@pytest.mark.parametrize("name", sorted(name for name in STUDIES if STUDIES[name].paper))
def test_lengths_count_all_clients_as_the_papers_do(name):
    # A method sees the training clients alone: where others are kept out, a study must say.
    for variants in ((), *((variant,) for variant in STUDIES[name].variants)):
        study = load_study(name, variants=variants)
        if not study.split.novel:
            continue
        for entry in study.methods:
            made = make_method(entry.name, **entry.hyper())
            lengths = {"embedding_dim", "descriptor_dim"} & {one.name for one in fields(made)}
            fixed = getattr(made, "descriptors", "learned") == "class_proportions"
            assert fixed or all(getattr(made, one) for one in lengths), (variants, entry.label)
