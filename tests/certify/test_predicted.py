"""What certifying a callable returns: the same certificate, and all that losses show of it."""

import numpy as np

from latecomer import certify_losses, certify_predictor
from latecomer.certify.predictor import certify_predictor as plain


def federation():
    rng = np.random.default_rng(0)
    for client in range(30):
        x = rng.normal(size=(12, 2))
        yield client, ((x[:6], x[:6, 0] > 0), (x[6:], x[6:, 0] + 0.3 * x[6:, 1] > 0))


CLIENTS = dict(federation())


def first(support, query_x):
    return query_x[:, 0] > 0


def test_the_certificate_is_the_plain_one_with_what_else_is_asked(tmp_path):
    asked = {"delta": 0.1, "seed": 0}
    found = certify_predictor(first, CLIENTS, above=[0.3], shifts={"kl": [0.1]}, **asked)
    alone = plain(first, CLIENTS, **asked)
    assert float(found.certificate) == float(alone.certificate)
    assert found.certificate.assumptions == alone.certificate.assumptions
    by_hand = certify_losses(
        {i: float((first(None, x) != y).mean()) for i, (_, (x, y)) in CLIENTS.items()},
        above=[0.3],
        shifts={"kl": [0.1]},
        **asked,
    )
    assert float(found.above[0.3]) == float(by_hand.above[0.3])
    assert found.table().equals(by_hand.table())
    assert found.sentence == by_hand.sentence
    assert "<" in found._repr_html_()
    assert found.report(tmp_path / "page.html").stat().st_size > 1_000
    served = "the system is run with 6 to 6 support points a client"
    assert served in found.certificate.assumptions
    assert served in found.next_client.assumptions
