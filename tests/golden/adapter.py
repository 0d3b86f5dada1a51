"""Names of the golden vectors mapped to the public calculators.

``evaluate(function, inputs)`` returns the raw, unclipped value; bad input raises ``ValueError``.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from latecomer import bounds
from latecomer.bounds.certificate import Certificate


@dataclass(frozen=True)
class Route:
    """What a vector's function is called, and its inputs.

    ``lengths`` names inputs that only say how long a list must be; ``constants`` fills arguments
    the vectors leave out because the value does not depend on them; ``without`` names inputs on
    which it should not depend and that the calculator does not take.
    """

    function: str
    names: dict[str, str]
    lengths: dict[str, str] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    without: tuple[str, ...] = ()


class Missing(LookupError):
    """No calculator is known for this function."""


_COMMON = {"r": "empirical_risk", "M": "loss_max"}
_ONE = _COMMON | {"n": "n_samples", "var": "variance", "C": "c", "K": "n_draws"}
_HOLD = _COMMON | {"m": "n_samples", "k": "n_errors", "var": "variance"}
_SCORES = {"pool": "pool_size", "J": "n_bets", "M": "loss_max"}
_META = _COMMON | {
    "n": "n_clients",
    "m": "n_samples",
    "ms": "sizes",
    "mh": "harmonic_size",
    "kl": "kl_hyper",
    "split": "client_share",
}
_CAPACITY = {
    "logC_star": "log_capacity_clients",
    "logC_n": "log_capacity_samples",
    "eps": "epsilon",
    "n": "n_clients",
    "m": "n_samples",
    "M": "loss_max",
}
_PFEDHN = {
    "eps": "epsilon",
    "n": "n_clients",
    "m": "n_samples",
    "k": "descriptor_dim",
    "N": "hypernetwork_dim",
    "q": "head_dim",
    "R": "radius",
    "L": "loss_lipschitz",
    "Lh": "weight_lipschitz",
    "LV": "descriptor_lipschitz",
    "M": "loss_max",
}
_AID = _COMMON | {"m": "n_samples", "bits_tasks": "bits_clients"}
_OPTIMISATION = {
    "dF": "initial_gap",
    "L": "smoothness",
    "L1": "loss_smoothness",
    "b1": "loss_gradient",
    "b2": "generator_gradient",
    "s1": "loss_noise",
    "s2": "generator_noise",
    "s3": "model_noise",
    "gG": "client_dissimilarity",
    "c": "cohort",
    "k": "local_steps",
    "b": "batch_size",
    "T": "n_rounds",
}
_PRIVACY = {"eps": "epsilon", "delta": "dp_delta", "sens": "sensitivity"}
_VC = {"d": "dimension", "m": "n_samples", "coef": "coefficient", "mult": "multiplier"}
_COUNTS = {"counts_p": "novel_counts", "counts_q": "train_counts", "alpha": "smoothing"}


def _same(names: dict[str, str], *functions: str) -> dict[str, Route]:
    return {function: Route(function, names) for function in functions}


ROUTES: dict[str, Route] = {
    "klb": Route("kl", {}),
    "klinv_up": Route("kl_inverse_upper", {"c": "budget"}),
    "klinv_lo": Route("kl_inverse_lower", {"c": "budget"}),
    "xi": Route("xi", {}),
    "gauss_kl_equal": Route("gauss_kl_equal", {"sqdist": "squared_distance"}),
    "gauss_kl_iso": Route(
        "gauss_kl_iso", {"sqdist": "squared_distance", "var_q": "variance_q", "var_p": "variance_p"}
    ),
    **_same(_HOLD, "hoeffding", "chernoff_kl", "clopper_pearson", "emp_bernstein"),
    **_same(_SCORES, "product", "wsr", "wsr_wor", "betting_mixture", "conformal"),
    "pool_fraction": Route(
        "pool_fraction", {"x": "n_exceeding", "m": "n_sampled", "pool": "pool_size"}
    ),
    "dkw_band": Route("dkw_band", {"k": "n_clients", "n": "n_clients"}),
    **_same(_ONE, "maurer", "mcallester03", "seeger", "seeger_exact"),
    "tolstikhin_seldin": Route("tolstikhin_seldin", _ONE),
    "mc_then_kl": Route(
        "mc_then_kl", _ONE | {"r_mc": "monte_carlo_risk", "delta_mc": "delta_draws"}
    ),
    **_same(_ONE, "catoni", "catoni_grid", "thiemann"),
    **_same(_ONE, "thiemann_opt", "pbb_quad"),
    "pefll_b1": Route("pefll_b1", _META),
    "zakerinia24": Route("zakerinia24", _META),
    "guan_lu_kl": Route("guan_lu_kl", _META),
    **_same(_META, "pefll_b1_unequal", "two_step_kl_unequal"),
    "pefll_32": Route(
        "pefll_32",
        _META
        | {"eta_h_sq": "eta_h_squared", "eta_v_sq": "eta_v_squared", "theta_sqs": "theta_squared"},
        lengths={"n": "theta_sqs"},
    ),
    **_same(_META, "two_step_kl", "multitask_kl"),
    "guan_lu_catoni": Route(
        "guan_lu_catoni", _META | {"C_env": "client_temperature", "C_task": "sample_temperature"}
    ),
    "catoni_unequal": Route(
        "catoni_unequal", _META | {"rs": "empirical_risks", "kls_sum": "sum_kl", "lam": "rate"}
    ),
    **_same(_META, "pentina_lampert", "amit_meir", "rezazadeh_code"),
    "pacoh_holder": Route("pacoh_holder", _META | {"lam": "client_rate", "beta": "sample_rate"}),
    **_same(_META, "single_level_kl", "single_level_product"),
    "occam_client": Route("occam_client", _META),
    "occam_product": Route("occam_product", _META),
    **_same(_SCORES, "product_wor", "betting_wor"),
    **_same(_SCORES, "product_mixture"),
    "mean_difference": Route("mean_difference", {"M": "loss_max"}),
    **_same({"pool": "pool_size"}, "star", "star_wor"),
    "blend": Route("blend", {"pool": "pool_size"}),
    **_same({}, "client_threshold", "second_moment_threshold"),
    **_same(_SCORES, "product_path"),
    **_same(_SCORES, "drift_evidence"),
    "personal_prior_pooled2": Route(
        "personal_prior_pooled", _COMMON | {"sqdists": "squared_distances"}
    ),
    "aid_fast": Route("aid_fast", _AID, lengths={"n": "bits_tasks"}),
    "aid_occam": Route("aid_occam", _AID, lengths={"n": "bits_tasks"}),
    "progressive": Route("progressive", _COMMON | {"T": "n_steps"}),
    **_same(_CAPACITY, "baxter_thm2_n", "baxter_thm2_m", "baxter_eps_const"),
    "baxter_thm4_m": Route("baxter_thm4_m", _CAPACITY),
    "log_cover_ball": Route(
        "log_cover_ball", {"dim": "dimension", "R": "ball_radius", "radius": "cover_radius"}
    ),
    **_same(_PFEDHN, "pfedhn_M", "pfedhn_eps"),
    **_same({}, "tv_ball", "kl_ball", "chi2_ball", "subgroup"),
    "proxy_a": Route("proxy_a", {"err": "error"}),
    "hdiv_from_counts": Route(
        "hdiv_from_counts",
        {
            "src_as_tgt": "source_as_target",
            "n_src": "n_source",
            "tgt_as_src": "target_as_source",
            "n_tgt": "n_target",
        },
    ),
    "vc_dev": Route("vc_dev", _VC),
    "ben_david": Route(
        "ben_david", _VC | {"err_s": "source_risk", "dhat": "divergence", "lam": "joint_error"}
    ),
    "odpfl": Route(
        "odpfl",
        _VC
        | {
            "err_z": "empirical_risk",
            "eps_mtl": "multitask_deviation",
            "dhats": "divergences",
            "lambdas": "joint_errors",
            "delta_da": "delta_samples",
            "delta_env": "delta_environment",
            "delta_mtl": "delta_multitask",
        },
        constants={"delta_multitask": 0.01},
    ),
    **_same(_OPTIMISATION, "pefll_31"),
    "pefll_31_minT": Route("pefll_31_minT", _OPTIMISATION, without=("b2",)),
    "dp_sensitivity": Route(
        "dp_sensitivity", {"L": "head_lipschitz", "B": "feature_bound", "size": "n_samples"}
    ),
    **_same(_PRIVACY, "gauss_classic", "gauss_analytic", "gauss_delta"),
    "divergence": Route("divergence", _COUNTS),
    "nearest": Route(
        "nearest", {"novel": "novel_counts", "train": "train_counts", "alpha": "smoothing"}
    ),
}


def evaluate(function: str, inputs: dict[str, Any]) -> Any:
    """Return the raw value of a golden function.

    A list where it has one value after every client; for ``nearest`` the pair (index, divergence).
    """
    if function not in ROUTES:
        raise Missing(function)
    route = ROUTES[function]
    for length, listed in route.lengths.items():
        if length in inputs and inputs[length] != len(inputs[listed]):
            raise ValueError(f"{listed} must have {inputs[length]} entries")
    given = {
        route.names.get(name, name): value
        for name, value in inputs.items()
        if name not in route.lengths and name not in route.without
    }
    result = getattr(bounds, route.function)(**(route.constants | given))
    if isinstance(result, tuple):
        index, divergence = result
        return int(index), float(divergence)
    value = result.value if isinstance(result, Certificate) else result
    return np.asarray(value).tolist()
