"""A model of your own in a study: trained elsewhere, served as it is, beside built-in methods."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from torch import nn

from latecomer import load_study, run
from latecomer.eval import load_run, make_split
from latecomer.eval.datasets import load_dataset
from latecomer.reports import accuracy_frame, bound_frame

CLIENTS = {"kind": "by_class", "clients": 80, "classes_per_client": 3, "certify": 30, "novel": 20}


class Net(nn.Sequential):
    """A torch module: pixels from 0 to 1 in, a score for each of ten digits out."""

    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def nearest(support, query_x):
    """Score each digit by how near the client's own images of it come: any callable will do."""
    x, y = support
    apart = ((query_x[:, None] - x[None]) ** 2).sum(axis=(2, 3, 4))
    scores = np.full((len(query_x), 10), -1e3)  # for digits that the client has no image of
    for digit in np.unique(y):
        scores[:, digit] = -apart[:, y == digit].min(axis=1)
    return scores


def train_elsewhere(file: Path) -> None:
    """Stand in for any other program: it meets the seen clients of the split and nobody else."""
    data = load_dataset({"name": "digits"})
    rows = np.concatenate([one.rows("support") for one in make_split(data, **CLIENTS).seen])
    x, y = torch.as_tensor(data.x)[rows], torch.as_tensor(data.y)[rows]
    torch.manual_seed(0)
    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(100):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
    torch.save(net.state_dict(), file)


STUDY = """
study: given
data: {name: digits}
split: CLIENTS
methods:
  - {name: fedavg, local_lr: 0.02}
  - {name: "PATH:Net", needs_training: false, checkpoint: net.pt}
  - {name: "PATH:nearest", needs_training: false}
train: {rounds: 20, cohort: 5, local_steps: 10, batch_size: 16}
certificates: [{route: r0, rule: product, delta: 0.05}]
"""


def main(folder: Path) -> None:
    """Train one model here and one elsewhere; measure and certify all three on the same clients."""
    train_elsewhere(folder / "net.pt")
    study = folder / "given.yaml"
    text = STUDY.replace("PATH", str(Path(__file__).resolve())).replace("CLIENTS", str(CLIENTS))
    study.write_text(text, "utf-8")
    done = run(load_study(study), out=folder / "run", workers=1)
    rows = load_run(done.path).rows
    certified = bound_frame(rows).set_index("label")["value"]
    frame = accuracy_frame(rows)
    for row in frame[frame["group"] == "novel"].itertuples():
        print(f"{row.label}: new-client error {row.mean:.2f}, certified {certified[row.label]:.2f}")


if __name__ == "__main__":
    with TemporaryDirectory() as scratch:
        main(Path(scratch))
