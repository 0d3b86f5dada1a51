"""The answer that a report opens with: one sentence for each thing a study may ask."""

from latecomer.reports.answers.answer import ASKS, Answer, answers, asked

__all__ = ["ASKS", "Answer", "answers", "asked"]
