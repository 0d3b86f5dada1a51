"""Certificates written as JSON, given where losses are asked for."""

import json

import pytest

from latecomer.certify.statements import certify_losses
from latecomer.errors import InputError


def test_a_certificate_holds_no_losses() -> None:
    made = certify_losses([0.1] * 30, rule="wsr_averaged").to_dict()
    with pytest.raises(InputError, match=r"holds a certificate, no losses$"):
        certify_losses(json.dumps(made).encode())
