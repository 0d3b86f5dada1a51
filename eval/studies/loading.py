"""Studies: read, overridden, checked and held to what the machine has; a mistake is one line.

A study that names no device computes on the CPU, so that it has the same cells on every machine;
``auto`` is settled once, when a run begins, and the cells record ``cuda`` or nothing.
"""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from latecomer.checks import several
from latecomer.errors import InputError, nearest
from latecomer.eval.devices import lacking
from latecomer.eval.studies.checking import parse_study
from latecomer.eval.studies.settings import Study
from latecomer.eval.studies.shipped import (
    assigned,
    changed,
    leaves_paper,
    read_yaml,
    refuse_contradictions,
    set_key,
    shipped_texts,
)
from latecomer.extras import require
from latecomer.files import at_home, content_of, found_from
from latecomer.reading.yaml_text import read_shipped


def load_study(
    name_or_path: str | Path,
    overrides: Iterable[str] = (),
    *,
    variants: Sequence[str] = (),
    scale: str | None = None,
) -> Study:
    """Load a shipped study by name or a study file by path, and check all of it.

    Parameters
    ----------
    name_or_path : str or Path
        A shipped study's name, such as ``"quickstart"``, or a path that ends in ``.yaml``.
    overrides : iterable of str; empty unless given
        ``"key=value"`` with dotted keys, list indices included; values are YAML:
        ``"train.rounds=300"``, ``"seeds=[0]"``, ``"methods.0.posterior=gaussian"``.  A study at
        scale ``paper`` whose published settings they change is ``reduced``, unless they set
        ``scale`` too.
    variants : sequence of str; empty unless given
        Names under the file's ``variants``, applied in this order.
    scale : {"smoke", "reduced", "paper"}; optional
        One of the file's ``scales``, applied after variants and before overrides: ``smoke`` only
        shows that it runs, ``paper`` is as published; as written unless given.

    Returns
    -------
    Study
        Frozen; every setting has a value, sections are attributes: ``.train.rounds``.  Its
        ``resolved()`` is plain data, ``cells()`` what there is to run.

    Raises
    ------
    InputError
        With one line that names the key, what is legal and what was given.
    ModuleNotFoundError
        Where the extra "train" is not installed.

    Examples
    --------
    >>> load_study("quickstart", ["train.rounds=300", "seeds=[0]"]).train.rounds
    300
    """
    require()
    raw = changed(_read_source(name_or_path), variants=several(variants), scale=scale)
    own = _entries(raw)
    if own:
        raw["methods"] = own
    published = deepcopy(own)
    overrides = several(overrides)
    changes = [assigned(assignment) for assignment in overrides]
    refuse_contradictions(changes)
    for key, value in changes:
        set_key(raw, key, value)
    chosen = all(entry in published for entry in _entries(raw))
    if raw.get("scale") == "paper" and leaves_paper(overrides, chosen=chosen):
        raw["scale"] = "reduced"
    if isinstance(name_or_path, Path) or name_or_path.endswith((".yaml", ".yml")):
        _find_files(raw, at_home(name_or_path).parent)
    return parse_study(raw)


def _entries(raw: Mapping[str, Any]) -> list[Any]:
    """Return a declaration's methods, each as a mapping; none if they are not a list."""
    entries = _listed(raw, "methods")
    return [{"name": entry} if isinstance(entry, str) else entry for entry in entries]


def _find_files(raw: Mapping[str, Any], folder: Path) -> None:
    """Write out the full paths of files that lie beside the study file.

    They are those of methods, their checkpoints, rules, bounds, shifts and networks of one's own,
    weights, and Python files of data; and paths of data, of a split and of shifts that lead nowhere
    from the working directory.
    """
    from latecomer.models.outside import beside

    model, methods = raw.get("model"), raw.get("methods") or ()
    for key in ("target", "encoder"):
        _put(model, key, beside, folder)
    _put(model, "weights", _found, folder)
    for entry in (raw.get("data"), *_listed(raw.get("shifts"), "function")):
        _put(entry, "path", beside, folder)
    for section in ("data", "split", "shifts"):
        _find_data(raw.get(section), folder)
    for entry in _listed(raw, "certificates"):
        _put(entry, "rule", beside, folder)
    for section in (raw, *methods):
        bounds = _listed(section, "bounds")
        for place, entry in enumerate(bounds):
            if isinstance(entry, str):
                bounds[place] = beside(entry, folder)
            _put(entry, "name", beside, folder)
    for entry in methods:
        _put(entry, "name", beside, folder)
        if isinstance(entry, dict) and entry.get("needs_training") is False:
            _put(entry, "checkpoint", _found, folder)


def _listed(section: Any, key: str) -> list[Any]:
    """Return the list that a section has under a key; an empty one if it has none."""
    listed = section.get(key) if isinstance(section, dict) else None
    return listed if isinstance(listed, list) else []


def _put(section: Any, key: str, find: Callable[[str, Path], str], folder: Path) -> None:
    """Put in place of a text that a section has under a key what is found from the folder."""
    if isinstance(section, dict) and isinstance(section.get(key), str):
        section[key] = find(section[key], folder)


def _find_data(section: Any, folder: Path) -> None:
    """Write out the full paths of data beside the study file, where none are as it is written."""
    if isinstance(section, list):
        for entry in section:
            _find_data(entry, folder)
    if not isinstance(section, dict):
        return
    for key, value in section.items():
        if key == "path" and isinstance(value, str):
            if found_from(".", value) is None:
                section[key] = _found(value, folder)
        else:
            _find_data(value, folder)


def _found(path: str, folder: Path) -> str:
    """Return the full path of what lies at ``path`` from ``folder``; the path if nothing does."""
    return str(found_from(folder, path) or path)


def _read_source(name_or_path: str | Path) -> dict[str, Any]:
    text = str(name_or_path)
    if isinstance(name_or_path, Path) or text.endswith((".yaml", ".yml")):
        path = at_home(name_or_path)
        try:
            data = content_of(path)
        except FileNotFoundError:
            raise InputError(f"there is no study file {path}") from None
        except OSError as error:
            raise InputError(f"study file {path} cannot be read: {error.strerror}") from None
        return read_yaml(data, str(path))
    shipped = shipped_texts()
    if text not in shipped:
        hint = nearest(text, shipped) or "; a study file's path ends in .yaml"
        raise InputError(f"no study is called {text!r}{hint}")
    return read_shipped(shipped[text])


def settled(study: Study, *, gpus_elsewhere: float | None = None) -> Study:
    """Return the study with its device settled: ``cuda``, or nothing, which is the CPU.

    ``gpus_elsewhere`` are those that an executor asks a cell on other machines (workers there
    find out what these have); None: cells run on this one, and CUDA must be here.
    """
    asked = study.train.device
    here = gpus_elsewhere is None
    cuda = asked == "cuda"
    if asked == "auto":
        cuda = not lacking("cuda") if here else bool(gpus_elsewhere)
    elif cuda and here and (reason := lacking("cuda")):
        raise InputError(f"train.device must be cpu or auto on this machine, got cuda: {reason}")
    if study.train.precision == "tf32" and not cuda:
        raise InputError("train.precision must be float32 or bf16 on the CPU, got tf32")
    train = study.train.model_copy(update={"device": "cuda" if cuda else None})
    return study.model_copy(update={"train": train})


def leaves_gpu_idle(study: Study) -> bool:
    """Say whether this machine has a GPU that a study leaves idle because it names no device.

    Torch is asked only if it is already loaded, as it is once a run begins.
    """
    torch = sys.modules.get("torch")
    named = "device" in study.train.model_fields_set
    return torch is not None and not named and bool(torch.cuda.is_available())
