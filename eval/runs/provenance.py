"""Where numbers come from: versions, machine, commit and command of a run."""

import os
import platform
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from latecomer.eval.devices import device_name

_PACKAGES = ("latecomer", "torch", "numpy", "scipy", "pandas", "scikit-learn")


def environment(device: str | None = None) -> dict[str, Any]:
    """Describe the environment that numbers are made in; secrets of the environment stay out.

    Parameters
    ----------
    device : str, optional
        ``cuda`` if the study's cells compute there.

    Returns
    -------
    dict
        ``versions`` (package to version), ``python``, ``git_commit`` (of a source checkout, with
        ``+changes`` when it is not clean; None otherwise), ``device`` (of the machine that starts
        the run, with the GPU's name), ``threads`` per worker,
        ``cpu_count``, ``platform``, ``date`` (UTC) and ``command``.
    """
    return {
        "versions": {name: _version(name) for name in _PACKAGES},
        "python": platform.python_version(),
        "git_commit": _commit(Path(__file__).resolve().parents[1]),
        "device": device_name(device),
        "threads": 1,
        "cpu_count": os.cpu_count(),
        "platform": platform.platform(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shlex.join([_program(), *sys.argv[1:]]),
    }


def _program() -> str:
    """Name what was called: a package, as by ``python -m latecomer``, or a script."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return (spec.parent if spec else "") or Path(sys.argv[0]).name


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _commit(folder: Path) -> str | None:
    """Ask git only about our own source tree: an installed package may lie inside another one."""
    if not (folder.parent / ".git").exists():
        return None
    try:
        commit = _git(folder, "rev-parse", "HEAD")
        changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return None
    return f"{commit}+changes" if changed else commit


def _git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    return done.stdout.strip()
