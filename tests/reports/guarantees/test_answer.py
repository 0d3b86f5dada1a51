"""What the answer about bounds takes from elsewhere is what stands there."""

from unittest import mock

import pytest
from sketches import kept

from latecomer import bounds
from latecomer.eval.results.rows import make_row
from latecomer.reports.display.drawing import looks
from latecomer.reports.display.naming import model_names
from latecomer.reports.display.section import Material
from latecomer.reports.guarantees.answer import answer_bounds, distance_frame, least_price
from latecomer.reports.guarantees.certificate import _sentence


@pytest.mark.parametrize(
    ("mean", "n", "delta"), [(0.1, 30, 0.05), (0.0, 12, 0.01), (0.7, 200, 0.1)]
)
def test_the_least_margin_of_independent_clients_is_the_reference_price(mean, n, delta) -> None:
    theirs = bounds.reference_price(mean_loss=mean, n_clients=n, delta=delta)
    assert float(least_price(mean, n, delta)) == pytest.approx(float(theirs), abs=1e-12)


@pytest.mark.slow
def test_the_least_margin_in_a_pool_is_the_pool_s_and_no_independent_clients() -> None:
    """Fifteen of the clients not trained on were scored: a sample of a pool, which pays less."""
    material = kept("digits-all-methods")
    frame = distance_frame(material)
    pooled = frame[(frame["sampling"] == "finite-pool") & frame["bound"].str.startswith("r0:")]
    pooled = pooled[~pooled["vacuous"]]
    assert len(pooled) > 5
    sizes = material.bounds.drop_duplicates("bound").set_index("bound")["pool"]
    for row in pooled.to_dict("records"):
        paid = row["unavoidable"] + row["excess"]
        at = {"n_clients": row["n_clients"], "delta": row["delta"]}
        mean = row["value"] - paid
        ours = bounds.reference_price_pool(pool_size=sizes[row["bound"]], mean_loss=mean, **at)
        assert row["unavoidable"] == pytest.approx(min(float(ours), paid), abs=1e-9)
        assert row["unavoidable"] < float(bounds.reference_price(mean_loss=mean, **at))
    answer = answer_bounds(material)
    said = " ".join((answer.sentence, *answer.more))
    assert "that no rule avoids" not in said
    assert "it would be about" not in said, "independent clients' margins say nothing of a pool's"


ROUTED = {
    "r1:product": ("tuning", "gibbs", "finite-pool"),
    "r5:occam_product": ("tuning", "deterministic", "finite-pool"),
    "r4:product": ("arriving", "random-checkpoint", "martingale"),
}


@pytest.mark.parametrize(
    ("bound", "split", "over", "by"),
    [
        ("r1:product", "by_class", "all clients but those that trained it first, the 4 ", "system"),
        ("r1:product", "environment", "new clients", "system"),
        ("r5:occam_product", "by_class", "all clients but those that trained it first", ""),
        ("r4:product", "by_class", "the clients not trained on by then", "checkpoint"),
        ("r4:product", "environment", "new clients", "checkpoint"),
    ],
)
def test_answers_name_the_population_of_a_route_that_trains(read, bound, split, over, by) -> None:
    """A pool's mean is no mean over new clients, and R1's rows do not say how large its pool is."""
    group, predictor, sampling = ROUTED[bound]
    if split == "environment" and sampling == "finite-pool":
        sampling = "iid"
    model = {"label": f"pefll {bound}", "method": "pefll", "cell": "a", "seed": 0, "split": split,
             "predictor": predictor, "status": "done", "shift": "none"}  # fmt: skip
    told = {"metric": "certificate", "bound": bound, "rigorous": True, "delta": 0.05,
            "population": "unseen-client", "sampling": sampling, "n_clients": 4}  # fmt: skip
    parts = [("", 0.4), ("empirical_risk", 0.1), ("clients", 0.3)]
    rows = [make_row(**model, **told, group=group, term=term, value=v) for term, v in parts]
    rows += [
        make_row(**model, group=one, client=10 * place + client, metric="error", value=0.1,
                 n_query=10)
        for place, one in enumerate((group, "novel")) for client in range(4)
    ]  # fmt: skip
    study = {"certificates": [dict(zip(("route", "rule"), bound.split(":"), strict=True))]}
    run = mock.Mock(rows=read(rows), study=study, cells=[], scorings=[], artifacts=[])
    material = Material(run, run.rows, [model["label"]], looks([model["label"]]))
    answer = answer_bounds(material)
    assert f"at most 40.0% on average over {over}" in answer.sentence
    said = _sentence(material.declared, material.choice, None, model_names(material.declared))
    assert (over if over != "new clients" else "a client that joins") in said
    assert (f"by a {by} drawn at random" in said) == bool(by)
