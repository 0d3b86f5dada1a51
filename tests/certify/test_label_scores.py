"""Scores of labels and the sets they leave, against what is written down by hand."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latecomer.bounds.next_client import client_threshold
from latecomer.certify.predicted_sets import (
    LABEL_SCORES,
    clients_needed,
    labels_kept,
    of_truth,
    refuse_too_few,
)

CHANCES = np.array([[0.5, 0.3, 0.2], [0.2, 0.2, 0.6], [1.0, 0.0, 0.0]])


def test_each_score_is_what_its_paper_says():
    plain = LABEL_SCORES["probability"].of(CHANCES)
    assert np.allclose(plain, [[0.5, 0.7, 0.8], [0.8, 0.8, 0.4], [0, 1, 1]])
    # The label and all that are at least as likely; ties are counted together.
    adaptive = LABEL_SCORES["adaptive"].of(CHANCES)
    assert np.allclose(adaptive, [[0.5, 0.8, 1], [1, 1, 0.6], [1, 1, 1]])
    assert of_truth(adaptive, np.array([1, 2, 0])).tolist() == pytest.approx([0.8, 0.6, 1])


@given(st.integers(2, 6).flatmap(lambda c: st.lists(
    st.lists(st.floats(0, 1), min_size=c, max_size=c), min_size=1, max_size=5)))  # fmt: skip
def test_a_likelier_label_never_scores_more(rows):
    chances = np.array(rows) + 1e-6
    chances /= chances.sum(axis=1, keepdims=True)
    for score in LABEL_SCORES.values():
        scores = score.of(chances)
        assert ((scores >= 0) & (scores <= 1)).all()
        likelier = chances[:, :, None] >= chances[:, None, :]
        assert (scores[:, :, None] <= scores[:, None, :])[likelier].all()
        # So a set is the likeliest labels down to some place, and never empty.
        for threshold in (0.0, 0.4, 0.9, 1.0, np.inf):
            held = labels_kept(scores, threshold)
            assert held.any(axis=1).all()
            left_out = np.where(held, -1, chances).max(axis=1)
            assert (left_out <= np.where(held, chances, 2).min(axis=1)).all()
        assert labels_kept(scores, 1.0).all()


def test_more_labels_are_kept_as_the_threshold_rises():
    for score in LABEL_SCORES.values():
        scores = score.of(CHANCES)
        sets = [labels_kept(scores, t) for t in np.linspace(0, 1, 21)]
        assert all((low <= high).all() for low, high in pairwise(sets))


@pytest.mark.parametrize(("alpha", "needed"), [(0.1, 9), (0.05, 19), (0.2, 4), (0.3, 3), (0.5, 1)])
def test_how_many_clients_a_level_takes(alpha, needed, refusal):
    assert clients_needed(alpha) == needed
    refuse_too_few(needed, alpha)
    assert refusal(refuse_too_few, needed - 1, alpha, called="certificates.0.alpha") == (
        f"certificates.0.alpha: sets at alpha={alpha:g} need at least {needed} clients, got "
        f"{needed - 1}; with {needed - 1} clients alpha is at least 1/{needed}"
    )


def chances_by_formula(n: int, phase: float) -> np.ndarray:
    raw = np.exp(2 * np.sin(0.7310585786 * np.arange(1, 3 * n + 1) + phase)).reshape(n, 3)
    return raw / raw.sum(axis=1, keepdims=True)


# Clients, alpha, and what MAPIE 1.6.0 made of them (SplitConformalClassifier, conformity score
# "lac", prefit): its quantile, and the labels in its sets of 60 further points. Its adaptive score
# draws at random what ours does not, so that the two are not comparable.
OF_MAPIE = [
    (9, 0.2, 0.9173224302272117, 154),
    (9, 0.3, 0.8831560257031577, 144),
    (19, 0.1, 0.9455646405663531, 173),
    (19, 0.2, 0.8831560257031577, 144),
    (19, 0.3, 0.818512574769443, 131),
    (40, 0.1, 0.9348987590504163, 162),
    (40, 0.2, 0.8831560257031577, 144),
    (40, 0.3, 0.8127424389702365, 123),
    (57, 0.1, 0.9391131547635261, 166),
    (57, 0.2, 0.8926278934370723, 146),
    (57, 0.3, 0.8127424389702365, 123),
]


@pytest.mark.parametrize(("n", "alpha", "quantile", "n_labels"), OF_MAPIE)
def test_clients_of_one_point_have_split_conformal_predictions_sets(n, alpha, quantile, n_labels):
    score, y = LABEL_SCORES["probability"].of, np.arange(n) * 7 // 3 % 3
    told = of_truth(score(chances_by_formula(n, 0.1)), y)
    threshold = client_threshold(scores=[[one] for one in told.tolist()], alpha=alpha).value
    assert threshold == pytest.approx(quantile, abs=1e-15)
    assert labels_kept(score(chances_by_formula(60, 0.9)), threshold).sum() == n_labels
