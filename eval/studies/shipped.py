"""The studies that come with the package: one YAML file each, in folders by what they follow."""

from dataclasses import dataclass
from importlib import resources

from latecomer.eval.studies.declaration import read_yaml
from latecomer.eval.studies.scales import offered


@dataclass(frozen=True)
class ShippedStudy:
    """A study that comes with the package: its scales, variants, papers, and what it follows."""

    name: str
    question: str
    scale: str
    scales: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    paper: tuple[str, ...] = ()
    note: str = ""


def shipped_studies() -> tuple[ShippedStudy, ...]:
    """List the studies that come with the package; loads no torch.

    Examples
    --------
    >>> "quickstart" in [study.name for study in shipped_studies()]
    True
    """
    studies = []
    for name, text in sorted(shipped_texts().items()):
        raw = read_yaml(text, f"study {name}")
        variants, scales = offered(raw)
        studies.append(
            ShippedStudy(
                name,
                str(raw.get("question", "")),
                str(raw.get("scale") or ""),
                scales,
                variants,
                tuple(raw.get("paper") or ()),
                str(raw.get("note") or ""),
            )
        )
    return tuple(studies)


def shipped_texts() -> dict[str, str]:
    """Return the text of each shipped study, by its name."""
    folder = resources.files("latecomer.eval.studies") / "yaml"
    return {
        entry.name.removesuffix(".yaml"): entry.read_text("utf-8")
        for kind in folder.iterdir()
        if kind.is_dir()
        for entry in kind.iterdir()
        if entry.name.endswith(".yaml")
    }
