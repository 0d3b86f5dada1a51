"""What a study may ask, in words; a module of the report's chapters answers each."""

from collections.abc import Mapping
from types import MappingProxyType

QUESTIONS: Mapping[str, str] = MappingProxyType(
    {
        "bounds": "How far are guarantees for a new client from the error that new clients really "
        "have?",
        "shift": "How robust are models of new clients to shifted inputs and to other labels?",
        "gap": "How much accuracy does each method lose on clients that join after training?",
        "accuracy": "How well does each method serve clients that join after training?",
        "paper": "Do the published numbers come out?",
        "certificate": "What can be guaranteed to a client that joins after training?",
        "sets": "Which labels can be ruled out for a client that joins after training?",
    }
)
