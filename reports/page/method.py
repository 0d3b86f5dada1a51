"""What was done, in words: set-up, protocol, versions, commands, and whom to cite."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from itertools import pairwise
from typing import Any

import pandas as pd
from markupsafe import Markup

from latecomer.certify.words import count, listing
from latecomer.eval.names import IID_SPLITS, ROUTES, bound_cites, method_defaults, method_facts
from latecomer.reports.display.section import (
    Block,
    Facts,
    Files,
    Group,
    Heading,
    Items,
    Listing,
    Material,
    Section,
    Text,
)
from latecomer.reports.frames.errors import (
    failures_frame,
    group_sizes,
    personalization,
    records,
    study_methods,
)
from latecomer.reports.page.cards import cards, model_command, stem_of
from latecomer.reports.words import CLIENTS, MASKING, PROTOCOLS, low_to_high, range_of

# Patterns in a certificate's source, and the key that each cites.
_SOURCES = {
    r"PeFLL": "scott2024",
    r"pFedHN": "shamsian2021",
    r"OD-?PFL": "amosy2024",
    r"Baxter": "baxter2000",
    r"Ben-David et al\. \(2010\)": "bendavid2010",
    r"Waudby-Smith": "waudbysmith2024",
    r"Bates": "bates2021",
    r"Hoeffding 1963": "hoeffding1963",
    r"Langford 2005": "langford2005",
    r"Maurer \(?2004": "maurer2004",
    r"Maurer and Pontil": "maurer2009",
    r"Clopper": "clopper1934",
    r"Vovk": "vovk2005",
    r"Dvoretzky": "dvoretzky1956",
    r"Massart": "massart1990",
    r"Zakerinia et al\. \(ICML 2024\)": "zakerinia2024",
    r"Seeger \(?2002": "seeger2002",
}


@cache
def bibliography() -> dict[str, str]:
    """Map each key of the shipped bibliography to its BibTeX entry."""
    text = (resources.files("latecomer.reports") / "references.bib").read_text("utf-8")
    entries = [entry.strip() for entry in text.split("\n\n") if entry.strip()]
    return {entry[entry.index("{") + 1 : entry.index(",")]: entry for entry in entries}


def own_entry(versions: Iterable[str]) -> str:
    """Return the BibTeX entry of latecomer itself, in the versions that wrote a run's rows.

    >>> own_entry(["0.1.0"]).splitlines()[-2:]
    ['  note = {Version 0.1.0}', '}']
    """
    told = ", ".join(sorted(version for version in set(versions) if version))
    fields = {
        "title": "latecomer: theory and evaluation companion for personalized federated learning",
        "author": "{The latecomer authors}",
        "howpublished": "Python package",
        **({"note": f"Version {told}"} if told else {}),
    }
    lines = ",\n".join(f"  {name} = {{{value}}}" for name, value in fields.items())
    return f"@misc{{latecomer,\n{lines}\n}}"


def citations(
    methods: Iterable[str],
    sources: Iterable[str] = (),
    tests: Iterable[str] = (),
    outside: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """Collect the BibTeX entries that methods, sources of bounds and tests call for.

    ``tests`` are keys of the bibliography; ``outside`` says whom methods of other packages cite, as
    their run recorded it.

    >>> cited = citations(["pefll"], ["Baxter (2000), Theorem 4"])
    >>> [line for line in cited.splitlines() if line.startswith("@")]
    ['@inproceedings{scott2024,', '@article{baxter2000,']
    """
    own = {name: told.get("cites", ()) for name, told in method_facts().items()}
    own |= {name: cited for name, cited in (outside or {}).items() if name not in own}
    keys = [key for method in methods for key in own.get(method, ())]
    sources, brought = list(sources), bound_cites()
    keys += [key for text in sources for key in brought.get(text, ())]
    keys += [
        key for text in sources for pattern, key in _SOURCES.items() if re.search(pattern, text)
    ]
    entries = bibliography()
    # A whole entry stands for itself; an outside method's key may be missing here.
    called = [entries.get(key, key) for key in dict.fromkeys([*keys, *tests])]
    return "\n\n".join(entry.strip() for entry in called if entry.lstrip().startswith("@"))


Named = list[tuple[str, str]]


def setup_card(rows: pd.DataFrame, study: Mapping[str, Any]) -> Named:
    """List the setup as (name, words) pairs."""
    split, sizes = dict(study.get("split") or {}), group_sizes(rows)
    train = dict(study.get("train") or {})
    seeds = list(study.get("seeds") or sorted(rows["seed"].dropna().unique()))
    masking = str((study.get("evaluation") or {}).get("classes", "all"))
    data = dict(study.get("data") or {})
    rounds = train.pop("rounds", None)
    facts = [
        ("Data", _settings(data, first="name")),
        ("Split", _settings(split, first="kind")),
        ("Clients", ", ".join(f"{n} {CLIENTS[name].split()[0]}" for name, n in sizes.items())),
        ("Samples per new client", samples_per_client(rows)),
        ("Training", f"{rounds} rounds; {_settings(train)}" if rounds else _settings(train)),
        ("Seeds", f"{count(len(seeds), 'training seed')}: {', '.join(str(s) for s in seeds)}"),
        ("Masking", f"{masking}: {MASKING.get(masking, masking)}"),
        ("Selection", selection(rows, study.get("train") or {})),
    ]
    return [(name, words) for name, words in facts if words]


def selection(rows: pd.DataFrame, train: Mapping[str, Any]) -> str:
    """State the rule of a study's ``train`` for choosing a round, as the rows show it."""
    rounds = train.get("rounds")
    if train.get("selection") == "validation":
        kept = sorted({int(n) for n in rows.loc[rows["metric"] == "selected_round", "value"]})
        which = ""
        if kept:
            which = f" (round {low_to_high(str(kept[0]), str(kept[-1]))} of {rounds})"
        return f"the round with the lowest validation error of the seen clients{which}"
    # What is measured during training carries the round of its measurement.
    trained = (rows["method"] != "") & (rows["personalization"] != "given")
    models = rows.loc[trained & (rows["metric"] == "error"), "round"]
    seen = sorted({int(n) for n in models.dropna()})
    if seen and rounds is not None and seen == [int(rounds)]:
        return "none: every model is the one after the last round"
    if seen:
        return f"models after round {_rounds(seen)}"
    return ""


def _rounds(numbers: Sequence[int]) -> str:
    """List rounds; many at equal steps by their ends and step.

    >>> _rounds([100, 150]), _rounds(range(150, 351, 5))
    ('100 or 150', '150 to 350, one in 5')
    """
    steps = {later - earlier for earlier, later in pairwise(numbers)}
    if len(numbers) > 3 and len(steps) == 1:
        return f"{numbers[0]} to {numbers[-1]}, one in {steps.pop()}"
    return listing([str(n) for n in numbers], "or")


def samples_per_client(rows: pd.DataFrame) -> str:
    """Say how much data the unshifted new clients have."""
    own = rows[
        (rows["group"] == "novel")
        & (rows["metric"] == "error")
        & (rows["client"] != "")
        & (rows["shift"] == "none")
    ]
    parts = []
    for column, role in (("n_support", "support"), ("n_query", "query")):
        known = own[column].dropna()
        if len(known):
            parts.append(f"{range_of(known, '{:.0f}'.format)} {role}")
    return ", ".join(parts)


def machine(env: Mapping[str, Any], timings: Sequence[Mapping[str, Any]]) -> Named:
    """List versions, machine, date and time spent, as far as they are known."""
    packages = {"python": env.get("python"), **dict(env.get("versions") or {})}
    seconds = sum(float(timing.get("seconds") or 0.0) for timing in timings)
    timed = sum(bool(timing) for timing in timings)
    cores, threads = env.get("cpu_count"), env.get("threads")
    hardware = [
        str(env.get("device") or ""),
        count(int(cores), "core") if cores else "",
        f"{count(int(threads), 'thread')} a worker" if threads else "",
        str(env.get("platform") or ""),
    ]
    facts = [
        (
            "Versions",
            ", ".join(f"{name} {version}" for name, version in packages.items() if version),
        ),
        ("Commit", str(env.get("git_commit") or "")),
        ("Machine", ", ".join(part for part in hardware if part)),
        ("Date", str(env.get("date") or "")),
        ("Time", f"{seconds:,.0f} s of work in {count(timed, 'cell')}" if seconds else ""),
    ]
    return [(name, words) for name, words in facts if words]


def command(study: Mapping[str, Any], env: Mapping[str, Any]) -> str:
    """Give the command that made the run, from ``env.json`` or else from the study's name."""
    return str(env.get("command") or f"latecomer run {study.get('study', '')}".strip())


def protocols(
    rows: pd.DataFrame, study: Mapping[str, Any], labels: Sequence[str]
) -> list[list[str]]:
    """Say for each method how it serves a new client, and what the study set and left as it is."""
    served = personalization(rows)
    given = study_methods(study.get("methods") or ())
    return [
        [
            label,
            PROTOCOLS.get(kind, kind),
            _settings({**own, "label": None}, first="name"),
            _settings(_left(str(own.get("name", "")), own)),
        ]
        for label in labels
        for kind, own in [(served.get(label, ""), given.get(label, {}))]
    ]


def _left(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a method that a study does not give."""
    defaults = method_defaults(name).items()
    return {key: "none" if one is None else one for key, one in defaults if key not in given}


def statement(
    rows: pd.DataFrame, study: Mapping[str, Any], scorings: Sequence[Mapping[str, Any]]
) -> list[str]:
    """State the protocol in sentences: groups, choices, masking, seeds, scoring, statistics."""
    sizes, split = group_sizes(rows), dict(study.get("split") or {})
    seeds = sorted({int(seed) for seed in rows["seed"].dropna()})
    train = dict(study.get("train") or {})
    masking = str((study.get("evaluation") or {}).get("classes", "all"))
    certifying = ""
    if held := sizes["certification"]:
        certifying = f"{count(held, 'held-out client')} gave scores to certificates and "
        certifying += "nothing else; "
    said = [
        f"{count(sizes['seen'], 'seen client')} trained every model; {certifying}"
        f"{count(sizes['novel'], 'new client')} had no part in training, in any "
        "choice or in any certificate.",
        f"Split, data and shifts are drawn with split seed {split.get('seed', 0)}, the same for "
        "every method and training seed, so methods are compared on the same clients and samples.",
        f"Every method was trained with {count(len(seeds), 'training seed')} "
        f"({', '.join(map(str, seeds))}), which also draw{'s' if len(seeds) == 1 else ''} the "
        "cohorts: the same for every method.",
        *_given(rows),
        f"Selection: {selection(rows, train)}.",
        *_tuned(rows),
        f"Masking: {MASKING.get(masking, masking)}.",
    ]
    if precision := train.get("precision"):
        said.append(
            f"Local steps multiplied in {precision} (train.precision), all else was computed in "
            "float32: what is measured and certified is the model as it is served, in float32."
        )
    if (study.get("evaluation") or {}).get("class_set") == "given":
        said.append("The set of a client's classes is side information here (class_set: given).")
    if sizes["certification"]:
        said.append(_scored(scorings))
    said += _exceptions(study)
    said.append(
        "Means are over clients first, then over seeds. Spread is named beside every number: one "
        "standard deviation over seeds, or a 95% t-interval over clients; of few clients, some of "
        "whom err far more than the rest, that lies too low and holds the mean less often. A "
        "certificate belongs to one trained model and is never averaged."
    )
    return said


def _given(rows: pd.DataFrame) -> list[str]:
    """Say what follows for the numbers of systems that this run did not train."""
    given = [label for label, kind in personalization(rows).items() if kind == "given"]
    if not given:
        return []
    one = len(given) == 1
    return [
        f"{listing(given)} {'is a system' if one else 'are systems'} trained elsewhere "
        "(needs_training: false): nothing above about training is said of "
        f"{'it' if one else 'them'}, every seed serves the same system, and its gap says how seen "
        "and new clients differ unless the seen ones are those that it was trained on. Its user "
        "vouches that no held-out or new client had part in that; its certificates and "
        "errors hold only then."
    ]


def _tuned(rows: pd.DataFrame) -> list[str]:
    """Say which rates new clients train at, where seen clients chose them."""
    chosen = rows[rows["metric"] == "novel_lr"]
    if chosen.empty:
        return []
    told = [
        f"{label} {listing([f'{value:g}' for value in sorted(set(own['value']))], 'or')}"
        for label, own in chosen.groupby("label", sort=False)
    ]
    n_clients = int(chosen["n_clients"].max())
    return [
        f"New clients train at a rate chosen by the validation error of {n_clients} seen clients "
        f"refitted as new clients: {', '.join(told)}. No new client had part in it; the method was "
        "trained on what these clients are refitted on, so that their error may hardly depend on "
        "the rate."
    ]


def _exceptions(study: Mapping[str, Any]) -> list[str]:
    """Say which models of a study did see held-out clients, if any."""
    said = []
    if (study.get("evaluation") or {}).get("given_up"):
        said.append(
            "Every method was trained once more on the held-out clients as well. These models "
            "stand only where it is said what holding clients out costs; nothing of them is "
            "certified."
        )
    routes = {entry.get("route") for entry in study.get("certificates") or ()}
    own = [name for name, route in ROUTES.items() if name in routes and route.trains_itself]
    if own and (study.get("split") or {}).get("kind") in IID_SPLITS:
        named = listing([route.upper() for route in own])
        said.append(
            f"{named} train models of their own, which take the held-out clients for the ones "
            "that they tune on or let join; these models' certificates account for it."
        )
    return said


def _scored(scorings: Sequence[Mapping[str, Any]]) -> str:
    if not scorings:
        return "How often the held-out clients were scored is not on record here."
    splits = dict.fromkeys(str(entry.get("split")) for entry in scorings)
    times = max(int(entry.get("times", 0)) for entry in scorings)
    text = (
        f"The held-out clients were scored once by each of {count(times, 'trained model')}"
        f"{'' if len(splits) == 1 else f' (at most, on {len(splits)} splits)'}, in this run "
        "directory so far. Certificates lose their meaning when rules or models are chosen after "
        "looking at these scores."
    )
    return text


def _settings(options: Mapping[str, Any], first: str = "") -> str:
    head = [str(options[first])] if options.get(first) else []
    rest = [
        f"{str(name).replace('_', ' ')} {_plain(value)}"
        for name, value in options.items()
        if name != first and value is not None
    ]
    return ", ".join(head + rest)


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_plain(inner)}" for name, inner in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(_plain(inner) for inner in value)
    return str(value)


def _set_up(material: Material) -> Iterator[Block]:
    run = material.run
    facts = setup_card(run.rows, run.study)
    yield Facts(facts + machine(run.env, [cell.timing for cell in run.cells]))
    yield Text("The command that made this:", "note")
    yield Text(command(run.study, run.env), "code")


def _protocol(material: Material) -> Iterator[Block]:
    yield Items(statement(material.rows, material.study, material.run.scorings))


def _protocols(material: Material) -> Iterator[Block]:
    columns = {
        "method": "word",
        "protocol": "prose",
        "settings of the study": "prose",
        "all others, at their defaults": "prose",
    }
    told = protocols(material.rows, material.study, material.labels)
    if told:
        listed = Listing("Protocols", columns, told, sortable=True)
        yield Group([listed], "How each method serves a new client, and all its settings")


def _failures(material: Material) -> Iterator[Block]:
    failed = records(failures_frame(material.everything))
    if failed:
        columns = {"method": "word", "seed": "", "cell": "code", "message": "message"}
        cells = [[one["label"] or "split", *list(one.values())[1:]] for one in failed]
        yield Listing("Failed cells", columns, cells)
    else:
        yield Text("No cell failed.")
    unfinished = [cell.id for cell in material.run.cells if cell.status == "unfinished"]
    if unfinished:
        yield Text(f"Not finished: {', '.join(unfinished)}.", "failed")


def _commands(material: Material) -> Iterator[Block]:
    files = cards(material)
    yield Files(files)
    told = Markup(
        "All of them: <code>{}</code>. This page, its figures and tables: <code>latecomer report "
        "DIR</code>. One trained model again, from this directory:"
    )
    yield Text(told.format(command(material.study, material.run.env)))
    models = material.errors[["label", "seed"]].drop_duplicates()
    if len(models):
        columns = {"method": "word", "seed": "", "command": "code", "card": "code"}
        cells = []
        for label, seed in models.astype({"label": str}).itertuples(index=False, name=None):
            card = f"cards/{stem_of(label, seed)}.json"
            again = model_command(material.study, label, seed)
            cells.append([label, str(seed), again, card if card in files else ""])
        yield Group([Listing("Commands", columns, cells)], f"{len(models)} trained models")
        yield Text(
            "A model's card (JSON) holds its settings, errors with counts and certificates; for a "
            "certificate from held-out clients also the command that computes it again from the "
            "scores beside the card."
        )


def _whom_to_cite(material: Material) -> Iterator[Block]:
    rows, ledger = material.rows, material.ledger
    methods = sorted(set(rows.loc[rows["method"] != "", "method"]))
    sources = list(dict.fromkeys(ledger.loc[ledger["kind"] == "source", "text"]))
    others = citations(methods, sources, material.cited, material.run.env.get("cites"))
    bibtex = "\n\n".join(part for part in (own_entry(rows["version"]), others) if part)
    yield Files({"references.bib": bibtex + "\n"})
    yield Heading("Whom to cite", "bibtex")
    whom = "latecomer, and of the methods, bounds and tests" if others else "latecomer"
    yield Group([Text(bibtex, "code")], f"BibTeX of {whom}")


def _files(material: Material) -> Iterator[Block]:
    versions = sorted(version for version in set(material.rows["version"]) if version)
    yield Text(
        Markup(
            "Beside this page: <code>rows.csv</code> (every number), <code>checks.csv</code> (what "
            "checks found), <code>study.yaml</code> (the resolved study), <code>figures/</code> "
            "(SVG; as PDF or PNG by <code>latecomer figures DIR</code>), <code>tables/</code> "
            "(CSV, LaTeX), <code>cards/</code> (JSON) and "
            "<code>references.bib</code>.{}"
        ).format(f" Rows written by latecomer {', '.join(versions)}." if versions else "")
    )


SET_UP = Section("set-up", _set_up)
PROTOCOL = Section("protocol", _protocol, title="Protocol")
PROTOCOLS_SERVED = Section("protocols", _protocols)
FAILURES = Section("failures", _failures, title="Failures")
COMMANDS = Section("commands", _commands, title="The command behind each number")
CITED = Section("bibtex", _whom_to_cite)
FILES = Section("files", _files, title="Files")
