"""Where each data set comes from: addresses, sums, what goes where, and how to make it.

Sums: MD5 as the publishers of CIFAR and Fashion-MNIST print them and as widely used loaders pin
the others; SHA-256 as TensorFlow Datasets and Keras pin the same archives. A sum is never
computed from a copy of unknown origin.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

__all__ = ["SOURCES", "Archive", "Source"]


@dataclass(frozen=True)
class Archive:
    """A file to download.

    Attributes
    ----------
    file : str
        Its place below the data root.
    urls : tuple of str
        The publisher's address first, then mirrors.
    sha256, md5 : str
        Known sums; both empty when nobody trustworthy has published one.
    size : int
        Bytes; 0 when unknown.
    members : tuple of str
        Files that are unpacked beside a tar archive; empty when it is read as it is.
    """

    file: str
    urls: tuple[str, ...]
    sha256: str = ""
    md5: str = ""
    size: int = 0
    members: tuple[str, ...] = ()

    @property
    def known_hash(self) -> str | None:
        """The stronger of the known sums as ``algorithm:digest``."""
        if self.sha256:
            return f"sha256:{self.sha256}"
        return f"md5:{self.md5}" if self.md5 else None


@dataclass(frozen=True)
class Source:
    """How a data set gets onto a machine.

    Attributes
    ----------
    home : str
        The publisher's page.
    place : str
        What goes where, below the data root.
    archives : tuple of Archive
        Downloads; empty when the files are the user's to make.
    counts : tuple of int
        Training and test samples as published (all, where there is no test set); else empty.
    recipe : str
        How to make the files, where nobody offers them for download.
    """

    home: str
    place: str
    archives: tuple[Archive, ...] = ()
    counts: tuple[int, ...] = ()
    recipe: str = field(default="", repr=False)


_KRIZ = ("https://www.cs.toronto.edu/~kriz", "https://cave.cs.toronto.edu/kriz")
_MNIST = (
    *("http://yann.lecun.com/exdb/mnist", "https://ossci-datasets.s3.amazonaws.com/mnist"),
    "https://storage.googleapis.com/cvdf-datasets/mnist",
)
_FASHION = (
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
)
_STL10 = ("http://ai.stanford.edu/~acoates/stl10", "https://cs.stanford.edu/~acoates/stl10")
_OMNIGLOT = (
    "https://github.com/brendenlake/omniglot/raw/master/python",
    "https://raw.githubusercontent.com/brendenlake/omniglot/master/python",
)
_IDX = (
    *("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"),
    *("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"),
)


def _at(mirrors: tuple[str, ...], file: str) -> tuple[str, ...]:
    return tuple(f"{mirror}/{file}" for mirror in mirrors)


def _idx(folder: str, mirrors: tuple[str, ...], sums: tuple[tuple[str, str, int], ...]) -> Source:
    archives = tuple(
        Archive(f"{folder}/{file}", _at(mirrors, file), sha256, md5, size)
        for file, (sha256, md5, size) in zip(_IDX, sums, strict=True)
    )
    return Source(mirrors[0], f"{folder}/ with the four IDX files", archives, (60_000, 10_000))


_FEATURES = """\
One row a sample. npz: x float32 [N, {width}], y int [N], client int or str [N] (optional), test
bool [N] (optional). csv: a header with label, optional client and test (0 or 1), then one column
a feature. Save it as {name}.npz or {name}.csv below the data root, or name it with data.path.
{how}"""
_INATURALIST = """\
iNaturalist 2017 images; users as in the federated split of Hsu, Qi and Brown (2020), whose csv
files give user, image and class. Resize each image to 256, crop 224x224 in the middle, normalise
as the network's authors say, and take the 1,280 numbers after the last global average pooling of
a MobileNetV2 trained on ImageNet, without its classifier. client = user, test = rows of the
split's test file."""
_LANDMARKS = """\
Google Landmarks v2 images; users (photographers) as in the federated split of Hsu, Qi and Brown
(2020), whose csv files give user, image and class. Features as for inaturalist: 1,280 numbers of
an ImageNet MobileNetV2 after its last global average pooling. client = user, test = rows of the
split's test file."""
_YAHOO = """\
Yahoo! Answers topic classification (Zhang, Zhao and LeCun 2015): ten topics. Join title, question
and best answer, cut at 512 word pieces, and take the 768 numbers of an uncased BERT-base at the
first position of the last layer. No clients are given: use a by_class or dirichlet split.
test = rows of the publisher's test file."""
_LEAF = """\
LEAF makes it from NIST's archive: clone https://github.com/TalwalkarLab/leaf, go to data/femnist
and run ./preprocess.sh -s niid --sf 1.0 -k 0 -t sample (all writers, each with a test set).
Copy data/train and data/test to femnist/train and femnist/test below the data root, or set
data.root to the clone's data/femnist. No sum is published for the result, so none is checked."""

SOURCES: Mapping[str, Source] = MappingProxyType(
    {
        "cifar10": Source(
            "https://www.cs.toronto.edu/~kriz/cifar.html",
            "cifar-10-batches-py/ or cifar-10-batches-bin/, unpacked",
            (
                Archive(
                    "cifar-10-python.tar.gz",
                    _at(_KRIZ, "cifar-10-python.tar.gz"),
                    "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
                    "c58f30108f718f92721af3b95e74349a",
                    170_498_071,
                    tuple(
                        f"cifar-10-batches-py/{file}"
                        for file in (
                            *(f"data_batch_{i}" for i in range(1, 6)),
                            *("test_batch", "batches.meta"),
                        )
                    ),
                ),
            ),
            (50_000, 10_000),
        ),
        "cifar100": Source(
            "https://www.cs.toronto.edu/~kriz/cifar.html",
            "cifar-100-python/ or cifar-100-binary/, unpacked",
            (
                Archive(
                    "cifar-100-python.tar.gz",
                    _at(_KRIZ, "cifar-100-python.tar.gz"),
                    "85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7",
                    "eb9058c3a382ffc7106e4002c42a8d85",
                    169_001_437,
                    tuple(f"cifar-100-python/{file}" for file in ("train", "test", "meta")),
                ),
            ),
            (50_000, 10_000),
        ),
        "mnist": _idx(
            "MNIST/raw",
            _MNIST,
            (
                (
                    "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                    "f68b3c2dcbeaaa9fbdd348bbdeb94873",
                    9_912_422,
                ),
                (
                    "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                    "d53e105ee54ea40749a09fcbcd1e9432",
                    28_881,
                ),
                (
                    "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                    "9fb629c4189551a2d022fa330f9573f3",
                    1_648_877,
                ),
                (
                    "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
                    "ec29112dd5afa0611ce80d1b7f02629c",
                    4_542,
                ),
            ),
        ),
        "fashion_mnist": _idx(
            "FashionMNIST/raw",
            _FASHION,
            (
                (
                    "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
                    "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
                    26_421_880,
                ),
                (
                    "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
                    "25c81989df183df01b3e8a0aad5dffbe",
                    29_515,
                ),
                (
                    "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
                    "bef4ecab320f06d8554ea6380940ec79",
                    4_422_102,
                ),
                (
                    "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
                    "bb300cfdad3c16e7a12a480ee83cd310",
                    5_148,
                ),
            ),
        ),
        "stl10": Source(
            "https://cs.stanford.edu/~acoates/stl10/",
            "stl10_binary/, unpacked (unlabeled_X.bin is not needed)",
            (
                Archive(
                    "stl10_binary.tar.gz",
                    _at(_STL10, "stl10_binary.tar.gz"),
                    "f31fd99273a1acb8609c8db427cebb1de3f71de77758cdc0e22956e1289b9866",
                    "91f7769df0f17e558f3565bffb0c7dfb",
                    2_640_397_119,
                    tuple(
                        f"stl10_binary/{file}"
                        for file in (
                            *("train_X.bin", "train_y.bin", "test_X.bin", "test_y.bin"),
                            "class_names.txt",
                        )
                    ),
                ),
            ),
            # Without the monkeys: 500 of 5,000 and 800 of 8,000 images.
            (4_500, 7_200),
        ),
        "femnist": Source(
            "https://leaf.cmu.edu",
            "femnist/train/*.json and femnist/test/*.json, or femnist/all_data/*.json",
            recipe=_LEAF,
        ),
        "omniglot": Source(
            "https://github.com/brendenlake/omniglot",
            "omniglot-py/ with images_background and images_evaluation, as folders or as .zip",
            (
                Archive(
                    "omniglot-py/images_background.zip",
                    _at(_OMNIGLOT, "images_background.zip"),
                    "ad41ab679c8b5d90b271ef46be6987cc81211774a695c29dcc5367b2b26ee640",
                    "68d2efa1b9178cc56df9314c21c6e718",
                    9_464_212,
                ),
                Archive(
                    "omniglot-py/images_evaluation.zip",
                    _at(_OMNIGLOT, "images_evaluation.zip"),
                    "1f61a8f3366785b057fc117d9228e78a16e3d976c8953b2a10fcc74cf0609cee",
                    "6b91aef0f799c5bb55b94e3f2daec811",
                    6_462_886,
                ),
            ),
            (32_460,),
        ),
        "inaturalist": Source(
            "https://github.com/google-research/google-research/tree/master/federated_vision_datasets",
            "inaturalist.npz or inaturalist.csv",
            recipe=_FEATURES.format(width=1280, name="inaturalist", how=_INATURALIST),
        ),
        "landmarks": Source(
            "https://github.com/google-research/google-research/tree/master/federated_vision_datasets",
            "landmarks.npz or landmarks.csv",
            recipe=_FEATURES.format(width=1280, name="landmarks", how=_LANDMARKS),
        ),
        "yahoo_answers": Source(
            "https://github.com/zhangxiangxiao/Crepe",
            "yahoo_answers.npz or yahoo_answers.csv",
            recipe=_FEATURES.format(width=768, name="yahoo_answers", how=_YAHOO),
        ),
    }
)
