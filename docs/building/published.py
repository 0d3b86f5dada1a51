"""Every published number, beside what the kept runs found."""

from functools import cache
from pathlib import Path

import pandas as pd

from latecomer.eval.results.rows import load_run
from latecomer.eval.studies.loading import load_study, shipped_texts
from latecomer.reports.display.section import Material
from latecomer.reports.errors.paper import published
from latecomer.reports.frames.paper import NOT_COMPARABLE, paper_numbers, with_verdicts

__all__ = ["PAPERS", "count_sentence", "published_table", "verdicts"]

REFERENCE = Path(__file__).resolve().parents[2] / "reports" / "reference"
PAPERS = {"pefll-iclr": "PeFLL", "pfedhn": "pFedHN", "odpfl": "OD-PFL"}
COLUMNS = (
    *("item", "data", "setting", "clients", "method", "published", "ours", "off by", "at most"),
    *("verdict", "why"),
)
UNTRAINED = "not trained here at its length"
UNKNOWN = "the cause was not looked for yet"
_STANDS_STILL = (
    "ours fits all its training data within 2,000 rounds and then stands still; "
    "why the paper's does not is unknown"
)
CAUSES = {
    "odpfl-table1-500-rounds": {
        "pfl_nearest": "ours finds each newcomer a seen client that has all of its classes"
    },
    "pefll-table1-5000-rounds": {"fedavg": _STANDS_STILL},
    "pfedhn-table1-fedavg": {"fedavg": _STANDS_STILL},
}
"""What is known of why numbers are off, by run and label."""


@cache
def verdicts() -> pd.DataFrame:
    """Return the papers' numbers with ``ours``, ``margin``, ``verdict``, ``run`` and ``reason``.

    Of several runs the one at the paper's scale counts, then the one in which all classes compete,
    then the one that trained longest, then the one with most seeds.
    """
    compared = pd.concat([_of_run(path.parent) for path in REFERENCE.glob("*/study.yaml")])
    best = compared.sort_values(["full", "all_compete", "rounds", "n_seeds"]).drop_duplicates(
        "number", keep="last"
    )
    columns = ["ours", "difference", "margin", "verdict", "run", "reason"]
    numbers = paper_numbers().join(best.set_index("number")[columns])
    return numbers.fillna({"verdict": NOT_COMPARABLE, "run": "", "reason": UNTRAINED})


def _of_run(folder: Path) -> pd.DataFrame:
    """Compare one kept run with the published numbers that its study names, if any."""
    if not (folder / "rows.csv").is_file() or "\npaper:" not in (folder / "study.yaml").read_text():
        return pd.DataFrame()
    material = Material.of(load_run(folder))
    study, rounds = material.study, int(material.study["train"]["rounds"])
    full = study.get("scale") == "paper"
    name, short = study["study"], "another setting"
    if name in shipped_texts() and rounds < (wanted := load_study(name).train.rounds):
        short = f"{rounds} of {wanted} rounds"
    frame = with_verdicts(published(material), study)
    told = frame["verdict"] == "reproduced"
    seeds = frame["n_seeds"].map(lambda n: f"{n} seed{'' if n == 1 else 's'}")
    known = CAUSES.get(folder.name, {})
    causes = frame["label"].map(lambda label: known.get(label, UNKNOWN))
    return frame.assign(
        **{"run": folder.name, "rounds": rounds, "full": full},
        all_compete=study["evaluation"]["classes"] == "all",
        reason=seeds.where(told, causes) if full else short,
    )


def count_sentence(paper: str) -> str:
    """Count a paper's verdicts.

    Examples
    --------
    >>> count_sentence("odpfl").startswith("OD-PFL: ")
    True
    """
    own = verdicts()
    counts = own.loc[own["source"] == paper, "verdict"].value_counts()
    reproduced, off, rest = (
        int(counts.get(name, 0)) for name in ("reproduced", "not reproduced", NOT_COMPARABLE)
    )
    return (
        f"{PAPERS[paper]}: {reproduced} reproduced, {off} not, {rest} not comparable, "
        f"of {len(own[own['source'] == paper])}."
    )


def published_table(paper: str) -> str:
    """Return a paper's numbers and their verdicts as a Markdown table.

    Examples
    --------
    >>> "| Table 1a |" in published_table("pefll-iclr")
    True
    """
    lines = [
        f"| {' | '.join(COLUMNS)} |",
        "|---" * len(COLUMNS) + "|",
    ]
    own = verdicts()
    for row in own[own["source"] == paper].to_dict("records"):
        percent = row["metric"] == "accuracy_percent"
        measured = percent and pd.notna(row["ours"])
        cells = (
            *(row["item"], row["dataset"], row["setting"]),
            f"{row['group']}, {row['n_clients']:.0f}",
            row["method"],
            f"{row['mean']:.1f}%" if percent else f"{row['mean']:g}",
            f"{100 * row['ours']:.1f}%" if measured else "",
            f"{100 * row['difference']:+.1f}" if measured else "",
            f"{100 * row['margin']:.1f}" if measured and row["verdict"] != NOT_COMPARABLE else "",
            row["verdict"],
            f"{row['reason']} (`{row['run']}`)" if row["run"] else row["reason"],
        )
        lines.append("| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |")
    return "\n".join([count_sentence(paper), "", *lines])
