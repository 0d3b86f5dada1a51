"""Certifying losses from files, frames and mappings: values, order, weights, bad input."""

import json
import math
import random
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import latecomer
from latecomer.bounds import blend, product, product_wor_averaged, wsr, wsr_averaged, wsr_wor
from latecomer.certify import statements
from latecomer.certify.further_statements import certify_groups
from latecomer.certify.rule import RULES
from latecomer.certify.statements import FILE_RULES, certify_losses
from latecomer.certify.table import LossTable, read_losses
from latecomer.errors import InputError

FIVE = {"ann": 0.1, "bob": 0.05, "cid": 0.2, "dee": 0.15, "eve": 0.1}


def csv(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "losses.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def refusal(source: object, **options: object) -> str:
    with pytest.raises(InputError) as caught:
        certify_losses(source, **options)  # type: ignore[arg-type]
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_product_rule_on_five_clients() -> None:
    found = certify_losses(FIVE, rule="product")
    kept = 0.9 * 0.95 * 0.8 * 0.85 * 0.9
    assert float(found.certificate) == pytest.approx(1 - (0.05 * kept) ** 0.2, rel=1e-9)
    assert found.mean == pytest.approx(0.12)
    assert found.sd == pytest.approx(np.std([0.1, 0.05, 0.2, 0.15, 0.1], ddof=1))
    assert found.reference_price == pytest.approx((1 - 0.05**0.2) * 0.88)
    assert found.price_paid == pytest.approx(float(found.certificate) - 0.12)
    assert found.price_paid >= found.reference_price


def test_the_default_is_a_blend_over_orders_drawn_afresh() -> None:
    for pool in (None, 8):
        found = certify_losses(FIVE, pool_size=pool)
        expected = blend(losses=sorted(FIVE.values()), delta=0.05, pool_size=pool, seed=found.seed)
        assert (found.rule, float(found.certificate)) == ("blend", float(expected))
        assert found.orders_sd == float(expected.orders.sd)
        assert found.voided is None


@pytest.mark.parametrize("rule", [rule for rule in FILE_RULES if RULES[rule].ends_at_largest])
def test_a_client_that_voids_the_rule_asked_for_is_named(rule: str) -> None:
    losses = {f"c{i}": 0.2 * (i % 4) for i in range(28)} | {"zoe": 4.0, "abe": 4.0}
    asked = {"loss_max": 4.0, "seed": 5} | {size: 60 for size in pool_of(rule)}
    if RULES[rule].ordered:
        asked["order"] = dict(zip(losses, random.Random(2).sample(range(30), 30), strict=True))
    found = certify_losses(losses, rule=rule, **asked)
    default = float(certify_losses(losses, **asked).certificate)
    assert default < float(found.certificate)
    seed = {} if RULES[rule].ordered else {"seed": 5}
    told = {"client": "abe", "rule": rule, "instead": "blend", "value": default} | seed
    assert found.to_dict()["voided"] == told
    near = losses | {"zoe": np.nextafter(4.0, 0), "abe": 3.0}
    assert certify_losses(near, rule=rule, **asked).voided is None


def test_sources_agree(tmp_path: Path) -> None:
    text = "client,loss\n" + "".join(f"{name},{loss}\n" for name, loss in FIVE.items())
    frame = pd.DataFrame({"client": list(FIVE), "loss": list(FIVE.values())})
    expected = certify_losses(FIVE, seed=5).to_dict()
    for source in (csv(tmp_path, text), str(csv(tmp_path, text)), frame):
        assert certify_losses(source, seed=5).to_dict() == expected


def as_parquet(tmp_path: Path, frame: pd.DataFrame) -> Path:
    path = tmp_path / "losses.parquet"
    frame.to_parquet(path)
    return path


@pytest.mark.slow
def test_every_kind_of_source_gives_the_same_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(5)
    frame = pd.DataFrame(
        {
            "client": [f"c{i % 40}" for i in range(90)],
            "loss": [rng.random() for _ in range(90)],
            "weight": [rng.random() for _ in range(90)],
            "site": [("x", "y")[i % 40 % 2] for i in range(90)],
            "drawn": [7 * i % 41 for i in range(1, 41)] * 2 + [7 * i % 41 for i in range(1, 11)],
        }
    )
    records, columns = frame.to_dict("records"), frame.to_dict("list")
    path = csv(tmp_path, frame.to_csv(index=False))
    monkeypatch.setattr(pd, "read_parquet", lambda path: frame)
    sources = {
        "frame": frame,
        "bytes": path.read_bytes(),
        "records": json.dumps(records).encode(),
        "columns": json.dumps(columns, indent=1).encode(),
        "parquet": str(tmp_path / "losses.parquet"),
    }
    for rule, own in (
        ("product", {}),
        ("blend", {"seed": 5}),
        ("wsr_averaged", {"seed": 5}),
        ("wsr_averaged", {"order": "drawn"}),
        ("wsr", {"order": "drawn"}),
    ):
        expected = certify_losses(path, rule=rule, **own).to_dict()
        for name, source in sources.items():
            assert certify_losses(source, rule=rule, **own).to_dict() == expected, name
    groups = {name: one.to_dict() for name, one in certify_groups(path, "site", seed=5).items()}
    for name, source in sources.items():
        found = certify_groups(source, "site", seed=5)
        assert {group: one.to_dict() for group, one in found.items()} == groups, name
    one_each = certify_losses(dict(enumerate(frame["loss"])), seed=5).to_dict()
    losses = frame["loss"]
    for source in (losses, losses.to_numpy(), losses.tolist(), tuple(losses)):
        assert certify_losses(source, seed=5).to_dict() == one_each
    as_json = json.dumps(dict(enumerate(losses))).encode()
    assert certify_losses(as_json, seed=5).to_dict() == one_each


def test_parquet_without_its_reader_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacking(path: str) -> None:
        raise ImportError("Unable to find a usable engine")

    monkeypatch.setattr(pd, "read_parquet", lacking)
    assert "not installed: pip install pandas pyarrow" in refusal(tmp_path / "losses.parquet")


def test_parquet_as_it_is_written(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"client": list(FIVE), "loss": list(FIVE.values())})
    stored, given = (certify_losses(one, seed=5) for one in (as_parquet(tmp_path, frame), FIVE))
    assert stored.to_dict() == given.to_dict()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[", "standard input: not JSON: "),
        ("[" * 100_000, "standard input: not JSON: "),
        ("[]", "standard input: holds no clients"),
        ("{}", "standard input: holds no clients"),
        ('[["a", 0.1]]', "record 0: must hold client and loss by name, got ['a', 0.1]"),
        ('[{"client": "a"}]', "record 0: no 'loss' among client"),
        ('[{"client": null, "loss": 0.1}]', "record 0: no client id"),
        ('[{"client": "a", "loss": NaN}]', "record 0: loss must be a finite number, got nan"),
        ('[{"client": "a", "loss": null}]', "record 0: loss must be a finite number, got None"),
        ('[{"client": "a", "loss": 1.2}]', "record 0: loss must lie in [0, 1], got 1.2"),
        ('{"client": ["a", "b"], "loss": [0.1]}', "lists of one length, got client 2, loss 1"),
        ('{"a": 0.1, "a": 0.2}', "not JSON: 'a' occurs twice"),
        ('{"a": [0.1]}', "client 'a': loss must be a finite number, got [0.1]"),
    ],
)
def test_bad_json_is_refused_in_one_line(text: str, said: str) -> None:
    assert said in refusal(text.encode())


def pool_of(rule: str) -> dict[str, int]:
    return {} if RULES[rule].iid else {"pool_size": 30}


def order_of(rule: str, n_clients: int) -> dict[str, dict[str, int]]:
    """The order of the draw where a rule bets along it, by client."""
    ranks = random.Random(11).sample(range(n_clients), n_clients)
    return {"order": {f"c{i}": rank for i, rank in enumerate(ranks)}} if RULES[rule].ordered else {}


@pytest.mark.parametrize("rule", FILE_RULES)
def test_order_of_rows_never_shows(tmp_path: Path, rule: str) -> None:
    rng = random.Random(7)
    lines = [f"c{i % 20},{rng.random() * 0.4},{rng.random()}" for i in range(60)]
    asked = {"rule": rule, "seed": 5, **pool_of(rule), **order_of(rule, 20)}
    first = certify_losses(csv(tmp_path, "\n".join(["client,loss,weight", *lines])), **asked)
    for _ in range(3):
        rng.shuffle(lines)
        again = certify_losses(csv(tmp_path, "\n".join(["client,loss,weight", *lines])), **asked)
        assert again.to_dict() == first.to_dict()


def ranked(ranks: object, clients: str = "abcde") -> dict[str, object]:
    frame = pd.DataFrame({"client": list(clients), "loss": 0.1, "drawn": ranks})
    return {"source": frame, "order": "drawn"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (ranked([3, 1, 2, 2, 4]), "drawn: clients 'c' and 'd' both have 2; the order of a random"),
        (ranked([3, 1, 2, 7, 4]), "drawn: no client has 5, and 'd' has 7; the order of a random"),
        (ranked([3, 1, 2, 4.5, 5]), "drawn: no client has 4, and 'd' has 4.5;"),
        (ranked([2, 3, 4, 5, 6]), "drawn: no client has 1, and 'e' has 6; the order of a random"),
        (ranked([-1, 0, 1, 2, 3]), "drawn: no client has 4, and 'a' has -1; the order of a random"),
        (ranked([1, 2, 3, None, 5]), "row 3: drawn must be a finite number, got nan"),
        (ranked(list("vwxyz")), "row 0: drawn must be a finite number, got 'v'"),
        (ranked([1, 2, 3, 4, 5], "abcda"), "row 4: client 'a' has drawn 5, and 1 before"),
        (ranked([1, 2, 3, 4, 5]) | {"order": "draw"}, "no column 'draw' among client, loss, drawn"),
        ({"source": FIVE, "order": "drawn"}, "order drawn needs a file or a DataFrame with that"),
        ({"source": FIVE, "order": [1, 2, 3, 4]}, "one number for each of 5 losses, got 4"),
        ({"source": FIVE, "order": {"ann": 1}}, "order must name the clients of the losses, got"),
        ({"source": FIVE, "order": [1, 2, 3, 4, 4]}, "order: clients 'dee' and 'eve' both have 4"),
    ],
)
def test_an_order_that_is_none_of_a_draw_is_refused(given: dict, said: str) -> None:
    assert said in refusal(given["source"], rule="wsr", order=given["order"])
    assert said in refusal(given["source"], order=given["order"]), "whatever the rule"


@pytest.mark.parametrize("start", [0, 1])
def test_a_named_order_is_what_single_orders_bet_along(tmp_path: Path, start: int) -> None:
    rng = random.Random(2)
    losses = [rng.random() for _ in range(30)]
    ranks = rng.sample(range(30), 30)
    along = [loss for _, loss in sorted(zip(ranks, losses, strict=True))]
    lines = [f"c{i},{loss!r},{start + ranks[i]}" for i, loss in enumerate(losses)]
    path = csv(tmp_path, "\n".join(["client,loss,drawn", *lines]))
    pooled = {"rule": "wsr_wor", "pool_size": 40}
    expected = float(wsr_wor(losses=along, delta=0.05, pool_size=40))
    found = certify_losses(path, order="drawn", **pooled)
    assert float(found.certificate) == expected
    assert (found.orders, found.seed, found.in_order) == (1, None, True)
    assert float(certify_losses(losses, order=ranks, **pooled).certificate) == expected
    assert found.to_dict()["orders_sd"] is None
    averaged = certify_losses(path, order="drawn", rule="wsr_averaged")
    assert float(averaged.certificate) == float(
        wsr_averaged(losses=along, delta=0.05, in_order=True)
    )
    assert any("is that of a random draw" in text for text in averaged.certificate.assumptions)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            {"order": "draw", "rule": "wsr"},
            "order must be the column with which a table was read, none, got 'draw'",
        ),
        (
            {"order": [2, 1]},
            "order must be the column with which a table was read, none, got [2, 1]",
        ),
        ({"by": "site"}, "by must be the column with which a table was read, none, got 'site'"),
        (
            {"above": [0.5]},
            "losses, client 'bob': loss must lie in [0, 1], got 5.0 in a table that was read with"
            " another loss_max",
        ),
    ],
    ids=["column", "numbers", "groups", "range"],
)
def test_a_table_lacks_what_it_was_read_without(asked: dict, said: str) -> None:
    """Its losses come sorted: along them a bet on an order that is none is sure to win."""
    largest = 5.0 if "above" in asked else 1.0
    table = read_losses({"ann": 0.0, "bob": largest}, loss_max=largest)
    for door in (certified_at_once, one_by_one):
        with pytest.raises(InputError) as caught:
            door(table, **asked)
        assert str(caught.value) == said


def certified_at_once(table: LossTable, **asked: object) -> object:
    return latecomer.certify_losses(table, **asked)  # type: ignore[arg-type]


def one_by_one(table: LossTable, *, by: str = "", above: object = (), **asked: object) -> object:
    given = latecomer.losses(table, **asked)  # type: ignore[arg-type]
    return given.by(by) if by else given.mean()


def test_a_table_keeps_the_order_that_it_was_read_with() -> None:
    frame = pd.DataFrame({"client": range(6), "loss": [0, 1, 0, 1, 1, 0], "draw": range(6)})
    table = read_losses(frame, loss_max=1.0, order="draw")
    whole = float(certify_losses(frame, rule="wsr", order="draw").certificate)
    for asked in ({}, {"order": "draw"}):
        assert float(certify_losses(table, rule="wsr", **asked).certificate) == whole
        assert latecomer.losses(table, rule="wsr", **asked).mean().value == whole
        assert latecomer.losses(table, **asked).in_order


def test_groups_keep_the_order_of_their_own_clients() -> None:
    ranks = random.Random(9).sample(range(40), 40)
    frame = pd.DataFrame({"client": range(40), "loss": [i % 7 / 10 for i in range(40)]})
    frame = frame.assign(drawn=ranks, site=[("x", "y")[i % 2] for i in range(40)])
    found = certify_groups(frame, "site", rule="wsr", order="drawn")
    own = frame[frame["site"] == "y"].sort_values("drawn")["loss"].to_numpy()
    assert float(found["y"].certificate) == float(wsr(losses=own, delta=0.025))


def test_orders_are_drawn_afresh_and_repeated_by_their_seed() -> None:
    losses = [random.Random(i).random() for i in range(50)]
    for rule in (rule for rule in FILE_RULES if RULES[rule].orders):
        asked = {"rule": rule, **({} if RULES[rule].iid else {"pool_size": 60})}
        first, second = certify_losses(losses, **asked), certify_losses(losses, **asked)
        assert first.seed is not None
        assert first.seed != second.seed
        again = certify_losses(losses, seed=first.seed, **asked)
        assert again.to_dict() == first.to_dict()
        assert first.to_dict()["seed"] == first.seed
        assert first.to_dict()["orders_sd"] == first.orders_sd


@pytest.mark.parametrize("rule", [rule for rule in FILE_RULES if not RULES[rule].ordered])
def test_names_of_the_clients_never_show(rule: str) -> None:
    losses = [random.Random(3).random() * 0.4 for _ in range(20)]
    values = [
        float(found.next_client if found.certificate is None else found.certificate)
        for prefix in ("a", "b", "c")
        for found in [
            certify_losses(
                {f"{prefix}{i}": loss for i, loss in enumerate(losses)},
                rule=rule,
                seed=5,
                **pool_of(rule),
            )
        ]
    ]
    assert len(set(values)) == 1, "a name is nothing to fish for"


@pytest.mark.parametrize("rule", FILE_RULES)
def test_the_seed_shows_where_orders_are_drawn_and_nowhere_else(rule: str) -> None:
    # Many and spread widely: else adaptive bets are all 1, and every order is the same.
    losses = {f"c{i}": random.Random(i).random() for i in range(200)}
    asked = {size: 300 for size in pool_of(rule)} | order_of(rule, 200)
    first, second = (certify_losses(losses, rule=rule, seed=seed, **asked) for seed in (0, 1))
    one, other = (
        float(found.next_client if found.certificate is None else found.certificate)
        for found in (first, second)
    )
    assert (one == other) == (first.seed is None) == (not RULES[rule].orders)
    assert first.orders == (256 if RULES[rule].orders else int(RULES[rule].ordered))
    if RULES[rule].orders:
        assert any("seed 1, which draws the 256" in text for text in second.certificate.assumptions)
        assert second.orders_sd is not None
        assert abs(one - other) < 8 * second.orders_sd, "no further than its deviation says"


def test_losses_come_sorted() -> None:
    table = read_losses({"b": 0.1, "a": 0.3, "c": 0.1}, loss_max=1.0)
    assert (table.clients, table.losses) == (("b", "c", "a"), (0.1, 0.1, 0.3))


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"rule": "wsr"}, "hangs on the order of the clients"),
        ({"rule": "product_wor"}, "is for finite pools: say how many"),
        ({"rule": "betting_wor"}, "is for finite pools: say how many"),
        ({"rule": "wsr_wor"}, "is for finite pools: say how many"),
        ({"rule": "product_wor_averaged"}, "is for finite pools: say how many"),
        ({"rule": "wsr_averaged", "pool_size": 40}, "a finite pool: leave the rule out"),
        ({"rule": "emp_bernstein", "pool_size": 40}, "a finite pool: leave the rule out"),
        ({"rule": "product_wor_averaged", "pool_size": 4}, "at least the 5 clients given, got 4"),
        ({"seed": -1}, "seed must be a whole number of at least 0"),
        ({"seed": 0.5}, "seed must be a whole number of at least 0"),
    ],
)
def test_rules_and_pools_that_do_not_fit_are_refused(asked: dict, said: str) -> None:
    assert said in refusal(FIVE, **asked)


def test_a_pool_says_what_it_leaves_for_the_clients_that_were_not_scored() -> None:
    losses = {f"c{i}": 0.05 * (i % 4) for i in range(30)}
    found = certify_losses(losses, rule="product_wor_averaged", pool_size=40)
    total = 40 * float(found.certificate) - math.fsum(losses.values())
    assert found.others == pytest.approx(total / 10)
    scaled = certify_losses({c: 4 * v for c, v in losses.items()}, rule="product_wor_averaged",
                            pool_size=40, loss_max=4.0, seed=found.seed)  # fmt: skip
    assert scaled.others == pytest.approx(4 * found.others)
    assert certify_losses(losses).others is None
    assert certify_losses(losses, rule="product_wor_averaged", pool_size=30).others is None


NAMED = st.text(st.characters(categories=["Ll"]), max_size=4).map("c".__add__)


@pytest.mark.slow
@settings(deadline=None)
@given(st.dictionaries(NAMED, st.floats(0, 1), min_size=1, max_size=8))
def test_any_losses_give_a_bound_above_their_mean(losses: dict[str, float]) -> None:
    found = certify_losses(losses)
    assert float(found.certificate) >= found.mean
    assert float(found.certificate) <= 1.0
    assert found.next_client.value <= 1.0


def test_rows_of_a_client_are_averaged_by_weight(tmp_path: Path) -> None:
    table = read_losses(
        csv(tmp_path, "client,loss,weight\na,0,3\na,1,1\nb,0.5,0\nb,0.1,2\n"), loss_max=1.0
    )
    assert dict(zip(table.clients, table.losses, strict=True)) == {"a": 0.25, "b": 0.1}
    assert table.n_rows == 4
    unweighted = read_losses(csv(tmp_path, "loss,client,note\n0,a,x\n1,a,y\n"), loss_max=1.0)
    assert unweighted.losses == (0.5,)


def test_huge_weights_do_not_overflow() -> None:
    frame = pd.DataFrame({"client": ["a", "a"], "loss": [0.0, 1.0], "weight": [1e308, 1e308]})
    assert read_losses(frame, loss_max=1.0).losses == (0.5,)


def test_pool_size_reaches_the_rule_and_tags_the_pool() -> None:
    losses = {f"c{i}": 0.05 * (i % 4) for i in range(30)}
    pooled = certify_losses(losses, rule="product_wor_averaged", pool_size=40)
    expected = product_wor_averaged(
        losses=list(losses.values()), delta=0.05, pool_size=40, seed=pooled.seed
    )
    assert pooled.certificate.name == "product_wor_averaged"
    assert float(pooled.certificate) == float(expected)
    assert float(pooled.certificate) < float(certify_losses(losses, rule="product").certificate)
    assert pooled.certificate.sampling == pooled.next_client.sampling == "finite-pool"
    assert certify_losses(losses, pool_size=40).certificate.sampling == "finite-pool"
    assert "at least the 30 clients given, got 29" in refusal(losses, pool_size=29)


def test_loss_max_scales_everything() -> None:
    unit = certify_losses(FIVE, seed=5)
    scaled = certify_losses({name: 4 * loss for name, loss in FIVE.items()}, loss_max=4.0, seed=5)
    assert float(scaled.certificate) == pytest.approx(4 * float(unit.certificate), rel=1e-9)
    assert scaled.reference_price == pytest.approx(4 * unit.reference_price)
    needy = certify_losses({"a": 3.0}, loss_max=4.0)
    assert float(needy.next_client) == 4.0
    assert needy.next_client.vacuous


def test_next_client_is_the_quantile_of_its_rank() -> None:
    losses = {f"c{i}": i / 100 for i in range(1, 31)}
    found = certify_losses(losses, alpha=0.1)
    assert found.rank == 28
    assert float(found.next_client) == 0.28
    assert found.next_client.population == "next-client"


@pytest.mark.parametrize(("alpha", "needed"), [(0.1, 9), (0.05, 19), (0.3, 3), (0.01, 99)])
def test_next_client_says_how_many_clients_it_needs(alpha: float, needed: int) -> None:
    few = certify_losses({f"c{i}": 0.1 for i in range(needed - 1)}, alpha=alpha)
    enough = certify_losses({f"c{i}": 0.1 for i in range(needed)}, alpha=alpha)
    assert few.clients_needed == enough.clients_needed == needed
    assert float(few.next_client) == 1.0
    assert few.rank > few.n_clients
    assert float(enough.next_client) == 0.1


def test_conformal_rule_says_nothing_of_the_mean() -> None:
    found = certify_losses(FIVE, rule="conformal")
    assert found.certificate is None
    assert found.price_paid is None
    assert found.to_dict()["certificate"] is None


def test_dict_is_json() -> None:
    record = json.loads(
        json.dumps(certify_losses({"a": 0.5}, rule="product").to_dict(), allow_nan=False)
    )
    assert record["sd"] is None
    assert record["certificate"]["value"] == pytest.approx(1 - 0.05 * 0.5)
    assert record["certificate"]["rigorous"] is True
    assert set(record["certificate"]["delta"]) == {"clients"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("client,lose\na,.1\n", "no column 'loss' among client, lose; did you mean 'lose'?"),
        (
            "client,loss\n\na,1.5\n",
            "line 3: loss must lie in [0, 1], got 1.5; divide losses that can be larger by",
        ),
        ("client,loss,weight\na,.1,0\na,.2,0\n", "line 2: the weights of client 'a' are all 0"),
        ("client,loss,weight\na,.1,\n", "line 2: weight must be a finite number, got ''"),
    ],
)
def test_bad_files_are_refused_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    """Further damage is in test_damaged_files.py."""
    message = refusal(csv(tmp_path, text))
    assert message.startswith(str(tmp_path / "losses.csv"))
    assert said in message


def test_absent_file_and_folder(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none.csv") == f"{tmp_path / 'none.csv'}: no such file"
    assert refusal(tmp_path).startswith(f"{tmp_path}: cannot be read")


def test_spreadsheet_files_are_read(tmp_path: Path) -> None:
    text = '\ufeffclient,loss\r\n" ann, the first ",0.1\r\n\r\n"bob",1e-1\r\n'
    table = read_losses(csv(tmp_path, text), loss_max=1.0)
    assert set(table.clients) == {"ann, the first", "bob"}
    assert table.losses == (0.1, 0.1)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"delta": 2}, "delta must lie strictly between 0 and 1, got delta=2"),
        ({"delta": [0.1, 0.2]}, "delta must be one number"),
        ({"delta": 1e-300}, "delta must be at least 1e-287, got delta=1e-300"),
        (
            {"delta": 1.5e-287, "rule": "best_of", "best_of": ["product", "chernoff_kl"]},
            "delta must be at least 2e-287 to be split into 2 parts, got delta=1.5e-287",
        ),
        ({"alpha": 0}, "alpha must lie strictly between 0 and 1, got alpha=0"),
        ({"loss_max": 0}, "loss_max must be one number greater than 0, got loss_max=0"),
        ({"loss_max": 1e301}, "loss_max must lie in [1e-300, 1e+300], got loss_max=1e+301"),
        ({"pool_size": 5.5}, "pool_size must be a whole number of at least 1"),
        ({"rule": "prodct"}, "got 'prodct'; did you mean 'product'?"),
    ],
)
def test_bad_options_are_refused_in_one_line(options: dict[str, object], said: str) -> None:
    assert said in refusal(FIVE, **options)


def test_bad_frames_and_mappings() -> None:
    assert "row 1: loss must be" in refusal(pd.DataFrame({"client": [1, 2], "loss": [0.1, np.nan]}))
    assert "row 0: no client id" in refusal(pd.DataFrame({"client": [None], "loss": [0.1]}))
    assert "no column 'client'" in refusal(pd.DataFrame({"loss": [0.1]}))
    assert "client '1' occurs twice" in refusal({1: 0.1, "1": 0.2})
    assert "client 'a': loss must be" in refusal({"a": [0.1]})
    assert refusal({}) == "losses: holds no clients"
    assert "got set" in refusal({0.1, 0.2})
    assert "client '1': loss must be a finite number, got nan" in refusal([0.1, math.nan])
    assert "got ndarray" in refusal(np.zeros((2, 2)))
    assert "client 'a' occurs twice" in refusal(pd.Series([0.1, 0.2], index=["a", "a"]))


def test_ids_of_any_type_order_alike() -> None:
    whole = read_losses({1: 0.1, 2: 0.2, 3: 0.3}, loss_max=1.0)
    assert whole == read_losses({"3": 0.3, "2": 0.2, "1": 0.1}, loss_max=1.0)


def test_golden_losses_of_the_catalogue() -> None:
    # Check values of the catalogue: [.1,.05,.2,.15,.1] eight times, delta .05.
    losses = {f"c{i}": value for i, value in enumerate([0.1, 0.05, 0.2, 0.15, 0.1] * 8)}
    kl = certify_losses(losses, rule="chernoff_kl")
    assert float(kl.certificate) == pytest.approx(0.2799733345, abs=1e-9)
    by_hand = product(losses=list(losses.values()), delta=0.05)
    found = certify_losses(losses, rule="product")
    assert float(found.certificate) == pytest.approx(float(by_hand), rel=1e-12)
    assert math.isclose(found.mean, 0.12)


def test_the_deviation_of_equal_losses_is_none_and_scales_do_not_move_it() -> None:
    assert certify_losses([0.1] * 30, rule="product").sd == 0
    losses = np.array([0.1, 0.4, 0.2])
    sd = certify_losses(losses, rule="product").sd
    assert sd == float(np.std(np.sort(losses), ddof=1))
    for top in (2.0**990, 2.0**-990):
        assert certify_losses(losses * top, loss_max=top, rule="product").sd == sd * top
    assert certify_losses([0.3, np.nextafter(0.3, 1)], rule="product").sd > 0


def test_a_blend_that_takes_seconds_says_so_first(monkeypatch, caplog):
    monkeypatch.setattr(statements, "_TAKES_A_WHILE", 20)
    certify_losses([0.1] * 21, rule="product")
    assert caplog.messages == []
    certify_losses([0.1] * 21)
    assert "blend of 21 clients takes" in caplog.text


def test_a_certificate_holds_no_losses() -> None:
    made = certify_losses([0.1] * 30, rule="wsr_averaged").to_dict()
    assert refusal(json.dumps(made).encode()).endswith("holds a certificate, no losses")


def test_a_table_brings_the_order_in_which_its_clients_were_drawn() -> None:
    given = [0.05 * (i % 7) for i in range(30)]
    table = read_losses(given, loss_max=1.0, order=[(7 * i) % 30 for i in range(30)])
    for rule in ("wsr", "blend"):
        found, again = (latecomer.losses(table, rule=rule).mean() for _ in range(2))
        assert found.in_order
        assert (found.seed, str(found)) == (again.seed, str(again))
