"""A shift of your own: a function of inputs, severity and a generator."""

from pathlib import Path
from tempfile import TemporaryDirectory

from latecomer import load_study, run
from latecomer.eval import load_run
from latecomer.reports import shift_frame


def occlude(x, severity, rng):
    """Black out a square of ``severity`` pixels a side, somewhere in each image [n, C, H, W]."""
    side = int(severity)
    tops = rng.integers(0, x.shape[2] - side + 1, size=len(x))
    lefts = rng.integers(0, x.shape[3] - side + 1, size=len(x))
    for image, top, left in zip(x, tops, lefts, strict=True):
        image[:, top : top + side, left : left + side] = 0
    return x


STUDY = """
study: occluded
data: {name: digits}
split: {kind: by_class, clients: 20, classes_per_client: 5, novel: 5, validation: 0}
methods: [{name: fedavg, local_lr: 0.02}]
train: {rounds: 40, cohort: 5, local_steps: 10, batch_size: 16}
shifts:
  function: [{path: "PATH:occlude", label: occlusion, severities: [2, 4, 6]}]
"""


def main(folder: Path) -> None:
    """Measure the same new clients under each severity."""
    study = folder / "occluded.yaml"
    study.write_text(STUDY.replace("PATH", str(Path(__file__).resolve())), "utf-8")
    done = run(load_study(study), out=folder / "run", workers=1)
    rows = load_run(done.path).rows
    for row in shift_frame(rows).itertuples():
        name = "as they are" if row.shift == "none" else f"{row.shift} {row.severity:g}"
        print(f"{name}: error {row.mean:.2f} over {row.n_clients} new clients")


if __name__ == "__main__":
    with TemporaryDirectory() as scratch:
        main(Path(scratch))
