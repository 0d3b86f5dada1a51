"""Prepare the tree for type checkers: ``python tests/check.py links``.

An editable install is an import hook, which mypy and pyright cannot see through; a folder of
symlinks laid out as the import package is what they read instead.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ("bounds", "certify", "models", "eval", "reports", "commands")


def links() -> None:
    """Make ``build/links/latecomer`` mirror the import package with symlinks."""
    package = ROOT / "build" / "links" / "latecomer"
    package.mkdir(parents=True, exist_ok=True)
    wanted = {name: ROOT / name for name in LAYERS}
    wanted |= {path.name: path for path in (ROOT / "cli").iterdir() if path.name != "__pycache__"}
    for old in package.iterdir():
        if old.is_symlink() and old.name not in wanted:
            old.unlink()
    for name, target in wanted.items():
        link = package / name
        if not link.is_symlink():
            link.symlink_to(target)


if __name__ == "__main__":
    if sys.argv[1:] != ["links"]:
        raise SystemExit("usage: python tests/check.py links")
    links()
