"""Names of the golden vectors mapped to the public calculators.

``evaluate(function, inputs)`` returns the raw, unclipped value; bad input raises ``ValueError``.
"""

from inspect import signature
from typing import Any

import numpy as np

import latecomer.bounds as bounds
from latecomer.bounds.certificate import Certificate

CALLED = {
    **{"klb": "kl", "klinv_up": "kl_inverse_upper", "klinv_lo": "kl_inverse_lower"},
    "personal_prior_pooled2": "personal_prior_pooled",
}
"""Functions that go by another name there; all others have their own."""
NAMES: dict[str, tuple[str, ...]] = {
    # Errors and samples.
    "r": ("empirical_risk",), "rs": ("empirical_risks",), "r_mc": ("monte_carlo_risk",),
    "n": ("n_clients", "n_samples"), "m": ("n_samples", "n_sampled"), "size": ("n_samples",),
    "ms": ("sizes",), "mh": ("harmonic_size",), "pool": ("pool_size",), "x": ("n_exceeding",),
    "k": ("n_errors", "local_steps", "descriptor_dim"), "K": ("n_draws",), "M": ("loss_max",),
    "var": ("variance",), "var_q": ("variance_q",), "var_p": ("variance_p",),
    # Divergences, what they are divided by, failure probabilities.
    "kl": ("kl_hyper",), "kls_sum": ("sum_kl",), "bits_tasks": ("bits_clients",),
    "sqdist": ("squared_distance",), "sqdists": ("squared_distances",),
    "eta_h_sq": ("eta_h_squared",), "eta_v_sq": ("eta_v_squared",),
    "theta_sqs": ("theta_squared",), "split": ("client_share",), "beta": ("sample_rate",),
    "C": ("c",), "C_env": ("client_temperature",), "C_task": ("sample_temperature",),
    "lam": ("joint_error", "rate", "client_rate"), "c": ("budget", "cohort"),
    "delta": ("dp_delta",), "delta_mc": ("delta_draws",), "delta_da": ("delta_samples",),
    "delta_env": ("delta_environment",),
    # Capacities and constants of pFedHN's theorem.
    "logC_star": ("log_capacity_clients",), "logC_n": ("log_capacity_samples",),
    "eps": ("epsilon",), "d": ("dimension",), "dim": ("dimension",), "q": ("head_dim",),
    "N": ("hypernetwork_dim",), "R": ("ball_radius", "radius"), "radius": ("cover_radius",),
    "L": ("head_lipschitz", "smoothness", "loss_lipschitz"), "Lh": ("weight_lipschitz",),
    "LV": ("descriptor_lipschitz",), "coef": ("coefficient",), "mult": ("multiplier",),
    # Adaptation and distances of clients.
    "err": ("error",), "err_s": ("source_risk",), "err_z": ("empirical_risk",),
    "dhat": ("divergence",), "dhats": ("divergences",), "lambdas": ("joint_errors",),
    "eps_mtl": ("multitask_deviation",), "n_src": ("n_source",), "n_tgt": ("n_target",),
    "src_as_tgt": ("source_as_target",), "tgt_as_src": ("target_as_source",),
    "counts_p": ("novel_counts",), "counts_q": ("train_counts",), "novel": ("novel_counts",),
    "train": ("train_counts",), "alpha": ("smoothing",),
    # Training and privacy.
    "dF": ("initial_gap",), "L1": ("loss_smoothness",), "b1": ("loss_gradient",),
    "b2": ("generator_gradient",), "s1": ("loss_noise",), "s2": ("generator_noise",),
    "s3": ("model_noise",), "gG": ("client_dissimilarity",), "b": ("batch_size",),
    "T": ("n_rounds", "n_steps"), "B": ("feature_bound",), "sens": ("sensitivity",),
}  # fmt: skip
"""What inputs are called in calculators, the first of these that a calculator takes."""
LENGTHS = {"aid_fast": "bits_tasks", "aid_occam": "bits_tasks", "pefll_32": "theta_sqs"}
"""Functions whose ``n`` only says how long this list must be."""
CONSTANTS = {"odpfl": {"delta_multitask": 0.01}}
"""Arguments that the vectors leave out because the value does not depend on them."""
WITHOUT = {("pefll_31_minT", "b2")}
"""Inputs on which a value should not depend and that its calculator does not take."""


class Missing(LookupError):
    """No calculator is known for this function."""


def evaluate(function: str, inputs: dict[str, Any]) -> Any:
    """Return the raw value of a golden function.

    A list where it has one value after every client; for ``nearest`` the pair (index, divergence).
    """
    calculator = getattr(bounds, CALLED.get(function, function), None)
    if calculator is None:
        raise Missing(function)
    given, taken = dict(CONSTANTS.get(function, {})), signature(calculator).parameters
    for name, value in inputs.items():
        if name == "n" and (listed := LENGTHS.get(function)):
            if value != len(inputs[listed]):
                raise ValueError(f"{listed} must have {value} entries")
        elif (function, name) not in WITHOUT:
            names = (name, *NAMES.get(name, ()))
            given[next((one for one in names if one in taken), name)] = value
    result = calculator(**given)
    if isinstance(result, tuple):
        index, divergence = result
        return int(index), float(divergence)
    value = result.value if isinstance(result, Certificate) else result
    return np.asarray(value).tolist()
