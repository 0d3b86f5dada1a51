"""A method of your own: FedAvg whose server takes the median of what clients send."""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from latecomer import load_study, run
from latecomer.eval import load_run
from latecomer.models import State
from latecomer.models.engine.method import predict_with
from latecomer.models.families.global_weights import AveragedWeights
from latecomer.models.task.state import nest, part
from latecomer.reports import accuracy_frame


@dataclass(frozen=True, kw_only=True)
class Median(AveragedWeights):
    """Global weights moved by the coordinate-wise median of the cohort's changes."""

    name = "median"
    paper = "Yin et al., ICML 2018"
    personalization = "global"
    needs_labels = False

    def aggregate(self, task, state, cohort, start, uploads):
        """Move by the median; ``uploads`` holds one row a client, the change of its weights."""
        old = part(state.server, "target")
        middle = {key: change.median(dim=0).values for key, change in uploads.items()}
        new = {key: old[key] + middle[key] for key in middle}
        return State(nest("target", {**old, **new}), state.clients)

    def personalize(self, task, state, support, *, predictor="deterministic", generator):
        """Give a new client the global weights as they are."""
        self.refuse_predictor(predictor)
        return predict_with(task, part(state.server, "target"))


STUDY = """
study: median
data: {name: digits}
split: {kind: by_class, clients: 20, classes_per_client: 5, novel: 5, validation: 0}
methods: [{name: fedavg, local_lr: 0.02}, {name: "PATH:Median", local_lr: 0.02}]
train: {rounds: 20, cohort: 5, local_steps: 10, batch_size: 16}
"""


def main(folder: Path) -> None:
    """Train both on the same draws, and compare them on clients neither has seen."""
    study = folder / "median.yaml"
    study.write_text(STUDY.replace("PATH", str(Path(__file__).resolve())), "utf-8")
    done = run(load_study(study), out=folder / "run", workers=1)
    rows = load_run(done.path).rows
    frame = accuracy_frame(rows)
    for row in frame[frame["group"] == "novel"].itertuples():
        print(f"{row.label}: error {row.mean:.2f} over {row.n_clients} new clients")


if __name__ == "__main__":
    with TemporaryDirectory() as scratch:
        main(Path(scratch))
