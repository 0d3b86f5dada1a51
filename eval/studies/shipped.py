"""The studies that come with the package: one YAML file each, in folders by what they follow."""

from dataclasses import dataclass
from pathlib import Path

from latecomer.eval.studies.scales import offered
from latecomer.reading.yaml_text import read_shipped


@dataclass(frozen=True)
class ShippedStudy:
    """A study that comes with the package: its scales, variants, papers, and its folder."""

    name: str
    question: str
    scale: str
    scales: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    paper: tuple[str, ...] = ()
    note: str = ""
    follows: str = ""


def shipped_studies() -> tuple[ShippedStudy, ...]:
    """List the studies that come with the package; loads no torch.

    Examples
    --------
    >>> "quickstart" in [study.name for study in shipped_studies()]
    True
    """
    return tuple(_described(path) for path in sorted(_files(), key=lambda one: one.stem))


def shipped_study(name: str) -> ShippedStudy:
    """Describe one of them by name."""
    return _described(next(path for path in _files() if path.stem == name))


def _described(file: Path) -> ShippedStudy:
    name = file.stem
    raw = read_shipped(file.read_text("utf-8"))
    variants, scales = offered(raw)
    return ShippedStudy(
        name,
        str(raw.get("question", "")),
        str(raw.get("scale") or ""),
        scales,
        variants,
        tuple(raw.get("paper") or ()),
        str(raw.get("note") or ""),
        file.parent.name,
    )


def shipped_texts() -> dict[str, str]:
    """Return the text of each shipped study, by its name."""
    return {path.stem: path.read_text("utf-8") for path in _files()}


def _files() -> list[Path]:
    return sorted((Path(__file__).parent / "yaml").glob("*/*.yaml"))
