"""Tables as LaTeX."""

import pandas as pd

from latecomer.reports.display.pictures import Table


def test_labels_that_latex_would_read_as_signs_are_escaped():
    cells = pd.DataFrame({"method": ["mine_50% & {x}"], "error": ["\N{MINUS SIGN}1"]})
    written = Table("mine", "With #1", cells, cells, ("method",)).latex()
    assert r"mine\_50\% \& \{x\} & $-$1" in written
    assert r"With \#1" in written
    assert "\\toprule" in written
