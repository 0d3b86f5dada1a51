"""``latecomer data``: what it prints, and one line with exit code 2 when it cannot."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from latecomer.commands.app import app
from latecomer.eval.datasets import DATASETS
from latecomer.eval.datasets.registry import SOURCES


def invoke(*arguments: str, command: str = "data") -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [command, *arguments], prog_name="latecomer")
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture(autouse=True)
def own_root(monkeypatch, tmp_path):
    monkeypatch.setenv("LATECOMER_DATA", str(tmp_path))


def test_without_a_command_it_shows_its_commands() -> None:
    code, out, _ = invoke()
    assert code == 0
    assert all(f"  {word} " in out for word in ("fetch", "verify"))


def described(*arguments: str) -> str:
    code, out, err = invoke(*arguments, command="datasets")
    assert (code, err) == (0, "")
    return out


def test_the_list_names_every_data_set_and_how_it_comes_here() -> None:
    out = described()
    assert all(f"\n  {name} " in out for name in DATASETS)
    held = {one["name"]: one for one in json.loads(described("--json"))}
    assert list(held) == list(DATASETS)
    assert held["femnist"]["origin"] == "make it"
    assert held["table"]["origin"] == "your file"
    assert held["verbagg"]["origin"] == "extra federations"


@pytest.mark.parametrize("name", SOURCES)
def test_a_name_says_what_to_put_where(name, tmp_path) -> None:
    out = described(name, "--long")
    joined = " ".join(out.split())
    assert str(tmp_path) in out
    assert SOURCES[name].place in joined
    if SOURCES[name].archives:
        assert f"sha256 {SOURCES[name].archives[0].sha256}" in out
    else:
        assert SOURCES[name].recipe in out
    found = json.loads(described(name, "--json"))
    assert SOURCES[name].place in found["facts"].values()


def test_a_name_says_licence_and_extra() -> None:
    out = described("verbagg", "--long")
    assert "licence: GPL, version 2 or later (R package lme4)" in out
    assert 'pip install "latecomer[federations]"' in out


def test_each_recipe_names_the_length_the_reader_wants() -> None:
    for name, width in (("inaturalist", 1280), ("landmarks", 1280), ("yahoo_answers", 768)):
        assert f"x float32 [N, {width}]" in described(name, "--long")


def test_verify_reads_the_data(tmp_path: Path) -> None:
    x = np.zeros((6, 768), np.float32)
    np.savez(tmp_path / "yahoo_answers.npz", x=x, y=np.arange(6))
    code, out, _ = invoke("verify", "yahoo_answers")
    assert code == 0
    assert "data: 6 samples\n" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fetch", "cifr10"], "no data set 'cifr10'; did you mean 'cifar10'?"),
        (["verify", "digits"], "digits has no files to fetch or verify"),
        (["fetch", "femnist"], "'latecomer datasets femnist' tells how to make it"),
        (["verify", "mnist"], "has no MNIST/raw/train-images-idx3-ubyte"),
        (["verify", "landmarks"], "has no landmarks.npz or landmarks.csv"),
        (["ftch"], "no command 'ftch'; did you mean 'fetch'?"),
        (["fetch"], "missing argument 'NAME'"),
        (["fetch", "mnist", "--rot", "x"], "no option '--rot'"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(arguments, words) -> None:
    code, out, err = invoke(*arguments)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert words in err
