"""What the answer about bounds takes from elsewhere is what stands there."""

import pytest
from sketches import kept

from latecomer import bounds
from latecomer.reports.guarantees.answer import answer_bounds, distance_frame, least_price


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
