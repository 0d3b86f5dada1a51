"""The reference is complete: schema and registries are walked, and everything is on its page."""

import re
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import get_args

from pydantic import BaseModel

import latecomer
import latecomer.reports
from latecomer.bounds import CATALOGUE
from latecomer.certify.rule import BEST_OF, RULES
from latecomer.eval.datasets.registry import DATASETS
from latecomer.eval.measures.registry import MEASURES, PUBLISHED
from latecomer.eval.results.rows import COLUMNS
from latecomer.eval.routes.registry import ROUTE_SETTINGS
from latecomer.eval.settings.study_sections import QUESTIONS
from latecomer.eval.shifts.transforms import SHIFTS
from latecomer.eval.splits.registry import SPLIT_SETTINGS
from latecomer.eval.studies.settings import Study, sections
from latecomer.models.generators.encoders import ENCODERS
from latecomer.models.generators.unlabelled_encoders import SET_ENCODERS
from latecomer.models.methods import METHODS
from latecomer.models.task.targets import TARGETS
from latecomer.reports.checks import CHECKS

PAGES = Path(__file__).resolve().parents[2] / "docs" / "pages"


@cache
def page(name):
    return (PAGES / "reference" / f"{name}.md").read_text("utf-8")


def part(name, heading):
    """Return what stands below a heading of a page, up to the next one."""
    begun = re.split(rf"^#+ {re.escape(heading)}$", page(name), flags=re.MULTILINE)
    assert len(begun) == 2, heading
    return re.split(r"^#", begun[1], flags=re.MULTILINE)[0]


def described(text):
    """Map the first cell of every row of a table to what the second one says."""
    rows = re.findall(r"^\| `([^`]+)` \| (.*?) \|", text, flags=re.MULTILINE)
    return dict(rows)


def assert_told(keys, text):
    told = described(text)
    assert [key for key in keys if not told.get(key, "").strip()] == []


def models_in(kind):
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
    for inner in get_args(kind):
        yield from models_in(inner)


def test_every_section_within_a_study_is_on_the_page():
    """Walk from the file downwards, so that a section added to any other is found."""
    left, found = [Study], set()
    while left:
        model = left.pop()
        found.add(model)
        inner = (
            one for field in model.model_fields.values() for one in models_in(field.annotation)
        )
        left += [one for one in inner if one not in found]
    assert {*SPLIT_SETTINGS.values(), *ROUTE_SETTINGS.values()} < found
    assert set(sections().values()) <= found
    for model in found:
        assert_told(model.model_fields, page("study_file"))


def test_every_key_stands_in_its_section():
    for place, model in sections().items():
        head, _, last = place.rpartition(".")
        if head == "split":
            own = part("study_file", f"`split` with `kind: {last}`") + part("study_file", "`split`")
        elif head == "certificates.*":
            own = part("study_file", f"`certificates.*` with `route: {last}`")
        elif place == "certificates.*":
            continue
        else:
            own = part("study_file", f"`{place}`" if place else "The file")
        assert_told(model.model_fields, own)


def test_every_name_that_a_key_takes_is_said():
    for names in (QUESTIONS, MEASURES, PUBLISHED):
        for name in names:
            assert re.search(rf"^- `{name}`: \w.+[.?]$", page("study_file"), re.MULTILINE), name


def test_legal_values_and_defaults_are_those_of_the_schema(building):
    settings = building("settings")
    text = part("study_file", "`train`")
    assert "| `rounds` | Rounds of training. | `5000` | a whole number, at least 1 |" in text
    legal = settings.legal_values(ROUTE_SETTINGS["r0"].model_fields["rule"].annotation,
                                  ROUTE_SETTINGS["r0"].model_fields["rule"].metadata)  # fmt: skip
    assert f"`{BEST_OF}`" in legal
    assert "`product_wor`" in legal


def test_every_setting_of_every_method():
    for name, method in METHODS.items():
        own = [field.name for field in fields(method) if field.metadata]
        assert own
        assert_told(own, part("methods", name))
        assert f"`{name}`" in page("methods").partition("### ")[0]


def test_every_network():
    for name in (*TARGETS, *ENCODERS, *SET_ENCODERS):
        assert re.search(rf"^- .*`{name}`.*: \w", page("networks"), re.MULTILINE), name


def test_every_data_set_and_its_keys_and_every_shift():
    for name, reader in DATASETS.items():
        assert_told((*reader.required, *reader.optional), part("data_sets", name))
    assert_told(SHIFTS, page("data_sets"))


def test_every_rule_and_bound():
    text = page("rules")
    assert_told(RULES, text)
    assert f"`{BEST_OF}`" in text
    for name, entry in CATALOGUE.items():
        (row,) = re.findall(rf"^\| \[`{name}`\]\((.*?)\) \| (.+) \| .+ \|$", text, re.MULTILINE)
        assert row[0].endswith(f".{name}"), entry.claim
    # Which one comes before each of them.
    assert text.index("| to be bounded |") < text.index("| rule |")
    assert text.index("| question | use |") < text.index("| bound | claim |")


def test_every_check_has_its_page():
    pages = {path.stem: path.read_text("utf-8") for path in (PAGES / "checks").glob("*.md")}
    assert set(pages) == set(CHECKS)
    for code, check in CHECKS.items():
        assert f"# {code}: {check.title}" in pages[code].splitlines()
        assert f"checks/{code}.md" in (PAGES / "checks.md").read_text("utf-8")


def test_every_column_and_every_frame():
    text = page("columns")
    assert_told(COLUMNS, text)
    assert [*described(text)][: len(COLUMNS)] == list(COLUMNS)
    assert_told([one for one in latecomer.reports.__all__ if one.endswith("_frame")], text)


def test_every_python_name_with_its_signature_and_what_it_does(building):
    names = building("python_names")
    front = (PAGES / "api" / "latecomer.md").read_text("utf-8")
    for name in latecomer.__all__:
        assert name == "__version__" or f"`latecomer.{name}(" in front
    for package in ("bounds", "certify", "models", "eval", "reports"):
        text = (PAGES / "api" / f"{package}.md").read_text("utf-8")
        for name, full in names.homes(f"latecomer.{package}"):
            assert f'<a id="{full}"></a>\n\n### {name}\n\n`' in text
            assert names.claim_of(full), full
