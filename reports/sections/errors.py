"""The page's sections about measured errors: accuracy, shift, clients.

Each function returns what the template shows, or None where the rows hold nothing for it.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pandas as pd

from latecomer.eval.results.rows import RunRecord
from latecomer.reports.display.drawing import Looks, diagnostics_figure, gap_figure
from latecomer.reports.display.pictures import Writer
from latecomer.reports.errors import comparison_tables, tables
from latecomer.reports.errors.class_map import class_figure, class_frame
from latecomer.reports.errors.comparison import rank_test_figure
from latecomer.reports.errors.paper import (
    describe_paper,
    one_number_each,
    paper_caption,
    paper_figure,
)
from latecomer.reports.errors.sameness import sameness_frame, sameness_table, say_sameness
from latecomer.reports.errors.shift import shift_figure
from latecomer.reports.errors.shift_certified import (
    certified_under,
    describe_certified,
    say_certified,
    say_terms,
)
from latecomer.reports.errors.training import training_figure, training_frame
from latecomer.reports.frames import bounds as guarantees
from latecomer.reports.frames.comparison import pair_frame, rank_test_frame
from latecomer.reports.frames.effects import effect_frame, lacks_frame
from latecomer.reports.frames.errors import (
    CONTROL,
    client_errors,
    diagnostics_frame,
    gap_frame,
    in_order,
    shift_frame,
)
from latecomer.reports.frames.paper import paper_frame, paper_items
from latecomer.reports.sections import captions, descriptions
from latecomer.reports.sections.guarantees import cell_tables
from latecomer.reports.words import METRICS, file_stem, sentence_case

Section = dict[str, Any]
# Jensen-Shannon and Hellinger rank clients nearly as TV does: they stand in the table only.
DRAWN = ("label_kl", "label_tv", "a_distance")


def accuracy(run: RunRecord, writer: Writer, labels: Sequence[str], look: Looks) -> Section:
    """Show errors of seen and novel clients, the gap, comparisons, the papers' numbers."""
    rows = run.rows
    gaps = in_order(gap_frame(rows), labels)
    gap = None
    if len(gaps):
        gap = writer.picture(
            "gap",
            partial(gap_figure, gaps, look),
            gaps,
            title="Generalization gap",
            alt=captions.describe_gap(gaps),
            caption="A mark per seed, a bar at the mean, a band for its 95% t-interval over seeds "
            "(in brackets). Left of 0: clients that join late are served worse. Seen and novel "
            "clients are different clients, the same ones for every method.",
        )
    return {
        "table": writer.table(tables.accuracy_table(rows, labels)),
        "gap": gap,
        "comparison": _comparison(rows, writer, labels, look),
        "training": _training(run, writer, labels, look),
        "sameness": _sameness(rows, writer, labels),
        "paper": _paper(run, writer, labels, look),
    }


def _comparison(
    rows: pd.DataFrame, writer: Writer, labels: Sequence[str], look: Looks
) -> Section | None:
    errors = client_errors(rows)
    errors = errors[(errors["group"] == "novel") & (errors["shift"] == "none")]
    pairs = pair_frame(errors)
    if pairs.empty:
        return None
    ranks, picture = rank_test_frame(errors), None
    if len(ranks):
        picture = writer.picture(
            "ranks",
            partial(rank_test_figure, ranks, look),
            ranks,
            title="Mean ranks",
            alt=descriptions.describe_ranks(ranks),
            caption=descriptions.ranks_caption(ranks),
        )
    models = in_order(errors, labels)
    return {
        "picture": picture,
        "pairs": writer.table(comparison_tables.pair_table(pairs, models)),
        "said": descriptions.say_pairs(pairs),
    }


def _training(run: RunRecord, writer: Writer, labels: Sequence[str], look: Looks) -> Any:
    frame = in_order(training_frame(cell_tables(run, "training_curve")), labels)
    if frame["round"].nunique() < 2:
        return None
    return writer.picture(
        "training",
        partial(training_figure, frame, look),
        frame,
        title="Error along the training",
        alt=descriptions.describe_training(frame),
        caption=descriptions.training_caption(frame),
    )


def _sameness(rows: pd.DataFrame, writer: Writer, labels: Sequence[str]) -> Section | None:
    frame = sameness_frame(rows)
    if frame.empty:
        return None
    table = writer.table(sameness_table(frame, labels))
    return {"warnings": say_sameness(frame), "table": table}


def _paper(run: RunRecord, writer: Writer, labels: Sequence[str], look: Looks) -> Section | None:
    study = run.study
    asked = [f"{source}, {item}" for source, item, _ in paper_items(study)]
    if not asked:
        return None
    targets = [
        {"label": label, "seed": seed, **row}
        for label, seed, table in cell_tables(run, "target_sizes")
        for row in table
    ]
    frame, picture = in_order(paper_frame(run.rows, study, pd.DataFrame(targets)), labels), None
    if one_number_each(frame):
        short = "" if study.get("scale") == "paper" else ", not the paper's length"
        picture = writer.picture(
            "paper",
            partial(paper_figure, frame, look),
            frame,
            title=f"The paper's numbers and ours{short}",
            alt=describe_paper(frame),
            caption=paper_caption(frame),
        )
    table = comparison_tables.paper_table(frame, labels, study) if len(frame) else None
    return {
        "items": asked,
        "note": str(study.get("note") or ""),
        "picture": picture,
        "table": writer.table(table),
        "full": study.get("scale") == "paper",
        "rounds": (study.get("train") or {}).get("rounds"),
        "settings": list(dict.fromkeys(frame["setting"])),
    }


def shift(
    rows: pd.DataFrame,
    writer: Writer,
    labels: Sequence[str],
    look: Looks,
    study: Mapping[str, Any],
) -> Section | None:
    """Show errors under every shift, what is certified there, effects of other data and lacks."""
    frame = in_order(shift_frame(rows), labels)
    present = [name for name in dict.fromkeys(frame["shift"]) if name != "none"]
    shifts = [
        name
        for name in present
        if not (name.endswith(CONTROL) and name.removesuffix(CONTROL) in present)
    ]
    if not shifts:
        return None
    bounds = guarantees.bound_frame(rows)
    ben_david = bounds[bounds["bound"] == "ben_david"]
    terms = guarantees.anatomy_frame(rows)
    terms = terms[terms["bound"] == "ben_david"]
    declared = study.get("certificates") or ()
    pictures = []
    for name in sorted(shifts):
        certified = certified_under(bounds, name, declared)
        parts = terms[terms["shift"] == name]
        draw = partial(
            shift_figure,
            frame,
            name,
            look,
            heuristic=ben_david[ben_david["shift"] == name],
            certified=certified,
            terms=parts,
        )
        curves = frame[frame["shift"].isin([name, name + CONTROL, "none"])]
        picture = writer.picture(
            f"shift-{file_stem(name)}",
            draw,
            _beside(curves, certified, parts),
            title=sentence_case(name),
            alt=captions.describe_shift(frame, name) + describe_certified(certified),
            caption=descriptions.shift_caption(frame, name)
            + say_certified(certified)
            + say_terms(parts),
            small=True,
        )
        pictures.append(picture)
    effects, lacks = effect_frame(rows), lacks_frame(rows)
    return {
        "pictures": pictures,
        "several": bool((frame["n_seeds"] > 1).any()),
        "table": writer.table(tables.shift_table(frame, labels)),
        "effects": writer.table(comparison_tables.effect_table(effects, labels))
        if len(effects)
        else None,
        "lacks": writer.table(comparison_tables.lacks_table(lacks)) if len(lacks) else None,
        "heuristic": bool(len(ben_david)),
    }


def _beside(curves: pd.DataFrame, certified: pd.DataFrame, terms: pd.DataFrame) -> pd.DataFrame:
    """Put what a shift's figure draws into one table: curves, certificates, terms."""
    if certified.empty and terms.empty:
        return curves
    keys = ["label", "predictor", "seed", "shift", "severity", "bound", "value"]
    drawn = [certified[[*keys, "together", "delta"]], terms[[*keys, "term"]]]
    return pd.concat([curves, *(part for part in drawn if len(part))], ignore_index=True)


def clients(run: RunRecord, writer: Writer, labels: Sequence[str], look: Looks) -> Section | None:
    """Show who holds which classes, and error against distance to the training clients."""
    held = _class_map(run, writer)
    frame = in_order(diagnostics_frame(run.rows), labels)
    if frame.empty:
        return {"classes": held, "pictures": [], "table": None} if held else None
    pictures = [
        writer.picture(
            f"distance-{file_stem(metric)}",
            partial(diagnostics_figure, frame, metric, look),
            frame[frame["metric"] == metric],
            title=sentence_case(METRICS[metric].split(" to ")[0]),
            alt=captions.describe_diagnostics(frame, metric, labels),
            caption=descriptions.distance_caption(frame[frame["metric"] == metric]),
            small=True,
        )
        for metric in DRAWN
        if (frame["metric"] == metric).any()
    ]
    table = writer.table(tables.rank_table(frame, labels))
    return {"classes": held, "pictures": pictures, "table": table}


def _class_map(run: RunRecord, writer: Writer) -> Any:
    found = [artifact for artifact in run.artifacts if artifact.kind == "label_counts"]
    frame = class_frame(found[0].load().table or ()) if found else pd.DataFrame()
    if frame.empty:
        return None
    return writer.picture(
        "classes",
        partial(class_figure, frame),
        frame,
        title="Who holds which classes",
        alt=descriptions.describe_classes(frame),
        caption="A column per client, a row per class; the fuller the colour, the larger the share "
        "of the client's samples (support, validation and query together). Novel and certification "
        "clients were not trained on.",
    )
