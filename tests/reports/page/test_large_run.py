"""A run of 100,000 rows: its page stays small."""

import pytest
from large_run import write_large_run

from latecomer.reports import report


@pytest.mark.nightly
def test_100_000_rows_make_a_small_page(tmp_path):
    assert write_large_run(tmp_path) >= 100_000
    assert report(tmp_path).stat().st_size < 10e6
