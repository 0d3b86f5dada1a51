"""PeFLL's Theorem 3.2 on trained models, against the variance alpha of their posteriors."""

from pathlib import Path
from tempfile import TemporaryDirectory

from latecomer import load_study, run
from latecomer.eval import load_run
from latecomer.reports import accuracy_frame, anatomy_frame, bound_frame

ALPHAS = (1e-4, 1e-2, 1.0)
METHOD = (
    "  - {name: pefll, posterior: gaussian, label: alpha-ALPHA, server_lr: 0.002, "
    "local_lr: 0.05, alpha_h: ALPHA, alpha_v: ALPHA, alpha_theta: ALPHA}\n"
)
STUDY = """
study: alpha
data: {name: digits}
split: {kind: by_class, clients: 30, classes_per_client: 2, certify: 10, novel: 10, validation: 0}
train: {rounds: 30, cohort: 5, local_steps: 10, batch_size: 16}
bounds: [pefll_32]
certificates: [{route: r0, rule: product, delta: 0.05}]
methods:
"""


def main(folder: Path) -> None:
    """Train one model an alpha; set the published bound beside the held-out certificate."""
    study = folder / "alpha.yaml"
    study.write_text(STUDY + "".join(METHOD.replace("ALPHA", f"{a:g}") for a in ALPHAS), "utf-8")
    done = run(load_study(study), out=folder / "run", workers=1)
    rows = load_run(done.path).rows
    errors = accuracy_frame(rows)
    gibbs = errors[(errors["group"] == "novel") & (errors["predictor"] == "gibbs")]
    bounds = bound_frame(rows)
    bounds = bounds[bounds["predictor"] == "gibbs"]
    for label, error in zip(gibbs["label"], gibbs["mean"], strict=True):
        mine = bounds[bounds["label"] == label].set_index("bound")["value"]
        print(
            f"{label}: new-client error {error:.2f}, "
            f"held-out certificate {mine['r0:product']:.2f}, Theorem 3.2 {mine['pefll_32']:.2f}"
        )
    parts = anatomy_frame(rows)
    divergences = parts[(parts["bound"] == "pefll_32") & parts["term"].isin(["clients", "samples"])]
    for row in divergences.itertuples():
        print(f"  {row.label}: {row.term} = {row.value:.2f}")


if __name__ == "__main__":
    with TemporaryDirectory() as scratch:
        main(Path(scratch))
