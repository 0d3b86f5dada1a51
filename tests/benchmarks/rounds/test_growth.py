"""The program that measures rounds as clients grow runs, and tells what clients keep."""

from pathlib import Path

import growth
import pytest

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="peak memory is read from Linux's /proc"
)


@pytest.mark.parametrize("name", growth.METHODS)
def test_a_measurement(name):
    few, more = (growth.measured(name, count, rounds=3) for count in (20, 40))
    assert few["round_ms"] > 0
    assert more["data_mib"] == pytest.approx(2 * few["data_mib"])
    assert more["kept_by_clients_mib"] == pytest.approx(2 * few["kept_by_clients_mib"])
    assert (few["kept_by_clients_mib"] > 0) is (name in ("fedper", "pfedhn"))
