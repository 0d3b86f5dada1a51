"""The page beside the bounds names every calculator and every erratum, and nothing else."""

import re
from pathlib import Path

import latecomer.bounds

PAGE = (Path(__file__).parents[2] / "bounds" / "README.md").read_text(encoding="utf-8")
# Words in code type that are no calculator: fields, arguments, commands.
OTHER = {
    *("value", "terms", "delta", "population", "rigorous", "loss_max", "sum_kl", "gamma"),
    *("subgauss", "printed", "printed_appendix", "Certificate", "latecomer", "certify", "weights"),
    *("pool_size", "tests", "seen-clients", "one-client", "environment"),
}


def test_every_calculator_is_named() -> None:
    missing = [name for name in latecomer.bounds.CATALOGUE if f"`{name}`" not in PAGE]
    assert missing == []


def test_every_name_exists() -> None:
    named = set(re.findall(r"`([a-z][a-zA-Z0-9_]*)`", PAGE))
    assert named - set(latecomer.bounds.__all__) - OTHER == set()


def test_every_erratum_is_there() -> None:
    rows = re.findall(r"^\| ([TEPO]\d+) \|", PAGE, flags=re.MULTILINE)
    expected = {"T": 35, "E": 14, "P": 5, "O": 10}
    assert rows == [f"{kind}{i}" for kind, last in expected.items() for i in range(1, last + 1)]
