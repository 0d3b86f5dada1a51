"""Bad input over the whole catalogue: every refusal names the argument, its range and the value."""

import inspect
import math
import re
from typing import Any

import numpy as np
import pytest

from latecomer.bounds import CATALOGUE
from latecomer.bounds.held_out.bets import product_wor_bets

NAN, INF = math.nan, math.inf
# One legal call per calculator; the bad calls below change one argument of it.
LEGAL: dict[str, dict[str, Any]] = {
    "aid_fast": {
        **{"empirical_risk": 0.1, "bits_shared": 10.0, "bits_clients": [1.0, 2.0], "n_samples": 50},
        **{"delta": 0.05},
    },
    "amit_meir": {
        **{"empirical_risk": 0.1, "kl_hyper": 1.0, "kls": [1.0, 2.0], "sizes": [20, 30]},
        **{"delta": 0.05},
    },
    "baxter_eps_const": {
        **{"log_capacity_clients": 5.0, "log_capacity_samples": 50.0, "n_clients": 100},
        **{"n_samples": 50, "delta": 0.05},
    },
    "baxter_thm2_m": {
        **{"log_capacity_samples": 50.0, "n_clients": 100, "epsilon": 0.1, "delta": 0.05},
    },
    "baxter_thm2_n": {"log_capacity_clients": 5.0, "epsilon": 0.1, "delta": 0.05},
    "ben_david": {
        **{"source_risk": 0.1, "divergence": 0.3, "dimension": 10, "n_samples": 1000},
        **{"delta": 0.05, "joint_error": 0.02},
    },
    "ball_mixture": {"losses": [0.1, 0.2], "radius": 0.1, "delta": 0.05, "points": [0.5, 1.0]},
    "breaking_radius": {"losses": [0.1, 0.2], "target": 0.9, "delta": 0.05, "points": [0.5, 1.0]},
    "chi2_ball": {"losses": [0.1, 0.2], "radius": 0.1, "delta": 0.05, "thresholds": [-1.0, 0.1]},
    "dkw_ball": {"losses": [0.1, 0.2], "radius": 0.1, "delta": 0.05},
    "kl_ball": {"losses": [0.1, 0.2], "radius": 0.1, "delta": 0.05, "temperatures": [0.5, 1.0]},
    "subgroup": {"losses": [0.1, 0.2], "share": 0.5, "delta": 0.05, "thresholds": [0.0, 0.1]},
    "tv_ball": {"losses": [0.1, 0.2], "radius": 0.1, "delta": 0.05, "thresholds": [0.0, 0.1]},
    "betting_mixture": {"losses": [0.1, 0.2], "delta": 0.05, "n_bets": 4},
    "product_mixture": {"losses": [0.1, 0.2], "delta": 0.05, "n_bets": 4},
    "catoni": {"empirical_risk": 0.1, "kl": 1.0, "n_samples": 50, "delta": 0.05, "c": 1.0},
    "catoni_grid": {
        **{"empirical_risk": 0.1, "kl": 1.0, "n_samples": 50, "delta": 0.05, "grid": [0.5, 1.0]},
    },
    "catoni_unequal": {
        **{"empirical_risks": [0.1, 0.2], "sum_kl": 1.0, "sizes": [20, 30], "delta": 0.05},
        **{"rate": 20.0},
    },
    "clopper_pearson": {"n_errors": 2, "n_samples": 20, "delta": 0.05},
    "conformal": {"losses": [0.1, 0.2], "alpha": 0.4},
    "divergence": {"novel_counts": [1, 2], "train_counts": [3, 4], "smoothing": 0.5},
    "dkw_band": {"n_clients": 20, "delta": 0.05},
    "dp_sensitivity": {"head_lipschitz": 1.0, "feature_bound": 1.0, "n_samples": 100},
    "emp_bernstein": {"empirical_risk": 0.1, "variance": 0.01, "n_samples": 20, "delta": 0.05},
    "gauss_classic": {"epsilon": 0.5, "dp_delta": 1e-5, "sensitivity": 1.0},
    "gauss_delta": {"epsilon": 0.5, "sigma": 2.0, "sensitivity": 1.0},
    "gauss_kl_equal": {"squared_distance": 1.0, "alpha": 0.1},
    "gauss_kl_iso": {"squared_distance": 1.0, "variance_q": 0.1, "variance_p": 0.2, "dim": 3},
    "guan_lu_catoni": {
        **{"empirical_risk": 0.1, "kl_hyper": 1.0, "sum_kl": 2.0, "n_clients": 20, "n_samples": 50},
        **{"delta": 0.05, "client_temperature": 1.0, "sample_temperature": 1.0},
    },
    "hdiv_from_counts": {
        **{"source_as_target": 3, "n_source": 10, "target_as_source": 4, "n_target": 10},
    },
    "hoeffding": {"empirical_risk": 0.1, "n_samples": 20, "delta": 0.05},
    "kl": {"q": 0.1, "p": 0.2},
    "kl_inverse_upper": {"q": 0.1, "budget": 0.2},
    "linear_optimum": {"solutions": [[1.0, 0.0], [0.0, 1.0]], "dimension": 1},
    "log_cover_ball": {"dimension": 5, "ball_radius": 1.0, "cover_radius": 0.1},
    "maurer": {"empirical_risk": 0.1, "kl": 1.0, "n_samples": 50, "delta": 0.05},
    "mc_then_kl": {
        **{"monte_carlo_risk": 0.1, "n_draws": 10, "delta_draws": 0.01, "kl": 1.0, "n_samples": 50},
        **{"delta": 0.05},
    },
    "nearest": {"novel_counts": [1, 2], "train_counts": [[3, 4], [5, 6]], "smoothing": 0.5},
    "occam_product": {"losses": [0.1, 0.2], "bits": 5, "delta": 0.05},
    "two_step_fixed": {"empirical_risk": 0.1, "sum_kl": 2.0, "sizes": [20, 30], "delta": 0.05},
    "occam_client": {"empirical_risk": 0.1, "bits": 5, "n_clients": 50, "delta": 0.05},
    "odpfl": {
        **{"empirical_risk": 0.1, "multitask_deviation": 0.05, "divergences": [0.2, 0.1]},
        **{"joint_errors": [0.01, 0.0], "dimension": 5, "n_samples": 2000, "delta_multitask": 0.01},
        **{"delta_samples": 0.02, "delta_environment": 0.02},
    },
    "pacoh_holder": {
        **{"empirical_risk": 0.1, "kl_hyper": 1.0, "sum_kl": 2.0, "n_clients": 20},
        **{"harmonic_size": 50.0, "delta": 0.05, "client_rate": 10.0, "sample_rate": 100.0},
    },
    "pefll_31": {
        **{"initial_gap": 2.0, "smoothness": 1.0, "loss_smoothness": 1.0, "loss_gradient": 1.0},
        **{"generator_gradient": 1.0, "loss_noise": 0.5, "generator_noise": 0.2},
        **{"model_noise": 0.2, "client_dissimilarity": 0.3, "cohort": 5, "local_steps": 50},
        **{"batch_size": 32, "n_rounds": 5000},
    },
    "pefll_31_minT": {"smoothness": 1.0, "loss_smoothness": 1.0, "cohort": 5, "local_steps": 50},
    "pefll_32": {
        **{"empirical_risk": 0.1, "eta_h_squared": 1.0, "alpha_h": 1.0, "eta_v_squared": 1.0},
        **{"alpha_v": 1.0, "theta_squared": [1.0, 2.0], "alpha_theta": 1.0, "delta": 0.05},
        **{"n_samples": 50},
    },
    "pefll_b1": {
        **{"empirical_risk": 0.1, "kl_hyper": 1.0, "sum_kl": 2.0, "n_clients": 20, "n_samples": 50},
        **{"delta": 0.05},
    },
    "pefll_b1_unequal": {
        **{"empirical_risk": 0.1, "kl_hyper": 1.0, "sum_kl": 2.0, "sizes": [20, 30], "delta": 0.05},
    },
    "personal_prior_kl": {
        **{"empirical_risk": 0.1, "squared_distance": 1.0, "alpha": 0.1, "n_samples": 50},
        **{"delta": 0.05},
    },
    "personal_prior_pooled": {
        **{"empirical_risk": 0.1, "squared_distances": [1.0, 2.0], "alpha": 0.1, "n_samples": 50},
        **{"delta": 0.05},
    },
    "pfedhn_M": {
        **{"epsilon": 0.1, "n_clients": 90, "descriptor_dim": 25, "hypernetwork_dim": 100},
        **{"radius": 1.0, "loss_lipschitz": 1.0, "weight_lipschitz": 1.0},
        **{"descriptor_lipschitz": 1.0, "delta": 0.05},
    },
    "pool_band": {"n_sampled": 5, "pool_size": 10, "delta": 0.05},
    "reference_price": {"mean_loss": 0.1, "n_clients": 20, "delta": 0.05},
    "reference_price_pool": {"n_clients": 5, "pool_size": 10, "delta": 0.05},
    "pool_fraction": {"n_exceeding": 1, "n_sampled": 5, "pool_size": 10, "delta": 0.05},
    "product": {"losses": [0.1, 0.2], "delta": 0.05},
    "product_from_sum": {"log_sum": 3.0, "n_clients": 20, "delta": 0.05, "gamma": 0.05},
    "product_mixture_from_sums": {
        **{"log_sums": [0.5, 1.0, 1.5, 2.0, 3.0], "n_clients": 20, "delta": 0.05, "gamma": 0.05},
    },
    "progressive": {"empirical_risk": 0.1, "n_steps": 20, "delta": 0.05, "grid": [0.5, 1.0]},
    "proxy_a": {"error": 0.2},
    "rezazadeh_code": {
        **{"empirical_risk": 0.1, "kl_hyper": 1.0, "mean_kl": 2.0, "n_clients": 20},
        **{"n_samples": 50, "delta": 0.05},
    },
    "single_level_kl": {"empirical_risk": 0.1, "kl_hyper": 1.0, "n_clients": 20, "delta": 0.05},
    "single_level_kl_mc": {
        **{"monte_carlo_risk": 0.1, "n_draws": 10, "delta_draws": 0.01, "kl_hyper": 1.0},
        **{"n_clients": 20, "delta": 0.05},
    },
    "single_level_product_mc": {
        **{"monte_carlo_neg_log1m": 0.1, "gamma": 0.05, "n_draws": 10, "delta_draws": 0.01},
        **{"kl_hyper": 1.0, "n_clients": 20, "delta": 0.05},
    },
    "single_level_product": {
        **{"mean_neg_log1m": 0.1, "kl_hyper": 1.0, "n_clients": 20, "delta": 0.05},
    },
    "thiemann": {"empirical_risk": 0.1, "kl": 1.0, "n_samples": 50, "delta": 0.05, "lam": 1.0},
    "tolstikhin_seldin": {
        **{"empirical_risk": 0.1, "variance": 0.05, "kl": 1.0, "n_samples": 50, "delta": 0.05},
    },
    "two_step_kl_unequal": {
        **{"empirical_risk": 0.1, "kl_hyper": 1.0, "sum_kl": 2.0, "sizes": [20, 30], "delta": 0.05},
    },
    "vc_dev": {"dimension": 10, "n_samples": 1000, "delta": 0.05},
    "wsr_wor": {"losses": [0.1, 0.2], "delta": 0.05, "pool_size": 10},
    "star": {"losses": [0.1, 0.2], "delta": 0.05},
    "blend": {"losses": [0.1, 0.2], "delta": 0.05, "pool_size": 10, "n_orders": 4, "seed": 1},
    "mean_difference": {"losses": [0.1, 0.2], "other": [0.2, 0.2], "delta": 0.05},
    "gaffke": {"losses": [0.1, 0.2], "delta": 0.05},
    "dersimonian_laird": {
        **{"estimates": [0.1, 0.2, 0.4], "variances": [0.01, 0.02, 0.01], "alpha": 0.1},
    },
    "equal_local_level": {"n_clients": 20, "delta": 0.05},
    "client_threshold": {"scores": [[0.1, 0.2], [0.3]], "alpha": 0.4},
    "confident_threshold": {"scores": [[0.1, 0.2], [0.3]], "alpha": 0.4, "delta": 0.05},
    "covered_threshold": {
        **{"scores": [[0.1, 0.2], [0.3]], "alpha": 0.4, "beta": 0.3, "gamma": 0.2, "delta": 0.05},
        **{"pool_size": 10},
    },
    "wsr_averaged": {"losses": [0.1, 0.2], "delta": 0.05, "n_orders": 4, "seed": 1},
    "product_wor_averaged": {
        **{"losses": [0.1, 0.2], "delta": 0.05, "pool_size": 10, "n_orders": 4, "seed": 1},
    },
    "betting_wor_averaged": {
        **{"losses": [0.1, 0.2], "delta": 0.05, "pool_size": 10, "n_bets": 4, "n_orders": 4},
        **{"seed": 1, "in_order": True},
    },
    "betting_wor": {"losses": [0.1, 0.2], "delta": 0.05, "pool_size": 10, "n_bets": 4},
    "betting_mixture_path": {"losses": [0.1, 0.2], "delta": 0.05, "n_bets": 4},
    "product_mixture_path": {"losses": [0.1, 0.2], "delta": 0.05, "n_bets": 4},
    "drift_evidence": {"losses": [0.1, 0.2], "threshold": 0.3, "bets": [0.5, 1.0]},
    "xi": {"n": 10},
    "zakerinia24": {
        **{"empirical_risk": 0.1, "kl_hyper": 1.0, "kl_prior_hyper": 1.0, "sum_kl": 2.0},
        **{"n_clients": 20, "n_samples": 50, "delta": 0.05},
    },
}
SAME = {
    "aid_fast": ("aid_occam",),
    "baxter_thm2_m": ("baxter_thm4_m",),
    "client_threshold": ("second_moment_threshold",),
    "dersimonian_laird": ("hartung_knapp",),
    "drift_evidence": ("drift_evidence_restarted",),
    "equal_local_level": ("local_level_band",),
    "gauss_classic": ("gauss_analytic",),
    "hoeffding": ("chernoff_kl",),
    "kl_inverse_upper": ("kl_inverse_lower",),
    "maurer": ("mcallester03", "pbb_quad", "seeger", "seeger_exact", "thiemann_opt"),
    "pacoh_holder": ("pentina_lampert",),
    "pefll_b1": ("guan_lu_kl", "multitask_kl", "two_step_kl"),
    "pfedhn_M": ("pfedhn_eps",),
    "product": ("product_path", "wsr"),
    "wsr_wor": ("star_wor", "product_wor"),
}
LEGAL |= {name: dict(LEGAL[other]) for other, names in SAME.items() for name in names}
for dropped in ("client_rate", "sample_rate"):
    del LEGAL["pentina_lampert"][dropped]
del LEGAL["pfedhn_eps"]["epsilon"]
LEGAL["pfedhn_eps"]["n_samples"] = 1000

RISK = [-0.1, 1.5, NAN, INF, "low"]
PROBABILITY = [0, 1, -0.05, 2.0, NAN, "5%"]
DELTA = [*PROBABILITY, 1e-300]
COUNT = [0, -3, 2.5, NAN, INF, "ten"]
POSITIVE = [0, -1.0, NAN, INF, "one"]
NONNEGATIVE = [-1e-6, NAN, INF, "none"]
LOSSES = [[], 0.3, [0.1, 1.2], [0.1, -0.1], [0.1, NAN], ["a", "b"]]
SIZES = [[], [20, 0], [20, 2.5], [20, -1], [20, NAN], ["a", "b"]]
NATS = [[], [1.0, -1.0], [1.0, NAN], ["a", "b"]]
TABLE = [[-1, 2], [0.5, NAN], ["a", "b"], 3]
RATIO = [1, 0.5, NAN, "two"]
FLAG = ["loud", 3, None]
# What is illegal follows from the name of an argument, which means the same in every calculator.
ILLEGAL: dict[str, list[Any]] = {
    **dict.fromkeys(
        ["empirical_risk", "monte_carlo_risk", "mean_loss", "q", "p", "error", "source_risk"], RISK
    ),
    **dict.fromkeys(
        ["delta", "alpha", "delta_draws", "delta_samples", "delta_environment", "dp_delta"],
        DELTA,
    ),
    "delta_multitask": DELTA,
    "client_share": DELTA,
    **dict.fromkeys(
        [
            *("n", "n_samples", "n_clients", "n_draws", "n_bets", "n_orders", "n_sampled"),
            *("pool_size", "n_steps", "n_priors", "n_simultaneous", "n_source", "n_target"),
            *("cohort", "local_steps", "batch_size", "n_rounds", "dim", "descriptor_dim"),
            *("hypernetwork_dim",),
        ],
        COUNT,
    ),
    **dict.fromkeys(["n_errors", "n_exceeding", "head_dim", "seed"], COUNT[1:]),
    **dict.fromkeys(
        [
            *("loss_max", "threshold", "epsilon", "variance_q", "variance_p", "alpha_h", "alpha_v"),
            *("alpha_theta", "c", "rate", "client_rate", "sample_rate", "client_temperature"),
            *("sample_temperature", "sigma", "cover_radius", "radius", "loss_lipschitz"),
            *("sensitivity", "feature_bound", "head_lipschitz"),
        ],
        POSITIVE,
    ),
    **dict.fromkeys(
        [
            *("kl", "kl_hyper", "sum_kl", "mean_kl", "kl_prior_hyper", "budget"),
            *("squared_distance", "variance", "bits", "bits_shared", "eta_h_squared"),
            *("eta_v_squared", "mean_neg_log1m", "monte_carlo_neg_log1m", "log_capacity_clients"),
            *("log_capacity_samples", "divergence", "joint_error", "multitask_deviation"),
            *("ball_radius", "weight_lipschitz", "descriptor_lipschitz", "initial_gap"),
            *("loss_smoothness", "loss_gradient", "generator_gradient", "loss_noise"),
            *("generator_noise", "model_noise", "client_dissimilarity", "smoothing"),
            *("source_as_target", "target_as_source"),
        ],
        NONNEGATIVE,
    ),
    **dict.fromkeys(["losses", "empirical_risks"], LOSSES),
    "sizes": SIZES,
    **dict.fromkeys(["kls", "theta_squared", "bits_clients", "squared_distances"], NATS),
    **dict.fromkeys(["divergences", "joint_errors"], NATS),
    **dict.fromkeys(["novel_counts", "train_counts"], TABLE),
    "lam": [0, 2, -1, 2.5, NAN, "half"],
    **dict.fromkeys(["c1", "c2"], RATIO),
    "grid": [[], [0.5, 0.0], [0.5, -1.0], [0.5, NAN], "fine"],
    "bets": [[], 0.5, [0.5, 0.0], [0.5, 1.5], [0.5, NAN], "bold"],
    "dimension": [-1, NAN, INF, "big"],
    "harmonic_size": [0, -1, NAN, INF, "even"],
    **dict.fromkeys(["coefficient", "multiplier", "smoothness"], NONNEGATIVE),
    **dict.fromkeys(["variant", "kind", "adjacency"], FLAG),
    **dict.fromkeys(["gamma", "target"], PROBABILITY),
    "thresholds": [[], [0.1, 1.0], [0.1, NAN], ["a", "b"], 0.3],
    "points": [[], [0.0, 1.0], [1.0, NAN], ["a", "b"], 0.3],
    "log_sum": NONNEGATIVE,
    "log_sums": [[], [1.0, 2.0], [-1.0] * 5, [NAN] * 5, [900.0] * 5, "told", 3.0],
    "temperatures": [[], [0.0, 1.0], [1.0, -1.0], [1.0, NAN], [1.0, 800.0], "fine"],
    "share": [0, 1.5, -0.1, NAN, "half"],
    "rule": ["product", 3],
    "other": [[], [0.1, 1.2], [0.1, NAN], [-0.1, 0.5], "low", 0.5],
    "weights": [[], [0.5, 0.6], [-0.1, 1.1], [NAN, 1.0], "even", 0.5],
    "cap": [1.5, -0.1, NAN, "full"],
    "beta": [0, 1, -0.1, NAN, "half"],
    "orders": [[], [[0, 0]], [[0, 1.5]], [[1, 0], [0, 2]], [[0, 1, 2]], "all", 3],
    "scores": [[], [[]], [[0.1], [NAN]], [[0.1], []], "low", 3],
    "estimates": [[], [0.1, 0.2], [0.1, NAN, 0.2], "low", 0.3],
    "variances": [[], [0.1, 0.0, 0.2], [0.1, NAN, 0.2], [0.1, -1.0, 0.2], "low", 0.3],
    "ball": FLAG,
    "two_sided": ["yes", 1, None],
    "in_order": ["yes", 1, None],
    "solutions": [[1.0, 2.0], [[NAN, 1.0], [0.0, 1.0]], "table"],
}
# Two names mean something else in a few places: a variance, and an epsilon that may be 0.
EXCEPTIONS: dict[tuple[str, str], list[Any]] = {
    ("ball_mixture", "bets"): ["product", 3],
    **{
        (name, "rule"): ["wsr", 3]
        for name in ("mean_difference", "confident_threshold", "covered_threshold")
    },
    ("gauss_kl_equal", "alpha"): POSITIVE,
    ("personal_prior_kl", "alpha"): POSITIVE,
    ("personal_prior_pooled", "alpha"): POSITIVE,
    ("tv_ball", "radius"): [1.5, *NONNEGATIVE],
    **dict.fromkeys(
        [(name, "radius") for name in ("kl_ball", "chi2_ball", "ball_mixture", "dkw_ball")],
        NONNEGATIVE,
    ),
    ("gauss_delta", "epsilon"): NONNEGATIVE,
    ("gauss_analytic", "epsilon"): NONNEGATIVE,
}
# An argument that may be given beside the legal call's own, to be tried as well.
OPTIONAL = [
    *("loss_max", "variant", "kind", "ball", "rule", "bets", "adjacency", "two_sided"),
    *("coefficient", "multiplier", "client_share", "n_priors", "n_simultaneous", "head_dim"),
    *("weights", "cap", "c1", "c2"),
]


def accepted(name: str) -> tuple[str, ...]:
    return tuple(inspect.signature(CATALOGUE[name].function).parameters)


def one_argument_calls() -> list[tuple[str, str, Any]]:
    calls = []
    for name, legal in sorted(LEGAL.items()):
        optional = [key for key in OPTIONAL if key in accepted(name) and key not in legal]
        for key in [*legal, *optional]:
            bad = EXCEPTIONS.get((name, key), ILLEGAL[key])
            calls += [(name, key, value) for value in bad]
    return calls


CALLS = one_argument_calls()
# Arguments that contradict each other: calculator, changes, what the message must hold.
CONFLICTS: list[tuple[str, dict[str, Any], str]] = [
    ("clopper_pearson", {"n_errors": 21}, "n_errors=21"),
    ("pool_fraction", {"n_exceeding": 6}, "n_exceeding=6"),
    ("pool_fraction", {"n_sampled": 11}, "n_sampled=11"),
    ("wsr_wor", {"pool_size": 1}, "pool_size=1"),
    ("drift_evidence", {"threshold": 1.0}, "threshold=1"),
    ("product_wor", {"pool_size": 1}, "pool_size=1"),
    ("product_wor", {"losses": [0.1, 1.2]}, "losses[1]=1.2"),
    ("betting_wor", {"pool_size": [10, 1]}, "pool_size[1]=1"),
    ("product_wor_averaged", {"pool_size": 1}, "pool_size=1"),
    ("pool_band", {"n_sampled": 11}, "n_sampled=11"),
    ("pool_band", {"pool_size": 1e12}, "at most 100000, got pool_size=1000000000000"),
    ("local_level_band", {"n_clients": 1e12}, "at most 10000000, got n_clients=1000000000000"),
    ("betting_mixture", {"n_bets": 1e12}, "at most 100000, got n_bets=1000000000000"),
    ("product_mixture", {"n_bets": 1e12}, "at most 100000, got n_bets=1000000000000"),
    ("betting_mixture_path", {"n_bets": 1e12}, "at most 100000, got n_bets=1000000000000"),
    ("betting_wor", {"n_bets": 1e12}, "at most 100000, got n_bets=1000000000000"),
    ("blend", {"n_orders": 1e12}, "at most 100000, got n_orders=1000000000000"),
    ("pfedhn_M", {"n_clients": 4e18, "descriptor_dim": 4e18}, "n_clients (descriptor_dim +"),
    ("reference_price_pool", {"n_clients": 11}, "n_clients=11"),
    ("reference_price", {"mean_loss": 1.5, "loss_max": 1.2}, "mean_loss=1.5"),
    ("emp_bernstein", {"n_samples": 1}, "n_samples=1"),
    ("emp_bernstein", {"variance": 0.3}, "variance=0.3"),
    ("tolstikhin_seldin", {"n_samples": 1}, "n_samples=1"),
    ("tolstikhin_seldin", {"variance": 0.3}, "variance=0.3"),
    ("mcallester03", {"n_samples": 1}, "n_samples=1"),
    ("dkw_band", {"delta": 0.6}, "delta=0.6"),
    ("dkw_ball", {"delta": 0.6}, "delta=0.6"),
    ("product_from_sum", {"log_sum": 61.0}, "log_sum=61"),
    ("mc_then_kl", {"delta": 0.6, "delta_draws": 0.5}, "delta + delta_draws=1.1"),
    ("single_level_kl_mc", {"delta": 0.6, "delta_draws": 0.5}, "delta + delta_draws=1.1"),
    ("single_level_product_mc", {"monte_carlo_neg_log1m": 3.5}, "monte_carlo_neg_log1m=3.5"),
    ("hoeffding", {"empirical_risk": 1.5, "loss_max": 1.2}, "empirical_risk=1.5"),
    ("product", {"losses": [0.5, 2.5], "loss_max": 2.0}, "losses[1]=2.5"),
    ("pefll_b1", {"n_clients": 1, "variant": "subgauss"}, "n_clients=1"),
    ("rezazadeh_code", {"n_clients": 1}, "n_clients=1"),
    ("rezazadeh_code", {"n_samples": 1}, "n_samples=1"),
    ("amit_meir", {"sizes": [1, 30]}, "sizes[0]=1"),
    ("amit_meir", {"kls": [1.0, 2.0, 3.0]}, "kls"),
    ("amit_meir", {"kls": [1.0], "sizes": [20]}, "(1,)"),
    ("catoni_unequal", {"sizes": [20, 30, 40]}, "sizes"),
    ("odpfl", {"joint_errors": [0.1]}, "joint_errors"),
    ("divergence", {"train_counts": [1, 2, 3]}, "train_counts"),
    ("nearest", {"train_counts": [[1, 2, 3]]}, "train_counts"),
    ("nearest", {"train_counts": [1, 2]}, "train_counts"),
    ("divergence", {"novel_counts": [0, 0], "smoothing": 0}, "novel_counts"),
    ("hdiv_from_counts", {"source_as_target": 11}, "source_as_target=11"),
    ("linear_optimum", {"dimension": 3}, "dimension=3"),
    (
        "pfedhn_M",
        {"weight_lipschitz": 0.0, "descriptor_lipschitz": 0.0},
        "weight_lipschitz + descriptor_lipschitz=0",
    ),
    ("gauss_classic", {"epsilon": 1.0}, "epsilon=1"),
    ("proxy_a", {"error": [0.1, 1.1]}, "error[1]=1.1"),
    ("ben_david", {"divergence": 2.1}, "divergence=2.1"),
    ("tv_ball", {"thresholds": [-0.1, 0.2]}, "thresholds[0]=-0.1"),
    ("ball_mixture", {"ball": "tv", "radius": 1.1}, "radius=1.1"),
    ("ball_mixture", {"ball": "tv"}, "points[1]=1"),
    ("ball_mixture", {"ball": "subgroup", "radius": 0.0, "points": [0.0]}, "radius=0"),
    ("ball_mixture", {"bets": product_wor_bets(1)}, "pool_size=1"),
    ("star_wor", {"pool_size": 1}, "pool_size=1"),
    ("blend", {"pool_size": 1}, "pool_size=1"),
    ("blend", {"orders": [[0, 1]]}, "n_orders, seed and in_order"),
    ("blend", {"orders": [[0, 0]], "n_orders": None, "seed": None}, "orders[0]"),
    ("blend", {"orders": [[1, 0, 2]], "n_orders": None, "seed": None}, "shape (1, 3)"),
    ("mean_difference", {"other": [0.1]}, "other has 1"),
    ("product_mixture", {"weights": [0.5, 0.5]}, "n_bets=4"),
    ("equal_local_level", {"n_clients": 2001}, "n_clients=2001"),
    ("local_level_band", {"n_clients": 2001, "delta": 0.6}, "delta=0.6"),
    ("local_level_band", {"n_clients": [20, 30]}, "(2,)"),
    ("client_threshold", {"scores": [[0.1], []]}, "scores[1]"),
    ("client_threshold", {"alpha": [0.1, 0.2]}, "(2,)"),
    ("covered_threshold", {"pool_size": 1}, "pool_size=1"),
    ("hartung_knapp", {"estimates": [0.1, 0.2], "variances": [0.1, 0.2]}, "(2,)"),
    ("odpfl", {"divergences": [0.1, 2.1]}, "divergences[1]=2.1"),
]


def refusal(name: str, arguments: dict[str, Any]) -> str:
    with pytest.raises((ValueError, TypeError)) as caught:
        CATALOGUE[name].function(**arguments)
    message = str(caught.value)
    assert "\n" not in message
    return message


def shown(value: Any) -> str:
    """A pattern that the value, its offending entry or its shape matches in a message."""
    if isinstance(value, str):
        return re.escape(repr(value))
    if isinstance(value, list):
        return r"got .*(\[|shape|=|has 0)"
    if value is None:
        return "=None"
    # One number where a list is due is reported by its shape.
    return rf"={re.escape(f'{value:g}')}(,|$)|shape \(\)$"


@pytest.mark.parametrize(
    ("name", "key", "value"), CALLS, ids=[f"{name}-{key}-{value}" for name, key, value in CALLS]
)
def test_one_bad_argument(name: str, key: str, value: Any) -> None:
    message = refusal(name, LEGAL[name] | {key: value})
    assert re.search(rf"\b{key}\b", message), message
    assert "must" in message, message
    assert re.search(shown(value), message), message


STRANGE = [[], [[]], [[1], [1, 2]], np.zeros((2, 0)), np.zeros((2, 1, 1)), 10**400, 1e300, object()]
OWN = re.compile("^(?!only 0-dim|zero-size|setting an array|attempt to|object of type|len\\(\\))")


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_whatever_is_given_is_taken_or_refused_in_one_line(name: str) -> None:
    legal = LEGAL[name]
    with np.errstate(all="ignore"):
        for key in accepted(name):
            for value in STRANGE:
                try:
                    CATALOGUE[name].function(**legal | {key: value})
                except (TypeError, ValueError) as error:
                    said = str(error)
                else:
                    continue
                assert len(said.splitlines()) == 1, (key, value)
                assert OWN.search(said), (key, value)


def test_scales_at_the_ends_of_the_legal_range() -> None:
    bernstein = CATALOGUE["emp_bernstein"].function
    asked = {"n_samples": 200, "delta": 0.05}
    unit = float(bernstein(empirical_risk=0.1, variance=0.01, **asked))
    for top in (1e-100, 1e150):
        given = {"empirical_risk": 0.1 * top, "variance": 0.01 * top * top, "loss_max": top}
        assert float(bernstein(**given, **asked)) / top == pytest.approx(unit, rel=1e-12)
    largest = bernstein(empirical_risk=1e299, variance=1e308, loss_max=1e300, **asked)
    assert 1e299 < float(largest) < 1e300
    with np.errstate(over="ignore"):
        holder = CATALOGUE["pacoh_holder"].function(**LEGAL["pacoh_holder"] | {"loss_max": 1e300})
    assert math.isinf(float(holder))
    band = CATALOGUE["local_level_band"].function(n_clients=20, delta=1e-280)
    assert not np.isnan(band).any()
    assert CATALOGUE["blend"].function(losses=[0.1, 0.2], delta=[]).value.shape == (0,)
    with pytest.raises(ValueError, match=r"loss_max must lie in \[1e-300, 1e\+300\], got"):
        CATALOGUE["product"].function(losses=[0.1], delta=0.05, loss_max=1e301)


FAR: dict[str, dict[str, Any]] = {
    "baxter_thm4_m": {"epsilon": 5e-324},
    "gauss_kl_equal": {"alpha": 5e-324},
    "pefll_31_minT": {"smoothness": 1e-300},
    "vc_dev": {"multiplier": 1e308},
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", sorted(FAR))
def test_beyond_all_floats_a_value_is_infinite_and_no_warning(name: str) -> None:
    assert math.isinf(float(CATALOGUE[name].function(**LEGAL[name] | FAR[name])))


def test_what_is_no_number_among_floats_is_refused_with_what_was_given() -> None:
    with pytest.raises(ValueError, match=r"catoni_unequal has no value among floats.*rate=4\.9"):
        CATALOGUE["catoni_unequal"].function(**LEGAL["catoni_unequal"] | {"rate": 5e-324})


def test_a_negative_zero_is_zero() -> None:
    assert math.isinf(float(CATALOGUE["kl"].function(q=0.5, p=-0.0)))


@pytest.mark.parametrize(("name", "changes", "expected"), CONFLICTS)
def test_contradicting_arguments(name: str, changes: dict[str, Any], expected: str) -> None:
    message = refusal(name, LEGAL[name] | changes)
    assert expected in message
    assert "must" in message


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ["maurer", "mcallester03", "seeger_exact", "rezazadeh_code"])
def test_the_least_delta_leaves_room_for_counts(name: str) -> None:
    many = {key: 2**60 for key in ("n_samples", "n_clients") if key in LEGAL[name]}
    assert float(CATALOGUE[name].function(**LEGAL[name] | {"delta": 1e-280} | many)) < 0.2


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_legal_call_of_every_calculator(name: str) -> None:
    CATALOGUE[name].function(**LEGAL[name])


def test_the_table_is_large_and_covers_the_catalogue() -> None:
    assert len(CALLS) + len(CONFLICTS) >= 200
    assert set(LEGAL) == set(CATALOGUE)
    assert {name for name, _, _ in CALLS} == set(CATALOGUE)
