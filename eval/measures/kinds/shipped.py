"""What a study may ask of trained models by name: the measures, and the papers' bounds."""

from latecomer.eval.measures.kinds.declaration import Measure, Published

MEASURES = (
    Measure(
        name="descriptors",
        description="every client's descriptor, and its rank correlation with the clients' "
        "classes, along the training too where ``evaluation.every`` says how often",
        work="latecomer.eval.measures.likeness:descriptors",
    ),
    Measure(
        name="mix_and_match",
        description="the accuracy of each seen client's head on every other's body",
        work="latecomer.eval.measures.of_a_model:mix_and_match",
    ),
    Measure(
        name="serving_cost",
        description="seconds and bytes of serving new clients",
        work="latecomer.eval.measures.of_a_model:serving_cost",
    ),
    Measure(
        name="training_error",
        description="the error of seen clients on the data that they trained on, which splits the "
        "gap to new clients in two: own new data, and new clients",
        work="latecomer.eval.measures.of_a_model:training_error",
    ),
    Measure(
        name="next_client",
        description="a random-effects interval for the error of one more client (an estimate)",
        work="latecomer.eval.measures.of_a_model:next_client",
    ),
    Measure(
        name="likeness",
        description="how like the held-out clients each new client is, by inputs alone: the "
        "rank of its distance from the seen clients (a conformal p-value)",
        work="latecomer.eval.measures.likeness:likeness",
        numbers_version=2,
    ),
    Measure(
        name="convergence",
        description="the quantities of PeFLL's Theorem 3.1, only along the training",
        along_training=True,
        numbers_version=2,
    ),
)


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
