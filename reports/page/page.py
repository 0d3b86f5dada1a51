"""One page from a run directory: ``report(directory)`` writes it, its figures and its tables.

The page holds everything: figures are inline SVG, data are links that contain their content.  It
loads nothing from the network and needs no other file.
"""

import gc
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pandas as pd

from latecomer.certify.page.blocks import Fold, Grid, Picture, rendered
from latecomer.certify.words import count, counts
from latecomer.checks import output_file, several
from latecomer.declared import without_folder
from latecomer.errors import InputError
from latecomer.eval.results.rows import RunRecord, load_run, write_beside
from latecomer.reports.display.drawing import FONTS
from latecomer.reports.display.pictures import PAPER, Column, Plot, Table, Writer
from latecomer.reports.display.section import Block, Files, Group, Heading, Material, Section, Text
from latecomer.reports.frames.errors import group_sizes, split_tables, study_methods
from latecomer.reports.page.layout import CHAPTERS, Chapter, placed, sections
from latecomer.reports.page.method import FILES, samples_per_client
from latecomer.reports.page.questions import ASKS, asked, asking
from latecomer.reports.words import shown_names


def under_shown_names(run: RunRecord) -> RunRecord:
    """Return the run with methods of ``shown_names`` under the names they are shown by.

    Models whose label is their method's plain name are renamed, and so are those trained beside
    them (``fedma r1:tuned``); a label that the study gave stays. The run directory is not touched.
    """
    rows, methods = run.rows, study_methods(run.study.get("methods") or ())
    own = rows["method"].isin(list(shown_names()))
    if not own.any() and not any(one["name"] in shown_names() for one in methods.values()):
        return run
    given = {label for label, one in methods.items() if label != one["name"]}
    shown = [
        shown_name(str(method), str(label), given)
        for method, label in rows.loc[own, ["method", "label"]].itertuples(index=False)
    ]
    rows = rows.copy()
    rows.loc[own, "label"] = shown
    entries = [
        {**one, "label": shown_name(one["name"], label, given)}
        if one["name"] in shown_names()
        else entry
        for entry, (label, one) in zip(run.study.get("methods") or (), methods.items(), strict=True)
    ]
    cells = tuple(replace(cell, config=_renamed(cell.config, given)) for cell in run.cells)
    return replace(run, rows=rows, cells=cells, study={**run.study, "methods": entries})


def shown_name(method: str, label: str, given: set[str]) -> str:
    """Return what a label of a method is shown as; labels that a study gave stay.

    >>> shown_name("fedma", "fedma", set()), shown_name("fedma", "fedma, all clients", set())
    ('FedMA (one-shot matching)', 'FedMA (one-shot matching), all clients')
    >>> shown_name("fedma", "fedma of ours", {"fedma of ours"}), shown_name("pefll", "a", set())
    ('fedma of ours', 'a')
    """
    beside = label.removeprefix(method)
    if method not in shown_names() or label in given or not label.startswith(method):
        return label
    return shown_names()[method] + beside if beside[:1] in ("", " ", ",") else label


def _renamed(config: dict[str, Any], given: set[str]) -> dict[str, Any]:
    method = config.get("method")
    if not isinstance(method, Mapping) or method.get("name") not in shown_names():
        return config
    name = str(method["name"])
    changed: dict[str, Any] = {
        "method": {**method, "label": shown_name(name, str(method["label"]), given)}
    }
    if "of" in config:
        changed["of"] = shown_name(name, str(config["of"]), given)
    return {**config, **changed}


# What the clients of a group did, in the order of the line.
_DID = {"seen": "trained", "certification": "held out", "novel": "new"}


def about(material: Material) -> str:
    """Name data, clients, rounds, seeds and network, as far as the run has them on record."""
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


# Objects created between two searches for cycles.
SELDOM = 200_000
# How the figures for a paper are set that lie beside the page, where not as on the page; inches.
_COLUMN, _NARROWEST, _WIDEST = "figures/column.json", 2, 12


Shown = Block | Picture | Grid | Fold


def report(directory: str | Path, *, asks: Sequence[str] = ()) -> Path:
    """Write ``report.html``, ``figures/``, ``tables/`` and ``cards/`` of a run directory.

    What the checks found is in ``checks.csv``: ``code, method, seed, what, value, sentence``.
    A page for other questions than the study's is named after them: ``report-shift.html``.  Figures
    are SVG; those that lie there as PDF or PNG, from `figures`, are made again in these too, as
    wide and in the letters that they were made in.

    Parameters
    ----------
    directory : str or Path
        A run directory with ``study.yaml`` and ``rows.csv``.
    asks : sequence of str; empty unless given
        What the page answers first, in this order, instead of what the study asks: ``bounds`` (how
        far guarantees are from errors), ``shift``, ``gap`` (what it costs to join late),
        ``accuracy``, ``paper`` (whether published numbers come out), ``certificate``, ``sets``.

    Returns
    -------
    Path
        The page.

    Raises
    ------
    InputError
        When the directory holds no readable run, one that does not answer what is asked, or a link
        to its rows or data in place of a file that is written.

    Examples
    --------
    >>> report("mine")  # doctest: +SKIP
    PosixPath('mine/report.html')
    """
    asks = several(asks)
    name = f"{'-'.join(map(str, ['report', *asks]))}.html"
    with _frugal():
        run = under_shown_names(load_run(directory))
        # Said before minutes of drawing.
        output_file(name, run.path / name)
        lying = [kind for kind in PAPER if any((run.path / "figures").glob(f"*.{kind}"))]
        writer = Writer(lying, _column_of(run.path))
        if asks:
            run = replace(run, study=asking(run.study, asks))
            _check_answered(run, asks)
        page = page_of(run, writer)
    write_beside(run, {**writer.files, name: page})
    return run.path / name


def figures(
    directory: str | Path, kind: str, *, width: float | None = None, font: str = "sans"
) -> tuple[Path, ...]:
    """Write the figures of a run's report in another format than SVG, beside those.

    Parameters
    ----------
    directory : str or Path
        A run directory, as for `report`.
    kind : str
        ``pdf``: vectors, embedded TrueType fonts, no background; ``png``: 200 dots an inch, on
        white.
    width : float, optional
        Of the paper's column in inches, from 2 to 12; as in the report if None.
    font : str
        ``sans``, or ``serif`` for papers that are set in Times.

    Returns
    -------
    tuple of Path
        The files, in the order of the page.

    Raises
    ------
    InputError
        For another format, width or font, and as `report` does.
    """
    if kind not in PAPER:
        raise InputError(f"format must be one of {', '.join(PAPER)}, got {kind!r}")
    column = _checked(Column(width, font))
    with _frugal():
        run = under_shown_names(load_run(directory))
        output_file("figures", run.path / _COLUMN)
        writer = Writer([kind], column)
        content_of(run, writer)
    drawn = [name for name in writer.files if name.endswith(f".{kind}")]
    made, kept = {name: writer.files[name] for name in drawn}, run.path / _COLUMN
    if column != Column() or kept.is_file():
        made[_COLUMN] = json.dumps(asdict(column)) + "\n"
    write_beside(run, made)
    return tuple(run.path / name for name in drawn)


def _checked(column: Column) -> Column:
    if column.font not in FONTS:
        raise InputError(f"font must be one of {', '.join(FONTS)}, got {column.font!r}")
    if column.width is not None and not _NARROWEST <= column.width <= _WIDEST:
        raise InputError(
            f"width must be from {_NARROWEST} to {_WIDEST} inches, got width={column.width:g}"
        )
    return column


def _column_of(folder: Path) -> Column:
    """Return how the figures for a paper that lie in a run's directory were set."""
    kept = folder / _COLUMN
    try:
        return _checked(
            Column(**json.loads(kept.read_text("utf-8"))) if kept.is_file() else Column()
        )
    except (ValueError, TypeError):
        told = "must hold the width and font of the figures beside it; without it they are remade"
        raise InputError(f"{kept} {told} as wide as in the report") from None


def _check_answered(run: RunRecord, asks: Sequence[str]) -> None:
    material = Material.of(run)
    for kind in asks:
        if ASKS[kind](material) is None:
            raise InputError(f"asks: {run.path} holds nothing that answers {kind}")


@contextmanager
def _frugal() -> Iterator[None]:
    """Search for cycles seldom, and hold words as Python's strings.

    A figure is a web of many small objects: a page of 100,000 rows takes 11.0 s of processor time
    this way, 12.6 s at Python's threshold.  Frames of tens of rows pay for Arrow's strings, and
    gain nothing.
    """
    given = gc.get_threshold()
    gc.set_threshold(max(SELDOM, given[0]) if given[0] else 0, *given[1:])
    try:
        with pd.option_context("mode.string_storage", "python"):
            yield
    finally:
        gc.set_threshold(*given)


def page_of(run: RunRecord, writer: Writer, chapters: tuple[Chapter, ...] = CHAPTERS) -> str:
    """Render the page of a run; files that go beside it end up in ``writer.files``."""
    return rendered(content_of(run, writer, chapters))


def content_of(
    run: RunRecord, writer: Writer, chapters: tuple[Chapter, ...] = CHAPTERS
) -> dict[str, Any]:
    """Everything the template shows."""
    material, study = Material.of(run), run.study

    def shown(listed: Sequence[Section], level: int = 3) -> list[tuple[Shown, int]]:
        laid = [section.blocks(material) for section in listed]
        return [one for blocks in laid for one in written(blocks, writer, level)]

    laid = [
        (chapter, shown(box, 2), shown(below))
        for chapter, box, below in placed(chapters, sections())
    ]
    return {
        "title": str(study.get("study", run.path.name)),
        "question": str(study.get("question") or ""),
        "about": about(material),
        "paper": FILES.name,
        "reduced": bool(study.get("paper")) and study.get("scale") != "paper",
        "chapters": [
            # The box has no heading: what stands in it comes right below the page's.
            {
                "chapter": chapter,
                "folded": chapter.is_folded(asked(study)) and not says_nothing(box, blocks),
                "empty": says_nothing(box, blocks),
                "box": box,
                "blocks": blocks,
            }
            for chapter, box, blocks in laid
        ],
    }


def says_nothing(*parts: Sequence[tuple[Shown, int]]) -> bool:
    """Say whether a chapter holds nothing but sentences: that nothing was asked for, or measured.

    The navigation leaves such a chapter out.
    """
    return all(isinstance(block, Text) for part in parts for block, _ in part)


def written(blocks: Iterable[Block], writer: Writer, level: int = 3) -> Iterator[tuple[Shown, int]]:
    """Draw and write a section's blocks, each with the level that its heading has."""
    for block in blocks:
        if isinstance(block, Heading):
            level = 4
        if isinstance(block, Plot):
            yield writer.picture(block), level
        elif isinstance(block, Table):
            yield writer.table(block), level
        elif isinstance(block, Group):
            inside = list(written(block.blocks, writer, level))
            yield Fold(inside, block.summary), level
        elif isinstance(block, Files):
            writer.files |= block.content
        else:
            yield block, level
