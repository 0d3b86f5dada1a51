"""Where modules and names went: every old import path works, and warns with the new one.

A finder is asked before all others, so that no file left over from an older version answers.
Where the old name of a module is now that of a folder, the folder's ``__init__`` uses
``old_names``; so does a module that is where it was, but for some of its names.  Of a name that is
another one now, where it was, a module asks ``old_name``.
"""

import sys
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

__all__ = ["MOVED", "RENAMED", "install", "old_name", "old_names"]

# Names that are others now; the old ones go with the next version.
RENAMED: dict[str, str] = {
    "latecomer.certify": "latecomer.certify_losses",
    "latecomer.eval.certificates.from_predictor.certify": "latecomer.certify_predictor",
    "latecomer.eval.certify": "latecomer.certify_predictor",
}

# Old module: the new ones that hold its names, all below `latecomer`.
MOVED: dict[str, str] = {
    "bounds.adaptation": "bounds.shift.adaptation",
    "bounds.baxter": "bounds.uniform_convergence.seen_clients",
    "bounds.baxter_unseen": "bounds.uniform_convergence.unseen_clients",
    "bounds.betting": "bounds.held_out.betting",
    "bounds.betting_orders": "bounds.held_out.betting_orders",
    "bounds.client_shift": "bounds.shift.client_shift",
    "bounds.counting": "bounds.held_out.counting",
    "bounds.description_length": "bounds.unseen_clients.description_length",
    "bounds.holdout": "bounds.held_out.losses",
    "bounds.kl_solver": "bounds.entropy_solver",
    "bounds.learned_priors": "bounds.meta_learning.learned_priors",
    "bounds.meta": "bounds.meta_learning.pefll",
    "bounds.meta_classic": "bounds.meta_learning.earlier",
    "bounds.meta_inputs": "bounds.unit_scale",
    "bounds.meta_kl": "bounds.meta_learning.kl_inverted",
    "bounds.pac_bayes": "bounds.one_data_set.pac_bayes",
    "bounds.pac_bayes_estimates": "bounds.one_data_set.pac_bayes_estimates",
    "bounds.pac_bayes_tuned": "bounds.one_data_set.pac_bayes_trade_off",
    "bounds.personal_priors": "bounds.unseen_clients.personal_priors",
    "bounds.pool_betting": "bounds.held_out.pool_betting",
    "bounds.pool_curve": "bounds.held_out.pool_curve",
    "bounds.price": "bounds.held_out.price",
    "bounds.unequal_sizes": "bounds.meta_learning.unequal_sizes",
    "bounds.unseen": "bounds.unseen_clients.single_level",
    "bounds.unseen_draws": "bounds.unseen_clients.single_level_drawn",
    "durations": "tables",
    "reissued_table": "render",
    "eval.adoption": "eval.runs.adoption",
    "eval.any_model": "eval.certificates.from_predictor",
    "eval.arrivals": "eval.routes.arrivals",
    "eval.artifacts": "eval.results.artifacts",
    "eval.blindness": "eval.measures.blindness",
    "eval.cell_directory": "eval.jobs.cell_directory",
    "eval.cell_parts": "eval.training.setup",
    "eval.cells": "eval.studies.cells",
    "eval.certificate_rows": "eval.certificates.rows",
    "eval.certificate_settings": "eval.routes.entries",
    "eval.certification": "eval.certificates.held_out",
    "eval.checkpoint_files": "eval.jobs.checkpoint_files",
    "eval.checkpoints": "eval.training.checkpoint_slots",
    "eval.client_losses": "eval.certificates.from_losses",
    "eval.client_rows": "eval.splits.clients",
    "eval.client_targets": "eval.measures.target_sizes",
    "eval.compressed_cell": "eval.routes.r5_cell",
    "eval.constants": "eval.measures.bound_constants",
    "eval.convergence": "eval.measures.theorem31",
    "eval.convergence_rows": "eval.measures.theorem31_rows",
    "eval.cross_fitting": "eval.scoring.cross_fitting",
    "eval.dealing": "eval.splits.dealing",
    "eval.datasets.cifar": "eval.datasets.readers.cifar",
    "eval.datasets.digits": "eval.datasets.readers.digits",
    "eval.datasets.features": "eval.datasets.readers.features",
    "eval.datasets.femnist": "eval.datasets.readers.femnist",
    "eval.datasets.idx": "eval.datasets.readers.idx",
    "eval.datasets.npz": "eval.datasets.readers.npz",
    "eval.datasets.omniglot": "eval.datasets.readers.omniglot",
    "eval.datasets.stl10": "eval.datasets.readers.stl10",
    "eval.declaration": "eval.studies.declaration",
    "eval.descriptors": "eval.measures.descriptors",
    "eval.devices": "eval.devices eval.studies.device_choice",
    "eval.dirichlet": "eval.splits.dirichlet",
    "eval.divergences": "eval.federation.distances",
    "eval.domain_classifier": "eval.federation.domain_classifier",
    "eval.environment": "eval.splits.environment",
    "eval.executors.choosing": "eval.executors.registry",
    "eval.executors.elsewhere": "eval.executors.remote_worker",
    "eval.federation": "eval.federation.groups eval.settings.cell",
    "eval.filling": "eval.splits.pool eval.checks",
    "eval.held_out": "eval.routes.r0_held_out",
    "eval.joint_scoring": "eval.scoring.side_by_side",
    "eval.linear_denoising": "eval.protocol.denoising",
    "eval.lock_owner": "eval.jobs.lock_owner",
    "eval.locks": "eval.jobs.lock",
    "eval.loss_table": "eval.certificates.loss_table",
    "eval.measures": "eval.measures.registry",
    "eval.metrics": "eval.scoring.scores",
    "eval.mistakes": "eval.studies.mistakes eval.checks",
    "eval.newcomer_rates": "eval.training.newcomer_rates",
    "eval.own_shift": "eval.shifts.own_function",
    "eval.personal_cut": "eval.routes.r3_personal_cut",
    "eval.personal_priors": "eval.routes.r3_personal_priors",
    "eval.prefix_code": "eval.routes.r5_prefix_code",
    "eval.progress": "eval.jobs.progress",
    "eval.progressive": "eval.routes.r4_progressive eval.certificates.rules"
    " eval.certificates.inequalities.sequences",
    "eval.progressive_cell": "eval.routes.r4_cell",
    "eval.progressive_rows": "eval.routes.r4_rows",
    "eval.protocol": "eval.protocol.evaluate",
    "eval.provenance": "eval.runs.provenance",
    "eval.published": "eval.measures.published_bounds",
    "eval.redrawn": "eval.splits.further_clients",
    "eval.refill": "eval.shifts.other_data_set",
    "eval.reissue": "eval.runs.reissue",
    "eval.route_caveats": "eval.routes.caveats",
    "eval.route_contract": "eval.routes.contract",
    "eval.route_settings": "eval.settings.certificate",
    "eval.routes": "eval.routes.registry",
    "eval.rows": "eval.results.rows",
    "eval.rules": "eval.certificates.rules",
    "eval.run_directory": "eval.runs.run_directory",
    "eval.runner": "eval.runs.runner",
    "eval.scales": "eval.studies.scales",
    "eval.score_rows": "eval.scoring.rows",
    "eval.scores_from_rows": "eval.scoring.scores_from_rows",
    "eval.serving": "eval.scoring.serving",
    "eval.setting_types": "eval.schema",
    "eval.settings": "eval.studies.settings eval.settings.study_sections eval.schema",
    "eval.shifted": "eval.shifts.populations",
    "eval.shifts": "eval.shifts.transforms",
    "eval.split_facts": "eval.federation.diagnostics",
    "eval.split_kinds": "eval.splits.kinds",
    "eval.split_record": "eval.splits.split",
    "eval.split_settings": "eval.splits.settings",
    "eval.splits": "eval.splits.build",
    "eval.status": "eval.runs.status",
    "eval.steepness": "eval.measures.lipschitz",
    "eval.stopping": "eval.jobs.sigterm",
    "eval.study": "eval.studies.loading eval.studies.checking eval.studies.shipped",
    "eval.tails": "eval.certificates.tails",
    "eval.tally": "eval.runs.tally",
    "eval.trained_model": "eval.training.trained_model",
    "eval.training_curve": "eval.training.curve",
    "eval.training_routes": "eval.routes.training_entries",
    "eval.tuned_cell": "eval.routes.r1_cell",
    "eval.tuned_rows": "eval.routes.r1_rows",
    "eval.two_level": "eval.routes.r2_two_level",
    "eval.whole_cell": "eval.protocol.whole_cell",
    "eval.work": "eval.jobs.job",
    "models.averaged_weights": "models.families.averaged_weights",
    "models.bound_objectives": "models.posteriors.bound_objectives",
    "models.bound_training": "models.posteriors.bound_training",
    "models.checkpoint": "models.engine.checkpoint",
    "models.client_axis": "models.task.client_axis",
    "models.described_clients": "models.families.described_clients",
    "models.domain_distance": "models.families.domain_distance",
    "models.embedded_clients": "models.families.embedded_clients",
    "models.embedding_phases": "models.families.embedding_phases",
    "models.embedding_table": "models.families.embedding_table",
    "models.encoders": "models.generators.encoders",
    "models.engine": "models.engine.training",
    "models.fitted_embeddings": "models.families.fitted_embeddings",
    "models.generated_clients": "models.families.generated_clients",
    "models.generation": "models.generators.generation",
    "models.growing": "models.engine.growing",
    "models.heads": "models.task.heads",
    "models.hypernetworks": "models.generators.hypernetworks",
    "models.hyperparameters": "models.engine.hyperparameters",
    "models.local": "models.engine.local_steps",
    "models.matching": "models.families.matching",
    "models.method": "models.engine.method",
    "models.objectives": "models.task.objectives",
    "models.optimizers": "models.engine.optimizers",
    "models.phases": "models.engine.phases",
    "models.posterior": "models.posteriors.gaussian",
    "models.precision": "models.task.precision",
    "models.private_descriptors": "models.generators.private_descriptors",
    "models.schedule": "models.engine.schedule",
    "models.set_encoders": "models.generators.set_encoders",
    "models.shared_body": "models.families.shared_body",
    "models.state": "models.task.state",
    "models.target_sizes": "models.generators.target_sizes",
    "models.targets": "models.task.targets",
    "models.task": "models.task.task",
    "models.tuned_posterior": "models.posteriors.tuned",
    "models.unlabelled_encoders": "models.generators.unlabelled_encoders",
    "models.vectorised": "models.engine.vectorised",
    "reports.bound_figures": "reports.guarantees.beside_measured reports.guarantees.each_bound",
    "reports.bound_slack": "reports.guarantees.slack",
    "reports.captions": (
        "reports.page.answers reports.errors.accuracy reports.errors.distances "
        "reports.errors.shift reports.guarantees.beside_measured "
        "reports.guarantees.each_bound"
    ),
    "reports.cards": "reports.page.cards",
    "reports.certificate_parts": "reports.guarantees.parts",
    "reports.certified_shares": "reports.guarantees.shares",
    "reports.citations": "reports.page.citations",
    "reports.comparison": "reports.frames.comparison",
    "reports.comparison_figures": "reports.errors.comparison",
    "reports.comparison_tables": (
        "reports.errors.comparison reports.errors.other_data reports.errors.paper"
    ),
    "reports.convergence_figures": "reports.measures.convergence",
    "reports.correlation_figures": "reports.measures.correlation",
    "reports.denoising_figures": "reports.measures.denoising",
    "reports.descriptions": (
        "reports.errors.class_map reports.errors.comparison reports.errors.distances "
        "reports.errors.shift reports.errors.training reports.guarantees.distribution "
        "reports.display.drawing"
    ),
    "reports.descriptor_figures": "reports.measures.descriptors",
    "reports.display.drawing": (
        "reports.display.drawing reports.errors.accuracy reports.errors.distances"
    ),
    "reports.error_figures": "reports.guarantees.distribution",
    "reports.errors.comparison_tables": (
        "reports.errors.comparison reports.errors.other_data reports.errors.paper"
    ),
    "reports.errors.tables": (
        "reports.errors.accuracy reports.errors.distances reports.errors.shift "
        "reports.guarantees.each_bound"
    ),
    "reports.figures": "reports.errors.accuracy reports.errors.distances reports.display.drawing",
    "reports.frames": "reports.frames.errors",
    "reports.frames.effects": "reports.errors.other_data",
    "reports.guarantee_section": "reports.frames.artifacts",
    "reports.guarantees": "reports.frames.bounds",
    "reports.guarantees.figures": (
        "reports.guarantees.beside_measured reports.guarantees.each_bound"
    ),
    "reports.html": "reports.page.html reports.page.answers",
    "reports.measure_sections": "reports.frames.artifacts reports.measures.mix_and_match",
    "reports.measure_words": (
        "reports.measures.correlation reports.measures.descriptors "
        "reports.measures.mix_and_match reports.measures.serving"
    ),
    "reports.measures.words": (
        "reports.measures.correlation reports.measures.descriptors "
        "reports.measures.mix_and_match reports.measures.serving"
    ),
    "reports.mix_figures": "reports.measures.mix_and_match",
    "reports.paper": "reports.frames.paper",
    "reports.paper_figures": "reports.errors.paper",
    "reports.pictures": "reports.display.pictures",
    "reports.rendering": "reports.display.rendering",
    "reports.run_comparison": "reports.two_runs",
    "reports.sameness": "reports.errors.sameness",
    "reports.sections": "reports.errors.distances",
    "reports.sections.captions": (
        "reports.page.answers reports.errors.accuracy reports.errors.distances "
        "reports.errors.shift reports.guarantees.beside_measured "
        "reports.guarantees.each_bound"
    ),
    "reports.sections.descriptions": (
        "reports.errors.class_map reports.errors.comparison reports.errors.distances "
        "reports.errors.shift reports.errors.training reports.guarantees.distribution "
        "reports.display.drawing"
    ),
    "reports.sections.errors": "reports.errors.distances",
    "reports.sections.guarantees": "reports.frames.artifacts",
    "reports.sections.measures": "reports.frames.artifacts reports.measures.mix_and_match",
    "reports.serving_figures": "reports.measures.serving",
    "reports.setup_facts": "reports.page.setup",
    "reports.shift_bounds": "reports.errors.shift_certified",
    "reports.shift_effects": "reports.errors.other_data",
    "reports.shift_figures": "reports.errors.shift reports.display.drawing",
    "reports.shown_names": "reports.page.shown_names",
    "reports.split_figures": "reports.errors.class_map reports.display.drawing",
    "reports.style": "reports.display.style",
    "reports.table_forms": "reports.display.table",
    "reports.tables": (
        "reports.errors.accuracy reports.errors.distances reports.errors.shift "
        "reports.guarantees.each_bound"
    ),
    "reports.training_figures": "reports.errors.training",
}
# Old names that a folder or a module bears now: those are found as ever.
_STANDING = {
    name
    for places in MOVED.values()
    for place in places.split()
    for name in (place, place.rpartition(".")[0])
}


def _told(name: str, stacklevel: int) -> None:
    places = " and ".join(f"latecomer.{place}" for place in _places(name))
    warnings.warn(f"{name} has moved to {places}", DeprecationWarning, stacklevel=stacklevel + 1)


def _places(name: str) -> list[str]:
    old = name.removeprefix("latecomer.")
    return [place for place in MOVED[old].split() if place != old]


def _forwarding(module: str) -> Callable[[str], Any]:
    """Return a module's ``__getattr__`` that looks a name up where it lies now."""

    def look_up(name: str) -> Any:
        if not name.startswith("__"):
            for place in _places(module):
                new = import_module(f"latecomer.{place}")
                if hasattr(new, name):
                    return getattr(new, name)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return look_up


def old_names(package: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a folder that bears the name of a module of old.

    It forwards the names that the module had to where they lie now, and warns.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings(record=True, action="always") as told:
    ...     from latecomer.eval.splits import make_split
    >>> str(told[0].message)
    'latecomer.eval.splits has moved to latecomer.eval.splits.build'
    >>> make_split.__module__
    'latecomer.eval.splits.build'
    """
    look_up = _forwarding(package)

    def forwarded(name: str) -> Any:
        # `from package import module` asks here first: its own modules are for the import system.
        is_folder = "__path__" in vars(sys.modules[package])
        if is_folder and not name.startswith("__") and find_spec(f"{package}.{name}"):
            raise AttributeError(f"module {package!r} has not loaded {name!r}")
        value = look_up(name)
        _told(package, stacklevel=2)
        return value

    return forwarded


def old_name(module: str, name: str) -> Any:
    """Return what an old name of a module stands for, and warn with the new one.

    Raises
    ------
    AttributeError
        When the module never had the name.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings(record=True, action="always") as told:
    ...     from latecomer import certify
    >>> str(told[0].message)
    'latecomer.certify is now latecomer.certify_losses'
    """
    old = f"{module}.{name}"
    if old not in RENAMED:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    new = RENAMED[old]
    warnings.warn(f"{old} is now {new}", DeprecationWarning, stacklevel=3)
    home, _, attribute = new.rpartition(".")
    return getattr(import_module(home), attribute)


class _Forwarder:  # not an importlib.abc.Loader: that module takes as long as all the rest
    def create_module(self, spec: ModuleSpec) -> None:
        """Leave the making of the module to the import system."""

    def exec_module(self, module: ModuleType) -> None:
        if module.__dict__.get("__path__") is not None:
            # What lay in a folder warns for itself, and passes this on its way.
            module.__dict__["__getattr__"] = old_names(module.__name__)
            return
        _told(module.__name__, stacklevel=2)
        module.__doc__ = f"Moved to {' and '.join(_places(module.__name__))}."
        module.__dict__["__getattr__"] = _forwarding(module.__name__)


class _Finder:
    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        old = name.removeprefix("latecomer.")
        if old != name and old in MOVED and old not in _STANDING:
            loader: Any = _Forwarder()
            folder = any(other.startswith(f"{old}.") for other in MOVED)
            return ModuleSpec(name, loader, origin="moved", is_package=folder)
        return None


def install() -> None:
    """Make the old import paths known, once."""
    if not any(type(finder).__name__ == _Finder.__name__ for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
