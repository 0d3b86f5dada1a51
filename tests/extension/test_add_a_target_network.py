"""A target network is one file beside a study: studies, cells and methods know it by that."""

import pytest

NET = '''
"""A net whose hidden units are its own squares."""

from torch import nn


class Squares(nn.Module):
    """One hidden layer of squares."""

    def __init__(self, input_shape, n_out, *, width=4):
        super().__init__()
        self.body = nn.Linear(input_shape[1] * input_shape[2], width)
        self.last = nn.Linear(width, n_out)

    def forward(self, x):
        """Return logits."""
        return self.last(self.body(x.flatten(1)).square())
'''
DOORS = """
import pathlib
from latecomer.eval.federation.groups import build_federation
from latecomer.eval.settings.cell import federation_settings
from latecomer.eval.studies.loading import load_study
from latecomer.eval.training.setup import rehearse, task_of
from latecomer.models.methods import make_method
from latecomer.models.task.heads import head_names
from latecomer.models.traffic import traffic

def study(*more):
    return load_study("quickstart", ["model.target=squares.py:Squares", *more])

def ids(*more):
    return [cell.id for cell in study(*more).cells()]

first = ids()
built_in = [cell.id for cell in load_study("quickstart").cells()]
wider = ids("model.width=5")
print(first[0] == built_in[0], {*first[1:]} & {*built_in[1:]}, wider[1:] == first[1:])
federation = build_federation(federation_settings(study()))
for name in ("fedavg", "fedper", "pefll", "pfedhn"):
    method = make_method(name)
    task = task_of(federation, study("model.width=5").model, method)
    rehearse(federation, method, task)
    print(name, task.n_parameters, head_names(task), traffic(method, task).up)
file = pathlib.Path("squares.py")
file.write_text(file.read_text() + "# changed")
print(ids() == first)
"""


@pytest.mark.slow
def test_one_file_beside_a_study_opens_every_door(package):
    (package.root / "squares.py").write_text(NET, "utf-8")
    cells, *methods, again = package.run("-c", DOORS).splitlines()
    assert cells == "True set() False"
    heads = "('last.weight', 'last.bias')"
    weights = 64 * 5 + 5 + 5 * 10 + 10
    assert [line.rpartition(" ")[0] for line in methods] == [
        f"{name} {weights} {heads}" for name in ("fedavg", "fedper", "pefll", "pfedhn")
    ]
    sent = [int(line.rpartition(" ")[2]) for line in methods]
    assert sent[0] == sent[3] == 4 * weights
    assert sent[1] == 4 * (64 * 5 + 5), "heads stay with the clients"
    assert again == "False", "a changed file makes other cells"
    assert package.written == []
