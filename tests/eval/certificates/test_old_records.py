"""Certificates that earlier versions wrote as JSON, given where losses are asked for."""

import json

import pytest

from latecomer.eval.certificates.from_losses import certify_losses
from latecomer.eval.errors import InputError


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"rule": "product_wor", "best_of": [], "orders": 1, "seed": 0}, "it is withdrawn: its"),
        ({"rule": "best_of", "best_of": ["product", "wsr_wor"], "orders": 1}, "it is withdrawn"),
        ({"rule": "wsr_averaged", "best_of": [], "orders": 64, "seed": 0}, "by an older way, over"),
        ({"rule": "product", "best_of": [], "orders": 0, "seed": 0}, "a certificate, no losses"),
    ],
)
def test_an_old_certificate_is_told_what_became_of_it(record: dict, said: str) -> None:
    with pytest.raises(InputError) as caught:
        certify_losses(json.dumps({"certificate": {"value": 0.2}, **record}).encode())
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_new_certificate_is_told_that_it_holds_no_losses() -> None:
    made = certify_losses([0.1] * 30, rule="wsr_averaged").to_dict()
    with pytest.raises(InputError, match=r"holds a certificate, no losses$"):
        certify_losses(json.dumps(made).encode())
