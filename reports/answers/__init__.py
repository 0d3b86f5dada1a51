"""The answer that a report opens with: one sentence for each thing a study may ask."""

from latecomer.reports.answers.answer import (
    ASKS,
    QUESTIONS,
    Answer,
    answers,
    asked,
    asking,
    only_runs,
)

__all__ = ["ASKS", "QUESTIONS", "Answer", "answers", "asked", "asking", "only_runs"]
