import subprocess
import sys

import numpy as np
import pytest
from doors import refusal

from latecomer.errors import InputError
from latecomer.eval.datasets import DATASETS, load_dataset, make_dataset


def test_digits_are_the_real_ones():
    data = load_dataset({"name": "digits"})
    assert data.x.shape == (1797, 1, 8, 8)
    assert data.x.dtype == np.float32
    assert data.y.dtype == np.int64
    assert (data.x.min(), data.x.max()) == (0, 1)
    # Class counts as published with the UCI set's test part.
    counts = [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert np.bincount(data.y).tolist() == counts
    assert (data.n_classes, len(data), data.client, data.test) == (10, 1797, None, None)
    # The first sample of the set is a zero: a ring around an empty centre.
    assert data.x[0, 0, 3, 3] == 0
    assert data.x[0, 0, 3, 2] > 0.5


def test_digits_are_read_from_their_file_or_by_scikit_learn(monkeypatch):
    data = load_dataset({"name": "digits"})
    monkeypatch.setattr("latecomer.eval.datasets.readers.grey_digits._packed", lambda: None)
    other = load_dataset({"name": "digits"})
    assert (data.x.tobytes(), data.y.tobytes()) == (other.x.tobytes(), other.y.tobytes())
    assert data.class_names == other.class_names
    code = (
        "import sys; from latecomer.eval.datasets import load_dataset;"
        'load_dataset({"name": "digits"}); assert "sklearn" not in sys.modules'
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_data_set_has_a_description():
    assert set(DATASETS) >= {"digits", "npz"}
    for reader in DATASETS.values():
        assert reader.description
        assert "\n" not in reader.description


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({}, "data.name must be one of digits, npz"),
        ({"name": "digit"}, "did you mean 'digits'?"),
        ({"name": 3}, "data.name must be one of"),
        ({"name": "digits", "path": "x"}, "data.path is no key of data set digits"),
        ({"name": "npz"}, "data.path must be given"),
        ({"name": "npz", "path": "x", "layuot": "hw"}, "did you mean 'layout'?"),
    ],
)
def test_bad_declarations(config, words):
    assert words in refusal(load_dataset, config)


def test_hash_is_of_contents():
    x, y = np.arange(12, dtype=np.uint8).reshape(4, 3), np.array([0, 1, 0, 1])
    first = make_dataset("a", x, y, provenance="here").content_hash
    assert make_dataset("b", x.copy(), y.astype(np.int8), provenance="there").content_hash == first
    others = [
        make_dataset("a", x + np.uint8(1), y, provenance=""),
        make_dataset("a", x, y[::-1], provenance=""),
        make_dataset("a", x.astype(np.float32), y, provenance=""),
        make_dataset("a", x.reshape(4, 3, 1, 1), y, provenance=""),
        make_dataset("a", x, y, provenance="", client=y),
        make_dataset("a", x, y, provenance="", test=y > 0),
    ]
    assert len({first, *(data.content_hash for data in others)}) == 7


def test_test_rows_must_fit():
    with pytest.raises(InputError, match="x has 3, y has 3, test has 2"):
        make_dataset("a", np.zeros((3, 1)), np.zeros(3), provenance="", test=np.zeros(2, bool))


def test_import_loads_neither_torch_nor_sklearn():
    code = (
        "import sys, latecomer.eval.datasets, latecomer.eval.datasets.registry, "
        "latecomer.eval.splits.build, latecomer.eval.shifts.transforms, "
        "latecomer.eval.federation.distances; "
        "sys.exit(bool({'torch', 'sklearn'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_superclasses_are_kept_and_a_class_lies_in_one():
    x, y = np.zeros((4, 1)), np.array([0, 1, 2, 2])
    data = make_dataset("a", x, y, provenance="", coarse=np.array([0, 0, 1, 1], np.uint8))
    assert data.coarse.tolist() == [0, 0, 1, 1]
    assert data.coarse.dtype == np.int64
    assert data.content_hash != make_dataset("a", x, y, provenance="").content_hash
    with pytest.raises(InputError, match="one superclass, got class 2 in two"):
        make_dataset("a", x, y, provenance="", coarse=np.array([0, 0, 1, 0]))
    with pytest.raises(InputError, match="coarse must hold one whole number"):
        make_dataset("a", x, y, provenance="", coarse=np.array([0, 0, -1, 0]))


def test_samples_in_two_clients_are_counted_unless_inputs_take_few_values():
    rng = np.random.default_rng(0)
    x, owner = rng.normal(size=(40, 3)), np.repeat(np.arange(4), 10)
    assert make_dataset("toy", x, np.zeros(40), provenance="", client=owner).copies() == {}
    x[30:33] = x[:3]
    copied = make_dataset("toy", x, np.zeros(40), provenance="", client=owner).copies()
    assert copied == {"points": 6, "clients": 2}
    few = rng.integers(0, 3, (40, 2)).astype(float)
    assert make_dataset("toy", few, np.zeros(40), provenance="", client=owner).copies() == {}
    x[20:] = x[:20]
    twice = make_dataset("toy", x, np.zeros(40), provenance="", client=owner).copies()
    assert twice == {"points": 40, "clients": 4}
