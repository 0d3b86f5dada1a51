"""Groups of natural clients: certified, held back, or left out, whatever the door."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from doors import refusal
from hypothesis import given, settings
from hypothesis import strategies as st

from latecomer.errors import InputError
from latecomer.eval.datasets import load_dataset
from latecomer.eval.datasets.from_objects import clients_from
from latecomer.eval.splits.build import make_split, split_of
from latecomer.eval.splits.registry import split_settings
from latecomer.eval.splits.split import split_arrays
from latecomer.eval.studies.checking import check_held_back, parse_study

GROUPS = ("north", "south", "west")


def visits(sizes=tuple(4 + i % 7 for i in range(40)), seed=0):
    """A table: client i lies in group i mod 3."""
    rng = np.random.default_rng(seed)
    rows = [i for i, size in enumerate(sizes) for _ in range(size)]
    return pd.DataFrame(
        {
            "age": rng.normal(size=len(rows)).round(3),
            "label": rng.integers(0, 2, len(rows)),
            "site": [f"s{i:03d}" for i in rows],
            "region": [GROUPS[i % 3] for i in rows],
        }
    )


def by_csv(table, folder):
    table.to_csv(folder / "visits.csv", index=False)
    path = str(folder / "visits.csv")
    return load_dataset({"name": "table", "path": path, "client": "site", "group": "region"})


def by_frame(table, folder):
    return clients_from(table, client="site", group="region")


def by_saved_frame(table, folder):
    path = str(by_frame(table, folder).save(folder / "visits.npz"))
    return load_dataset({"name": "npz", "path": path})


def by_mapping(table, folder):
    held = {
        site: (own[["age"]].to_numpy(np.float32), own["label"].to_numpy())
        for site, own in table.groupby("site")
    }
    return clients_from(held, group=dict(zip(table["site"], table["region"], strict=True)))


DOORS = [by_csv, by_frame, by_saved_frame, by_mapping]


def groups_of(data, clients):
    return {data.group[client.id] for client in clients}


@pytest.fixture(scope="module")
def data():
    return clients_from(visits(), client="site", group="region")


@pytest.mark.parametrize("door", DOORS)
@settings(max_examples=8, deadline=None)
@given(draw=st.data())
def test_no_client_of_a_held_back_group_trains_or_is_certified(door, tmp_path_factory, draw):
    data = door(visits(), tmp_path_factory.mktemp("door"))
    held = draw.draw(st.sets(st.sampled_from(GROUPS), min_size=1, max_size=2))
    allowed = st.sets(st.sampled_from(sorted(set(GROUPS) - held)), min_size=1)
    certified = draw.draw(st.none() | allowed)
    amounts = st.integers(0, 5) | st.sampled_from([0.2, 0.4])
    certify, novel = draw.draw(amounts), draw.draw(amounts)
    split = make_split(
        data,
        kind="natural",
        certify=certify,
        novel=novel,
        seed=draw.draw(st.integers(0, 50)),
        novel_groups=sorted(held),
        certify_groups=sorted(certified) if certified else None,
    )
    drawn = certified or set(GROUPS) - held
    assert not groups_of(data, split.seen + split.certification) & held
    assert groups_of(data, split.certification) <= drawn
    if novel:
        assert groups_of(data, split.novel) <= drawn
        assert [(name, groups_of(data, clients)) for name, clients in split.apart] == [
            (name, {name}) for name in sorted(held)
        ]
    else:
        assert groups_of(data, split.novel) == held
        assert not split.apart
        assert split.n_outside == 0
    ids = [client.id for client in split.clients]
    assert sorted(ids) == list(range(40))
    whose = {row: client.id for client in split.clients for row in client.rows("all")}
    assert len(whose) == len(data)
    assert all(data.client[row] == one for row, one in whose.items())


@pytest.mark.parametrize("door", DOORS)
def test_a_group_that_is_left_out_is_certified_and_measured_and_never_trains(door, tmp_path):
    data = door(visits(), tmp_path)
    alike = {"novel_groups": ["west"], "certify_groups": ["west"]}
    split = make_split(data, kind="natural", certify=5, novel=4, **alike)
    assert groups_of(data, split.seen) == {"north", "south"}
    assert len(split.seen) == 27
    assert groups_of(data, split.certification + split.novel) == {"west"}
    assert (len(split.certification), len(split.novel), split.n_outside) == (5, 4, 4)
    assert {data.group[one] for one in split.left_out} == {"west"}
    assert len(split.left_out) == 4
    rest = make_split(data, kind="natural", certify=5, **alike)
    assert len(rest.novel) == 8
    assert not rest.left_out


def test_every_door_gives_the_same_groups_and_the_same_split(tmp_path):
    made = [door(visits(), tmp_path) for door in DOORS]
    assert len({one.group for one in made}) == 1
    assert len({one.content_hash for one in made[:3]}) == 1
    asked = {"certify": 3, "novel": 3, "novel_groups": ["south"]}
    assert len({make_split(one, kind="natural", **asked).content_hash for one in made}) == 1


def test_groups_change_no_split_that_does_not_ask_for_them(data):
    plain = clients_from(visits().drop(columns="region"), client="site")
    asked = {"kind": "natural", "certify": 8, "novel": 0.25}
    assert make_split(data, **asked).content_hash == make_split(plain, **asked).content_hash
    assert data.content_hash != plain.content_hash


def test_counts_and_shares_may_stand_beside_each_other(data):
    split = make_split(data, kind="natural", certify=7, novel=0.25)
    assert (len(split.seen), len(split.certification), len(split.novel)) == (23, 7, 10)
    some = make_split(data, kind="natural", certify=0.5, novel=3, certify_groups=["north"])
    assert (len(some.certification), len(some.novel), len(some.seen)) == (7, 3, 30)


def test_clients_of_one_to_thousands_of_points():
    data = clients_from(
        visits((1, 2, 3, 5000, 1200, *range(10, 40))), client="site", features="age"
    )
    with pytest.raises(InputError, match=r"1 of 35 clients hold too few .* split.min_samples"):
        make_split(data, kind="natural")
    split = make_split(data, kind="natural", certify=12, novel=10, min_samples=3)
    assert split.left_out == (0, 1)
    assert max(len(client.rows("all")) for client in split.clients) == 5000
    with pytest.raises(InputError, match="leave no seen client: 20 \\+ 13 of 33"):
        make_split(data, kind="natural", certify=20, novel=13, min_samples=3)


def test_a_frozen_split_keeps_groups_apart(data, tmp_path):
    split = make_split(data, kind="natural", certify=6, novel=5, novel_groups=["south"])
    np.savez_compressed(tmp_path / "split.npz", **split_arrays(split, data.content_hash))
    again = split_of(data, split_settings({"kind": "frozen", "path": str(tmp_path / "split.npz")}))
    assert again.content_hash == split.content_hash
    assert again.dealt
    assert again.grouped
    assert [c.id for c in again.novel] == [c.id for c in split.novel]
    ((name, clients),) = again.apart
    assert name == "south"
    assert [c.id for c in clients] == [c.id for c in split.apart[0][1]]
    renamed = replace(split, apart=(("north", clients),))
    np.savez_compressed(tmp_path / "renamed.npz", **split_arrays(renamed, data.content_hash))
    with pytest.raises(InputError, match="checksum"):
        split_of(data, split_settings({"kind": "frozen", "path": str(tmp_path / "renamed.npz")}))


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"novel_groups": ["souht"]}, "north, south, west.*'souht'; did you mean 'south'"),
        ({"novel_groups": GROUPS}, "no seen client"),
        ({"novel_groups": GROUPS, "certify": 4, "novel": 3}, "no seen client: they hold all"),
        ({"novel_groups": ["south", "west"], "certify_groups": ["west"]}, "must be the same, or"),
        ({"certify_groups": ["north"], "certify": 10, "novel": 5}, "nobody to draw: 10 \\+ 5 of"),
        ({"novel_groups": ["west"], "certify": 20, "novel": 7}, "no seen client: 20 \\+ 7 of the"),
        ({"novel_groups": []}, "novel_groups"),
    ],
)
def test_refused_groups(data, asked, message):
    with pytest.raises(InputError, match=message):
        make_split(data, kind="natural", **asked)


def test_groups_need_a_column():
    data = clients_from(visits(), client="site", features="age")
    with pytest.raises(InputError, match=r"data\.group names the column"):
        make_split(data, kind="natural", novel_groups=["south"])
    with pytest.raises(InputError, match=r"no setting of split\.kind=iid"):
        make_split(data, kind="iid", clients=5, novel_groups=["south"])


def test_a_client_in_two_groups_and_one_in_none(tmp_path):
    torn = visits()
    torn.loc[3, "region"] = "west"
    with pytest.raises(
        InputError, match="same for all samples of a client, got 'north' and 'west'"
    ):
        clients_from(torn, client="site", group="region")
    torn.loc[3, "region"] = None
    with pytest.raises(InputError, match="group 'region', row 3: no group is given"):
        clients_from(torn, client="site", group="region")
    torn.to_csv(tmp_path / "torn.csv", index=False)
    path = str(tmp_path / "torn.csv")
    told = {"name": "table", "path": path, "client": "site"}
    assert "row 3: no group is given" in refusal(load_dataset, {**told, "group": "region"})
    assert "did you mean 'region'" in refusal(load_dataset, {**told, "group": "regio"})
    with pytest.raises(InputError, match="none for 's001'"):
        clients_from(visits(), client="site", features="age", group={"s000": "north"})
    with pytest.raises(InputError, match="say the column of the clients"):
        load_dataset({"name": "table", "path": path, "group": "site", "features": ["age"]})


def test_what_would_train_on_held_back_clients_is_refused(data):
    split = make_split(data, kind="natural", certify=6, novel=12, novel_groups=["south"])
    asked = {
        "study": "s",
        "data": {"name": "digits"},
        "split": {"kind": "natural", "certify": 6, "novel": 12, "novel_groups": ["south"]},
        "methods": ["fedavg"],
    }
    check_held_back(parse_study(asked), split)
    given_up = {**asked, "evaluation": {"given_up": True}}
    with pytest.raises(InputError, match="trains on the certified clients too"):
        check_held_back(parse_study(given_up), split)
    r4 = {"route": "r4", "clients": 2, "first": 5, "rounds_per_block": 1}
    with pytest.raises(InputError, match="must be r0, r2 or r3"):
        check_held_back(parse_study({**asked, "certificates": [r4]}), split)
