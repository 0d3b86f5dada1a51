"""Commands of pages run, in order, and print what is shown; so does Python for one's own data."""

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("arriving", "losses", "own_data", "tutorial")
PAGES = {name: (ROOT / "docs" / "pages" / f"{name}.md").read_text("utf-8") for name in NAMES}
KINDS = {"own_data": ("pycon", "python", "yaml", "console")}
INSTALLING = ("make install", "export PATH=$PWD/.venv/bin:$PATH")


def blocks(name, kind="console"):
    return re.findall(rf"^```{kind}\n(.*?)^```$", PAGES[name], flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", NAMES)
def test_every_block_is_run_by_a_test(name):
    kinds = KINDS.get(name, ("console",))
    assert PAGES[name].count("```") == 2 * sum(len(blocks(name, kind)) for kind in kinds)


def test_installing_is_what_ci_does(commands):
    typed = [command for command, _ in commands(*blocks("tutorial"))]
    assert [command for command in typed if command.startswith("make ")] == ["make install"]
    whole = (ROOT / ".ci" / "run").read_text("utf-8")
    done = re.findall(r"^ *(?:exec )?make .*$", whole, re.MULTILINE)
    assert {"install", "docs"} <= set(" ".join(done).split())


@pytest.mark.parametrize(
    ("name", "number", "columns"),
    [
        pytest.param("arriving", 7, 80, marks=pytest.mark.slow),
        pytest.param("losses", 4, 80, marks=pytest.mark.slow),
        pytest.param("tutorial", 6, 200, marks=pytest.mark.nightly),
    ],
)
def test_the_commands_print_what_is_shown(name, number, columns, commands, shell, disagreement):
    run = 0
    for command, shown in commands(*blocks(name)):
        if command in INSTALLING:
            continue
        printed = shell(command, columns=columns, quiet=name != "tutorial")
        trained = "tiny" in command
        told = disagreement("\n".join(shown), printed, trained=trained)
        assert told == "", f"{command}\n{printed}"
        run += command.startswith("latecomer ")
    assert run == number


@pytest.mark.nightly
def test_python_study_and_commands_run_as_they_stand(monkeypatch, commands, shell, disagreement):
    pytest.importorskip("datasets")
    monkeypatch.chdir(shell.place)
    (module,) = blocks("own_data", "python")
    (shell.place / "mine.py").write_text(module)
    python = "\n".join(blocks("own_data", "pycon"))
    test = doctest.DocTestParser().get_doctest(python, {}, "page", None, 0)
    told = []
    found = doctest.DocTestRunner().run(test, out=told.append)
    assert found.failed == 0, "".join(told)
    assert found.attempted > 35
    (study,) = blocks("own_data", "yaml")
    (shell.place / "scans.yaml").write_text(study)
    typed = list(commands(*blocks("own_data")))
    for command, shown in typed:
        printed = shell(command, columns=200, quiet=False)
        assert disagreement("\n".join(shown), printed, trained=True) == "", printed
    assert len(typed) == 2
