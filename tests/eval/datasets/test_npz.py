import io
import zipfile

import doors
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from latecomer.errors import InputError
from latecomer.eval.datasets import load_dataset

X = np.arange(6 * 4 * 5, dtype=np.uint8).reshape(6, 4, 5)
Y = np.array([0, 1, 2, 0, 1, 2])


@pytest.fixture
def write(tmp_path):
    def save(**arrays):
        np.savez(tmp_path / "own.npz", **arrays)
        return tmp_path / "own.npz"

    return save


def read(path, **options):
    return load_dataset({"name": "npz", "path": str(path), **options})


def refusal(path, **options):
    message = doors.refusal(read, path, **options)
    assert message.startswith("data.")
    return message


def test_bytes_stay_bytes_and_floats_become_float32(write):
    data = read(write(x=X, y=Y))
    assert data.x.dtype == np.uint8
    np.testing.assert_array_equal(data.x, X[:, None])
    assert data.name == "own"
    data = read(write(x=X / 7.0, y=Y))
    assert data.x.dtype == np.float32
    np.testing.assert_array_equal(data.x[:, 0], (X / 7.0).astype(np.float32))


def test_layouts(write):
    assert read(write(x=X.reshape(6, 20), y=Y)).x.shape == (6, 20)
    colour = np.arange(6 * 3 * 4 * 5, dtype=np.uint8).reshape(6, 3, 4, 5)
    np.testing.assert_array_equal(read(write(x=colour, y=Y)).x, colour)
    last = np.moveaxis(colour, 1, 3)
    data = read(write(x=last, y=Y))
    np.testing.assert_array_equal(data.x, colour)
    assert data.x.flags.c_contiguous
    np.testing.assert_array_equal(read(write(x=X[..., None], y=Y)).x, X[:, None])


def test_layout_decides_where_both_fit(write):
    x = np.arange(6 * 3 * 2 * 3, dtype=np.uint8).reshape(6, 3, 2, 3)
    path = write(x=x, y=Y)
    assert "fits chw and hwc: say which with layout" in refusal(path)
    np.testing.assert_array_equal(read(path, layout="chw").x, x)
    np.testing.assert_array_equal(read(path, layout="hwc").x, np.moveaxis(x, 3, 1))


def test_unfit_layouts(write):
    path = write(x=X, y=Y)
    assert "layout=hwc wants x as [N, H, W, C]" in refusal(path, layout="hwc")
    assert "data.layout must be one of vector, hw, chw, hwc" in refusal(path, layout="nchw")
    assert "must have shape" in refusal(write(x=np.zeros((6, 2, 4, 5)), y=Y))
    assert "must have shape" in refusal(write(x=np.zeros(6), y=Y))
    assert "must have shape" in refusal(write(x=np.zeros((6, 1, 1, 1, 1)), y=Y))


def test_clients_are_numbered_in_order_and_keep_their_names(write):
    data = read(write(x=X, y=Y, client=np.array(["eve", "bob", "eve", "al", "al", "bob"])))
    assert data.client.tolist() == [2, 1, 2, 0, 0, 1]
    assert data.client_names == ("al", "bob", "eve")
    data = read(write(x=X, y=Y, client=np.array([30, 7, 7, 30, 7, -2])))
    assert data.client.tolist() == [2, 1, 1, 2, 1, 0]
    assert data.client_names == ("-2", "7", "30")
    data = read(write(x=X, y=Y, client=np.array(["ä".encode()] * 6)))
    assert data.client_names == ("ä",)


def test_labels_may_leave_gaps_and_may_be_whole_floats(write):
    data = read(write(x=X, y=np.array([0.0, 4, 4, 0, 0, 0])))
    assert data.n_classes == 5
    assert data.y.dtype == np.int64


def test_other_arrays_are_never_touched(write):
    secret = np.array([object()] * 3)
    data = read(write(x=X, y=Y, test=Y[:2], notes=secret))
    assert data.test is None


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"y": Y}, "has no array x; it holds 'y'"),
        ({"x": X, "labels": Y}, "has no array y; it holds 'x', 'labels'"),
        ({"x": X, "y": Y[:4]}, "x has 6, y has 4"),
        ({"x": X, "y": Y, "client": Y[:5]}, "x has 6, y has 6, client has 5"),
        ({"x": X, "y": Y - 1}, "got y[0]=-1"),
        ({"x": X, "y": Y + 0.5}, "got y[0]=0.5"),
        ({"x": X, "y": np.where(Y == 2, np.nan, Y)}, "got y[2]=nan"),
        ({"x": X, "y": Y + 10**9}, "from 0 to 65535"),
        ({"x": X, "y": np.eye(6)}, "got shape [6, 6]"),
        ({"x": X, "y": Y.astype(str)}, "y must hold one whole number"),
        ({"x": np.where(X == 21, np.nan, X), "y": Y}, "got nan in sample 1"),
        ({"x": np.where(X == 99, np.inf, X), "y": Y}, "got inf in sample 4"),
        ({"x": np.where(X == 99, 1e300, X), "y": Y}, "got 1e+300 in sample 4"),
        ({"x": 1e9 + X / 1e3, "y": Y}, "x, channel 0, must differ by more than float32"),
        ({"x": X.astype(np.int64), "y": Y}, "x must be uint8 (0 to 255) or floating point"),
        ({"x": X > 3, "y": Y}, "got bool"),
        ({"x": X[:0], "y": Y[:0]}, "x must hold at least one sample"),
        ({"x": X[:, :0], "y": Y}, "x must hold at least one sample"),
        ({"x": X, "y": np.int64(3)}, "y must hold at least one sample"),
        ({"x": np.array([{}] * 6), "y": Y}, "x holds Python objects, which are never loaded"),
        ({"x": X, "y": Y, "client": Y / 2}, "client must hold one whole number or string"),
        ({"x": X, "y": Y, "class_names": np.array(["a", "b"])}, "name every class, 3 of them, got"),
        ({"x": X, "y": Y % 2, "class_names": np.array(["a", "a"])}, "all different, got a, a"),
        ({"x": X, "y": Y, "client": np.array([b"\xff"] * 6)}, "not UTF-8"),
    ],
)
def test_bad_arrays(write, arrays, words):
    message = refusal(write(**arrays))
    assert words in message
    assert "own.npz" in message


@pytest.mark.parametrize("name", ["clients", "Client", "client_id", "patients", "user"])
def test_an_array_that_means_another_is_not_passed_over(write, name):
    said = refusal(write(x=X, y=Y, **{name: [0, 0, 0, 1, 1, 1]}))
    assert f"has an array {name!r}, which is not read; did you mean 'client'?" in said
    assert read(write(x=X, y=Y, client=[0, 0, 0, 1, 1, 1], **{name: [0] * 6})).client is not None
    assert "'groups', which is not read; did you mean 'group'?" in refusal(
        write(x=X, y=Y, groups=[0] * 6)
    )
    assert len(read(write(x=X, y=Y, ids=np.arange(6), index=np.arange(6), weight=[1.0] * 6))) == 6


def test_files_that_are_no_npz(tmp_path, write):
    assert "there is no file" in refusal(tmp_path / "absent.npz")
    assert "is not a file" in refusal(tmp_path)
    with pytest.raises(InputError, match="must be the path of an npz file, got 3"):
        load_dataset({"name": "npz", "path": 3})
    for content in (b"", b"PK\x03\x04", b"client,loss\n1,0.5\n", b"\x80\x04N."):
        (tmp_path / "no.npz").write_bytes(content)
        assert "is no npz file, or one that was cut short" in refusal(tmp_path / "no.npz")
    np.save(tmp_path / "one.npy", X)
    assert "is no npz file" in refusal(tmp_path / "one.npy")
    with zipfile.ZipFile(tmp_path / "text.npz", "w") as archive:
        archive.writestr("x.npy", "hello")
        archive.writestr("y.npy", "hello")
    assert "x is" in refusal(tmp_path / "text.npz")


def test_pickles_inside_are_not_executed(tmp_path):
    ran = tmp_path / "ran"
    pickle = f"cpathlib\nPath\n(S'{ran}'\ntRp0\n0cpathlib\nPath.touch\n(g0\ntR.".encode()
    with zipfile.ZipFile(tmp_path / "evil.npz", "w") as archive:
        for name in ("x", "y"):
            header = io.BytesIO()
            np.lib.format.write_array_header_1_0(
                header, {"descr": "|O", "fortran_order": False, "shape": (6,)}
            )
            archive.writestr(f"{name}.npy", header.getvalue() + pickle)
    assert "never loaded" in refusal(tmp_path / "evil.npz")
    assert not ran.exists()


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_checksums_are_compared(tmp_path, save):
    save(tmp_path / "sum.npz", x=X, y=Y)
    with zipfile.ZipFile(tmp_path / "sum.npz") as archive:
        sums = [member.CRC.to_bytes(4, "little") for member in archive.infolist()]
    content = (tmp_path / "sum.npz").read_bytes()
    for name, checksum in zip("xy", sums, strict=True):
        assert checksum in content
        (tmp_path / "bad.npz").write_bytes(content.replace(checksum, b"\1\2\3\4"))
        assert f"{name} is damaged or cut short (Bad CRC-32" in refusal(tmp_path / "bad.npz")


@pytest.fixture(scope="module")
def whole_file():
    rng = np.random.default_rng(0)
    stream = io.BytesIO()
    np.savez_compressed(stream, x=rng.integers(0, 256, (6, 4, 5), dtype=np.uint8), y=Y)
    return stream.getvalue()


@given(share=st.floats(0, 1, exclude_max=True))
def test_a_truncated_file_is_always_refused(tmp_path_factory, whole_file, share):
    path = tmp_path_factory.mktemp("cut") / "cut.npz"
    path.write_bytes(whole_file[: int(share * len(whole_file))])
    assert "cut short" in refusal(path)


@given(place=st.floats(0, 1, exclude_max=True), byte=st.integers(1, 255))
def test_a_damaged_file_is_read_or_refused_in_one_line(tmp_path_factory, whole_file, place, byte):
    content = bytearray(whole_file)
    content[int(place * len(content))] ^= byte
    path = tmp_path_factory.mktemp("bad") / "bad.npz"
    path.write_bytes(bytes(content))
    data, message = doors.outcome(read, path)
    assert (data is None) == bool(message)
    assert data is None or len(data) == 6


@pytest.mark.slow
@given(
    x=hnp.arrays(
        st.sampled_from([np.uint8, np.float16, np.float32, np.float64, np.int32, np.complex64]),
        hnp.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=4),
    ),
    y=hnp.arrays(
        st.sampled_from([np.uint8, np.int64, np.uint64, np.float64, np.bool_, "U2"]),
        hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=4),
    ),
)
def test_any_arrays_are_read_or_refused_in_one_line(tmp_path_factory, x, y):
    path = tmp_path_factory.mktemp("any") / "any.npz"
    np.savez(path, x=x, y=y)
    data, message = doors.outcome(read, path)
    assert (data is None) == bool(message)
    if data is not None:
        assert len(data.x) == len(data.y) == len(x)
        assert data.y.max() < data.n_classes
