"""Bounds as pure calculators: numpy and scipy only, float64, one theorem a function.

``CATALOGUE`` maps the name of each calculator to its facts (claim, source, population,
assumptions); every public name of the package is imported on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if __name__ != "latecomer.bounds":
    raise ImportError("import latecomer.bounds, not the folder bounds")

if TYPE_CHECKING:
    from collections.abc import Mapping

    from latecomer.bounds.adaptation import ben_david as ben_david
    from latecomer.bounds.adaptation import hdiv_from_counts as hdiv_from_counts
    from latecomer.bounds.adaptation import odpfl as odpfl
    from latecomer.bounds.adaptation import proxy_a as proxy_a
    from latecomer.bounds.adaptation import vc_dev as vc_dev
    from latecomer.bounds.baxter import baxter_thm4_m as baxter_thm4_m
    from latecomer.bounds.baxter import log_cover_ball as log_cover_ball
    from latecomer.bounds.baxter import pfedhn_eps as pfedhn_eps
    from latecomer.bounds.baxter import pfedhn_M as pfedhn_M
    from latecomer.bounds.baxter_unseen import baxter_eps_const as baxter_eps_const
    from latecomer.bounds.baxter_unseen import baxter_thm2_eps as baxter_thm2_eps
    from latecomer.bounds.baxter_unseen import baxter_thm2_m as baxter_thm2_m
    from latecomer.bounds.baxter_unseen import baxter_thm2_n as baxter_thm2_n
    from latecomer.bounds.betting import betting_mixture as betting_mixture
    from latecomer.bounds.betting import wsr as wsr
    from latecomer.bounds.betting import wsr_wor as wsr_wor
    from latecomer.bounds.betting_orders import wsr_averaged as wsr_averaged
    from latecomer.bounds.binary_kl import gauss_kl_equal as gauss_kl_equal
    from latecomer.bounds.binary_kl import gauss_kl_iso as gauss_kl_iso
    from latecomer.bounds.binary_kl import kl as kl
    from latecomer.bounds.binary_kl import kl_inverse_lower as kl_inverse_lower
    from latecomer.bounds.binary_kl import kl_inverse_upper as kl_inverse_upper
    from latecomer.bounds.binary_kl import xi as xi
    from latecomer.bounds.certificate import Certificate as Certificate
    from latecomer.bounds.certificate import Entry as Entry
    from latecomer.bounds.client_shift import Nearest as Nearest
    from latecomer.bounds.client_shift import divergence as divergence
    from latecomer.bounds.client_shift import nearest as nearest
    from latecomer.bounds.convergence import pefll_31 as pefll_31
    from latecomer.bounds.convergence import pefll_31_minT as pefll_31_minT
    from latecomer.bounds.counting import clopper_pearson as clopper_pearson
    from latecomer.bounds.counting import conformal as conformal
    from latecomer.bounds.counting import dkw_band as dkw_band
    from latecomer.bounds.counting import pool_fraction as pool_fraction
    from latecomer.bounds.description_length import aid_fast as aid_fast
    from latecomer.bounds.description_length import aid_occam as aid_occam
    from latecomer.bounds.description_length import occam_client as occam_client
    from latecomer.bounds.description_length import occam_product as occam_product
    from latecomer.bounds.holdout import chernoff_kl as chernoff_kl
    from latecomer.bounds.holdout import emp_bernstein as emp_bernstein
    from latecomer.bounds.holdout import hoeffding as hoeffding
    from latecomer.bounds.holdout import product as product
    from latecomer.bounds.learned_priors import guan_lu_catoni as guan_lu_catoni
    from latecomer.bounds.learned_priors import guan_lu_kl as guan_lu_kl
    from latecomer.bounds.learned_priors import zakerinia24 as zakerinia24
    from latecomer.bounds.linear import LinearOptimum as LinearOptimum
    from latecomer.bounds.linear import linear_optimum as linear_optimum
    from latecomer.bounds.meta import pefll_32 as pefll_32
    from latecomer.bounds.meta import pefll_b1 as pefll_b1
    from latecomer.bounds.meta_classic import amit_meir as amit_meir
    from latecomer.bounds.meta_classic import pacoh_holder as pacoh_holder
    from latecomer.bounds.meta_classic import pentina_lampert as pentina_lampert
    from latecomer.bounds.meta_classic import rezazadeh_code as rezazadeh_code
    from latecomer.bounds.meta_kl import multitask_kl as multitask_kl
    from latecomer.bounds.meta_kl import two_step_fixed as two_step_fixed
    from latecomer.bounds.meta_kl import two_step_kl as two_step_kl
    from latecomer.bounds.pac_bayes import maurer as maurer
    from latecomer.bounds.pac_bayes import mcallester03 as mcallester03
    from latecomer.bounds.pac_bayes import seeger as seeger
    from latecomer.bounds.pac_bayes import seeger_exact as seeger_exact
    from latecomer.bounds.pac_bayes_estimates import mc_then_kl as mc_then_kl
    from latecomer.bounds.pac_bayes_estimates import tolstikhin_seldin as tolstikhin_seldin
    from latecomer.bounds.pac_bayes_tuned import catoni as catoni
    from latecomer.bounds.pac_bayes_tuned import catoni_grid as catoni_grid
    from latecomer.bounds.pac_bayes_tuned import pbb_quad as pbb_quad
    from latecomer.bounds.pac_bayes_tuned import thiemann as thiemann
    from latecomer.bounds.pac_bayes_tuned import thiemann_opt as thiemann_opt
    from latecomer.bounds.personal_priors import personal_prior_kl as personal_prior_kl
    from latecomer.bounds.personal_priors import personal_prior_pooled as personal_prior_pooled
    from latecomer.bounds.pool_betting import betting_wor as betting_wor
    from latecomer.bounds.pool_betting import product_wor as product_wor
    from latecomer.bounds.pool_betting import product_wor_averaged as product_wor_averaged
    from latecomer.bounds.pool_curve import pool_band as pool_band
    from latecomer.bounds.price import reference_price as reference_price
    from latecomer.bounds.price import reference_price_pool as reference_price_pool
    from latecomer.bounds.privacy import dp_sensitivity as dp_sensitivity
    from latecomer.bounds.privacy import gauss_analytic as gauss_analytic
    from latecomer.bounds.privacy import gauss_classic as gauss_classic
    from latecomer.bounds.privacy import gauss_delta as gauss_delta
    from latecomer.bounds.unequal_sizes import catoni_unequal as catoni_unequal
    from latecomer.bounds.unequal_sizes import pefll_b1_unequal as pefll_b1_unequal
    from latecomer.bounds.unequal_sizes import two_step_kl_unequal as two_step_kl_unequal
    from latecomer.bounds.unseen import progressive as progressive
    from latecomer.bounds.unseen import single_level_kl as single_level_kl
    from latecomer.bounds.unseen import single_level_product as single_level_product
    from latecomer.bounds.unseen_draws import single_level_kl_mc as single_level_kl_mc
    from latecomer.bounds.unseen_draws import single_level_product_mc as single_level_product_mc

    CATALOGUE: Mapping[str, Entry]

_MODULES: dict[str, tuple[str, ...]] = {
    "certificate": ("Certificate", "Entry"),
    "binary_kl": (
        "gauss_kl_equal",
        "gauss_kl_iso",
        "kl",
        "kl_inverse_lower",
        "kl_inverse_upper",
        "xi",
    ),
    "holdout": ("chernoff_kl", "emp_bernstein", "hoeffding", "product"),
    "counting": ("clopper_pearson", "conformal", "dkw_band", "pool_fraction"),
    "pool_curve": ("pool_band",),
    "price": ("reference_price", "reference_price_pool"),
    "betting": ("betting_mixture", "wsr", "wsr_wor"),
    "betting_orders": ("wsr_averaged",),
    "pool_betting": ("betting_wor", "product_wor", "product_wor_averaged"),
    "pac_bayes": ("maurer", "mcallester03", "seeger", "seeger_exact"),
    "pac_bayes_tuned": ("catoni", "catoni_grid", "pbb_quad", "thiemann", "thiemann_opt"),
    "pac_bayes_estimates": ("mc_then_kl", "tolstikhin_seldin"),
    "adaptation": ("ben_david", "hdiv_from_counts", "odpfl", "proxy_a", "vc_dev"),
    "baxter": ("baxter_thm4_m", "log_cover_ball", "pfedhn_M", "pfedhn_eps"),
    "client_shift": ("Nearest", "divergence", "nearest"),
    "convergence": ("pefll_31", "pefll_31_minT"),
    "description_length": ("aid_fast", "aid_occam", "occam_client", "occam_product"),
    "linear": ("LinearOptimum", "linear_optimum"),
    "meta": ("pefll_32", "pefll_b1"),
    "meta_classic": ("amit_meir", "pacoh_holder", "pentina_lampert", "rezazadeh_code"),
    "meta_kl": ("multitask_kl", "two_step_fixed", "two_step_kl"),
    "personal_priors": ("personal_prior_kl", "personal_prior_pooled"),
    "privacy": ("dp_sensitivity", "gauss_analytic", "gauss_classic", "gauss_delta"),
    "unseen": ("progressive", "single_level_kl", "single_level_product"),
    "unseen_draws": ("single_level_kl_mc", "single_level_product_mc"),
    "learned_priors": ("guan_lu_catoni", "guan_lu_kl", "zakerinia24"),
    "unequal_sizes": ("catoni_unequal", "pefll_b1_unequal", "two_step_kl_unequal"),
    "baxter_unseen": ("baxter_eps_const", "baxter_thm2_eps", "baxter_thm2_m", "baxter_thm2_n"),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}

__all__ = ["CATALOGUE", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name == "CATALOGUE":
        for module in _MODULES:
            import_module(f"latecomer.bounds.{module}")
        return import_module("latecomer.bounds.certificate").CATALOGUE
    if name in _HOME:
        return getattr(import_module(f"latecomer.bounds.{_HOME[name]}"), name)
    raise AttributeError(f"module 'latecomer.bounds' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
