"""What stands around the code: citation, workflows, templates."""

import re
import tomllib
from itertools import product
from pathlib import Path

import pytest
import yaml
from rattler_build import RattlerBuildError, RenderConfig, Stage0Recipe, VariantConfig

ROOT = Path(__file__).resolve().parent.parent
GITHUB = ROOT / ".github"


def read(path):
    return yaml.safe_load(path.read_text("utf-8"))


def test_the_citation_is_of_this_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    citation = read(ROOT / "CITATION.cff")
    assert citation["version"] == project["version"]
    assert citation["license"] == project["license"]


def test_the_checks_are_the_parts_of_ci_side_by_side_with_a_cache():
    jobs = read(GITHUB / "workflows" / "checks.yml")["jobs"].values()
    parts = [job["env"]["PARTS"].split() for job in jobs]
    assert parts == [["lint", "types", "docs"], ["test"], ["test-slow"]]
    for job in jobs:
        settings, check = (step["run"] for step in job["steps"] if "run" in step)
        assert settings.startswith("git config ")
        assert check == "bash .ci/run $PARTS"
        assert "actions/cache@v4" in [step.get("uses") for step in job["steps"]]
    whole = (ROOT / ".ci" / "run").read_text("utf-8")
    targets = re.findall(r"^make (?:--.*target )?([a-z][a-z -]*?)(?: &)?$", whole, re.MULTILINE)
    assert targets == ["lint", "types docs", "test-landing"]


def test_what_no_landing_runs_runs_every_night_and_at_a_release():
    workflow = read(GITHUB / "workflows" / "nightly.yml")
    assert {"schedule", "push"} < workflow[True].keys()  # YAML 1.1 reads "on" as true
    assert workflow[True]["push"] == read(GITHUB / "workflows" / "release.yml")[True]["push"]
    longest, newest = workflow["jobs"].values()
    assert longest["steps"][-1]["run"] == "bash .ci/run test-nightly"
    assert newest["steps"][-1]["run"] == "bash .ci/run test"
    assert newest["container"] > longest["container"]


def test_fast_slow_and_nightly_tests_are_all_tests():
    makefile = (ROOT / "Makefile").read_text("utf-8")
    fast, slow, landing, nightly, every = (
        re.search(rf'^{name}: .*\n.* -m "(.*)"$', makefile, re.MULTILINE).group(1)
        for name in ("test", "test-slow", "test-landing", "test-nightly", "test-all")
    )
    names = ("slow", "nightly", "theory", "browser", "cluster", "gpu")
    for marked in product((False, True), repeat=len(names)):
        marks = dict(zip(names, marked, strict=True))
        ran = [eval(one, {}, dict(marks)) for one in (fast, slow, landing, nightly, every)]
        assert ran[0] + ran[1] == ran[2], marks
        assert ran[2] + ran[3] == ran[4], marks


def test_a_tag_builds_targets_that_exist_and_publishes_the_site():
    workflow = read(GITHUB / "workflows" / "release.yml")
    assert workflow[True] == {"push": {"tags": ["v*"]}}  # YAML 1.1 reads "on" as true
    steps, publish = workflow["jobs"]["build"]["steps"], workflow["jobs"]["publish"]
    (build,) = (step["run"] for step in steps if "run" in step)
    program, *targets = build.split()
    assert program == "make"
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert targets == ["dist", "docs"]
    assert all(f"\n{target}: " in makefile for target in targets)
    (site,) = (step["with"] for step in steps if "pages-artifact" in step.get("uses", ""))
    assert site["path"].rstrip("/") == read(ROOT / "mkdocs.yml")["site_dir"]
    assert publish["needs"] == "build"
    assert publish["permissions"] == {"pages": "write", "id-token": "write"}
    assert [step["uses"] for step in publish["steps"]] == ["actions/deploy-pages@v4"]


@pytest.mark.parametrize("template", sorted((GITHUB / "ISSUE_TEMPLATE").glob("*.yml")))
def test_issue_templates_ask_for_the_environment(template):
    asked = {item["id"]: item["attributes"]["label"] for item in read(template)["body"]}
    assert asked["env"] == "env.json"


def test_hooks_before_a_commit_are_ruff_and_mypy():
    (repository,) = read(ROOT / ".pre-commit-config.yaml")["repos"]
    entries = [hook["entry"] for hook in repository["hooks"]]
    assert [entry.split()[:2] for entry in entries] == [
        [".venv/bin/ruff", "check"],
        [".venv/bin/ruff", "format"],
        ["make", "types"],
    ]


# Requirements that conda-forge calls otherwise; -base leaves out what draws on screens.
CONDA_NAMES = {"torch": "pytorch", "matplotlib": "matplotlib-base"}


def test_the_conda_recipe_asks_for_what_pip_asks_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    recipe = read(ROOT / ".conda" / "recipe.yaml")
    core, train = recipe["outputs"]
    assert recipe["context"]["version"] == project["version"]
    assert f">={recipe['context']['python_min']}" == project["requires-python"]
    assert recipe["about"]["license"] == project["license"]
    (script,) = core["build"]["python"]["entry_points"]
    assert dict([script.split(" = ")]) == project["scripts"]

    def conda(requirements):
        parts = [re.fullmatch(r"([\w-]+)(.*)", one).groups() for one in requirements]
        return {f"{CONDA_NAMES.get(name, name)} {versions}" for name, versions in parts}

    python, *core_needs = core["requirements"]["run"]
    pin, *train_needs = train["requirements"]["run"]
    assert python == "python >=${{ python_min }}"
    assert "pin_subpackage" in pin
    assert set(core_needs) == conda(project["dependencies"])
    assert set(train_needs) == conda(project["optional-dependencies"]["train"])


def test_the_conda_recipe_renders():
    recipe = Stage0Recipe.from_yaml((ROOT / ".conda" / "recipe.yaml").read_text("utf-8"))
    rendered = [one.recipe.package for one in recipe.render(VariantConfig(), RenderConfig())]
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert [str(one.name) for one in rendered] == ["latecomer", "latecomer-train"]
    assert {str(one.version) for one in rendered} == {version}


def test_a_damaged_conda_recipe_does_not_render():
    text = (ROOT / ".conda" / "recipe.yaml").read_text("utf-8")
    with pytest.raises(RattlerBuildError, match="requirement"):
        Stage0Recipe.from_yaml(text.replace("requirements:", "requirement:", 1))
