"""What is no run directory is refused by the argument's name; one question is one, not letters."""

import pytest

from latecomer.errors import InputError
from latecomer.reports.page.page import figures, report


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (3, "directory must be a path, got 3"),
        (None, "directory must be a path, got None"),
        ("", "directory must not be empty, got ''"),
        ("absent", "absent is no run directory: it has no study.yaml"),
    ],
)
def test_a_directory_is_a_path(given, said):
    for call in (lambda: report(given), lambda: figures(given, "png")):
        with pytest.raises(InputError) as caught:
            call()
        assert str(caught.value) == said


def test_one_question_is_one_and_not_its_letters(made_up_run):
    with pytest.raises(InputError, match=r"asks must be among .*, got 'certificates'"):
        report(made_up_run, asks="certificates")
