"""Files that are no UTF-8 are told so in one line, at every door that reads text."""

import gzip
import io

import numpy as np
import pandas as pd
import pytest
from terminal import invoke

from latecomer.errors import InputError
from latecomer.reading.delimited import text_of

WIDE = ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le"]
LOSSES = "client,loss\nann,0.1\nbob,0.3\ncy,0.2\n"
SAMPLES = "a,label,client\n1,0,x\n2,1,y\n"
STUDY = "study: mine\ndata: {name: table, path: t.csv}\nsplit: {kind: natural}\nmethods: [fedavg]\n"
PLAN = "delta: 0.05\nrun_length: 50\n"


def read(door, data, monkeypatch, folder):
    """Run the command that reads the bytes; return its exit code and its one line."""
    monkeypatch.chdir(folder)
    (folder / "l.csv").write_text(LOSSES)
    (folder / "t.csv").write_text(SAMPLES)
    (folder / "s.yaml").write_text(STUDY)
    place, command = {
        "certify": ("l.csv", ["certify", "l.csv"]),
        "json": ("l.json", ["certify", "l.json"]),
        "against": ("o.csv", ["certify", "l.csv", "--against", "o.csv"]),
        "watch": ("l.csv", ["watch", "l.csv", "--once"]),
        "watch, plan": ("p.yaml", ["watch", "l.csv", "--once", "--plan", "p.yaml"]),
        "plan, pilot": ("l.csv", ["plan", "--target", "0.4", "--pilot", "l.csv"]),
        "study": ("s.yaml", ["run", "s.yaml"]),
        "table": ("t.csv", ["run", "s.yaml"]),
        "features": ("t.csv", ["run", "s.yaml", "data.name=features"]),
    }[door]
    (folder / place).write_bytes(data)
    before = sorted(folder.iterdir())
    code, out, err = invoke(*command)
    assert sorted(folder.iterdir()) == before
    assert out == ""
    assert err.count("\n") == 1
    assert place in err
    return code, err


TEXTS = {
    "certify": LOSSES,
    "json": '{"ann": 0.1, "bob": 0.3}',
    "against": LOSSES,
    "watch": LOSSES,
    "watch, plan": PLAN,
    "plan, pilot": LOSSES,
    "study": STUDY,
    "table": SAMPLES,
    "features": SAMPLES,
}


@pytest.mark.parametrize("door", TEXTS)
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le"])
def test_two_bytes_a_letter_are_told_so(door, encoding, tmp_path, monkeypatch):
    code, said = read(door, TEXTS[door].encode(encoding), monkeypatch, tmp_path)
    assert code == 2
    assert "not UTF-8 text: it seems to be UTF-16 or UTF-32, save it as UTF-8" in said


@pytest.mark.parametrize("door", TEXTS)
def test_latin_letters_in_one_byte_are_told_so(door, tmp_path, monkeypatch):
    text = TEXTS[door].replace("ann", "Jos\xe9").replace("x\n", "\xe9\n").replace("mine", "\xe9")
    if door == "watch, plan":
        text += "trained_on: caf\xe9\n"
    code, said = read(door, text.encode("latin-1"), monkeypatch, tmp_path)
    assert code == 2
    assert "not UTF-8 text, for it holds the byte 0xe9: is it Latin-1 or Windows-1252?" in said


@pytest.mark.parametrize("encoding", WIDE)
@pytest.mark.parametrize("text", [LOSSES, SAMPLES, STUDY, "a,b\n"])
def test_every_wide_encoding_is_known(encoding, text):
    with pytest.raises(InputError, match="UTF-16 or UTF-32"):
        text_of(text.encode(encoding))


def archive():
    stream = io.BytesIO()
    np.savez(stream, x=np.zeros(2))
    return stream.getvalue()


def parquet():
    stream = io.BytesIO()
    pd.DataFrame({"client": ["a"], "loss": [0.1]}).to_parquet(stream)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (archive, "a zip archive, as spreadsheets"),
        (lambda: gzip.compress(LOSSES.encode()), "compressed by gzip"),
        (parquet, "seems to be Parquet"),
    ],
)
@pytest.mark.parametrize("door", ["certify", "watch", "watch, plan", "study", "table", "features"])
def test_files_that_are_no_text_are_called_what_they_are(door, made, told, tmp_path, monkeypatch):
    code, said = read(door, made(), monkeypatch, tmp_path)
    assert code == 2
    assert told in said


@pytest.mark.parametrize("text", ["", "a", "\ufeffa,b\n", "\u4f60\u597d", "a\0b,0.1\n", "client\0"])
def test_utf_8_is_read(text):
    assert text_of(text.encode()) == text.removeprefix("\ufeff")
