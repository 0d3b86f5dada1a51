"""The page's section about bounds: beside measured errors, their parts, their small print."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import pandas as pd

from latecomer.eval.results.rows import RunRecord
from latecomer.reports.display.drawing import Looks
from latecomer.reports.display.pictures import Picture, Writer
from latecomer.reports.errors import tables
from latecomer.reports.frames import bounds as guarantees
from latecomer.reports.frames.errors import in_order, primary_predictor
from latecomer.reports.guarantees import shares as certified_shares
from latecomer.reports.guarantees.distribution import (
    error_distribution_figure,
    error_distribution_frame,
)
from latecomer.reports.guarantees.figures import anatomy_figure, bound_figure, drawable_bounds
from latecomer.reports.guarantees.parts import (
    parts_frame,
    parts_table,
    variance_frame,
    variance_table,
)
from latecomer.reports.guarantees.slack import (
    order_frame,
    order_table,
    references,
    slack_frame,
    slack_table,
)
from latecomer.reports.sections import captions, descriptions
from latecomer.reports.words import bound_name, file_stem, sentence_case


def guarantee_section(
    run: RunRecord,
    writer: Writer,
    labels: Sequence[str],
    look: Looks,
    ledger: pd.DataFrame,
    everything: pd.DataFrame,
) -> dict[str, Any]:
    """Show every certificate and bound of a run; lists are empty where it has none.

    ``everything`` holds, beside the rows of ``run``, those of models trained with nobody held out.
    """
    bounds = in_order(guarantees.bound_frame(run.rows), labels)
    terms = in_order(guarantees.anatomy_frame(run.rows), labels)
    if len(bounds):
        writer.files["tables/certificates.csv"] = bounds.to_csv(index=False, lineterminator="\n")
        writer.files["tables/bound-inputs.csv"] = ledger.to_csv(index=False, lineterminator="\n")
    picture = None
    if len(drawable_bounds(bounds)):
        picture = writer.picture(
            "bounds",
            partial(bound_figure, bounds, look),
            drawable_bounds(bounds),
            title="Bounds beside measured errors",
            alt=captions.describe_bounds(bounds),
            caption="A mark per trained model and bound; its place to the right is the mean error "
            "of the novel clients, whomever the bound is about. Filled: a certificate. Hollow: "
            "a published formula without a proof for this model. Below the dashed line a bound "
            "would be below the measured error.",
        )
    parts = parts_frame(ledger)

    def shown(name: str) -> dict[str, Any]:
        made_up = parts_table(parts, f"parts-{file_stem(name)}", name, labels)
        return _bound(writer, bounds, terms, ledger, name) | {"parts": writer.table(made_up)}

    fractions = certified_shares.fraction_frame(run.rows)
    prices = certified_shares.price_frame(run.rows)
    return {
        "picture": picture,
        "distribution": _distribution(run, writer, labels, look),
        "bounds": [shown(name) for name in _order(run, bounds)],
        **_beside_measured(run, writer, labels, everything),
        "fractions": writer.table(
            certified_shares.fraction_table(fractions, labels) if len(fractions) else None
        ),
        "prices": writer.table(
            certified_shares.price_table(prices, labels) if len(prices) else None
        ),
    }


def _beside_measured(
    run: RunRecord, writer: Writer, labels: Sequence[str], everything: pd.DataFrame
) -> dict[str, Any]:
    """Break down the distance of bounds from measured errors, and say how both order models."""
    slack = slack_frame(everything, references([cell.config for cell in run.cells]))
    order = order_frame(run.rows)
    ranked = bool(order[["tau_gap", "tau_error"]].notna().any(axis=None))
    variances = variance_frame(cell_tables(run, "tuning"))
    return {
        "slack": writer.table(slack_table(slack, labels) if len(slack) else None),
        "order": writer.table(order_table(order) if ranked else None),
        "variances": writer.table(variance_table(variances, labels) if len(variances) else None),
    }


def ledger_of_run(run: RunRecord) -> pd.DataFrame:
    """Join what every cell wrote down about its certificates."""
    return guarantees.ledger_frame(cell_tables(run, "certificates"))


def cell_tables(run: RunRecord, kind: str) -> list[tuple[str, int, Any]]:
    """List the tables of one kind that the models' cells left: label, seed, records."""
    cells = {cell.id: cell.config for cell in run.cells}
    found = []
    for artifact in run.artifacts:
        if artifact.kind == kind:
            config = cells[artifact.cell]
            found.append((config["method"]["label"], config["seed"], artifact.load().table or ()))
    return found


def _order(run: RunRecord, bounds: pd.DataFrame) -> list[str]:
    """Proven bounds first, then in the order of the study."""
    proven = bounds.groupby("bound")["rigorous"].any()
    declared = [f"{c['route']}:{c.get('rule', '')}" for c in run.study.get("certificates") or ()]
    place = {name: i for i, name in enumerate([*declared, *(run.study.get("bounds") or ())])}
    last = len(place)
    return sorted(
        proven.index,
        key=lambda name: (not proven[name], place.get(str(name).split("@")[0], last), name),
    )


def _distribution(
    run: RunRecord, writer: Writer, labels: Sequence[str], look: Looks
) -> Picture | None:
    frame = in_order(error_distribution_frame(run.rows), labels)
    if frame.empty:
        return None
    curves = certified_shares.curve_frame(cell_tables(run, "error_curve"))
    band = primary_predictor(curves[curves["shift"] == "none"]) if len(curves) else None
    data = frame.assign(kind="measured on novel clients")
    if band is not None:
        certified = band.rename(columns={"upper": "share"}).assign(kind="certified, at most")
        data = pd.concat([data, certified], ignore_index=True)
    return writer.picture(
        "error-distribution",
        partial(error_distribution_figure, frame, look, band=band),
        data,
        title="Certified error distribution" if band is not None else "Error distribution",
        alt=descriptions.describe_distribution(frame, band),
        caption=descriptions.distribution_caption(frame, band),
    )


def _bound(
    writer: Writer, bounds: pd.DataFrame, terms: pd.DataFrame, ledger: pd.DataFrame, name: str
) -> dict[str, Any]:
    own = bounds[bounds["bound"] == name]
    stem = f"bound-{file_stem(name)}"
    parts = terms[terms["bound"] == name]
    anatomy = None
    if len(parts):
        anatomy = writer.picture(
            f"{stem}-terms",
            partial(anatomy_figure, parts),
            parts,
            title=f"Terms of {bound_name(name)}",
            alt=captions.describe_anatomy(parts),
            caption=captions.anatomy_caption(parts),
        )
    return {
        "name": name,
        "title": sentence_case(bound_name(name)),
        "status": guarantees.status(own),
        "claims": guarantees.claims(own),
        "table": writer.table(tables.bound_table(bounds, stem, name)),
        "anatomy": anatomy,
        "ledger": guarantees.ledger_of(ledger, name),
    }
