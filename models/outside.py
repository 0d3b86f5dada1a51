"""Methods and networks from outside: found by import path, by file, or by entry point.

A callable in the place of a method is a system trained elsewhere (`engine.given_system`); one in
the place of a target network makes a net from ``(input_shape, n_out)``.

Finding one imports its module, that is, runs its code.
"""

import hashlib
import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from functools import lru_cache, partial
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, get_args

from latecomer.declared import module_at
from latecomer.files import found_from, sum_of

if TYPE_CHECKING:
    from latecomer.models.engine.method import Method

GROUP = "latecomer.methods"
"""Entry point group of a package that offers methods; an entry's name is the method's name."""
TARGET_GROUP = "latecomer.targets"
"""Entry point group of a package that offers target networks."""


@lru_cache(maxsize=2)
def offered(group: str = GROUP) -> dict[str, tuple[EntryPoint, ...]]:
    """Return the entry points of installed packages by name; imports none of them."""
    by_name: dict[str, tuple[EntryPoint, ...]] = {}
    for entry in entry_points(group=group):
        by_name[entry.name] = (*by_name.get(entry.name, ()), entry)
    return by_name


def is_path(name: str) -> bool:
    """Tell an import path from a registered name.

    >>> is_path("own.py:Mine"), is_path("package.module:Mine"), is_path("fedavg")
    (True, True, False)
    """
    return ":" in name


def beside(name: str, folder: Path) -> str:
    """Resolve a file's path against ``folder`` if the file is there; return other names unchanged.

    >>> beside("package.module:Mine", Path("/nowhere"))
    'package.module:Mine'
    """
    place, _, cls = name.rpartition(":")
    file = found_from(folder, place) if place.endswith(".py") else None
    return name if file is None else f"{file}:{cls}"


def import_method(name: str, taken: tuple[str, ...] = ()) -> "type[Method]":
    """Import a method by ``package.module:Class``, ``folder/file.py:Class`` or entry point name.

    Parameters
    ----------
    name : str
        A file is looked for from the working directory.
    taken : tuple of str
        Names that the found method may not have.

    Raises
    ------
    ValueError
        With one line: there is no such module, file, class or entry point; importing it failed;
        it is no complete method; its name is taken.
    """
    module, module_name, cls = _imported(name, "method", GROUP, taken)
    method = _found(module, cls, f"{cls} of {module_name}")
    if method.name in taken:
        raise ValueError(
            f"{cls} of {module_name} needs a name of its own: {method.name!r} is built in"
        )
    if not is_path(name) and method.name != name:
        raise ValueError(f"entry point {name!r} must offer a method of that name, {method.name!r}")
    return method


def _imported(
    name: str, kind: str, group: str, taken: tuple[str, ...] = ()
) -> tuple[ModuleType, str, str]:
    """Import the module of a path or an entry point; return it, its place and what to take."""
    place = name
    if not is_path(name):
        entries = offered(group).get(name, ())
        if len(entries) != 1 or name in taken:
            where = ", ".join(entry.value for entry in entries) or "nowhere"
            raise ValueError(f"{kind} {name!r} must be offered once under {group}, found: {where}")
        place = entries[0].value
    module_name, _, attribute = place.rpartition(":")
    if not module_name or not attribute.isidentifier():
        raise ValueError(f"{kind} must read module:Class or file.py:Class, got {name!r}")
    module = module_at(module_name)
    if getattr(module, "__file__", None) is None:
        raise ValueError(f"{kind} must lie in a file, after which cells are named, got {name!r}")
    return module, module_name, attribute


def is_own_target(name: str) -> bool:
    """Tell a network from outside, a path or an entry point's name, from those of the package."""
    return is_path(name) or name in offered(TARGET_GROUP)


def import_target(name: str, settings: Mapping[str, Any] | None = None) -> Callable[..., Any]:
    """Import what makes a target network, with its own settings bound to it.

    Parameters
    ----------
    name : str
        ``package.module:Net``, ``folder/file.py:Net`` (from the working directory) or an entry
        point's name in the group ``latecomer.targets``: a class or a function of ``(input_shape,
        n_out)``.
    settings : mapping, optional
        Its further arguments, by keyword.

    Raises
    ------
    ValueError
        With one line: there is no such thing, importing it failed, it cannot be called, or it takes
        no argument of that name or needs another.
    """
    from latecomer.models.engine.hyperparameters import refuse_word

    made_by, called = _maker(name, "target", TARGET_GROUP)
    own = dict(settings or {})
    try:
        takes = inspect.signature(made_by)
    except (TypeError, ValueError):
        return _WithSettings(made_by, **own)
    for key, value in own.items():
        _check_argument(takes, key, called)
        if key in takes.parameters:
            refuse_word(key, takes.parameters[key].default, value)
    try:
        takes.bind((), 0, **own)
    except TypeError as error:
        raise ValueError(f"{called} must take (input_shape, n_out): {error}") from None
    return _WithSettings(made_by, **own)


class _WithSettings(partial[Any]):
    """Makes a network with settings that are its own every time it is made.

    One that appends to a list of widths would be another the next time.
    """

    def __call__(self, *asked: Any) -> Any:
        return self.func(*asked, **deepcopy(self.keywords))


def import_encoder(name: str) -> Callable[..., Any]:
    """Import what makes an encoder of labelled samples from ``(input_shape, n_classes, dim)``.

    Parameters
    ----------
    name : str
        ``package.module:Encoder`` or ``folder/file.py:Encoder``: a class or a function.

    Raises
    ------
    ValueError
        With one line, as for `import_target`.
    """
    made_by, called = _maker(name, "encoder", "")
    try:
        inspect.signature(made_by).bind((), 0, 0)
    except TypeError as error:
        said = f"{called} must take (input_shape, n_classes, dim): {error}"
        raise ValueError(said) from None
    return made_by


def _maker(name: str, kind: str, group: str) -> tuple[Callable[..., Any], str]:
    """Import a class or function that makes a network; return it and what it is called."""
    module, place, attribute = _imported(name, kind, group)
    made_by, called = getattr(module, attribute, None), f"{attribute} of {place}"
    if not callable(made_by):
        wrong = f"{'an' if kind[0] == 'e' else 'a'} {kind} must be a class or a function, got"
        raise ValueError(f"{'there is no' if made_by is None else wrong} {called}")
    return made_by, called


def _check_argument(takes: inspect.Signature, key: str, called: str) -> None:
    """Refuse a setting that a network does not take by keyword."""
    kinds = {name: one.kind for name, one in [*takes.parameters.items()][2:]}
    if inspect.Parameter.VAR_KEYWORD in kinds.values():
        return
    by_name = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    legal = [name for name, kind in kinds.items() if kind in by_name]
    if key not in legal:
        near = get_close_matches(key, legal, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        known = ", ".join(legal) or "none"
        raise ValueError(f"{called} takes the settings {known}, got {key!r}{hint}")


def file_hash(name: str) -> str:
    """Return the SHA-256 of the file that holds what an import path names."""
    return hashlib.sha256(_source(name, "encoder", "")).hexdigest()


def _source(name: str, kind: str, group: str) -> bytes:
    """Return the file that a name is in, and after it the one that it was imported from, if any."""
    module, _, attribute = _imported(name, kind, group)
    files, held = [inspect.getfile(module)], getattr(module, attribute, None)
    if callable(held):
        with suppress(TypeError, OSError):  # of what is no class or function that is all there is
            files.append(inspect.getfile(inspect.unwrap(held)))
    return b"".join(Path(file).read_bytes() for file in dict.fromkeys(files))


def target_source_hash(name: str, weights: str | None = None) -> str:
    """Return the SHA-256 of what `file_hash` reads of a target network, and of its weights."""
    source = _source(name, "target", TARGET_GROUP)
    loaded = b"" if weights is None else hashlib.sha256(Path(weights).read_bytes()).digest()
    return hashlib.sha256(source + loaded).hexdigest()


def source_hash(method: "type[Method]") -> str:
    """Return the SHA-256 of the file that defines a method."""
    return sum_of(inspect.getfile(method))


def check_said(name: str, cls: "type[Method]", said: Any) -> None:
    """Refuse a callable not declared as trained elsewhere, and a method declared as such.

    Raises
    ------
    ValueError
        With one line.
    """
    if said is not None and said is not False:
        raise ValueError(f"needs_training must be false or left out, got needs_training={said!r}")
    given = cls.personalization == "given"
    if given and said is None:
        raise ValueError(
            f"{name} is not a subclass of latecomer.models.Method; if it is a system trained "
            "elsewhere, say needs_training: false"
        )
    if said is False and not given:
        raise ValueError(
            f"needs_training: false is for systems trained elsewhere, and {name} is a method that "
            "trains"
        )


def _found(module: ModuleType, name: str, called: str) -> "type[Method]":
    """Return a module's method, or the method made from a callable."""
    from latecomer.models.engine.given_system import given_system
    from latecomer.models.engine.method import Method

    held = getattr(module, name, None)
    if held is None:
        raise ValueError(f"there is no {called}")
    if isinstance(held, type) and issubclass(held, Method):
        return _checked(held, called)
    if not callable(held):
        raise ValueError(f"{called} is not a subclass of latecomer.models.Method")
    return given_system(name, held, module.__name__)


def _checked(method: "type[Method]", called: str) -> "type[Method]":
    from latecomer.models.engine.hyperparameters import OF_ENTRIES
    from latecomer.models.engine.method import Personalization

    missing = sorted(method.__abstractmethods__)
    missing += [
        name
        for name in ("name", "paper", "personalization", "needs_labels")
        if not hasattr(method, name)
    ]
    if missing:
        raise ValueError(f"{called} must define {', '.join(missing)}")
    for place, kind in (("name", str), ("paper", str), ("needs_labels", bool)):
        said = getattr(method, place)
        if not isinstance(said, kind) or said == "":
            legal = "text" if kind is str else "True or False"
            raise ValueError(f"{called}: {place} must be {legal}, got {said!r}")
    decorated = "__dataclass_params__" in vars(method) and is_dataclass(method)
    if not decorated or not vars(method)["__dataclass_params__"].frozen:
        raise ValueError(f"{called} must be decorated with @dataclass(frozen=True, kw_only=True)")
    for key in sorted({declared.name for declared in fields(method)} & {*OF_ENTRIES}):
        raise ValueError(
            f"{called} has a hyper-parameter {key!r}, a name that studies use: rename it"
        )
    if method.personalization not in get_args(Personalization):
        legal = ", ".join(get_args(Personalization))
        raise ValueError(
            f"{called}: personalization must be one of {legal}, got {method.personalization!r}"
        )
    _refuse_misspelt(method, called)
    return method


def _refuse_misspelt(method: "type[Method]", called: str) -> None:
    """Refuse a name that is nearly a hook's: the engine would go on with the hook inherited."""
    package = {one for one in method.__mro__ if one.__module__.startswith("latecomer.")}
    hooks = {name for one in package for name in vars(one) if not name.startswith("_")}
    known = hooks | {declared.name for declared in fields(method)}
    for name in (name for one in method.__mro__ if one not in package for name in vars(one)):
        near = get_close_matches(name, sorted(hooks), n=1, cutoff=0.85)
        if near and name not in known and not name.startswith("_"):
            raise ValueError(
                f"{called} defines {name!r}, which nothing calls: did you mean {near[0]!r}? (names "
                "of its own begin with _)"
            )
