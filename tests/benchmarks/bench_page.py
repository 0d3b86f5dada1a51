"""The page of a run of 100,000 rows against reading its rows with pandas: ``make bench``."""

import pandas as pd
from contest import compare
from large_run import write_large_run

from latecomer.reports import report


def test_page_of_100_000_rows(take_turns, judge, tmp_path):
    """At most 225 times the reading: 15 s where it takes 67 ms. Most of it is drawing pictures."""
    write_large_run(tmp_path)
    turns = take_turns(
        {
            "page": lambda: report(tmp_path),
            "reading": lambda: pd.read_csv(tmp_path / "rows.csv", low_memory=False),
        },
        repeats=5,
    )
    judge(
        compare("page of 100,000 rows / reading them with pandas", turns["page"], turns["reading"])
    )
