"""Rules of somebody's own, by file.py:name: simulated on the spot, or taken on trust."""

import json
import math
from pathlib import Path

import pandas as pd
import pytest
from terminal import invoke

import latecomer
from latecomer.certify.rule import DRAWS, RULES, coverage_of, own_rule
from latecomer.errors import InputError

EXAMPLE = Path(__file__).resolve().parents[2] / "docs" / "examples" / "own_rule" / "hoeffding.py"
LOSSES = [0.01 * (i % 30) for i in range(60)]
MINE = """
from latecomer.bounds import product
from latecomer.certify.rules.declaration import Rule


def first(losses, delta):
    return losses[0] + 1


def broken(losses, delta):
    return losses.mean()


def nothing(losses, delta):
    return float("nan")


def worded(losses, delta):
    return "0.9"


def absence(losses, delta):
    pass


number = 3
given = Rule(name="given", words="my product", least=5,
             bound=lambda a: product(losses=a.losses, delta=a.level))


def of_the_better_half(losses, delta):
    return product(losses=sorted(losses)[: len(losses) // 2], delta=delta)


def fixed(losses, delta):
    return product(losses=losses, delta=0.05)


def wrong_way(losses, delta):
    return sum(losses) / len(losses) + 0.5 + delta


drawn = []


def random(losses, delta):
    drawn.append(0)
    return float(product(losses=losses, delta=delta)) + 0.001 * len(drawn)


def clearing(asked):
    found = product(losses=asked.losses, delta=asked.level)
    asked.losses[:] = [0.0] * len(asked.losses)
    return found.value


cleared = Rule(name="cleared", words="its losses", bound=clearing)


orders = Rule(name="orders", words="orders", orders=True, bound=given.bound)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(MINE)
    rows = "".join(f"c{i},{loss}\n" for i, loss in enumerate(LOSSES))
    Path("losses.csv").write_text(f"client,loss\n{rows}")
    Path("hoeffding.py").write_text(EXAMPLE.read_text("utf-8"))
    return tmp_path


def certify(*arguments):
    return invoke("certify", "losses.csv", *arguments)


def test_a_rule_of_ones_own_certifies_and_says_what_is_known_of_it(folder):
    found = latecomer.certify_losses(LOSSES, rule="hoeffding.py:bound", delta=0.05)
    mean = sum(LOSSES) / 60
    assert float(found.certificate) == pytest.approx(mean + math.sqrt(math.log(20) / 120))
    assert not found.certificate.rigorous
    shifted = latecomer.certify_losses(LOSSES, rule="hoeffding.py:bound", shifts={"kl": [0, 0.1]})
    assert not shifted.shifts["kl"].certificate.rigorous
    assert shifted.in_full.count("Not a proof here: with") == 3
    (note,) = found.notes
    assert f"of {DRAWS} simulated samples (seed 0;" in note
    code, out, err = certify("--rule", "hoeffding.py:bound")
    assert (code, err) == (0, "")
    assert " ".join(note.split()) in " ".join(out.split())
    told = certify("--rule", "hoeffding.py:bound", "--long")[1]
    assert "the proof of rule hoeffding.py:bound is its author's" in told
    scaled = latecomer.certify_losses(
        [2 * x for x in LOSSES], rule="hoeffding.py:bound", loss_max=2
    )
    assert float(scaled.certificate) == pytest.approx(2 * float(found.certificate))


def test_what_stands_on_a_rule_of_ones_own_is_called_no_proof_wherever_it_is_said(folder):
    frame = pd.DataFrame({"client": range(60), "loss": LOSSES, "site": ["x", "y"] * 30})
    asked = {"by": "site", "shifts": {"kl": [0.1]}, "target": 0.9, "above": [0.5]}
    own = latecomer.certify_losses(frame, rule="hoeffding.py:bound", **asked)
    reason = "the proof of rule hoeffding.py:bound is its author's"
    assert own.closing.startswith("Not a proof here: all 6 together: with probability at least")
    assert own.closing.endswith(f" The reason: {reason}.")
    told = own.to_dict()["together"]
    assert (told["statement"], told["rigorous"], told["reason"]) == (own.closing, False, reason)
    lines = str(own).splitlines()
    for about in ("mean loss of new clients", "mean loss, KL(Q || P)", "breaking radius"):
        (figure,) = [line for line in lines if line.startswith(f"  {about}")]
        assert "not a proof here" in figure
    by = latecomer.losses(frame, rule="hoeffding.py:bound").by("site")
    assert f"Of the means this is not a proof here. The reason: {reason}." in str(by)
    proved = latecomer.certify_losses(frame, **asked)
    for said in (str(proved), proved.in_full, json.dumps(proved.to_dict()["together"])):
        assert "proof" not in said


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("fixed", "must hang on delta, got the same bounds at 0.1 and at 0.0001"),
        ("wrong_way", "must promise less at a smaller delta, got "),
        ("random", "must give one bound for the same losses and delta, got "),
    ],
)
def test_a_rule_that_is_no_function_of_losses_and_delta_is_refused(folder, name, said):
    with pytest.raises(InputError, match=f"^rule mine.py:{name} {said}"):
        latecomer.certify_losses(LOSSES, rule=f"mine.py:{name}")


def test_a_rule_that_changes_its_losses_changes_no_others(folder):
    found = latecomer.certify_losses(LOSSES, rule="mine.py:cleared").certificate
    assert float(found.terms["empirical_risk"]) == pytest.approx(sum(LOSSES) / 60)


def test_a_rule_that_promises_too_much_is_refused_with_the_figures(folder):
    rule = "hoeffding.py:mean_of_the_better_half"
    code, out, err = certify("--rule", rule)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"rule {rule} failed in " in err
    assert f" of {DRAWS} simulated samples of 12 clients (" in err
    assert "where level 0.1 allows at most " in err
    assert "--trust" in err
    with pytest.raises(InputError, match="simulated samples"):
        latecomer.losses(LOSSES, rule=rule)
    code, out, _ = certify("--rule", rule, "--trust")
    assert code == 0
    assert "whose proof is its author's, is taken on trust" in " ".join(out.split())


def test_a_bound_of_the_package_within_a_trusted_rule_lends_it_no_proof(folder):
    found = latecomer.certify_losses(LOSSES, rule="mine.py:of_the_better_half", trust=True)
    usual = latecomer.certify_losses(LOSSES, rule="product")
    assert float(found.certificate) < float(usual.certificate)
    assert not found.certificate.rigorous
    assert "Not a proof here: with probability at least 95%" in found.in_full


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ("mine.py:first", "hangs on the order of the losses"),
        ("mine.py:broken", "failed: AttributeError"),
        ("mine.py:nothing", "must return a bound of at least 0, got nan"),
        ("mine.py:worded", "must return a bound of at least 0, got '0.9'"),
        ("mine.py:absence", "must return a bound of at least 0, got None"),
        ("mine.py:number", "mine.py has no function or Rule number"),
        ("mine.py:absent", "mine.py has no function or Rule absent"),
        ("mine.py:orders", "must bound the mean, by losses in any order"),
        ("absent.py:rule", "there is no file absent.py"),
        ("no_such_module:rule", "there is no module no_such_module"),
        ("mine.py:", "rule must be a name, file.py:name or module:name, got 'mine.py:'"),
    ],
)
def test_what_is_no_rule_is_one_line(folder, rule, says):
    code, out, err = certify("--rule", rule)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert says in err


@pytest.mark.slow
def test_a_pool_needs_a_rule_that_covers_it(folder):
    code, _, err = certify("--rule", "hoeffding.py:bound", "--pool-size", "90")
    assert code == 2
    assert "needs clients drawn independently" in err
    pooled = latecomer.certify_losses(LOSSES, rule="mine.py:given", pool_size=90)
    usual = latecomer.certify_losses(LOSSES, rule="product", pool_size=90)
    assert float(pooled.certificate) == float(usual.certificate)
    assert not pooled.certificate.rigorous
    assert "the proof of rule mine.py:given is its author's" in pooled.certificate.reason


def test_the_rules_of_the_package_are_not_simulated_and_keep_their_names(folder):
    assert "mine.py:given" in RULES
    assert "mine.py:absent" not in RULES
    assert "mine.py:given" not in list(RULES)
    assert own_rule("mine.py:given") is own_rule("mine.py:given")
    assert own_rule("mine.py:given").least == 5


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["product", "chernoff_kl", pytest.param("product_mixture", marks=pytest.mark.nightly)]
)
def test_rules_that_are_proved_pass(name):
    assert coverage_of(RULES[name]).failed <= 0.1 * DRAWS + 20


def test_trust_without_a_rule_of_ones_own_is_refused():
    with pytest.raises(InputError, match=r"^trust is for a rule of one's own, .* got rule blend$"):
        latecomer.certify_losses([0.1, 0.2], trust=True)


def test_trust_reaches_groups_and_the_page_of_shifts(folder):
    rows = [{"client": f"c{i}", "loss": loss, "site": "xy"[i % 2]} for i, loss in enumerate(LOSSES)]
    rule = "hoeffding.py:mean_of_the_better_half"
    asked = {"by": "site", "shifts": {"kl": [0.1]}, "target": 0.5}
    found = latecomer.certify_losses(rows, rule=rule, trust=True, **asked)
    assert list(found.groups) == ["x", "y"]
    assert "Certified mean under a shift" in found.report("page.html").read_text("utf-8")
    assert list(latecomer.losses(rows, rule=rule, trust=True).by("site").groups) == ["x", "y"]
