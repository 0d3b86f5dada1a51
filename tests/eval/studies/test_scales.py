"""Variants and scales of a study: what they change, in which order, and what is refused."""

import re

import pytest

from latecomer.errors import InputError
from latecomer.eval.studies.loading import load_study
from latecomer.eval.studies.shipped import changed, offered

STUDY = """
study: table
scale: paper
data: {name: digits}
split: {kind: by_class, clients: 40, classes_per_client: 2, novel: 4}
methods: [fedavg, {name: pfedhn, label: short, embedding_dim: 5}, {name: pfedhn, embedding_dim: 9}]
train: {rounds: 5000}
variants:
  baselines: {methods: [per_fedavg], train.cohort: 3}
  few: {split.clients: 20, train.cohort: 2}
scales:
  smoke: {train.rounds: 2, methods.pfedhn.novel_rounds: 1, methods.fedavg.local_lr: 0.5}
"""


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "table.yaml"
    file.write_text(STUDY)
    return file


def test_as_written(path):
    study = load_study(path)
    assert (study.study, study.scale, study.train.rounds) == ("table", "paper", 5000)
    assert study == load_study(path, scale="paper")


def test_a_scale_changes_every_entry_of_a_method(path):
    study = load_study(path, scale="smoke")
    assert (study.scale, study.train.rounds) == ("smoke", 2)
    hyper = [method.hyper() for method in study.methods]
    assert hyper == [
        {"local_lr": 0.5},
        {"embedding_dim": 5, "novel_rounds": 1},
        {"embedding_dim": 9, "novel_rounds": 1},
    ]


def test_variants_apply_in_order_then_the_scale_then_overrides(path):
    study = load_study(path, ["train.rounds=7"], variants=["baselines", "few"], scale="smoke")
    assert study.study == "table-baselines-few"
    assert [method.name for method in study.methods] == ["per_fedavg"]
    assert (study.train.cohort, study.split.clients, study.train.rounds) == (2, 20, 7)
    assert load_study(path, variants=["few", "baselines"]).train.cohort == 3


@pytest.mark.parametrize(
    ("overrides", "scale"),
    [
        (["train.rounds=7"], "reduced"),
        (["methods.0.local_lr=0.1"], "reduced"),
        (["evaluation.classes=known", "evaluation.class_set=given"], "reduced"),
        (["data.root=/data", "train.device=auto", "seeds=[0]"], "paper"),
        (["train.path=blocked"], "paper"),
        (["train.precision=bf16"], "reduced"),
        (["train.rounds=7", "scale=paper"], "paper"),
    ],
)
def test_a_study_is_not_at_the_papers_scale_once_its_settings_are_others(path, overrides, scale):
    study = load_study(path, overrides)
    assert study.scale == scale
    assert load_study(path, overrides, variants=["few"]).scale == scale


PEFLL, FEDAVG = "{name: pefll, descriptor_dim: 26, lambda_theta: 2.5e-5}", "fedavg"


@pytest.mark.parametrize(
    ("overrides", "scale"),
    [
        ([f"methods=[{FEDAVG}]"], "paper"),
        ([f"methods=[{PEFLL}, {FEDAVG}]", "seeds=[0]"], "paper"),
        (["methods=[pefll]"], "reduced"),
        (["methods=[scaffold]"], "reduced"),
        ([f"methods=[{PEFLL}]", "methods.0.descriptor_dim=25"], "reduced"),
        ([f"methods=[{FEDAVG}]", "train.path=blocked"], "paper"),
        ([f"methods=[{FEDAVG}]", "train.rounds=7"], "reduced"),
    ],
)
def test_some_of_a_studys_own_methods_are_still_the_papers(overrides, scale):
    """Leaving out the others changes nothing; another setting, or another method, does."""
    assert load_study("pefll-table1", overrides).scale == scale


def test_the_resolved_study_says_its_scale_and_loads_back(path):
    from latecomer.eval.studies.checking import parse_study

    study = load_study(path, variants=["few"], scale="smoke")
    plain = study.resolved()
    assert (plain["scale"], "variants" in plain, "scales" in plain) == ("smoke", False, False)
    assert parse_study(plain) == study


def test_a_declaration_is_left_as_it_is():
    raw = {"study": "t", "methods": ["fedavg"], "scales": {"smoke": {"methods.fedavg.local_lr": 1}}}
    before = repr(raw)
    changed(raw, scale="smoke")
    assert repr(raw) == before


@pytest.mark.parametrize(
    ("variants", "scale", "words"),
    [
        ((), "reduced", "scale must be smoke or paper, got 'reduced'"),
        ((), "smok", "did you mean 'smoke'"),
        (["large"], None, "different ones of baselines, few, got 'large'"),
        (["few", "few"], None, "different ones of baselines, few, got 'few'"),
    ],
)
def test_refusals(path, variants, scale, words):
    with pytest.raises(InputError, match=re.escape(words)):
        load_study(path, variants=variants, scale=scale)


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ({"scales": {"tiny": {}}}, "scales must be among smoke, reduced, paper, got 'tiny'"),
        ({"scales": ["smoke"]}, "scales must map names to dotted keys"),
        ({"variants": {"few": 3}}, "variants must map names to dotted keys"),
    ],
)
def test_sections_that_are_none(section, words):
    with pytest.raises(InputError, match=words):
        offered({"study": "t", **section})


def test_a_study_without_scales_has_none_to_ask_for():
    with pytest.raises(InputError, match="left out: the study has none"):
        changed({"study": "t"}, scale="smoke")
    with pytest.raises(InputError, match="left out: it has none"):
        changed({"study": "t"}, variants=["few"])


def test_a_wrong_key_in_a_scale_is_refused_like_any_other(path):
    path.write_text(STUDY.replace("train.rounds: 2", "train.round: 2"))
    with pytest.raises(InputError, match=r"train\.round"):
        load_study(path, scale="smoke")
