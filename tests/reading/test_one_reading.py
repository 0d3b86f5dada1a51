"""The same table of losses is read the same through every door, or refused in one line."""

import io
import json
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

from latecomer import certify_losses, watch_losses
from latecomer.certify.table import read_losses
from latecomer.commands.app import app
from latecomer.errors import InputError

TABLES = Path(__file__).with_name("tables")


def doors(frame, folder):
    """Yield a table of losses as every source of losses with rows."""
    frame.to_csv(folder / "losses.csv", index=False)
    frame.to_parquet(folder / "losses.parquet")
    (folder / "losses.json").write_text(frame.to_json(orient="records"))
    yield "csv", folder / "losses.csv"
    yield (
        "csv with BOM and CRLF",
        ("\ufeff" + frame.to_csv(index=False)).replace("\n", "\r\n").encode(),
    )
    yield "parquet", folder / "losses.parquet"
    yield "json", str(folder / "losses.json")
    yield "json columns", json.dumps(frame.to_dict("list")).encode()
    yield "frame", frame
    yield "categories", frame.astype({"client": "category"})
    yield "text", frame.astype({"client": "string"})
    yield "records", frame.to_dict("records")
    yield "columns", frame.to_dict("list")
    yield "arrays", {name: frame[name].to_numpy() for name in frame}


def refusal(source, **asked):
    with pytest.raises(InputError) as caught:
        certify_losses(source, **asked)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def terminal(*arguments):
    done = CliRunner().invoke(app, [str(one) for one in arguments])
    return done.exit_code, done.output


def test_two_spellings_are_one_client_at_every_door(tmp_path):
    frame = pd.read_csv(TABLES / "two_spellings.csv")
    assert frame.client.nunique() == 60
    for door, source in doors(frame, tmp_path):
        found = certify_losses(source, rule="product")
        assert (door, found.n_clients, found.n_rows) == (door, 30, 60)
        assert f"{float(found.certificate):.4f}" == "0.1985"
        assert any("are one client, 'c00', and 29 more" in note for note in found.notes), door
    once = dict(zip(frame.client, frame.loss, strict=True))
    for source in (once, pd.Series(once), json.dumps(once).encode()):
        assert "client 'c00' occurs twice; 'c00 ' and 'c00' are one client" in refusal(source)


@pytest.mark.parametrize(
    ("one", "other"),
    [("ann", "ann\u00a0"), ("ren\u00e9", "rene\u0301"), ("\u200bann", "ann"), ("7", "7.0")],
)
def test_other_spellings_of_one_client(tmp_path, one, other):
    frame = pd.DataFrame({"client": [one, other, "bob"], "loss": [0.1, 0.3, 0.2]})
    for door, source in doors(frame, tmp_path):
        found = certify_losses(source)
        assert (door, found.n_clients, round(found.mean, 6)) == (door, 2, 0.2)
        assert len(found.notes) == 2


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        (["ann", "Ann"], "differ only in letter case"),
        (["1e5", "100007"], "scientific notation"),
        (["1.0E+05", "2.0E+05"], "scientific notation"),
        (["01", "1"], "differ only in how they are written"),
        (["loss", "accuracy"], "the name of a metric"),
        (["ann", ""], "no client id"),
        (["ann", "nan"], "no client id"),
    ],
)
def test_unclear_ids_are_refused_at_every_door(tmp_path, ids, said):
    frame = pd.DataFrame({"client": ids, "loss": [0.1, 0.2]})
    for _, source in doors(frame, tmp_path):
        assert said in refusal(source)
        with pytest.raises(InputError, match=said):
            watch_losses(source)
    assert said in refusal(dict(zip(ids, [0.1, 0.2], strict=True)))
    code, output = terminal("certify", tmp_path / "losses.csv")
    assert (code, output.count("\n")) == (2, 1)
    assert said in output
    code, output = terminal("watch", tmp_path / "losses.csv", "--once")
    assert code == 2
    assert said in output


def test_rows_by_round_are_averaged_and_that_is_said():
    found = certify_losses(TABLES / "rounds.csv", rule="product")
    assert (found.n_clients, found.n_rows) == (30, 150)
    assert (f"{found.mean:.3f}", f"{float(found.certificate):.3f}") == ("0.378", "0.442")
    code, output = terminal("certify", TABLES / "rounds.csv")
    assert code == 0
    assert "150 rows of 30 clients, averaged" in output
    assert "warning: a client's rows were averaged over the column 'round'" in output
    assert json.loads(terminal("certify", TABLES / "rounds.csv", "--json")[1])["notes"] == list(
        found.notes
    )
    last = certify_losses(TABLES / "last_round.csv", rule="product")
    assert (f"{last.mean:.3f}", f"{float(last.certificate):.3f}") == ("0.250", "0.325")
    assert last.notes == ()


@pytest.mark.parametrize("column", ["Epoch", "step", "seed", "round"])
def test_columns_that_part_a_clients_rows_are_warned_of(column):
    frame = pd.DataFrame({"client": [1, 1, 2], "loss": 0.1, column: [0, 1, 0]})
    assert f"averaged over the column {column!r}" in certify_losses(frame).notes[1]
    assert certify_losses(frame[:1]).notes == ()
    weighted = frame.assign(weight=1.0).drop(columns=column)
    assert certify_losses(weighted).notes == ("3 rows of 2 clients, averaged",)


@pytest.mark.parametrize("column", ["model", "Method", "algorithm_name", "models"])
def test_losses_of_several_models_are_not_averaged_without_a_word(column, tmp_path):
    frame = pd.DataFrame({"client": ["a", "b"] * 2, column: ["x", "x", "y", "y"], "loss": 0.5})
    warned = f"warning: a client's rows were averaged over the column {column!r}; keep one"
    assert any(note.startswith(warned) for note in certify_losses(frame).notes)
    assert f"the index must hold the clients, got {column!r}" in refusal(
        frame.groupby(column).loss.mean()
    )
    frame.to_csv(tmp_path / "losses.csv", index=False)
    once = {"a": 0.5, "b": 0.5}
    shown = str(certify_losses(once, against=tmp_path / "losses.csv"))
    assert "losses.csv (4 rows of 2 clients, averaged; warning" in " ".join(shown.split())


def test_weights_that_weigh_nothing_are_told_of():
    frame = pd.DataFrame({"client": ["a", "b"], "loss": 0.5, "weight": [10, 5000]})
    assert certify_losses(frame).notes == (
        "warning: weights tell the rows of one client apart, not clients: each has one row here,"
        " and all count alike",
    )
    assert certify_losses(frame.assign(weight=7)).notes == ()
    assert certify_losses(pd.concat([frame, frame])).notes == ("4 rows of 2 clients, averaged",)


def test_several_levels_of_an_index_are_no_clients():
    rows = pd.read_csv(TABLES / "rounds.csv")
    by = rows.groupby(["client", "round"]).loss.mean()
    for source in (by, by.to_dict(), by.to_frame().assign(client=list(by.index))):
        assert "an id must be text or a whole number, got tuple ('c00', 0)" in refusal(source)
    assert "it is in the index: reset_index()" in refusal(by.to_frame())
    assert "the index must hold the clients, got 'round'" in refusal(
        rows.groupby("round").loss.mean()
    )
    assert "columns must have one level" in refusal(rows.groupby("client").agg({"loss": ["mean"]}))
    right = certify_losses(rows.groupby("client").loss.mean(), rule="product")
    assert f"{float(right.certificate):.4f}" == "0.4420"


def test_ids_as_numbers_are_one_client_whatever_their_type():
    rows = [{"client": 1, "loss": 0.1}, {"client": 1.0, "loss": 0.2}, {"client": "1", "loss": 0.3}]
    assert certify_losses(rows).n_clients == 1
    floats = pd.DataFrame({"client": [1.0, 2.0], "loss": [0.1, 0.2]})
    whole = floats.astype({"client": "Int64"})
    assert certify_losses(floats, against=whole).against.n_clients == 2
    assert "row 1: no client id" in refusal(floats.assign(client=[1.0, np.nan]))
    assert "row 1: no client id" in refusal(whole.assign(client=pd.array([1, None], "Int64")))
    assert "got float" in refusal(floats + 0.5) or "got 1.5" in refusal(floats + 0.5)
    assert "got bool" in refusal({True: 0.1, False: 0.2})
    assert "must be text or a whole number" in refusal(
        pd.DataFrame({"client": [True, False], "loss": 0.1})
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("client;loss\nc00;0,135\n", "separated by semicolons, perhaps with decimal commas"),
        ("sep=;\nclient;loss\nc00;0,135\n", "separated by semicolons"),
        ("client\tloss\nc00\t0.1\n", "separated by tabs"),
        ("client|loss\nc00|0.1\n", "separated by bars"),
        ("client loss\nc00 0.1\n", "separated by blanks"),
        ("client,loss\nc00,0,135\n", "line 2: 3 values, but the header has 2 columns: decimal"),
        ('client,loss\nc00,"0,135"\n', "got '0,135'; a decimal comma? Write 0.135"),
        ('"client","loss"\n"1","c00",0.1\n', "3 values, but the header has 2 columns: row names"),
        ("# my losses\nclient,loss\nc00,0.1\n", "the comment '# my losses'"),
        ("client,loss\nc00,0.1\n# end\n", "line 3: 1 values, but the header has 2 columns: comm"),
        ("Client,Loss\nc00,0.1\n", "no column 'client' among Client, Loss; did you mean 'Client'?"),
        ("clinet,loss\nc00,0.1\n", "did you mean 'clinet'?"),
        ("client,loss,loss \nc00,0.1,0.2\n", "column 'loss' occurs twice"),
        ('{"loss": 0.35, "accuracy": 0.88}', "client 'loss' is the name of a metric"),
        ('[{"loss": 0.35, "accuracy": 0.88}]', "no 'client' among loss, accuracy"),
        ('{"loss": [0.35], "accuracy": [0.88]}', "must be a finite number, got [0.35]"),
        ('{"test_loss": 0.35, "n": 0.5}', "client 'test_loss' is the name of a metric"),
        ('{"ann": {"loss": 0.35, "accuracy": 0.88}}', "must be a finite number, got {'loss'"),
        ('{"client": "a", "loss": 0.1}\n{"client": "b", "loss": 0.1}', "put them in one list"),
    ],
)
def test_files_of_another_form_are_refused_in_one_line(tmp_path, text, said):
    file = tmp_path / ("losses.json" if text[0] in "[{" else "losses.csv")
    file.write_text(text)
    code, output = terminal("certify", file)
    assert code == 2
    assert said in output
    assert output.count("\n") == 1
    assert said in refusal(text.encode())


def test_a_spreadsheet_of_another_country_is_told_so():
    code, output = terminal("certify", TABLES / "semicolon_losses.csv")
    assert code == 2
    assert "values are separated by semicolons, perhaps with decimal commas" in output
    assert "did you mean" not in output


def test_columns_without_a_name_are_no_matter_to_losses():
    text = ",client,loss,,\n0, c0 ,0.1,,\n1,c1,0.3,,\n"
    assert certify_losses(text.encode()).n_clients == 2
    assert certify_losses(pd.read_csv(io.StringIO(text))).n_clients == 2


@pytest.mark.parametrize(
    "loss",
    [
        torch.tensor(0.135),
        torch.tensor([0.135], requires_grad=True),
        Fraction(27, 200),
        Decimal("0.135"),
        np.array(0.135),
        np.array([[0.135]]),
        np.float32(0.135),
        "0.135",
    ],
)
def test_one_number_is_a_loss_whatever_holds_it(loss):
    found = certify_losses({"a": loss, "b": 0.2})
    assert float(found.certificate) == pytest.approx(
        float(certify_losses({"a": 0.135, "b": 0.2}).certificate), abs=1e-6
    )
    assert certify_losses([loss, 0.2]).mean == pytest.approx(0.1675)
    assert certify_losses([{"client": 1, "loss": loss}]).mean == pytest.approx(0.135)


def test_errors_written_as_true_and_false_are_1_and_0_at_every_door(tmp_path):
    frame = pd.DataFrame({"client": ["a", "b", "c"], "loss": [True, False, False]})
    file = tmp_path / "losses.csv"
    frame.to_csv(file, index=False)
    held = dict(zip(frame["client"], frame["loss"], strict=True))
    upper = file.read_bytes().replace(b"False", b"FALSE")
    for source in (frame, file, upper, held, frame.to_json(orient="records").encode()):
        assert read_losses(source, loss_max=1.0).losses == (0.0, 0.0, 1.0)
        assert watch_losses(source).moments[0].loss == 1.0


@pytest.mark.parametrize(
    ("loss", "shown"),
    [
        (np.zeros(2), "ndarray"),
        (torch.zeros(2), "Tensor"),
        (np.datetime64("2026"), "datetime64"),
        (np.timedelta64(0, "D"), "timedelta64"),
        (1j, "1j"),
        (None, "None"),
        ((0.1,), "(0.1,)"),
    ],
)
def test_what_is_no_number_is_named(loss, shown):
    assert f"client 'a': loss must be a finite number, got {shown}" in refusal({"a": loss})


def test_a_tensor_of_losses_is_a_table():
    assert certify_losses(torch.tensor([0.1, 0.2])).n_clients == 2


@pytest.mark.parametrize(
    ("losses", "said"),
    [
        (b'[{"client": 1e5, "loss": 0.1}, {"client": 100001, "loss": 0.2}]', "scientific notation"),
        (np.ma.masked_array([0.1, 0.2], mask=[True, False]), "got MaskedConstant masked"),
        ([{"client": "a", "loss": 0.1, "Weight": 2}], "a column of weights is called 'weight'"),
        (b"client,loss,Loss\na,0.1,0.9\n", "'loss' and 'Loss' differ only in letter case"),
        (b'"client" "loss"\n"1" "a" 0.1\n', "values are separated by blanks"),
        (b"sep=,\nclient,loss\na,0.1\n", "it begins with 'sep=', as spreadsheets write"),
    ],
)
def test_what_was_misread_without_a_word_is_refused(losses, said):
    assert said in refusal(losses)


@pytest.mark.parametrize("name", ["fold", "server_round", "roundNum", "epochs", "run"])
def test_further_names_of_rounds_are_warned_of_also_in_the_index(name):
    frame = pd.DataFrame({"client": ["a", "b"] * 2, name: [0, 0, 1, 1], "loss": 0.5})
    for table in (frame, frame.set_index(name)):
        assert f"averaged over the column '{name}'" in str(certify_losses(table))
