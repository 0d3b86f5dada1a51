"""A kind of shift is one file: studies, populations, certificates and figures know it by that."""

import pytest

SHIFT = '''
"""Colours turned over, as in a negative."""

from latecomer.eval.shifts.kinds.declaration import Shift, unit_floats


def _invert(x, share, rng):
    values = unit_floats(x)
    return (1 - share) * values + share * (1 - values)


SHIFTS = (
    Shift(
        name="inversion",
        description="images turned towards their negatives",
        unit="share of the negative",
        low=0.0,
        high=1.0,
        function=_invert,
        axis="inversion (share of the negative)",
        true_scale=True,
    ),
)
'''
DOORS = """
import numpy as np
import pandas as pd
from latecomer.eval.datasets import load_dataset
from latecomer.errors import InputError
from latecomer.eval.shifts.populations import shifted_certification, shifted_populations
from latecomer.eval.splits.build import make_split
from latecomer.eval.studies.loading import load_study
from latecomer.reports.display.drawing import looks
from latecomer.reports.shift.curves import shift_figure

asked = ["shifts.inversion=[0.5, 1]", "certificates=[{rule: product, shifts: [inversion]}]"]
study = load_study("quickstart", asked)
print(study.resolved()["shifts"]["inversion"], study.certificates[0].shifts)
try:
    load_study("quickstart", ["shifts.inversion=[2]"])
except InputError as error:
    print(str(error).splitlines()[-1])
print(*(cell.id for cell in load_study("quickstart").cells("data")))

digits = load_dataset({"name": "digits"})
split = make_split(digits, kind="iid", clients=20, certify=5, novel=5)
cut = {"seed": 0, "query": 0.25, "validation": 0.0}
half, whole = shifted_populations(digits, split, {"inversion": [0.5, 1.0]}, **cut)
print(half.severity, float(np.ptp(half.x)), float(whole.x[0, 0, 0, 0]))
(held,) = shifted_certification(digits, split, {"inversion": [1.0]}, ["inversion"], seed=0)
print(len(held.rows))
frame = pd.DataFrame(
    [("fedavg", "none", np.nan, .1, .01), ("fedavg", "inversion", .5, .2, .01)],
    columns=["label", "shift", "severity", "mean", "sd_seeds"],
)
axes = shift_figure(frame, "inversion", looks(["fedavg"])).axes[0]
print(axes.get_xlabel(), axes.get_xticks().tolist())
"""


@pytest.mark.slow
def test_one_file_opens_every_door(package, quickstart_ids):
    package.write("eval/shifts/kinds/inversion.py", SHIFT)
    asked, refused, cells, half, held, figure = package.run("-c", DOORS).splitlines()
    assert asked == "[0.5, 1.0] ('inversion',)"
    assert refused.endswith("shifts.inversion.0: must be less than or equal to 1, got 2")
    assert cells == quickstart_ids, "a study that does not ask for it has the cells it had"
    assert half == "0.5 0.0 1.0"
    assert held == "5"
    assert figure == "inversion (share of the negative) [0.0, 0.5]"
    assert len(package.written) == 1
