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

    from latecomer.bounds.binary_kl import gauss_kl_equal as gauss_kl_equal
    from latecomer.bounds.binary_kl import gauss_kl_iso as gauss_kl_iso
    from latecomer.bounds.binary_kl import kl as kl
    from latecomer.bounds.binary_kl import kl_inverse_lower as kl_inverse_lower
    from latecomer.bounds.binary_kl import kl_inverse_upper as kl_inverse_upper
    from latecomer.bounds.binary_kl import xi as xi
    from latecomer.bounds.certificate import Certificate as Certificate
    from latecomer.bounds.certificate import Entry as Entry
    from latecomer.bounds.convergence import pefll_31 as pefll_31
    from latecomer.bounds.convergence import pefll_31_minT as pefll_31_minT
    from latecomer.bounds.held_out.betting import betting_mixture as betting_mixture
    from latecomer.bounds.held_out.betting import wsr as wsr
    from latecomer.bounds.held_out.betting import wsr_wor as wsr_wor
    from latecomer.bounds.held_out.betting_orders import wsr_averaged as wsr_averaged
    from latecomer.bounds.held_out.counting import clopper_pearson as clopper_pearson
    from latecomer.bounds.held_out.counting import conformal as conformal
    from latecomer.bounds.held_out.counting import dkw_band as dkw_band
    from latecomer.bounds.held_out.counting import pool_fraction as pool_fraction
    from latecomer.bounds.held_out.losses import chernoff_kl as chernoff_kl
    from latecomer.bounds.held_out.losses import emp_bernstein as emp_bernstein
    from latecomer.bounds.held_out.losses import hoeffding as hoeffding
    from latecomer.bounds.held_out.losses import product as product
    from latecomer.bounds.held_out.pool_betting import betting_wor as betting_wor
    from latecomer.bounds.held_out.pool_betting import product_wor as product_wor
    from latecomer.bounds.held_out.pool_betting import product_wor_averaged as product_wor_averaged
    from latecomer.bounds.held_out.pool_curve import pool_band as pool_band
    from latecomer.bounds.held_out.price import reference_price as reference_price
    from latecomer.bounds.held_out.price import reference_price_pool as reference_price_pool
    from latecomer.bounds.held_out.secure_sum import product_from_sum as product_from_sum
    from latecomer.bounds.linear import LinearOptimum as LinearOptimum
    from latecomer.bounds.linear import linear_optimum as linear_optimum
    from latecomer.bounds.meta_learning.earlier import amit_meir as amit_meir
    from latecomer.bounds.meta_learning.earlier import pacoh_holder as pacoh_holder
    from latecomer.bounds.meta_learning.earlier import pentina_lampert as pentina_lampert
    from latecomer.bounds.meta_learning.earlier import rezazadeh_code as rezazadeh_code
    from latecomer.bounds.meta_learning.kl_inverted import multitask_kl as multitask_kl
    from latecomer.bounds.meta_learning.kl_inverted import two_step_fixed as two_step_fixed
    from latecomer.bounds.meta_learning.kl_inverted import two_step_kl as two_step_kl
    from latecomer.bounds.meta_learning.learned_priors import guan_lu_catoni as guan_lu_catoni
    from latecomer.bounds.meta_learning.learned_priors import guan_lu_kl as guan_lu_kl
    from latecomer.bounds.meta_learning.learned_priors import zakerinia24 as zakerinia24
    from latecomer.bounds.meta_learning.pefll import pefll_32 as pefll_32
    from latecomer.bounds.meta_learning.pefll import pefll_b1 as pefll_b1
    from latecomer.bounds.meta_learning.unequal_sizes import catoni_unequal as catoni_unequal
    from latecomer.bounds.meta_learning.unequal_sizes import pefll_b1_unequal as pefll_b1_unequal
    from latecomer.bounds.meta_learning.unequal_sizes import (
        two_step_kl_unequal as two_step_kl_unequal,
    )
    from latecomer.bounds.one_data_set.pac_bayes import maurer as maurer
    from latecomer.bounds.one_data_set.pac_bayes import mcallester03 as mcallester03
    from latecomer.bounds.one_data_set.pac_bayes import seeger as seeger
    from latecomer.bounds.one_data_set.pac_bayes import seeger_exact as seeger_exact
    from latecomer.bounds.one_data_set.pac_bayes_estimates import mc_then_kl as mc_then_kl
    from latecomer.bounds.one_data_set.pac_bayes_estimates import (
        tolstikhin_seldin as tolstikhin_seldin,
    )
    from latecomer.bounds.one_data_set.pac_bayes_trade_off import catoni as catoni
    from latecomer.bounds.one_data_set.pac_bayes_trade_off import catoni_grid as catoni_grid
    from latecomer.bounds.one_data_set.pac_bayes_trade_off import pbb_quad as pbb_quad
    from latecomer.bounds.one_data_set.pac_bayes_trade_off import thiemann as thiemann
    from latecomer.bounds.one_data_set.pac_bayes_trade_off import thiemann_opt as thiemann_opt
    from latecomer.bounds.privacy import dp_sensitivity as dp_sensitivity
    from latecomer.bounds.privacy import gauss_analytic as gauss_analytic
    from latecomer.bounds.privacy import gauss_classic as gauss_classic
    from latecomer.bounds.privacy import gauss_delta as gauss_delta
    from latecomer.bounds.shift.adaptation import ben_david as ben_david
    from latecomer.bounds.shift.adaptation import hdiv_from_counts as hdiv_from_counts
    from latecomer.bounds.shift.adaptation import odpfl as odpfl
    from latecomer.bounds.shift.adaptation import proxy_a as proxy_a
    from latecomer.bounds.shift.adaptation import vc_dev as vc_dev
    from latecomer.bounds.shift.ball_mixture import ball_mixture as ball_mixture
    from latecomer.bounds.shift.ball_mixture import breaking_radius as breaking_radius
    from latecomer.bounds.shift.balls import chi2_ball as chi2_ball
    from latecomer.bounds.shift.balls import kl_ball as kl_ball
    from latecomer.bounds.shift.balls import subgroup as subgroup
    from latecomer.bounds.shift.balls import tv_ball as tv_ball
    from latecomer.bounds.shift.client_shift import Nearest as Nearest
    from latecomer.bounds.shift.client_shift import divergence as divergence
    from latecomer.bounds.shift.client_shift import nearest as nearest
    from latecomer.bounds.shift.dkw_ball import dkw_ball as dkw_ball
    from latecomer.bounds.uniform_convergence.seen_clients import baxter_thm4_m as baxter_thm4_m
    from latecomer.bounds.uniform_convergence.seen_clients import log_cover_ball as log_cover_ball
    from latecomer.bounds.uniform_convergence.seen_clients import pfedhn_eps as pfedhn_eps
    from latecomer.bounds.uniform_convergence.seen_clients import pfedhn_M as pfedhn_M
    from latecomer.bounds.uniform_convergence.unseen_clients import (
        baxter_eps_const as baxter_eps_const,
    )
    from latecomer.bounds.uniform_convergence.unseen_clients import (
        baxter_thm2_eps as baxter_thm2_eps,
    )
    from latecomer.bounds.uniform_convergence.unseen_clients import baxter_thm2_m as baxter_thm2_m
    from latecomer.bounds.uniform_convergence.unseen_clients import baxter_thm2_n as baxter_thm2_n
    from latecomer.bounds.unseen_clients.description_length import aid_fast as aid_fast
    from latecomer.bounds.unseen_clients.description_length import aid_occam as aid_occam
    from latecomer.bounds.unseen_clients.description_length import occam_client as occam_client
    from latecomer.bounds.unseen_clients.description_length import occam_product as occam_product
    from latecomer.bounds.unseen_clients.personal_priors import (
        personal_prior_kl as personal_prior_kl,
    )
    from latecomer.bounds.unseen_clients.personal_priors import (
        personal_prior_pooled as personal_prior_pooled,
    )
    from latecomer.bounds.unseen_clients.single_level import progressive as progressive
    from latecomer.bounds.unseen_clients.single_level import single_level_kl as single_level_kl
    from latecomer.bounds.unseen_clients.single_level import (
        single_level_product as single_level_product,
    )
    from latecomer.bounds.unseen_clients.single_level_drawn import (
        single_level_kl_mc as single_level_kl_mc,
    )
    from latecomer.bounds.unseen_clients.single_level_drawn import (
        single_level_product_mc as single_level_product_mc,
    )

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
    "held_out.losses": ("chernoff_kl", "emp_bernstein", "hoeffding", "product"),
    "held_out.counting": ("clopper_pearson", "conformal", "dkw_band", "pool_fraction"),
    "held_out.pool_curve": ("pool_band",),
    "held_out.secure_sum": ("product_from_sum",),
    "held_out.price": ("reference_price", "reference_price_pool"),
    "held_out.betting": ("betting_mixture", "wsr", "wsr_wor"),
    "held_out.betting_orders": ("wsr_averaged",),
    "held_out.pool_betting": ("betting_wor", "product_wor", "product_wor_averaged"),
    "one_data_set.pac_bayes": ("maurer", "mcallester03", "seeger", "seeger_exact"),
    "one_data_set.pac_bayes_trade_off": (
        "catoni",
        "catoni_grid",
        "pbb_quad",
        "thiemann",
        "thiemann_opt",
    ),
    "one_data_set.pac_bayes_estimates": ("mc_then_kl", "tolstikhin_seldin"),
    "shift.adaptation": ("ben_david", "hdiv_from_counts", "odpfl", "proxy_a", "vc_dev"),
    "uniform_convergence.seen_clients": (
        "baxter_thm4_m",
        "log_cover_ball",
        "pfedhn_M",
        "pfedhn_eps",
    ),
    "shift.balls": ("chi2_ball", "kl_ball", "subgroup", "tv_ball"),
    "shift.ball_mixture": ("ball_mixture", "breaking_radius"),
    "shift.dkw_ball": ("dkw_ball",),
    "shift.client_shift": ("Nearest", "divergence", "nearest"),
    "convergence": ("pefll_31", "pefll_31_minT"),
    "unseen_clients.description_length": ("aid_fast", "aid_occam", "occam_client", "occam_product"),
    "linear": ("LinearOptimum", "linear_optimum"),
    "meta_learning.pefll": ("pefll_32", "pefll_b1"),
    "meta_learning.earlier": ("amit_meir", "pacoh_holder", "pentina_lampert", "rezazadeh_code"),
    "meta_learning.kl_inverted": ("multitask_kl", "two_step_fixed", "two_step_kl"),
    "unseen_clients.personal_priors": ("personal_prior_kl", "personal_prior_pooled"),
    "privacy": ("dp_sensitivity", "gauss_analytic", "gauss_classic", "gauss_delta"),
    "unseen_clients.single_level": ("progressive", "single_level_kl", "single_level_product"),
    "unseen_clients.single_level_drawn": ("single_level_kl_mc", "single_level_product_mc"),
    "meta_learning.learned_priors": ("guan_lu_catoni", "guan_lu_kl", "zakerinia24"),
    "meta_learning.unequal_sizes": ("catoni_unequal", "pefll_b1_unequal", "two_step_kl_unequal"),
    "uniform_convergence.unseen_clients": (
        "baxter_eps_const",
        "baxter_thm2_eps",
        "baxter_thm2_m",
        "baxter_thm2_n",
    ),
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
