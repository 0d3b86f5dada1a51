"""Cards: valid JSON that says what a model is, and commands that give its numbers again."""

import json
import shlex

import numpy as np
import pytest

from latecomer.certify.statements import certify_losses
from latecomer.eval.results.rows import RunRecord, load_run
from latecomer.eval.studies.loading import load_study
from latecomer.reports.display.section import Material
from latecomer.reports.page.cards import cards, certify_command, model_command, stem_of
from latecomer.reports.page.method import bibliography, citations


@pytest.fixture(scope="module")
def made(made_up_run):
    return cards(Material.of(load_run(made_up_run)))


@pytest.mark.slow
def test_every_trained_model_has_a_card_that_any_parser_reads(made):
    names = [name for name in made if name.endswith(".json")]
    assert len(names) == 18
    for name in names:
        card = json.loads(made[name], parse_constant=lambda word: pytest.fail(word))
        assert name == f"cards/{stem_of(card['label'], card['seed'])}.json"


def test_a_card_holds_settings_population_errors_counts_and_certificates(made):
    card = json.loads(made["cards/pefll-stochastic-1.json"])
    assert card["hyper_parameters"]["posterior"] == "gaussian"
    assert card["serves_new_clients"].startswith("One forward pass")
    novel = [e for e in card["errors"] if (e["group"], e["shift"]) == ("novel", "none")]
    assert {e["predictor"] for e in novel} == {"gibbs", "deterministic"}
    assert all(e["n_clients"] == 12 and e["n_query"] == 300 for e in novel)
    assert all(e["spread"] == "95% t-interval over clients" for e in novel)
    product = [c for c in card["certificates"] if c["bound"] == "r0:product"]
    assert len(product) == 2
    for one in product:
        assert "mean error over the 24 clients not trained on" in one["statement"]
        assert one["delta_ledger"] == {"clients": 0.05}
        assert one["assumptions"][0] == "losses lie in [0, 1]"
    vacuous = next(c for c in card["certificates"] if c["bound"] == "pefll_32")
    assert (vacuous["vacuous"], vacuous["rigorous"], vacuous["command"]) == (True, False, "")


def test_the_commands_of_certificates_give_their_values(made, tmp_path):
    seen = 0
    for name in ("cards/pefll-0.json", "cards/pefll-stochastic-2.json"):
        for one in json.loads(made[name])["certificates"]:
            if one["bound"] != "r0:product":
                continue
            words = shlex.split(one["command"])
            assert words[:2] == ["latecomer", "certify"]
            options = dict(zip(words[3::2], words[4::2], strict=True))
            scores = tmp_path / "scores.csv"
            scores.write_text(made[words[2]])
            found = certify_losses(
                scores, delta=float(options["--delta"]), rule=options["--rule"],
                pool_size=int(options["--pool-size"]),
            )  # fmt: skip
            assert float(found.certificate.value) == pytest.approx(one["value"], abs=1e-9)
            seen += 1
    assert seen == 3


def test_a_rule_the_command_line_lacks_has_no_command():
    one = {"bound": "r1:kl", "shift": "none", "sampling": "iid", "delta": 0.05}
    assert certify_command(one, "scores.csv") == ""
    averaged = {**one, "bound": "r0:wsr_averaged"}
    assert certify_command({**averaged, "shift": "blur"}, "scores.csv") == ""
    asked = certify_command(averaged, "scores.csv", seed=3)
    assert "--pool-size" not in asked
    assert asked.endswith("--seed 3")
    # These bet along the order in which the clients were drawn, which a file does not tell.
    for rule in ("wsr_wor", "product_wor", "betting_wor"):
        pooled = {**one, "bound": f"r0:{rule}", "sampling": "finite-pool", "pool": 40}
        assert certify_command(pooled, "scores.csv") == ""


def test_the_command_of_a_model_asks_for_its_very_cell(tmp_path):
    import yaml

    study = load_study("quickstart")
    resolved = study.resolved()
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(resolved, sort_keys=False))
    cells = {(cell.label, cell.seed): cell.id for cell in study.cells()}
    for label in ("pefll-stochastic", "local"):
        words = shlex.split(model_command(resolved, label, 2))
        assert words[:3] == ["latecomer", "run", "study.yaml"]
        again = load_study(tmp_path / "study.yaml", words[3 : words.index("--out")])
        ids = [cell.id for cell in again.cells() if cell.kind == "method"]
        assert ids == [cells[label, 2]]


@pytest.mark.parametrize("labels", [("a b", "a/b"), ("A", "a"), ("a" * 300, "a" * 299)])
def test_labels_that_look_alike_as_file_names_get_files_of_their_own(
    labels, made_up_rows, tmp_path
):
    rows = made_up_rows[made_up_rows["label"].isin(["pefll", "local"])].copy()
    rows["label"] = rows["label"].map(dict(zip(("pefll", "local"), labels, strict=True)))
    files = cards(Material.of(RunRecord(tmp_path, {}, {}, rows, (), ())))
    assert len({name.casefold() for name in files if name.endswith(".json")}) == 6
    assert all(len(name.encode()) < 250 for name in files)


def test_bibliography_is_whole_and_methods_are_found_in_it():
    from latecomer.models.methods import METHODS

    entries = bibliography()
    for key, entry in entries.items():
        assert entry.count("{") == entry.count("}"), key
        for field in ("title", "author", "year"):
            assert f"{field} = {{" in entry, key
    assert all(citations([name]) for name, cls in METHODS.items() if cls.paper != "baseline")
    assert citations(["mine"]) == ""
    assert citations(["mine"], outside={"mine": ["@misc{own}", "no key of ours"]}) == "@misc{own}"


def test_sources_of_held_out_bounds_are_cited():
    from latecomer.bounds import CATALOGUE

    cited = {name: citations([], [CATALOGUE[name].source]) for name in ("wsr", "chernoff_kl")}
    assert "waudbysmith2024" in cited["wsr"]
    assert "hoeffding1963" in cited["chernoff_kl"]
    assert np.unique(list(cited.values())).size == 2
