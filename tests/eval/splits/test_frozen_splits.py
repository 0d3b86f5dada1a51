"""Splits frozen to a file: read again as they were, refused when they are not what they claim."""

import numpy as np
import pytest
from doors import refusal

from latecomer.errors import InputError
from latecomer.eval.datasets import load_dataset, make_dataset
from latecomer.eval.federation.groups import build_federation
from latecomer.eval.protocol import evaluate_cell
from latecomer.eval.results.rows import write_artifact
from latecomer.eval.settings.cell import FederationSettings
from latecomer.eval.splits.build import deal_extrapolated, make_split, split_of
from latecomer.eval.splits.further_clients import drawn_clients
from latecomer.eval.splits.registry import Frozen
from latecomer.eval.splits.split import frozen_facts, read_split, split_arrays
from latecomer.eval.studies.checking import parse_study

DIGITS = load_dataset({"name": "digits"})
KINDS = [
    {"kind": "by_class", "classes_per_client": 2, "reserve": 0.2},
    {"kind": "dirichlet", "alpha": 0.5, "form": "draws"},
    {"kind": "environment", "classes_per_client": 2, "reserve": 0.1},
    {"kind": "client_types", "types": [[0, 1], [2, 3, 4], [5, 6]], "weights": [0.5, 0.3, 0.2]},
    {"kind": "client_mixtures", "concentrations": [0.3] * 10},
]


def frozen(tmp_path, **options):
    split = make_split(DIGITS, clients=20, certify=4, novel=3, seed=7, **options)
    np.savez_compressed(tmp_path / "split.npz", **split_arrays(split, DIGITS.content_hash))
    return split, tmp_path / "split.npz"


@pytest.mark.parametrize("options", KINDS)
def test_a_split_comes_back_as_it_was(tmp_path, options):
    split, path = frozen(tmp_path, **options)
    again = split_of(DIGITS, Frozen(kind="frozen", path=str(path), hash=split.content_hash))
    assert (again.kind, again.seed, again.content_hash) == (split.kind, 7, split.content_hash)
    assert frozen_facts(path)["content_hash"] == split.content_hash
    for name in ("seen", "certification", "novel"):
        for a, b in zip(getattr(split, name), getattr(again, name), strict=True):
            assert a.id == b.id
            for role in ("support", "validation", "query"):
                np.testing.assert_array_equal(a.rows(role), b.rows(role))
    if split.reserve:
        pair = [
            deal_extrapolated(DIGITS, s, alpha=1.0, seed=0, n_clients=3) for s in (split, again)
        ]
        assert [c.support.tolist() for c in pair[0]] == [c.support.tolist() for c in pair[1]]
    if split.law:
        for name in ("types", "weights", "concentrations"):
            assert getattr(again.law, name) == getattr(split.law, name)
        pair = [
            drawn_clients(DIGITS, s.law, 3, 20, 0.25, 0.2, np.random.default_rng(0))
            for s in (split, again)
        ]
        assert [c.support.tolist() for c in pair[0]] == [c.support.tolist() for c in pair[1]]


@pytest.mark.parametrize("given", [{}, {"query": 0.25}])
def test_clients_that_shifts_draw_are_dealt_as_those_of_the_file(tmp_path, given):
    """Only their law differs: else a bound over populations would speak of other clients."""
    made = {
        **{"kind": "client_types", "clients": 30, "certify": 8, "novel": 6, "query": 0.5},
        **{"types": [[0, 1], [2, 3], [4, 5]], "weights": [0.4, 0.3, 0.3], "validation": 0.0},
    }
    np.savez_compressed(
        tmp_path / "s.npz", **split_arrays(make_split(DIGITS, **made), DIGITS.content_hash)
    )
    sizes = {}
    for split in (made, {"kind": "frozen", "path": str(tmp_path / "s.npz"), **given}):
        settings = FederationSettings(
            data={"name": "digits"}, split=split, shifts={"type_weights": [[0.2, 0.4, 0.4]]}
        )
        found = build_federation(settings)
        (other,) = found.shifted
        held = other.clients.support_sizes.tolist()
        sizes[split["kind"]] = (held, found.novel.clients.support_sizes.tolist())
    assert sizes["client_types"][0] == sizes["client_types"][1]
    assert (sizes["frozen"] == sizes["client_types"]) == (not given)


def test_what_is_not_the_split_it_claims_to_be_is_refused(tmp_path):
    split, path = frozen(tmp_path, **KINDS[0])
    assert "there is no file" in refusal(read_split, tmp_path / "absent.npz", DIGITS)
    assert f"split.hash must be {split.content_hash}" in refusal(
        read_split, path, DIGITS, expected="abc"
    )
    other = make_dataset("other", DIGITS.x[::-1].copy(), DIGITS.y, provenance="")
    assert "was made for other data than other" in refusal(read_split, path, other)
    with np.load(path) as stored:
        arrays = dict(stored)
    for name, change in (
        ("rows", arrays["rows"][::-1]),
        ("rows", arrays["rows"] + 10_000),
        ("rows", arrays["rows"].astype(float)),
        ("sizes", arrays["sizes"][:-1]),
        ("groups", arrays["groups"] + 1),
        ("reserve_sizes", arrays["reserve_sizes"] + 1),
        ("ids", arrays["ids"] + 1),
    ):
        np.savez(path, **(arrays | {name: change}))
        assert "is damaged" in refusal(read_split, path, DIGITS), name
    np.savez(path, **(arrays | {"about": np.array('{"format": "x"}')}))
    assert "is no frozen split" in refusal(read_split, path, DIGITS)
    path.write_bytes(b"not a file of this kind")
    assert "is no frozen split" in refusal(read_split, path, DIGITS)
    path.write_bytes(b"")
    assert "is no frozen split" in refusal(read_split, path, DIGITS)


def test_every_run_leaves_its_split_and_the_next_can_start_from_it(tmp_path):
    config = {
        "kind": "split",
        "data": {"name": "digits"},
        "split": {"kind": "by_class", "clients": 12, "novel": 3, "classes_per_client": 2},
        "shifts": {},
    }
    first = evaluate_cell(config)
    path = write_artifact(tmp_path, "split", first.artifacts["split"])
    again = evaluate_cell(config | {"split": {"kind": "frozen", "path": str(path)}})
    assert again.rows == first.rows
    assert again.artifacts["label_counts"].table == first.artifacts["label_counts"].table
    distances = first.artifacts["label_distances"]
    assert set(distances.arrays) == {"kl", "tv", "js", "hellinger"}
    assert distances.arrays["tv"].shape == (3, 9)


def test_a_study_pins_the_file_it_was_given(tmp_path):
    split, path = frozen(tmp_path, **KINDS[2])
    raw = {
        "study": "s",
        "data": {"name": "digits"},
        "split": {"kind": "frozen", "path": str(path)},
        "methods": ["fedavg"],
        "certificates": [{"rule": "wsr_averaged"}],
    }
    study = parse_study(raw)
    assert study.resolved()["split"]["hash"] == split.content_hash
    assert parse_study(study.resolved()) == study
    with pytest.raises(InputError, match=r"split\.path: there is no file"):
        parse_study(raw | {"split": {"kind": "frozen", "path": "nowhere.npz"}})
    with pytest.raises(InputError, match=r"split\.clients is no setting of a frozen split"):
        parse_study(raw | {"split": {"kind": "frozen", "path": str(path), "clients": 3}})
