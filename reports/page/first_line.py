"""The line under a page's title: what the numbers below are about."""

import pandas as pd

from latecomer.certify.words import count, counts
from latecomer.declared import without_folder
from latecomer.reports.display.section import Material
from latecomer.reports.frames.artifacts import split_tables
from latecomer.reports.frames.errors import group_sizes
from latecomer.reports.page.method import samples_per_client

# What the clients of a group did, in the order of the line.
_DID = {"seen": "trained", "certification": "held out", "novel": "new"}


def about(material: Material) -> str:
    """Name data, clients, rounds, seeds and network, as far as the run has them on record.

    Parameters
    ----------
    material : Material
        Of the run.
    """
    study = material.study
    rounds, seeds = (study.get("train") or {}).get("rounds"), material.rows["seed"].nunique()
    target = str((study.get("model") or {}).get("target") or "")
    if target == "auto":
        target = str(material.run.env.get("network") or target)
    parts = [
        _data(material),
        _clients(material.rows),
        count(int(rounds), "round") if rounds else "",
        count(seeds, "seed") if seeds else "",
        f"network {without_folder(target)}" if target else "",
    ]
    return " \N{MIDDLE DOT} ".join(part for part in parts if part)


def _data(material: Material) -> str:
    """Name the data, and say how many samples of how many classes the clients hold of it."""
    named = [str(name) for name in material.rows["dataset"].unique() if name]
    table = pd.DataFrame([row for one in split_tables(material.run, "label_counts") for row in one])
    classes = [name for name in table.columns if str(name).startswith("class_")]
    held = int(table[classes].to_numpy(dtype=float).sum()) if classes else 0
    told = [f"{held:,} samples, {counts([len(classes)], 'class')}"] if held else []
    return ", ".join(named[:1] + told)


def _clients(rows: pd.DataFrame) -> str:
    sizes = group_sizes(rows)
    told = [(sizes[group], did) for group, did in _DID.items() if sizes[group]]
    if not told:
        return ""
    said = [
        f"{n:,} clients {did}" if not place else f"{n:,} {did}"
        for place, (n, did) in enumerate(told)
    ]
    each = samples_per_client(rows).replace(" support,", " +").removesuffix(" query")
    return ", ".join(said) + (f" ({each} samples each)" if each else "")
