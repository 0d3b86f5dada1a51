"""The papers' bounds that a trained model gives the inputs of."""

from latecomer.eval.measures.kinds.declaration import Published

PUBLISHED = (
    Published(
        name="pefll_32",
        words="PeFLL, Theorem 3.2",
        work="latecomer.eval.measures.published_bounds:pefll_32_values",
    ),
    Published(
        name="two_step_kl",
        words="seen clients, two-step kl",
        work="latecomer.eval.measures.published_bounds:two_step_kl_values",
    ),
    Published(
        name="pfedhn_eps",
        words="pFedHN, Theorem 1 (Baxter)",
        work="latecomer.eval.measures.published_bounds:pfedhn_eps_values",
    ),
    Published(
        name="ben_david",
        words="Ben-David et al., Theorem 2",
        work="latecomer.eval.measures.published_bounds:ben_david_values",
    ),
)
