"""A newcomer finds the room of a line by ARCHITECTURE.md alone, after two screens at most."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
SCREEN = 50
# The file of a line, the line, and why somebody would look for its room there.
LINES = [
    ("bounds/one_data_set.py", "empirical_risk: ArrayLike,", "PAC-Bayes"),
    ("certify/sentences.py", 'verb: str = "is at most"', "word what each kind of certificate"),
    (
        "certify/further_statements.py",
        "np.unique(np.append(ordered, 0.0))",
        "Both doors ask the same functions",
    ),
    ("models/engine/schedule.py", "def minibatches(", "minibatches"),
    ("models/families/global_weights.py", "def newcomers_model(", "averaged"),
    ("eval/splits/build.py", "rng.permutation(first)", "ids are permuted uniformly"),
    ("eval/shifts/kinds/shipped.py", "def rotate(", "what can happen to the inputs"),
    ("eval/routes/kinds/r1.py", 'cell_kind="tuned"', "R1, R4 and R5 train"),
    ("eval/runs/lock.py", "class Lock", "one cell under its `lock`"),
    ("reports/page/layout.py", "CHAPTERS = (", "which stand where"),
    ("commands/certify.py", '"--rule"', "a command's options stand in a module of its own"),
]


@pytest.mark.parametrize(("path", "line", "reason"), LINES)
def test_the_room_of_a_line_is_found(path, line, reason):
    assert line in (ROOT / path).read_text("utf-8")
    layer, wing, *_ = Path(path).with_suffix("").parts
    section = PAGE.partition(f"\n## {layer}\n")[2].partition("\n## ")[0]
    assert reason in " ".join(section.split()), "what they look for is said of the layer"
    assert re.search(rf"`{wing}\b[\w/]*`", section), f"the page does not name {layer}/{wing}"


def test_details_begin_after_two_screens():
    before = PAGE.partition("\n## bounds\n")[0].splitlines()
    assert len(before) <= 2 * SCREEN
