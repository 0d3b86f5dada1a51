"""The certificates section of a study: defaults, refusals, and what a cell is told."""

from importlib import import_module
from typing import get_args

import pytest
import yaml

from latecomer.bounds import blend, product_mixture
from latecomer.bounds.held_out.betting import BET_WEIGHTS
from latecomer.errors import InputError
from latecomer.eval.routes.kinds.r0 import HeldOut
from latecomer.eval.routes.r0_held_out import Drawn, issue_certificates
from latecomer.eval.routes.registry import ROUTES
from latecomer.eval.scoring.scores import ClientScore, Condition
from latecomer.eval.studies.checking import parse_study
from latecomer.eval.studies.loading import load_study
from latecomer.eval.studies.shipped import shipped_studies

STUDY = yaml.safe_load("""
study: s
data: {name: digits}
split: {kind: by_class, clients: 60, certify: 12, novel: 12, classes_per_client: 2}
methods: [fedavg]
shifts: {blur: [1.0, 2.0], extrapolation: [.5],
  dataset: [{name: npz, path: other.npz, label: natural}],
  function: [{path: "numpy:clip", label: mine}]}
seeds: [0, 1, 2]
""")
SPLIT = STUDY["split"]


def study(*entries, **changed):
    return parse_study({**STUDY, "certificates": list(entries), **changed})


def test_defaults_are_written_out_and_read_back() -> None:
    found = study({"rule": "product"}, {"rule": "conformal"})
    shared = {"route": "r0", "folds": 1, "shifts": False, "per_seed": "each"}
    assert found.resolved()["certificates"] == [
        {**shared, "rule": "product", "delta": 0.05},
        {**shared, "rule": "conformal", "alpha": 0.1},
    ]
    assert parse_study(found.resolved()) == found


def test_everything_a_rule_takes_is_read_back() -> None:
    found = study(
        {"best_of": ["product", "wsr_wor"], "delta": 0.1, "per_seed": "union", "folds": 5},
        {"rule": "fraction_above", "thresholds": [0.1, 0.2], "folds": 5, "shifts": ["mine"]},
        {"rule": "error_curve", "delta": 0.5, "folds": 5, "shifts": ["blur", "mine"]},
    )
    assert found.certificates[0].rule == "best_of"
    assert parse_study(found.resolved()) == found
    cells = found.cells("data")
    assert cells[0].config["certificates"] == []
    told = cells[1].config["certificates"]
    assert [entry.get("n_seeds") for entry in told] == [3, None, None]


def test_more_seeds_that_share_delta_are_other_cells() -> None:
    def ids(per_seed: str, seeds: list[int]) -> set[str]:
        found = study({"rule": "product", "per_seed": per_seed}, seeds=seeds)
        return {cell.id for cell in found.cells("data") if cell.kind == "method"}

    assert ids("each", [0, 1]) < ids("each", [0, 1, 2])
    assert not ids("union", [0, 1]) & ids("union", [0, 1, 2])


def test_true_means_every_shift_of_the_study() -> None:
    moved = {"blur": [1.0], "rotation": [30.0], "function": STUDY["shifts"]["function"]}
    found = study({"rule": "product", "shifts": True}, shifts=moved)
    assert found.certificates[0].shifts == ("blur", "rotation", "mine")


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ([{"rule": "prodct"}], "did you mean 'product'?"),
        ([{"route": "r99", "rule": "product"}], "certificates.0.route"),
        ([{"rule": "product", "dleta": 0.1}], "did you mean certificates.0.delta?"),
        ([{"rule": "product", "alpha": 0.1}], "alpha is no setting of rule product"),
        ([{"rule": "conformal", "delta": 0.1}], "delta is no setting of rule conformal"),
        ([{"rule": "fraction_above"}], "thresholds must be given for rule fraction_above"),
        ([{"rule": "fraction_above", "thresholds": []}], "thresholds: must not be empty"),
        ([{"rule": "fraction_above", "thresholds": [0.1, 0.1]}], "must not repeat an entry"),
        ([{"rule": "product", "thresholds": [0.1]}], "thresholds is no setting of rule product"),
        ([{"rule": "kl_ball"}], "radii must be given for rule kl_ball"),
        ([{"rule": "kl_ball", "radii": []}], "radii: must not be empty"),
        ([{"rule": "kl_ball", "radii": [-0.1]}], "radii.0: must be greater than or equal to 0"),
        ([{"rule": "chi2_ball", "radii": ["far"]}], "radii.0: must be a valid number, got 'far'"),
        (
            [{"rule": "tv_ball", "radii": [0.1, 1.5]}],
            "radii must be at most 1 for tv_ball, got 1.5",
        ),
        ([{"rule": "kl_ball", "radius": [0.1]}], "certificates.0.radius"),
        ([{"rule": "kl_ball", "shares": [0.1]}], "radii must be given for rule kl_ball"),
        ([{"rule": "subgroup", "radii": [0.1]}], "radii is no setting of rule subgroup"),
        ([{"rule": "subgroup", "shares": [0.0]}], "shares.0: must be greater than 0, got 0"),
        ([{"rule": "subgroup", "shares": [1.1]}], "shares.0: must be less than or equal to 1"),
        ([{"rule": "kl_ball", "radii": [0.1], "target": 1.0}], "target: must be less than 1"),
        ([{"rule": "product", "radii": [0.1]}], "radii is no setting of rule product"),
        ([{"rule": "product", "target": 0.1}], "target is no setting of rule product"),
        ([{"rule": "error_curve", "delta": 0.6}], "delta must be at most 0.5"),
        ([{"rule": "best_of"}], "best_of must list two or more of product"),
        ([{"best_of": ["product"]}], "best_of must list two or more of product"),
        ([{"best_of": ["product", "product"]}], "must not repeat an entry"),
        ([{"best_of": ["product", "conformal"]}], "certificates.0.best_of.1"),
        ([{"best_of": ["product", "wsr_averaged"]}], "wsr_averaged needs independent clients"),
        ([{"rule": "wsr"}], "must not hang on the order of the clients: use wsr_averaged"),
        ([{"rule": "product_wor", "orders_seed": 1}], "no setting of rule product_wor, which"),
        ([{"rule": "product_wor_averaged", "orders_seed": -1}], "orders_seed"),
        ([{"rule": "product", "realised": True}], "realised is no setting of rule product"),
        (
            [{"rule": "fraction_above", "thresholds": [0.2, 1]}],
            "thresholds.1: must be less than 1, got 1",
        ),
        ([{"rule": "product", "best_of": ["product", "wsr_wor"]}], "either rule or best_of"),
        ([{"rule": "emp_bernstein"}], "emp_bernstein needs independent clients"),
        ([{"rule": "product", "folds": 0}], "folds: must be greater than or equal to 1"),
        ([{"rule": "product", "folds": True}], "folds: must be a valid integer"),
        (
            [{"rule": "product"}, {"rule": "conformal", "folds": 2}],
            "certificates.1.folds must be 1 like certificates.0.folds",
        ),
        ([{"rule": "product", "per_seed": "all"}], "per_seed: must be 'each' or 'union'"),
        ([{"rule": "product", "shifts": "blur"}], "shifts: must be true, false or a list"),
        ([{"rule": "product", "shifts": []}], "shifts: must be true, false or a list"),
        ([{"rule": "product", "shifts": ["rotation"]}], "(blur, extrapolation, natural, mine)"),
        ([{"rule": "product", "shifts": ["extrapolation"]}], "draws other clients"),
        ([{"rule": "product", "shifts": ["natural"]}], "all clients at once"),
        ([{"rule": "product", "shifts": True}], "draws other clients"),
    ],
)
def test_mistakes_are_said_in_one_line(entries, said) -> None:
    with pytest.raises(InputError) as caught:
        study(*entries)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_pool_needs_ten_clients_outside_the_certified_ones() -> None:
    with pytest.raises(InputError, match="at least 10 clients beside the 12 certified ones, got 9"):
        study({"rule": "product"}, split={**SPLIT, "novel": 9})
    assert study({"rule": "product"}, split={**SPLIT, "novel": 10})
    independent = {**SPLIT, "kind": "environment", "novel": 1}
    assert study({"rule": "product"}, split=independent)


def test_every_route_has_settings_and_one_way_to_be_followed() -> None:
    assert [*ROUTES] == ["r0", "r1", "r2", "r3", "r4", "r5", "sets"]
    for name, route in ROUTES.items():
        module, _, function = route.work.partition(":")
        assert callable(getattr(import_module(module), function))
        assert get_args(route.settings.model_fields["route"].annotation) == (name,)


R1 = {"route": "r1", "first": 20, "clients": 16, "weights": ["hyper.trunk"]}
TWO = [{"name": "pefll"}, {"name": "fedavg"}]


def test_a_route_that_trains_is_asked_of_the_methods_it_names() -> None:
    asked = study({**R1, "methods": ["pefll"]}, methods=TWO, shifts={})
    everybody = study(R1, methods=TWO[:1], shifts={})

    def tuned(found):
        return {(c.label, c.seed): c.id for c in found.cells("data") if c.kind == "tuned"}

    assert set(tuned(asked)) == {("pefll r1:product", seed) for seed in (0, 1, 2)}
    # Who else is in the study changes no cell.
    assert tuned(asked) == tuned(everybody)
    assert parse_study(asked.resolved()) == asked
    with pytest.raises(InputError, match=r"certificates.0.methods must be labels .*'pefll'"):
        study({**R1, "methods": ["pefl"]}, methods=TWO, shifts={})
    # One model of a study can be made again by itself.
    alone = study({**R1, "methods": ["pefll"]}, methods=TWO[1:], shifts={})
    assert {cell.kind for cell in alone.cells("data")} == {"split", "method"}


def test_published_bounds_of_one_method_leave_the_others_cells_alone() -> None:
    stochastic = {"name": "pefll", "posterior": "gaussian", "label": "drawn"}
    alone = study(methods=["pefll"])
    both = study(methods=["pefll", {**stochastic, "bounds": ["pefll_32"]}])
    ids = {cell.id for cell in both.cells("data")}
    assert {cell.id for cell in alone.cells("data")} < ids
    asked = {cell.label: cell.config for cell in both.cells("data") if cell.kind == "method"}
    assert (asked["pefll"]["bounds"], asked["drawn"]["bounds"]) == ([], ["pefll_32"])
    assert asked["drawn"]["method"] == stochastic
    assert parse_study(both.resolved()) == both
    with pytest.raises(InputError, match=r"methods.0.bounds.0"):
        study(methods=[{**stochastic, "bounds": ["pefll32"]}])


def test_what_holding_out_costs_is_trained_once_more_and_changes_no_other_cell() -> None:
    plain = study({"rule": "product"})
    also = study({"rule": "product"}, evaluation={"given_up": True})
    before = {cell.id for cell in plain.cells("data")}
    more = [cell for cell in also.cells("data") if cell.id not in before]
    assert before < {cell.id for cell in also.cells("data")}
    assert [(c.kind, c.label, c.seed) for c in more] == [
        ("whole", "fedavg, all clients", seed) for seed in (0, 1, 2)
    ]
    assert more[0].config["certificates"] == []
    with pytest.raises(InputError, match=r"given_up needs clients to give up"):
        study(split={**SPLIT, "certify": 0}, evaluation={"given_up": True})


def test_the_published_bound_has_a_study_on_the_certificates_very_clients() -> None:
    for variants, name in (
        ([], "certificates-cifar10"),
        (["50"], "certificates-cifar10-50"),
        (["mnist"], "certificates-mnist"),
        (["no-holdout"], "certificates-no-holdout-cifar10"),
    ):
        found, of = load_study("certificates-published", variants=variants), load_study(name)
        assert (found.data, found.split, found.evaluation) == (of.data, of.split, of.evaluation)
        assert found.bounds == ("pefll_32", "two_step_kl")


@pytest.mark.parametrize("name", ["certificates-cifar10", "certificates-cifar10-50"])
def test_shipped_studies_of_certificates_say_all_beforehand(name: str) -> None:
    assert name in {one.name for one in shipped_studies()}
    found = load_study(name)
    held_out = 50 if name.endswith("50") else 30
    assert (found.split.certify, found.split.novel, found.split.clients) == (held_out, 10, 100)
    assert found.evaluation.classes == "known"
    assert {entry.folds for entry in found.certificates} == {5}
    levels = {entry.rule: entry.delta for entry in found.certificates if entry.rule != "conformal"}
    assert set(levels.values()) == {0.05}
    assert found.certificates[0].rule == "product"


@pytest.mark.parametrize(
    ("name", "certify"),
    [
        ("certificates-independent-cifar10", 100),
        ("certificates-independent-mnist", 100),
        ("certificates-independent-mnist-500", 500),
    ],
)
def test_studies_of_independent_clients_say_all_beforehand(name: str, certify: int) -> None:
    found = load_study(name)
    split = found.split
    assert (split.kind, split.certify, split.novel) == ("environment", certify, 20)
    # The kept runs declare the product, the study without one names no rule.
    first = "blend" if name == "certificates-independent-mnist" else "product"
    assert [entry.rule for entry in found.certificates[:3]] == [
        first,
        "betting_mixture",
        "wsr_averaged",
    ]
    assert found.certificates[2].orders_seed == 0
    assert {entry.folds for entry in found.certificates} == {5}


@pytest.mark.parametrize("name", ["cifar10", "cifar10-50", "mnist"])
def test_studies_of_pools_declare_the_rules_without_replacement(name: str) -> None:
    rules = [entry.rule for entry in load_study(f"certificates-{name}").certificates]
    assert rules[:4] == ["product", "wsr_wor", "product_wor", "product_wor_averaged"]


def test_versions_are_raised_where_rows_are_added_and_nowhere_else() -> None:
    def versions(entry: dict, kind: str) -> dict:
        split = {**SPLIT, "kind": kind}
        cells = study(entry, split=split, shifts={}, methods=["pefll"]).cells("data")
        return cells[-1].config["numbers_version"]

    plain = {"split", "metrics", "train", "method"}
    assert versions({"rule": "product"}, "environment").keys() == plain
    assert versions({"rule": "product"}, "by_class").keys() == plain | {"r0"}
    r4 = {"route": "r4", "first": 20, "clients": 10}
    assert versions(r4, "by_class").keys() == plain | {"routes"}
    assert versions({**r4, "first": 36}, "environment").keys() == plain | {"routes", "overlap"}


# ---- a rule of one's own: found beside its study, simulated, and part of what a cell is

MINE = """
study: mine
data: {{name: digits}}
split: {{kind: environment, clients: 40, certify: 10, novel: 4, held_out: 0.3,
  classes_per_client: 2}}
methods: [fedavg]
train: {{rounds: 2}}
certificates: [{{rule: "mine.py:{rule}"{more}}}]
seeds: [0]
"""
RULES = """
from math import log, sqrt


def bound(losses, delta):
    return sum(losses) / len(losses) + sqrt(log(1 / delta) / (2 * len(losses)))


def least(losses, delta):
    return min(losses)
"""


def study_of_mine(folder, rule, more=""):
    (folder / "mine.py").write_text(RULES)
    path = folder / "mine.yaml"
    path.write_text(MINE.format(rule=rule, more=more))
    return load_study(path)


def test_it_is_found_beside_the_study_and_its_file_makes_the_cells(tmp_path):
    one = study_of_mine(tmp_path, "bound")
    (entry,) = one.certificates
    assert entry.rule == f"{tmp_path / 'mine.py'}:bound"
    before = [cell.id for cell in one.cells("data")]
    assert [cell.id for cell in study_of_mine(tmp_path, "bound").cells("data")] == before
    (tmp_path / "mine.py").write_text(RULES + "\n# another file\n")
    after = [cell.id for cell in load_study(tmp_path / "mine.yaml").cells("data")]
    assert len(set(before) & set(after)) == 1, "the split's cell alone"


def test_one_that_promises_too_much_is_refused_unless_it_is_trusted(tmp_path):
    with pytest.raises(InputError, match=r"certificates\.0\.rule .*mine.py:least failed in \d+ of"):
        study_of_mine(tmp_path, "least")
    assert study_of_mine(tmp_path, "least", ", trust: true").certificates[0].trust
    with pytest.raises(InputError, match="no function or Rule absent"):
        study_of_mine(tmp_path, "absent")


def test_trust_is_about_rules_of_ones_own():
    with pytest.raises(InputError, match=r"certificates\.0\.trust is about rules of one's own"):
        load_study("quickstart", ["certificates=[{rule: product, trust: true}]"])


# ---- the rule of held-out clients where none is named, and named ones that a client voids

FRESH = {**SPLIT, "kind": "environment", "held_out": 0.3}
WHOLE = Condition("none", None)
GIBBS = {"name": "pefll", "posterior": "gaussian"}


@pytest.mark.parametrize(
    ("changed", "rule", "seed"),
    [
        ({}, "blend", 0),
        ({"split": FRESH}, "blend", 0),
        ({"split": FRESH, "methods": [GIBBS]}, "blend", 0),
        ({"methods": ["fedavg", GIBBS]}, "product_mixture", None),
    ],
)
def test_the_default_covers_every_predictor(changed: dict, rule: str, seed: int | None) -> None:
    (entry,) = study({}, **changed).certificates
    assert (entry.rule, entry.orders_seed, entry.delta) == (rule, seed, 0.05)
    split, predictors = changed.get("split", SPLIT)["kind"], ("gibbs", "deterministic")
    if changed.get("methods"):
        entry.check_predictors("certificates.0", split, predictors)


def test_scores_as_drawn_are_asked_for_by_name() -> None:
    (entry,) = study({"realised": True}, methods=[GIBBS]).certificates
    assert entry.rule == "blend"
    with pytest.raises(InputError, match="realised: true, or use product_mixture"):
        study({"rule": "blend"}, methods=[GIBBS]).certificates[0].check_predictors(
            "certificates.0", "by_class", ["gibbs"]
        )


def test_a_bad_method_is_named_before_a_default_is_sought() -> None:
    with pytest.raises(InputError, match="no method is called 'fedavgg'"):
        study({}, methods=["fedavgg"])


@pytest.mark.parametrize(
    ("name", "rule"),
    [("quickstart", "blend"), ("certificates-published", "product_mixture")],
)
def test_shipped_studies_without_kept_cells_take_the_default(name: str, rule: str) -> None:
    assert load_study(name).certificates[0].rule == rule


@pytest.mark.parametrize("sampling", ["iid", "finite-pool"])
@pytest.mark.parametrize("predictor", ["deterministic", "gibbs"])
@pytest.mark.parametrize("in_order", [True, False])
def test_a_rule_that_a_client_voids_names_it_and_what_the_default_gives(
    sampling, predictor, in_order
):
    scores = [ClientScore(7 * i, 20, 10, 1, 0.3) for i in range(29)] + [
        ClientScore(5, 20, 10, 10, 2.0)
    ]
    drawn = Drawn(sampling, 60, in_order=in_order)
    entry = HeldOut(rule="product", delta=0.05)
    found = issue_certificates(entry, {predictor: {WHOLE: scores}}, drawn=drawn, classes="all")
    (told,) = [fact for fact in found.facts if "has the largest loss" in fact["text"]]
    losses = [score.error for score in scores]
    # Scores by clients' numbers, as rows list natural ones, stand in no order that a draw made.
    if not in_order or (predictor == "gibbs" and sampling == "finite-pool"):
        default = product_mixture(losses=losses, delta=0.05, weights=BET_WEIGHTS)
    else:
        pool = None if sampling == "iid" else 60
        default = blend(losses=losses, delta=0.05, pool_size=pool, seed=0, in_order=True)
    assert told["text"].startswith("Client '5' has the largest loss, with which rule product")
    assert told["value"] == float(default) < 1
    survived = HeldOut(rule="product_mixture", delta=0.05)
    for rule, each in ((entry, scores[:-1]), (survived, scores)):
        quiet = issue_certificates(rule, {predictor: {WHOLE: each}}, drawn=drawn, classes="all")
        assert not any("largest loss" in fact["text"] for fact in quiet.facts)


@pytest.mark.parametrize(
    "asked",
    [
        {"rule": "fraction_above", "thresholds": (0.1234561, 0.1234562)},
        {"rule": "kl_ball", "radii": (0.1234561, 0.1234562)},
    ],
    ids=["thresholds", "radii"],
)
def test_what_differs_in_the_seventh_digit_is_named_apart(asked):
    scores = [ClientScore(i, 20, 10, 1, 0.3) for i in range(30)]
    entry = HeldOut(delta=0.05, **asked)
    drawn = Drawn("iid", 60)
    found = issue_certificates(
        entry, {"deterministic": {WHOLE: scores}}, drawn=drawn, classes="all"
    )
    names = {row["bound"].partition("@")[2] for row in found.rows}
    assert names == {"0.1234561", "0.1234562"}
