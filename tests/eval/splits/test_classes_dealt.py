"""Class sets dealt to seen and to held-out clients alike, so that neither is an easier draw."""

import numpy as np
import pytest
from doors import refusal
from hypothesis import given, settings
from hypothesis import strategies as st

from latecomer.eval.datasets import load_dataset, make_dataset
from latecomer.eval.splits.build import label_counts, make_split
from latecomer.eval.studies.cells import cells_of
from latecomer.eval.studies.loading import load_study

DIGITS = load_dataset({"name": "digits"})
DEALT = {"kind": "by_class", "clients": 60, "novel": 10, "classes_per_client": 2}
GOLDEN = "5cce1b8ed6b7deed54ec2ea937e8f646adedbcd739a4d18423498314164bcb64"


def fine_and_coarse(each=120):
    y = np.repeat(np.arange(12), each)
    return make_dataset("toy", np.zeros((len(y), 1)), y, provenance="", coarse=y // 2)


def sets_of(data, clients, labels):
    """Which of ``labels`` (classes or superclasses) each client holds, [clients, labels]."""
    held = label_counts(data.y, clients, 12) > 0
    owner = np.eye(12, dtype=bool) if labels == 12 else np.repeat(np.eye(6, dtype=bool), 2, axis=0)
    return (held @ owner) > 0


@settings(max_examples=80, deadline=None)
@given(
    kind=st.sampled_from([("by_class", "classes_per_client", 12), ("coarse", None, 6)]),
    per_client=st.integers(1, 5),
    seen=st.integers(1, 30),
    certify=st.integers(0, 6),
    novel=st.integers(0, 12),
    seed=st.integers(0, 200),
)
def test_each_class_is_as_frequent_among_seen_as_among_held_out_clients(
    kind, per_client, seen, certify, novel, seed
):
    name, key, labels = kind
    data, key = fine_and_coarse(), key or "superclasses_per_client"
    split = make_split(
        data,
        kind=name,
        clients=seen + certify + novel,
        certify=certify,
        novel=novel,
        seed=seed,
        classes_dealt="by_group",
        **{key: per_client},
    )
    apart = split.certification + split.novel
    tables = [sets_of(data, group, labels) for group in (split.seen, apart) if group]
    for table in tables:
        assert (table.sum(axis=1) == per_client).all()
        assert np.ptp(table.sum(axis=0)) <= 1
    smaller, larger = sorted(tables, key=len)[0], sorted(tables, key=len)[-1]
    kept = {row.tobytes() for row in larger}
    assert all(row.tobytes() in kept for row in smaller)


def frequencies(classes_dealt, seed):
    split = make_split(DIGITS, **DEALT, seed=seed, classes_dealt=classes_dealt)
    return (label_counts(DIGITS.y, split.novel, 10) > 0).sum(axis=0)


def test_dealt_overall_new_clients_may_hold_one_class_often_and_another_never():
    assert max(np.ptp(frequencies("overall", seed)) for seed in range(10)) > 2
    assert all((frequencies("by_group", seed) == 2).all() for seed in range(10))


@pytest.mark.slow
def test_certification_clients_are_still_a_uniform_sample_of_those_held_out():
    # 8 held-out clients hold 4 classes twice; certified are 4 of them. A uniform sample holds
    # each class once on average, and both of its clients with probability C(6,2)/C(8,4) = 3/14.
    y = np.repeat(np.arange(4), 400)
    data = make_dataset("toy", np.zeros((len(y), 1)), y, provenance="")
    counts = []
    for seed in range(600):
        split = make_split(
            data,
            kind="by_class",
            clients=16,
            certify=4,
            novel=4,
            classes_per_client=1,
            seed=seed,
            classes_dealt="by_group",
        )
        counts.append((label_counts(data.y, split.certification, 4) > 0).sum(axis=0))
    table = np.array(counts)
    assert abs((table == 2).mean() - 3 / 14) < 0.03
    assert abs(table.mean(axis=0) - 1).max() < 0.1


STUDY = """
study: toy
data: {name: digits}
split: {kind: by_class, clients: 30, classes_per_client: 2, novel: 5, seed: 3%s}
methods: [fedavg, pefll]
train: {rounds: 1, cohort: 2, local_steps: 1, batch_size: 8}
seeds: [0, 1]
"""


def configs(tmp_path, more):
    file = tmp_path / "study.yaml"
    file.write_text(STUDY % more)
    return cells_of(load_study(str(file)).resolved(), "hash")


def test_the_usual_way_by_name_is_the_same_cells_and_the_other_way_others(tmp_path):
    usual = configs(tmp_path, "")
    assert all("classes_dealt" not in cell.config["split"] for cell in usual)
    named = configs(tmp_path, ", classes_dealt: overall")
    assert [cell.id for cell in named] == [cell.id for cell in usual]
    other = configs(tmp_path, ", classes_dealt: by_group")
    assert not {cell.id for cell in other} & {cell.id for cell in usual}
    # One split for all methods and seeds.
    assert len({str(cell.config["split"]) for cell in other}) == 1


def test_the_usual_split_is_what_it_was():
    dealt = DEALT | {"seed": 1}
    plain = make_split(DIGITS, **dealt)
    # Written by the version before the setting existed.
    assert plain.content_hash == GOLDEN
    assert make_split(DIGITS, **dealt, classes_dealt="overall").content_hash == GOLDEN
    alike = make_split(DIGITS, **dealt, classes_dealt="by_group")
    assert alike.settings["classes_dealt"] == "by_group"
    assert make_split(DIGITS, **alike.settings).content_hash == alike.content_hash


@pytest.mark.parametrize("kind", ["pathological", "dirichlet", "iid"])
def test_splits_without_class_sets_do_not_know_the_setting(kind):
    said = refusal(make_split, DIGITS, kind=kind, clients=10, classes_dealt="by_group")
    assert f"classes_dealt is no setting of split.kind={kind}" in said
