"""A copy of the package that one file is added to, to see what else would have to be told of it."""

import html
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from latecomer.eval.studies.loading import load_study

ROOT = Path(__file__).resolve().parents[2]
STUDY = """
study: added
data: {name: digits}
split: {kind: iid, clients: 20, novel: 5, validation: 0}
methods: [{name: fedavg, local_lr: 0.02}]
train: {rounds: 2, cohort: 5, local_steps: 2, batch_size: 8}
"""
LAYERS = ("bounds", "certify", "models", "eval", "reports", "commands")


@dataclass
class Copy:
    """The import package as links to the files of the tree, and the files written beside them."""

    root: Path
    written: list[Path] = field(default_factory=list)

    def write(self, place: str, text: str) -> None:
        """Write a new file of the package; folders on the way become folders of links."""
        file = self.root / "latecomer" / place
        for folder in reversed(file.relative_to(self.root).parents):
            self._open(self.root / folder)
        assert not file.exists(), f"{place} is there already"
        file.write_text(text, "utf-8")
        self.written.append(file)

    def edit(self, place: str, *changes: tuple[str, str]) -> None:
        """Change places that a file has once each; it counts as written."""
        file = self.root / "latecomer" / place
        text = file.read_text("utf-8")
        for old, new in changes:
            assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {place}"
            text = text.replace(old, new)
        for folder in reversed(file.relative_to(self.root).parents):
            self._open(self.root / folder)
        file.unlink()
        self.write(place, text)

    def run_study(self, lines: str) -> str:
        """Run a small study, with these lines among its own, and return the text of its page."""
        asked = yaml.safe_load(STUDY) | yaml.safe_load(lines)
        (self.root / "added.yaml").write_text(yaml.safe_dump(asked), "utf-8")
        self.run("-m", "latecomer", "run", "added.yaml", "--out", "run", "--workers", "1")
        return html.unescape((self.root / "run" / "report.html").read_text("utf-8"))

    def _open(self, folder: Path) -> None:
        if not folder.is_symlink():
            return
        target = folder.resolve()
        folder.unlink()
        folder.mkdir()
        for path in target.iterdir():
            if path.name != "__pycache__":
                (folder / path.name).symlink_to(path)

    def run(self, *words: str) -> str:
        """Run Python in the copy, and return what it prints."""
        done = subprocess.run(
            [sys.executable, *words],
            cwd=self.root,
            env={
                **os.environ,
                "PYTHONPATH": str(self.root),
                "PYTHONDONTWRITEBYTECODE": "1",
                "OMP_NUM_THREADS": "1",
                "COLUMNS": "200",
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def package(tmp_path):
    """A copy of the package without anything added."""
    home = tmp_path / "latecomer"
    home.mkdir()
    for path in (ROOT / "cli").iterdir():
        if path.name != "__pycache__":
            (home / path.name).symlink_to(path)
    for layer in LAYERS:
        (home / layer).symlink_to(ROOT / layer)
    return Copy(tmp_path)


@pytest.fixture(scope="session")
def quickstart_ids():
    """Ids of the quickstart's cells, which nothing that it does not ask for may change."""
    return " ".join(cell.id for cell in load_study("quickstart").cells("data"))
