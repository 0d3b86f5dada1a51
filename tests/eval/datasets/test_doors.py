"""The same data through every door for a user's own: one content hash, equal rows of a study."""

import io

import numpy as np
import pandas as pd
import pytest
import torch
from doors import three_rounds, written
from PIL import Image

from latecomer import clients_from
from latecomer.eval.datasets import load_dataset
from latecomer.eval.protocol import evaluate_cell

RNG = np.random.default_rng(5)
PIXELS = RNG.integers(0, 256, (60, 3, 8, 8), dtype=np.uint8)
LABELS = RNG.permutation(np.arange(60) % 3)
SITES = np.array(["Lund", "Bern", "Oslo", "Gent", "Metz", "Bonn"])[np.arange(60) // 10]
NAMES = np.array(["cat", "dog", "owl"])
VECTORS = RNG.normal(size=(60, 3))


@pytest.fixture
def folder(tmp_path):
    """Sixty pictures as files."""
    for number, one in enumerate(PIXELS):
        Image.fromarray(np.moveaxis(one, 0, 2)).save(tmp_path / f"{number}.png")
    return tmp_path


def table(**columns):
    return pd.DataFrame({**columns, "label": NAMES[LABELS], "client": SITES})


def paths():
    return table(file=[f"{number}.png" for number in range(60)])


def encoded(one):
    stream = io.BytesIO()
    Image.fromarray(np.moveaxis(one, 0, 2)).save(stream, "PNG")
    return stream.getvalue()


def npz(folder):
    np.savez(folder / "mine.npz", x=PIXELS, y=LABELS, client=SITES)
    return {"name": "npz", "path": str(folder / "mine.npz")}


def csv(folder):
    return written(paths(), "table", folder / "mine.csv") | {"image": "file"}


def parquet(folder):
    return written(paths(), "parquet", folder / "mine.parquet") | {"image": "file"}


def parquet_of_bytes(folder):
    """As exports of Hugging Face hold pictures."""
    cells = [{"bytes": encoded(one), "path": f"{i}.png"} for i, one in enumerate(PIXELS)]
    (folder / "elsewhere").mkdir()
    held = written(table(image=cells), "parquet", folder / "elsewhere" / "mine.parquet")
    return held | {"image": "image"}


def hugging(folder):
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        picture=datasets.Image(),
        kind=datasets.ClassLabel(names=NAMES.tolist()),
        site=datasets.Value("string"),
    )
    columns = {
        "picture": [str(folder / f"{number}.png") for number in range(60)],
        "kind": LABELS.tolist(),
        "site": SITES.tolist(),
    }
    return datasets.Dataset.from_dict(columns, features=features)


def huggingface(folder):
    hugging(folder).save_to_disk(folder / "saved")
    saved = {"name": "huggingface", "path": str(folder / "saved")}
    return saved | {"image": "picture", "label": "kind", "client": "site"}


MODULE = """
import numpy as np, torch
from torch.utils.data import Dataset

held = np.load({path!r})


class Pictures(Dataset):
    def __len__(self):
        return len(held["y"])

    def __getitem__(self, i):
        return torch.from_numpy(held["x"][i]), torch.tensor(held["y"][i])


def dataset():
    return Pictures(), held["client"]
"""


def torch_file(folder):
    npz(folder)
    (folder / "mine.py").write_text(MODULE.format(path=str(folder / "mine.npz")))
    return {"name": "torch", "path": f"{folder / 'mine.py'}:dataset"}


DOORS = [npz, csv, parquet, parquet_of_bytes, huggingface, torch_file]


class Samples(torch.utils.data.Dataset):
    """Pictures, whole or as tensors, with or without the client."""

    def __init__(self, *, pillow, client):
        self.pillow, self.client = pillow, client

    def __len__(self):
        return 60

    def __getitem__(self, i):
        x = torch.from_numpy(PIXELS[i])
        x = Image.fromarray(np.moveaxis(PIXELS[i], 0, 2)) if self.pillow else x
        return (x, int(LABELS[i]), *([SITES[i]] if self.client else []))


def objects(folder):
    """Yield what each Python door makes of the same pictures."""
    frame = paths()
    yield clients_from(frame, image="file", root=folder)
    full = frame.assign(file=[str(folder / name) for name in frame.file])
    yield clients_from(full.astype({"label": "category", "client": "string"}), image="file")
    yield clients_from(
        table(file=[*PIXELS]).rename(columns={"client": "c"}), image="file", client="c"
    )
    yield clients_from(
        {
            site: (np.moveaxis(PIXELS[site == SITES], 1, 3), LABELS[site == SITES])
            for site in dict.fromkeys(SITES.tolist())
        }
    )
    yield clients_from(Samples(pillow=False, client=True))
    yield clients_from(Samples(pillow=True, client=False), client=SITES)
    yield clients_from(
        Samples(pillow=True, client=False),
        client={site: np.flatnonzero(site == SITES) for site in NAMES_OF_SITES},
    )


NAMES_OF_SITES = tuple(sorted(set(SITES.tolist())))


def hash_of_npz(folder):
    return load_dataset(npz(folder)).content_hash


@pytest.mark.parametrize("door", DOORS)
def test_one_content_hash(door, folder):
    data = load_dataset(door(folder))
    assert data.content_hash == hash_of_npz(folder)
    assert data.client_names == NAMES_OF_SITES
    assert data.x.dtype == np.uint8
    assert data.class_names == (() if door in (npz, torch_file) else tuple(NAMES))
    assert str(folder) in data.provenance


def test_one_content_hash_of_objects(folder):
    found = [*objects(folder)]
    assert len(found) == 7
    assert {data.content_hash for data in found} == {hash_of_npz(folder)}


def test_what_a_client_index_leaves_out_is_counted():
    samples, own = [(x, y) for x, y in zip(PIXELS, LABELS, strict=True)], {"b": [0, 3], "a": [1]}
    found = clients_from(samples, client={**own, "c": [], "d": []})
    n = len(samples)
    assert found.told()[1:] == [
        f"{n - 3} of {n} samples belong to no client: left out",
        "left out, clients without samples: c, d",
    ]
    assert clients_from(samples, client=list(SITES)).notes == ()


def test_one_content_hash_of_a_hugging_face_object(folder):
    given = hugging(folder)
    for one in (given, given.with_format("torch")):
        data = clients_from(one, image="picture", label="kind", client="site")
        assert data.content_hash == hash_of_npz(folder)
        assert data.class_names == tuple(NAMES)


def test_what_is_saved_is_read_as_it_was(folder):
    for given in objects(folder):
        path = given.save(folder / "saved.npz")
        data = load_dataset({"name": "npz", "path": str(path)})
        assert data.content_hash == given.content_hash
        assert data.class_names == given.class_names
        assert data.client_names == given.client_names
        assert data.n_classes == given.n_classes


@pytest.mark.parametrize("ids", [np.array([9, 10, -2]), np.array(["9", "10", "-2"])])
def test_numbers_of_clients_are_saved_as_numbers_and_texts_as_texts(ids, tmp_path):
    frame = pd.DataFrame({"a": np.arange(9.0), "label": 0, "client": ids[np.arange(9) // 3]})
    data = clients_from(frame)
    path = data.save(tmp_path / "a.npz")
    assert load_dataset({"name": "npz", "path": str(path)}).content_hash == data.content_hash
    assert sorted(data.client_names) == ["-2", "10", "9"]
    assert (data.client_names == ("-2", "9", "10")) == (ids.dtype.kind == "i")


def rows_of(data):
    return evaluate_cell(three_rounds(data, kind="natural", novel=2)).rows


@pytest.mark.slow
def test_equal_rows_of_a_study_of_three_rounds(folder):
    wanted = rows_of(npz(folder))
    assert sum(row["metric"] == "error" for row in wanted) > 6
    for door in DOORS[1:]:
        assert rows_of(door(folder)) == wanted, door
    path = next(objects(folder)).save(folder / "frame.npz")
    assert rows_of({"name": "npz", "path": str(path)}) == wanted


def test_names_of_clients_and_classes_are_an_artifact(folder):
    split = {"kind": "natural", "seed": 0, "query": 0.25, "validation": 0.0, "novel": 2}
    found = evaluate_cell({"kind": "split", "data": csv(folder), "split": split}).artifacts
    told = {(row["what"], row["number"]): row["name"] for row in found["names"].table}
    assert told["client", 0] == "Bern"
    assert told["class", 2] == "owl"
    assert len(told) == len(NAMES_OF_SITES) + 3
    plain = {"kind": "split", "data": {"name": "digits"}, "split": split}
    plain["split"] = split | {"kind": "iid", "clients": 6}
    assert "names" not in evaluate_cell(plain).artifacts


@pytest.mark.parametrize("kind", ["float64", "float32"])
def test_features_through_every_table(kind, tmp_path):
    x = VECTORS.astype(kind)
    frame = pd.DataFrame(dict(zip("abc", x.T, strict=True))).assign(label=LABELS, client=SITES)
    path = tmp_path / "f"
    np.savez(f"{path}.npz", x=x, y=LABELS, client=SITES)
    wanted = load_dataset({"name": "npz", "path": f"{path}.npz"}).content_hash
    found = [load_dataset(written(frame, "table", f"{path}.csv")), clients_from(frame)]
    vectors = frame.assign(v=[*x])[["v", "label", "client"]]
    found.append(clients_from(vectors, features="v"))
    samples = list(zip(torch.from_numpy(x), LABELS.tolist(), SITES, strict=True))
    found.append(clients_from(samples))
    assert {data.content_hash for data in found} == {wanted}
    for reader, one in (("parquet", frame), ("parquet", vectors), ("huggingface", vectors)):
        data = load_dataset(written(one, reader, f"{path}.{reader}"))
        assert data.content_hash == wanted


def test_numbers_in_a_csv_file_are_numbers_and_the_rest_is_text(tmp_path):
    path = tmp_path / "n.csv"
    config = {"name": "table", "path": str(path)}
    path.write_text("\ufeffa,label,client\n1,3,10\n2,0,9\n", "utf-8")
    data = load_dataset(config)
    assert (data.y.tolist(), data.client.tolist(), data.class_names) == ([3, 0], [1, 0], ())
    assert data.client_names == ("9", "10")
    path.write_text("a,label,client\n1,03,010\n2,1.0,9\n", "utf-8")
    data = load_dataset(config)
    assert (data.y.tolist(), data.class_names) == ([0, 1], ("03", "1.0"))
    assert data.client_names == ("010", "9")
    path.write_text("a,label\n1,True\n2,False\n", "utf-8")
    data = load_dataset(config)
    assert (data.y.tolist(), data.class_names, data.client) == ([1, 0], ("False", "True"), None)


def test_pictures_of_any_kind_become_grey_or_coloured_bytes(tmp_path):
    for mode in ("1", "L", "LA", "RGB", "RGBA", "P", "CMYK"):
        Image.new(mode, (6, 4)).save(tmp_path / f"{mode}.{'tiff' if mode == 'CMYK' else 'png'}")
    files = sorted(path.name for path in tmp_path.iterdir())
    frame = pd.DataFrame({"file": files, "label": 0, "client": "a"})
    assert clients_from(frame, image="file", root=tmp_path).x.shape == (7, 3, 4, 6)
    grey = frame[frame.file.isin(["1.png", "L.png", "LA.png"])]
    assert clients_from(grey, image="file", root=tmp_path).x.shape == (3, 1, 4, 6)
    assert clients_from(frame, image="file", root=tmp_path, size=2).x.shape == (7, 3, 2, 2)


def test_pictures_stand_upright(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was held on its side
    Image.new("L", (6, 4)).save(tmp_path / "side.jpg", exif=exif)
    frame = pd.DataFrame({"file": ["side.jpg"], "label": 0, "client": "a"})
    assert clients_from(frame, image="file", root=tmp_path).x.shape == (1, 1, 6, 4)
