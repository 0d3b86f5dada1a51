"""One table of samples through the doors that take it, and the line of one that refuses it."""

import numpy as np
import pytest

from latecomer.errors import InputError
from latecomer.eval.datasets import load_dataset
from latecomer.eval.datasets.from_objects import clients_from


class Runs:
    """What a hostile pickle is made of: unpickled, it makes a call."""

    def __init__(self, call, *arguments):
        self.reduced = call, arguments

    def __reduce__(self):
        return self.reduced


def refusal(call, *given, **asked):
    """Return the one line with which a call refuses what it is given."""
    with pytest.raises(InputError) as caught:
        call(*given, **asked)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 400
    return message


def outcome(call, *given):
    """Return what a call makes, or None, and the one line with which it refuses, if it does."""
    try:
        return call(*given), ""
    except InputError as error:
        message = str(error)
    assert "\n" not in message
    return None, message


def files(frame, folder, **roles):
    """Yield a data set from one table through every door that reads files of tables."""
    frame.to_csv(folder / "t.csv", index=False)
    frame.to_parquet(folder / "t.parquet")
    for door, name in (("table", "t.csv"), ("parquet", "t.parquet"), ("features", "t.csv")):
        given = {} if door == "features" else roles
        config = {"name": door, "path": folder / name, **given}
        yield door, lambda config=config: load_dataset(config)


def written(frame, reader, path):
    """Write a table as the file or folder that a reader reads."""
    if reader == "table":
        frame.to_csv(path, index=False)
    elif reader == "parquet":
        frame.to_parquet(path)
    else:
        pytest.importorskip("datasets").Dataset.from_pandas(frame).save_to_disk(path)
    return {"name": reader, "path": str(path)}


def tables(frame, folder):
    """Yield a data set from one table through every door that takes tables."""
    yield from files(frame, folder)
    yield "frame", lambda: clients_from(frame)


def arrays(frame, folder):
    """Yield a data set from a table's samples through the doors that take arrays."""
    x, y = frame[["a", "b"]].to_numpy(np.float32), frame.label.to_numpy()
    file = folder / "t.npz"
    np.savez(file, x=x, y=y, client=frame.client.to_numpy().astype(str))
    yield "npz", lambda: load_dataset({"name": "npz", "path": file})
    yield "features npz", lambda: load_dataset({"name": "features", "path": file})
    samples, pairs = (list(zip(x, y, *more, strict=True)) for more in ([frame.client], []))
    yield "samples", lambda: clients_from(samples)
    yield "client of each", lambda: clients_from(pairs, client=list(frame.client))


def three_rounds(data, **split):
    """Return the configuration of a cell of PeFLL that is trained for three rounds."""
    return {
        "study": "smoke",
        "kind": "method",
        "data": data,
        "split": {"seed": 0, "query": 0.25, "validation": 0.0, **split},
        "model": {"target": "auto", "encoder": "auto", "hypernetwork": {"hidden": 1, "width": 8}},
        "method": {"name": "pefll", "label": "pefll"},
        "train": {"rounds": 3, "cohort": 2, "local_steps": 2, "batch_size": 4},
        "evaluation": {"classes": "all"},
        "seed": 0,
    }
