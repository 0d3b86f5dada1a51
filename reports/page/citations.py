"""Whom a report cites: BibTeX of the methods, bounds and tests that occur in it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import resources

from latecomer.eval.names import bound_cites, method_facts

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
    """Map each key of the shipped bibliography to its BibTeX entry.

    Examples
    --------
    >>> bibliography()["baxter2000"].splitlines()[0]
    '@article{baxter2000,'
    """
    text = (resources.files("latecomer.reports") / "references.bib").read_text("utf-8")
    entries = [entry.strip() for entry in text.split("\n\n") if entry.strip()]
    return {entry[entry.index("{") + 1 : entry.index(",")]: entry for entry in entries}


def own_entry(versions: Iterable[str]) -> str:
    """Return the BibTeX entry of latecomer itself, in the versions that wrote a run's rows.

    Examples
    --------
    >>> print(own_entry(["0.1.0"]))
    @misc{latecomer,
      title = {latecomer: theory and evaluation companion for personalized federated learning},
      author = {{The latecomer authors}},
      howpublished = {Python package},
      note = {Version 0.1.0}
    }
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

    Parameters
    ----------
    methods : iterable of str
        Names of methods, which say whom they cite.
    sources : iterable of str
        The ``source`` facts of certificates.
    tests : iterable of str
        Keys of the bibliography.
    outside : mapping, optional
        Whom methods of other packages cite, as their run recorded it.

    Examples
    --------
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
