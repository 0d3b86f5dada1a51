import re
import subprocess
import sys

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from latecomer.errors import InputError
from latecomer.eval.studies.cells import content_id
from latecomer.eval.studies.checking import parse_study
from latecomer.eval.studies.loading import load_study
from latecomer.eval.studies.shipped import read_yaml, shipped_studies, shipped_texts
from latecomer.reading.yaml_text import read_shipped

SMALL = """
study: small
data: {name: digits}
split: {kind: by_class, clients: 20, classes_per_client: 2}
methods: [fedavg]
"""


@pytest.fixture
def write(tmp_path):
    def written(text):
        path = tmp_path / "study.yaml"
        path.write_text(text)
        return path

    return written


# Of a finite pool, as most splits are; the study's own clients are independent.
POOL = (
    "split={kind: by_class, clients: 60, certify: 0.2, novel: 0.2, classes_per_client: 2, "
    "validation: 0.0}"
)


def quickstart(*overrides):
    split = () if any(one.startswith("split=") for one in overrides) else (POOL,)
    return load_study("quickstart", (*split, *overrides))


def mistake(*overrides):
    with pytest.raises(InputError) as caught:
        quickstart(*overrides)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_defaults(write):
    study = load_study(write(SMALL))
    assert study.train.model_dump(exclude_none=True) == {
        **{"rounds": 5000, "cohort": 5, "local_steps": 50, "batch_size": 32},
        **{"path": "auto", "selection": "last"},
    }
    assert study.evaluation.classes == "all"
    assert study.seeds == (0,)
    assert (study.split.seed, study.split.query, study.split.validation) == (0, 0.25, 0.2)
    assert (study.split.certify, study.split.novel, study.split.reserve) == (0, 0, 0.0)
    assert study.bounds == study.certificates == ()
    assert not any(severities for _, severities in study.shifts)
    assert [(m.name, m.label, m.hyper()) for m in study.methods] == [("fedavg", "fedavg", {})]
    hypernetwork = {"hidden": "auto", "width": "auto", "spectral": False}
    networks = {"target": "auto", "encoder": "auto", "hypernetwork": hypernetwork}
    assert study.model.model_dump(exclude_none=True) == networks


def test_reserve_depends_on_extrapolation():
    assert quickstart().split.reserve == 0.2
    assert quickstart("shifts.extrapolation=[]").split.reserve == 0.0
    assert quickstart("split.reserve=0.3").split.reserve == 0.3
    assert "split.reserve above 0" in mistake("split.reserve=0")
    natural = ("split={kind: natural, certify: 3, novel: 3}", "shifts={blur: [1.0]}")
    assert quickstart(*natural).split.reserve == 0.0
    assert "must be 0 for a natural split" in mistake(*natural, "split.reserve=0.1")
    assert "natural split cannot have" in mistake(*natural, "shifts.extrapolation=[1.0]")


def test_study_is_frozen():
    with pytest.raises(ValueError, match="frozen"):
        quickstart().seeds = (1,)


def test_resolved_loads_back_to_the_same_study():
    study = quickstart("methods.5.alpha_h=1e-3", "evaluation={classes: known, class_set: given}")
    text = yaml.safe_dump(study.resolved())
    again = parse_study(yaml.safe_load(text))
    assert again == study
    assert again.resolved() == study.resolved()
    stochastic = study.resolved()["methods"][5]
    assert stochastic["label"] == "pefll-stochastic"
    assert (stochastic["posterior"], stochastic["alpha_h"]) == ("gaussian", 1e-3)


def test_published_counterparts_are_no_part_of_a_cell():
    study, bare = (
        load_study("quickstart", ["paper=['odpfl:Table 1:dirichlet 10']"]),
        load_study("quickstart"),
    )
    assert study.resolved()["paper"] == ["odpfl:Table 1:dirichlet 10"]
    assert "paper" not in bare.resolved()
    assert [cell.id for cell in study.cells()] == [cell.id for cell in bare.cells()]
    with pytest.raises(InputError, match=r"^paper\.0: must be source:item"):
        load_study("quickstart", ["paper=[Table 1]"])


def test_every_shipped_study_loads_under_its_own_name():
    names = [shipped.name for shipped in shipped_studies()]
    assert "quickstart" in names
    for shipped in shipped_studies():
        assert load_study(shipped.name).study == shipped.name
        assert shipped.question.endswith("?")


@pytest.mark.parametrize("name", shipped_texts())
def test_the_quick_reader_of_shipped_files_reads_what_the_careful_one_does(name):
    text = shipped_texts()[name]
    assert repr(read_shipped(text)) == repr(read_yaml(text, name))


def test_listing_studies_loads_no_torch():
    code = (
        "import sys; from latecomer.eval.studies.shipped import shipped_studies; shipped_studies();"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_overrides_reach_into_sections_and_lists():
    study = quickstart(
        "train.rounds=300", "seeds=[0]", "methods.4.posterior=gaussian", "methods.0.label=alone"
    )
    assert study.train.rounds == 300
    assert study.seeds == (0,)
    assert study.methods[4].hyper()["posterior"] == "gaussian"
    assert study.methods[0].label == "alone"
    assert quickstart("model.hypernetwork.width=64").model.hypernetwork.width == 64
    assert quickstart("methods=[fedavg]").methods[0].name == "fedavg"


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("train.ruonds=5", "train.ruonds is no setting; did you mean train.rounds?"),
        ("rounds=5", "rounds is no setting; did you mean train.rounds?"),
        ("certify=0.2", "did you mean split.certify?"),
        ("clients=20", "did you mean split.clients?"),
        ("draws=2", "did you mean denoising.draws?"),
        ("model.hypernetwork.widht=1", "did you mean model.hypernetwork.width?"),
        ("certificates.0.dleta=.1", "did you mean certificates.0.delta?"),
        ("split.class_per_client=2", "did you mean split.classes_per_client?"),
        ("split.alpha=1.0", "split.alpha is no setting of a by_class split"),
        ("split=null", "split must be a mapping of keys to values, got None"),
        (
            "split.kind=null",
            "natural, client_mixtures, client_types, environment, frozen, got None",
        ),
        ("certificates.0.route=null", "certificates.0.route must be one of r0, r1, r2, r3, r4, r5"),
        ("certificates.0=null", "certificates.0: must be a mapping of keys to values, got None"),
        ("split.kind=byclass", "got 'byclass'; did you mean 'by_class'?"),
        (
            "train.path=fast",
            "train.path: must be 'auto', 'serial', 'blocked' or 'vectorised', got 'fast'",
        ),
        ("train.rounds=0", "train.rounds: must be greater than or equal to 1, got 0"),
        ("train.rounds=99999999999999999999", "train.rounds: must be a whole number of at most 10"),
        ("train.batch_size=1000000000", "batch_size: must be a whole number from 1 to 100000, got"),
        ("model.hypernetwork.width=1000000000", "width: must be a whole number from 1 to 100000"),
        (
            "methods=[{name: pefll, descriptor_dim: 1000000000}]",
            "descriptor_dim must be a whole number >= 1 and <= 100000, got descriptor_dim=10",
        ),
        ("split.novel=99999999999999999999", "split.novel: must be a whole number of at most 10"),
        ("certificates=[{rule: mine.py}]", "'best_of' or file.py:name, got 'mine.py'"),
        ("evaluation.ignore=[LC4]", "ignore.0: must be a check's code, such as LC004, got 'LC4'"),
        ("evaluation.every=99999999999999999999", "every: must be a whole number of at most 10"),
        (
            "methods=[{name: fedavg_ft, finetune_steps: 99999999999999999999}]",
            "finetune_steps must be a whole number >= 0 and <= 1000000000, got finetune_steps=99",
        ),
        (
            "methods=[{name: local, local_lr: .inf}]",
            "methods.0: local_lr must be above 0 and finite, got local_lr=inf",
        ),
        (
            "methods=[{name: apfl, alpha: .nan}]",
            "alpha must be at least 0 and at most 1 and finite, got alpha=nan",
        ),
        ("train.rounds=true", "train.rounds: must be a valid integer, got True"),
        ("train=", "train: must be a mapping of keys to values, got None"),
        ("seeds=0", "seeds: must be a list, got 0"),
        ("seeds=[]", "seeds: must not be empty"),
        ("seeds=[1, 1]", "seeds: must not repeat an entry"),
        ("split.novel=1.0", "split.novel: must be a count of at least 0 or a fraction in [0, 1)"),
        ("split.novel=true", "split.novel: must be a count"),
        ("split.novel=60", "leave no seen client of 60"),
        ("split.novel=0.9", "leave no seen client"),
        ("split.novel=0", "shifts.blur needs new clients"),
        ("split.certify=0", "split.certify must be above 0"),
        ("model.hypernetwork.hidden=6", "hidden: must be 'auto' or an integer from 1 to 5, got 6"),
        ("model.hypernetwork.spectral=1", "model.hypernetwork.spectral: must be a"),
        ("methods.0=fedavf", "methods.0: no method is called 'fedavf'; did you mean 'fedavg'?"),
        ("methods.1=local", "methods.0 is already called 'local'"),
        ("methods.4.posteriur=gaussian", "did you mean 'posterior'?"),
        ("methods.9=x", "its entries are numbered 0 to 5"),
        ("data.name.x=3", "data.name.x is no setting: data.name holds 'digits'"),
        ("train.rounds", "an override reads key=value"),
        ("train.rounds=[", "'[' is no YAML value"),
        ("shifts.blur=[0]", "shifts.blur.0: must be greater than 0, got 0"),
        ("shifts.extrapolation=[-1]", "shifts.extrapolation.0: must be greater than 0"),
        ("bounds=[pefll]", "did you mean 'pefll_32'?"),
        ("certificates.0.rule=wsr_averaged", "leave the rule out"),
        ("certificates.0.alpha=0.1", "certificates.0.alpha is no setting of rule product"),
        ("certificates.0.delta=1e-288", "delta: must be at least 1e-287, got 1e-288"),
        (
            "certificates.0={rule: best_of, best_of: [blend, product_wor], delta: 1e-287}",
            "certificates.0.delta must be at least 2e-287 to be split into 2 parts",
        ),
        (
            "certificates.0.rule_source=abc",
            "certificates.0.rule_source is filled in with the hash of a rule of one's own: leave",
        ),
        ("certificates.0.realised=1", "certificates.0.realised: must be a valid boolean, got 1"),
        (
            "methods.0.serving={prio: em}",
            "serving.prio is no setting; did you mean methods.0.serving.prior",
        ),
        ("certificates.0.delta=1", "certificates.0.delta: must be less than 1"),
        ("certificates.1.delta=0.1", "certificates.1.delta is no setting of rule conformal"),
        ("study=a/b", "study: must be letters"),
        (
            "certify_model=fedavf",
            "certify_model must be the label of one of the methods (local, fedavg, per_fedavg, "
            "pfedhn, pefll, pefll-stochastic), got fedavf; did you mean 'fedavg'?",
        ),
        ("certify_model=scaffold", "pefll-stochastic), got scaffold"),
        ("evaluation.classes=known", "which classes a client has: say evaluation.class_set: given"),
    ],
)
def test_mistakes_are_said_in_one_line(override, said):
    assert said in mistake(override)


def test_rotation_may_go_either_way_and_certificates_have_defaults():
    assert quickstart("shifts.rotation=[-30, 30]").shifts.rotation == (-30.0, 30.0)
    study = quickstart("certificates=[{rule: wsr_wor}, {rule: conformal}]")
    assert [(c.route, c.delta, c.alpha) for c in study.certificates] == [
        ("r0", 0.05, None),
        ("r0", None, 0.1),
    ]


def test_masked_classes_are_fine_for_methods_that_see_labels():
    study = quickstart("methods=[pefll, local]", "evaluation.classes=zero")
    assert study.evaluation.classes == "zero"


def test_a_path_that_leads_nowhere(tmp_path):
    with pytest.raises(InputError, match="there is no study file"):
        load_study(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("study: x\nseeds: [0\n", "line 3: broken YAML"),
        ("study: x\nstudy: y\n", "line 2: broken YAML: key 'study' is given twice"),
        ("study: x\n\tdata: y\n", "line 2: broken YAML"),
        ("- x\n", "a study is a mapping"),
        ("", "a study is a mapping"),
        ("1: x\n", "line 1: broken YAML: 1 is no key"),
        ("study: x\n", "data must be given"),
        (SMALL.replace("methods", "methds"), "methds is no setting; did you mean methods?"),
        (SMALL.replace("kind: by_class, ", ""), "split.kind must be given"),
        (SMALL.replace(", classes_per_client: 2", ""), "split.classes_per_client must be given"),
        (
            SMALL.replace("[fedavg]", '[{name: fedavg, label: "a\\nb"}]'),
            "methods.0.label: must be one line, got 'a\\nb'",
        ),
        (SMALL.replace("[fedavg]", "[{label: x}]"), "methods.0.name must be given"),
        (SMALL.replace("clients: 20", "clients: 3.5"), "split.clients: must be a valid integer"),
    ],
)
def test_broken_files_name_the_line_or_the_key(write, text, said):
    with pytest.raises(InputError, match=re.escape(said)):
        load_study(write(text))


def test_cells_are_the_split_and_every_method_and_seed():
    study = quickstart()
    cells = study.cells("abc")
    assert [cell.kind for cell in cells] == ["split"] + ["method"] * 18
    assert len({cell.id for cell in cells}) == 19
    config = cells[-1].config
    assert set(config) == {
        *("study", "kind", "data", "split", "model", "method", "train", "evaluation", "shifts"),
        *("bounds", "certificates", "seed", "data_hash", "rows_schema", "numbers_version"),
    }
    assert (cells[-1].label, cells[-1].seed, cells[-1].rounds) == ("pefll-stochastic", 2, 150)
    assert (cells[0].label, cells[0].seed, cells[0].rounds) == ("split", None, None)
    assert config["method"]["posterior"] == "gaussian"
    assert config["data_hash"] == "abc"


def test_ids_change_with_what_numbers_depend_on_and_nothing_else():
    def ids(*overrides, data_hash="abc"):
        return [cell.id for cell in quickstart(*overrides).cells(data_hash)]

    base = ids()
    assert ids() == base
    assert not set(ids(data_hash="abd")) & set(base)
    assert ids("question=Why?") == base
    changed = ids("train.rounds=151")
    assert changed[0] == base[0]
    assert not set(changed[1:]) & set(base)
    fewer = ids("seeds=[1]")
    assert set(fewer) < set(base)
    assert ids("methods.0.label=alone")[2:7] == base[2:7]


def versions(*overrides):
    return [cell.config["numbers_version"] for cell in quickstart(*overrides).cells("abc")]


def test_a_target_whose_numbers_changed_makes_new_cells_of_its_own_only():
    assert all("target" not in version for version in versions())
    split, *trained = versions("model.target=dense500")
    assert "target" not in split
    assert {version["target"] for version in trained} == {2}


def test_a_way_of_training_whose_numbers_changed_makes_new_cells_of_its_own_only():
    for same in ((), ("train.path=serial",), ("train.path=blocked",)):
        assert all(not {"device", "path"} & set(version) for version in versions(*same))
    for key, way in (("device", "cuda"), ("path", "vectorised")):
        _, *trained = versions(f"train.{key}={way}")
        assert {version[key] for version in trained} == {2}


def test_certificates_over_orders_whose_numbers_changed_make_new_cells_of_their_own_only():
    asked = "certificates=[{route: r0, %s}]"
    for other in ("rule: product", "rule: product_wor", "best_of: [product, wsr_wor]"):
        assert all("orders" not in version for version in versions(asked % other))
    for averaged in ("rule: product_wor_averaged", "best_of: [product, product_wor_averaged]"):
        split, *trained = versions(asked % averaged)
        assert "orders" not in split
        assert {version["orders"] for version in trained} == {2}


def test_a_route_whose_numbers_changed_makes_new_cells_of_its_own_only():
    def trained(*entries):
        return versions(f"certificates=[{', '.join(entries)}]", "seeds=[0]")[1:]

    held = "{route: r0, rule: product}"
    assert all(not {"r2", "r3", "routes"} & set(version) for version in trained(held))
    assert all(version["r3"] == 3 for version in trained(held, "{route: r3}")), "in a pool"
    alone = load_study("quickstart", ("certificates=[{route: r3}]",)).cells("abc")
    assert all(cell.config["numbers_version"]["r3"] == 2 for cell in alone if cell.seed == 0)
    own = "first: 20, clients: 16, methods: [pefll]"
    for route, version in (("r1, weights: [hyper]", 2), ("r4", 1), ("r5, weights: [hyper]", 2)):
        *others, last = trained(held, "{route: r3}", f"{{route: {route}, {own}}}")
        assert last["routes"] == version
        assert "r3" not in last, "nothing of the entries of other cells"
        assert all("routes" not in other for other in others)


def test_a_rule_is_listed_once():
    """Rows tell certificates apart by route and rule."""
    product = "{route: r0, rule: product}"
    for second in (product, "{route: r0, rule: product, delta: 0.1}"):
        with pytest.raises(InputError, match=r"certificates\.1 must be of another route or rule"):
            quickstart(f"certificates=[{product}, {second}]")
    own = "{route: r4, first: 20, clients: 16, methods: [%s]}"
    both = f"certificates=[{product}, {own % 'pefll'}, {own % 'fedavg'}]"
    assert len(quickstart(both).certificates) == 3
    with pytest.raises(InputError, match="got r4 product_mixture again"):
        quickstart(f"certificates=[{own % 'pefll'}, {own % 'pefll, fedavg'}]")


@pytest.mark.parametrize(
    ("settings", "one"),
    [
        ("data: {name: table, path: FOLDER/a.csv, root: FOLDER}", True),
        ("split: {kind: frozen, path: FOLDER/split.npz, hash: abc}", True),
        ("shifts: {dataset: [{name: svhn, root: FOLDER}]}", True),
        ("shifts: {function: [{path: 'FOLDER/own.py:f'}]}", True),
        ("model: {target: 'FOLDER/net.py:Net', weights: FOLDER/w.safetensors}", True),
        ("model: {encoder: 'FOLDER/enc.py:E'}", True),
        ("model: {target: 'net.py:Net', words: FOLDER/words.txt}", False),
        ("method: {name: 'FOLDER/mine.py:M'}", True),
        ("methods: [{name: 'FOLDER/mine.py:M'}]", True),
        ("method: {name: 'FOLDER/m.py:S', needs_training: false, checkpoint: FOLDER/w.pt}", True),
        ("method: {name: 'FOLDER/mine.py:M', checkpoint: FOLDER/w.pt}", False),
        ("method: {name: fedavg, table: FOLDER/a.csv}", False),
        ("bounds: ['FOLDER/mine.py:b']", False),
        ("certificates: [{rule: 'FOLDER/mine.py:b'}]", False),
    ],
)
def test_an_id_leaves_out_where_files_lie_that_it_hashes_and_no_row_names(settings, one):
    here, there = (yaml.safe_load(settings.replace("FOLDER", at)) for at in ("/here", "there/too"))
    assert (content_id(here) == content_id(there)) is one


@pytest.mark.slow
@given(st.dictionaries(st.text(), st.integers() | st.text() | st.none()), st.randoms())
def test_content_id_ignores_the_order_of_keys(config, random):
    items = list(config.items())
    random.shuffle(items)
    assert content_id(dict(items)) == content_id(config)
    assert content_id({**config, "new key": 1}) != content_id(config) or config.get("new key") == 1


@pytest.fixture
def beside(tmp_path, monkeypatch):
    """Go elsewhere than to the folder of the study ``s.yaml`` and its data."""
    study = {
        "study": "s",
        "data": {"name": "table", "path": "t.csv"},
        "split": {"kind": "natural", "certify": 0.2, "novel": 2},
        "methods": [{"name": "fedavg"}],
        "train": {"rounds": 1, "cohort": 2},
        "shifts": {"dataset": [{"name": "table", "path": "far/t.csv", "label": "far"}]},
    }
    folder = tmp_path / "studies"
    (folder / "far").mkdir(parents=True)
    (folder / "s.yaml").write_text(yaml.safe_dump(study), "utf-8")
    for name in ("t.csv", "far/t.csv"):
        (folder / name).write_text("client,label,a\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    return folder


def test_data_that_no_path_from_here_leads_to_lie_beside_the_study(beside):
    resolved = load_study("studies/s.yaml").resolved()
    assert resolved["data"]["path"] == str(beside / "t.csv")
    assert resolved["shifts"]["dataset"][0]["path"] == str(beside / "far" / "t.csv")
    (beside.parent / "t.csv").touch()
    assert load_study("studies/s.yaml").resolved()["data"]["path"] == "t.csv"
    given = load_study("studies/s.yaml", ["data.path=nowhere.csv"])
    assert given.resolved()["data"]["path"] == "nowhere.csv"


@pytest.mark.parametrize(
    "place",
    [
        "methods=[{name: '~no-such-user/m.py:M'}]",
        "model.target=~no-such-user/net.py:N",
        "bounds=['~no-such-user/b.py:b']",
        "split={kind: frozen, path: '~no-such-user/s.npz'}",
    ],
)
def test_the_home_of_nobody_is_a_folder_that_does_not_exist(beside, place):
    with pytest.raises(InputError, match="~no-such-user/"):
        load_study("studies/s.yaml", [place])


def test_a_rule_of_ones_own_is_that_of_the_file_noted(write, tmp_path):
    rule = tmp_path / "mine.py"
    rule.write_text("def bound(losses, delta):\n    return 1.0\n")
    asked = [{"rule": f"{rule}:bound", "trust": True}]
    law = {"kind": "client_types", "clients": 24, "certify": 4, "novel": 6, "held_out": 0.5}
    law |= {"types": [[0, 1], [2, 3]], "weights": [0.5, 0.5]}
    study = parse_study({**yaml.safe_load(SMALL), "split": law, "certificates": asked})
    noted = study.resolved()
    assert parse_study(noted) == study  # what a resumed run reads
    noted["certificates"][0]["rule_source"] = "0" * 64
    with pytest.raises(InputError, match=r"rule_source is filled in with the hash of the file of"):
        parse_study(noted)


def test_one_text_in_the_place_of_several_is_one():
    assert load_study("quickstart", "train.rounds=3").train.rounds == 3
    for asked, said in [
        ({"overrides": {"seeds": [0]}}, "an override reads key=value .*, got {'seeds': \\[0\\]}"),
        (
            {"variants": "mnist"},
            "variants of this study must be left out: it has none, got 'mnist'",
        ),
        ({"scale": 3}, "scale must be smoke or reduced, got 3"),
    ]:
        with pytest.raises(InputError, match=said):
            load_study("quickstart", **asked)
