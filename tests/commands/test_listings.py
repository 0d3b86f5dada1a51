"""What the lists say, and that what was counted once is what counting gives."""

import json

import pytest

from latecomer.commands.listings import COUNTED, COUNTS, counted, methods
from latecomer.models.methods import METHODS

KEPT = json.loads(COUNTED.read_text("utf-8"))


@pytest.mark.parametrize("name", sorted(KEPT))
def test_what_a_method_sends_was_counted_by_this_code(name):
    said = counted(name)
    assert KEPT[name] == {place: said[place] for place in COUNTS}, f"put right {COUNTED.name}"


def test_a_method_without_a_line_is_counted(monkeypatch, tmp_path):
    listed = {one["name"]: one for one in methods()}
    assert list(listed)[: len(METHODS)] == list(METHODS)
    fewer = tmp_path / "counted.json"
    fewer.write_text(json.dumps({name: KEPT[name] for name in KEPT if name != "fedper"}))
    monkeypatch.setattr("latecomer.commands.listings.COUNTED", fewer)
    assert methods() == list(listed.values())


def test_what_files_say_is_what_classes_say():
    for one in methods():
        made = METHODS[one["name"]]
        assert one["paper"] == made.paper
        assert one["personalization"] == made.personalization
        assert one["needs_labels"] is made.needs_labels
