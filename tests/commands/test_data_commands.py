"""``latecomer data``: what it prints, and one line with exit code 2 when it cannot."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from latecomer.commands.app import app
from latecomer.eval.datasets import DATASETS
from latecomer.eval.datasets.sources import SOURCES


def invoke(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["data", *arguments], prog_name="latecomer")
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture(autouse=True)
def own_root(monkeypatch, tmp_path):
    monkeypatch.setenv("LATECOMER_DATA", str(tmp_path))


def test_without_a_command_it_shows_its_commands() -> None:
    code, out, _ = invoke()
    assert code == 0
    assert all(word in out for word in ("list", "fetch", "verify", "info"))


def test_list_names_every_data_set_and_the_root(tmp_path) -> None:
    code, out, _ = invoke("list")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[1:-1]] == list(DATASETS)
    assert out.splitlines()[-1] == f"data root: {tmp_path}"
    held = json.loads(invoke("list", "--json")[1])
    assert {r["name"]: r["origin"] for r in held["datasets"]}["femnist"] == "make it"


@pytest.mark.parametrize("name", SOURCES)
def test_info_says_what_to_put_where(name, tmp_path) -> None:
    code, out, _ = invoke("info", name)
    assert code == 0
    assert str(tmp_path) in out
    assert SOURCES[name].place in out
    if SOURCES[name].archives:
        assert f"sha256 {SOURCES[name].archives[0].sha256}" in out
    else:
        assert SOURCES[name].recipe in out
    assert json.loads(invoke("info", name, "--json")[1])["place"] == SOURCES[name].place


def test_info_says_licence_and_extra() -> None:
    out = invoke("info", "verbagg")[1]
    assert "licence: GPL, version 2 or later (R package lme4)" in out
    assert 'pip install "latecomer[federations]"' in out
    held = json.loads(invoke("list", "--json")[1])
    assert {r["name"]: r["origin"] for r in held["datasets"]}["verbagg"] == "extra federations"


def test_info_of_each_recipe_names_the_length_the_reader_wants() -> None:
    for name, width in (("inaturalist", 1280), ("landmarks", 1280), ("yahoo_answers", 768)):
        assert f"x float32 [N, {width}]" in invoke("info", name)[1]


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
        (["info", "digits"], "digits has no files to fetch or verify"),
        (["fetch", "femnist"], "'latecomer data info femnist' tells how to make it"),
        (["verify", "mnist"], "has no MNIST/raw/train-images-idx3-ubyte"),
        (["verify", "landmarks"], "has no landmarks.npz or landmarks.csv"),
        (["lst"], "no command 'lst'; did you mean 'list'?"),
        (["fetch"], "missing argument 'NAME'"),
        (["fetch", "mnist", "--rot", "x"], "no option '--rot'"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(arguments, words) -> None:
    code, out, err = invoke(*arguments)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert words in err


def test_fetch_keeps_what_is_there_and_refuses_another_file(tmp_path: Path) -> None:
    (tmp_path / "cifar-10-python.tar.gz").write_bytes(b"no archive")
    code, _, err = invoke("fetch", "cifar10")
    assert code == 2
    assert "remove it and fetch again" in err
    assert (tmp_path / "cifar-10-python.tar.gz").read_bytes() == b"no archive"
