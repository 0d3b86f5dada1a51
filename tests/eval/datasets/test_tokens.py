"""Inputs that are tokens: the same whole numbers through every door, never scaled."""

import numpy as np
import pandas as pd
import pytest
import torch
from doors import refusal, written
from torch.utils.data import TensorDataset

from latecomer import clients_from
from latecomer.errors import InputError
from latecomer.eval.datasets import load_dataset
from latecomer.eval.federation.distances import split_diagnostics
from latecomer.eval.federation.groups import make_clients, standardisation
from latecomer.eval.shifts.populations import shifted_populations
from latecomer.eval.splits.build import make_split

RNG = np.random.default_rng(3)
WORDS = RNG.integers(0, 40, (60, 5))
WORDS[7, 2] = 40
LABELS = RNG.permutation(np.arange(60) % 3)
SITES = np.array(["Lund", "Bern", "Oslo", "Gent", "Metz", "Bonn"])[np.arange(60) // 10]
FRAME = pd.DataFrame({f"word {i}": WORDS[:, i] for i in range(5)}).assign(
    label=LABELS, client=SITES
)
CUT = {"seed": 0, "query": 0.25, "validation": 0.0}


@pytest.fixture
def words():
    return clients_from(FRAME, tokens=True)


def in_study(reader, folder):
    file = folder / "mine"
    if reader == "npz":
        np.savez(folder / "mine.npz", x=WORDS.astype(np.uint8), y=LABELS, client=SITES)
        file = folder / "mine.npz"
    elif reader == "table":
        written(FRAME, reader, file)
    elif reader == "torch":
        np.savez(folder / "held.npz", x=WORDS, y=LABELS, client=SITES)
        (folder / "mine.py").write_text(
            "import numpy as np\nimport torch\nfrom torch.utils.data import TensorDataset\n\n\n"
            f"def made():\n    held = np.load({str(folder / 'held.npz')!r})\n"
            "    x, y = (torch.from_numpy(held[key]) for key in 'xy')\n"
            "    return TensorDataset(x, y), held['client']\n"
        )
        file = f"{folder / 'mine.py'}:made"
    else:
        lists = pd.DataFrame({"text": list(WORDS), "label": LABELS, "client": SITES})
        written(lists, reader, file)
    return {"name": reader, "path": str(file), "tokens": True}


@pytest.mark.parametrize("reader", ["npz", "table", "parquet", "huggingface", "torch"])
def test_every_door_of_a_study_reads_the_same_tokens(reader, words, tmp_path):
    data = load_dataset(in_study(reader, tmp_path))
    assert data.content_hash == words.content_hash
    assert (data.x.dtype, data.vocabulary, data.input_shape) == (np.int64, 41, (5,))
    assert np.array_equal(data.x, WORDS)
    assert "5 tokens each, from 0 to 40" in data.told()[0]


def test_every_door_of_python_reads_the_same_tokens(words, tmp_path):
    order = np.argsort(SITES, kind="stable")
    sites = {site: (WORDS[site == SITES], LABELS[site == SITES]) for site in np.unique(SITES)}
    mapped = clients_from(sites, tokens=True)
    assert np.array_equal(mapped.x, WORDS[order])
    samples = TensorDataset(torch.from_numpy(WORDS), torch.from_numpy(LABELS))
    assert clients_from(samples, client=SITES, tokens=True).content_hash == words.content_hash
    groups = {site: site[0] for site in np.unique(SITES)}
    grouped = clients_from(FRAME, group=groups, tokens=True)
    assert grouped.vocabulary == 41
    file = words.save(tmp_path / "words.npz")
    read = load_dataset({"name": "npz", "path": str(file), "tokens": True})
    assert read.content_hash == words.content_hash
    assert clients_from(FRAME).vocabulary == 0


@pytest.mark.parametrize(
    ("x", "tokens", "message"),
    [
        ([[1, -1]], True, "x must hold tokens [N, T], whole numbers from 0 to 16777215, got -1"),
        ([[1.0, 2.5]], True, "got 2.5 in sample 0"),
        ([[1, 2**24]], True, "got 16777216 in sample 0"),
        ([[1.0, np.nan]], True, "got nan in sample 0"),
        ([[[1, 2], [3, 4]]], True, "got int64 of shape [1, 1, 2, 2]"),
        ([[1, 2]], "yes", "tokens must be true or false, got 'yes'"),
        ([[1, 2]], False, "other numbers as float32, or say tokens: true of numbers that stand"),
    ],
)
def test_what_is_no_token(x, tokens, message):
    assert message in refusal(clients_from, {"a": (np.array(x), [0])}, tokens=tokens)


def test_tokens_are_not_scaled(words):
    split = make_split(words, kind="natural", novel=2, certify=0, **CUT)
    scale = standardisation(words, split.seen)
    clients = make_clients(words.x, words.y, split.seen, scale)
    own = clients.support_of(0).x
    assert own.dtype == torch.float32
    assert np.array_equal(own.numpy(), WORDS[split.seen[0].support])
    rows = clients.support[:2, :3]
    assert np.array_equal(clients.inputs(rows).numpy(), WORDS[rows])


def test_distances_are_of_counts_and_not_of_the_numbers(words):
    """Numbers that stand for words may be dealt out anew without changing any distance."""
    split = make_split(words, kind="natural", novel=2, certify=0, **CUT)
    renamed = np.random.default_rng(0).permutation(41)[WORDS]
    found = []
    for x in (words.x, renamed):
        scale = standardisation(words, split.seen)
        seen, novel = (make_clients(x, words.y, rows, scale) for rows in (split.seen, split.novel))
        found.append([row["value"] for row in split_diagnostics(seen, novel)])
    assert found[0] == pytest.approx(found[1], abs=1e-12)
    assert np.any(found[0])


def test_shifts_of_tokens(words, tmp_path):
    split = make_split(words, kind="natural", novel=2, certify=0, **CUT)
    with pytest.raises(InputError, match=r"shifts.noise needs inputs that are numbers, got tokens"):
        shifted_populations(words, split, {"noise": [0.5]}, **CUT)
    digits = [{"name": "digits", "label": "other"}]
    with pytest.raises(InputError, match=r"shifts.dataset: other needs inputs that are numbers"):
        shifted_populations(words, split, {"dataset": digits}, **CUT)
    (tmp_path / "own.py").write_text(
        "def dropped(x, share, rng):\n    return x * (rng.random(x.shape) >= share)\n\n\n"
        "def halved(x, share, rng):\n    return x / 2\n\n\n"
        "def raised(x, share, rng):\n    return x + 41\n"
    )

    def by(name):
        entry = {"path": f"{tmp_path / 'own.py'}:{name}", "label": name, "severities": [0.5]}
        return shifted_populations(words, split, {"function": [entry]}, **CUT)

    (moved,) = by("dropped")
    assert moved.x.dtype == np.int64
    assert 0.3 < (moved.x == 0).mean() < 0.7
    assert "shifts: halved: x must hold tokens" in refusal(by, "halved")
    assert "raised must give tokens from 0 to 40, as the data hold" in refusal(by, "raised")
