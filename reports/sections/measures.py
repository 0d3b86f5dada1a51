"""The page's parts about what a study measured beside errors: descriptors, bodies, serving.

Each function returns what the template shows, or None where the run has nothing for it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pandas as pd

from latecomer.eval.results.rows import Artifact, RunRecord
from latecomer.reports.display.drawing import Looks
from latecomer.reports.display.pictures import Writer
from latecomer.reports.frames.errors import in_order
from latecomer.reports.frames.paper import paper_correlations
from latecomer.reports.measures import words as measure_words
from latecomer.reports.measures.correlation import (
    agreement_frame,
    agreement_table,
    correlation_figure,
    correlation_frame,
)
from latecomer.reports.measures.descriptors import descriptor_figure, descriptor_frame
from latecomer.reports.measures.mix_and_match import (
    mix_and_match_figure,
    mix_and_match_frame,
    mix_and_match_table,
)
from latecomer.reports.measures.serving import serving_figure, serving_frame, serving_table
from latecomer.reports.sections.guarantees import cell_tables
from latecomer.reports.words import file_stem

Section = dict[str, Any]
# A client that holds more classes than these is not told by them.
MOST_HELD = 4


def cell_artifacts(run: RunRecord, kind: str) -> Iterator[tuple[str, int, Artifact]]:
    """Yield the artifacts of one kind that the models' cells left: label, seed, artifact."""
    cells = {cell.id: cell.config for cell in run.cells}
    for artifact in run.artifacts:
        if artifact.kind == kind:
            config = cells[artifact.cell]
            yield config["method"]["label"], config["seed"], artifact.load()


def stems(labels: Iterable[str]) -> dict[str, str]:
    """Name each label's figure; labels that differ only in signs no file name bears get their own.

    >>> stems(["a b", "a/b", "a b"])
    {'a b': 'a-b', 'a/b': 'a-b_'}
    """
    found: dict[str, str] = {}
    for label in dict.fromkeys(labels):
        stem = file_stem(label)
        while stem in found.values():
            stem += "_"
        found[label] = stem
    return found


def descriptors(
    run: RunRecord, writer: Writer, labels: Sequence[str], look: Looks
) -> Section | None:
    """Show maps of clients, and how well descriptors rank clients by likeness."""
    frame = in_order(descriptor_frame(cell_artifacts(run, "descriptors")), labels)
    along = in_order(correlation_frame(cell_tables(run, "training_curve")), labels)
    agreement = in_order(agreement_frame(run.rows), labels)
    if frame.empty and along.empty and agreement.empty:
        return None
    pictures = [
        writer.picture(
            f"descriptors-{stem}",
            partial(descriptor_figure, frame, label, look),
            frame[frame["label"] == label],
            title=f"Clients by their descriptors, {label}",
            alt=measure_words.describe_descriptors(frame, label),
            caption=measure_words.descriptors_caption(frame, label),
        )
        for label, stem in stems(frame["label"]).items()
    ]
    correlation = None
    if along["round"].nunique() > 1:
        correlation = writer.picture(
            "descriptor-correlation",
            partial(correlation_figure, along, look),
            along,
            title="Descriptors against classes along the training",
            alt=measure_words.describe_correlation(along),
            caption=measure_words.correlation_caption(along),
        )
    published = paper_correlations(run.rows, run.study)
    full = run.study.get("scale") == "paper"
    table = agreement_table(agreement, published, full=full) if len(agreement) else None
    return {"pictures": pictures, "correlation": correlation, "table": writer.table(table)}


def mix_and_match(run: RunRecord, writer: Writer, labels: Sequence[str]) -> Section | None:
    """Show every client's head on every client's body."""
    frame = in_order(mix_and_match_frame(cell_artifacts(run, "mix_and_match")), labels)
    if frame.empty:
        return None
    classes = held_classes(run)
    pictures = [
        writer.picture(
            f"mix-and-match-{stem}",
            partial(mix_and_match_figure, frame, label, classes=classes),
            frame[frame["label"] == label],
            title=f"Heads on other clients' bodies, {label}",
            alt=measure_words.describe_mix(frame, label),
            caption=measure_words.mix_caption(frame, label),
        )
        for label, stem in stems(frame["label"]).items()
    ]
    return {"pictures": pictures, "table": writer.table(mix_and_match_table(frame))}


def held_classes(run: RunRecord) -> Mapping[int, str]:
    """Name the classes of every client; empty where one has more than four, or none is known."""
    found = [artifact for artifact in run.artifacts if artifact.kind == "label_counts"]
    counts = pd.DataFrame(found[0].load().table or ()) if found else pd.DataFrame()
    if counts.empty:
        return {}
    classes = [name for name in counts.columns if str(name).startswith("class_")]
    held = counts[classes] > 0
    if int(held.sum(axis=1).max()) > MOST_HELD:
        return {}
    names = [name.removeprefix("class_") for name in classes]
    return {
        int(client): ", ".join(name for name, has in zip(names, row, strict=True) if has)
        for client, row in zip(counts["client"], held.to_numpy().tolist(), strict=True)
    }


def serving(run: RunRecord, writer: Writer, labels: Sequence[str], look: Looks) -> Section | None:
    """Show the seconds and bytes of serving a newcomer beside the error."""
    frame = in_order(serving_frame(cell_tables(run, "serving_cost"), run.rows), labels)
    if frame.empty:
        return None
    picture = writer.picture(
        "serving-cost",
        partial(serving_figure, frame, look),
        frame,
        title="Cost of serving a newcomer, and its error",
        alt=measure_words.describe_serving(frame),
        caption=measure_words.serving_caption(frame),
    )
    return {"picture": picture, "table": writer.table(serving_table(frame, labels))}
