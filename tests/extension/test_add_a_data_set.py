"""A data set is one file: studies, splits and the commands about data know it by that."""

import pytest

READER = '''
"""178 Italian wines, which ship inside scikit-learn."""

from latecomer.eval.datasets.dataset import make_dataset
from latecomer.eval.datasets.reader import Reader, Source


def _read():
    from sklearn.datasets import load_wine

    x, y = load_wine(return_X_y=True)
    return make_dataset("wine", x.astype("float32"), y, provenance="scikit-learn's load_wine")


READERS = (
    Reader(
        name="wine",
        description="178 wines of three growers, 13 measurements each",
        read=_read,
        source=Source("https://archive.ics.uci.edu", "nothing", recipe="It comes with Python."),
    ),
)
'''
DOORS = """
from latecomer.eval.datasets import load_dataset
from latecomer.eval.datasets.registry import SOURCES
from latecomer.errors import InputError
from latecomer.eval.splits.build import make_split
from latecomer.eval.studies.loading import load_study

study = load_study("generalization-gap", ["data={name: wine}"])
data = load_dataset(study.resolved()["data"])
print(data.n_classes, data.x.shape)
print(len(make_split(data, kind="iid", clients=10, novel=2).novel))
print(SOURCES["wine"].recipe)
try:
    load_dataset({"name": "wine", "root": "here"})
except InputError as error:
    print(error)
"""


@pytest.mark.slow
def test_one_file_opens_every_door_and_the_command_line(package):
    package.write("eval/datasets/readers/wine.py", READER)
    shape, novel, recipe, refused = package.run("-c", DOORS).splitlines()
    assert shape == "3 (178, 13)"
    assert novel == "2"
    assert recipe == "It comes with Python."
    assert refused == "data.root is no key of data set wine, which takes no keys"
    assert len(package.written) == 1
    listed = package.run("-m", "latecomer", "datasets", "--long")
    assert "178 wines of three growers" in listed
    told = package.run("-m", "latecomer", "datasets", "wine", "--long")
    assert "https://archive.ics.uci.edu" in told
    assert "It comes with Python." in told
