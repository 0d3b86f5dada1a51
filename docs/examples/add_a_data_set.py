"""A data set of your own: write x, y and client to an npz file and name it in a study."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from sklearn.datasets import load_wine

from latecomer import load_study, run
from latecomer.eval import load_run
from latecomer.eval.datasets import load_dataset
from latecomer.reports import accuracy_frame, bound_frame

STUDY = """
study: wine
data: {name: npz, path: PATH}
split: {kind: natural, certify: 8, novel: 10, validation: 0}
methods: [{name: fedavg, local_lr: 0.02}]
train: {rounds: 20, cohort: 5, local_steps: 5, batch_size: 4}
certificates: [{route: r0, rule: product, delta: 0.05}]
"""


def write(path: Path) -> None:
    """178 wines as 29 clients of six, dealt at random: 13 measurements each, 3 growers."""
    x, y = load_wine(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))[:174]
    client = np.repeat(np.arange(29), 6)
    np.savez(path, x=x[order].astype(np.float32), y=y[order], client=client)


def main(folder: Path) -> None:
    """Write, look, run, read."""
    write(folder / "wine.npz")
    data = load_dataset({"name": "npz", "path": str(folder / "wine.npz")})
    print(f"{len(data.y)} samples of shape {tuple(data.x.shape[1:])}, {data.n_classes} classes")

    study = folder / "wine.yaml"
    study.write_text(STUDY.replace("PATH", str(folder / "wine.npz")), "utf-8")
    done = run(load_study(study), out=folder / "run", workers=1)
    rows = load_run(done.path).rows
    for error in accuracy_frame(rows).itertuples():
        print(f"{error.group}: error {error.mean:.2f} over {error.n_clients} clients")
    for bound in bound_frame(rows).itertuples():
        print(f"{bound.bound}: {bound.value:.2f} over {bound.pool} untrained clients")


if __name__ == "__main__":
    with TemporaryDirectory() as scratch:
        main(Path(scratch))
