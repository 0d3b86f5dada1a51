"""A command is a module, and the application's import and line that name it."""

COMMAND = '''
"""The command ``latecomer least``: what no rule can undercut."""

from typing import Annotated

import typer

from latecomer.commands.arguments import Json
from latecomer.commands.render import show_json


def least(
    clients: Annotated[int, typer.Argument(help="Clients that are scored.", min=1)],
    as_json: Json = False,
) -> None:
    """Say how much any certificate leaves for clients who all had no error."""
    from latecomer.bounds.held_out.price import reference_price

    price = float(reference_price(mean_loss=0.0, n_clients=clients, delta=0.05))
    show_json({"least": price}) if as_json else typer.echo(f"{price:.3f}")
'''
IMPORT = "from latecomer.commands.listings import RulesInHelp\n"
LINE = 'app.command("plan", epilog=examples("plan"))(plan_hold_out)\n'
REGISTERED = 'app.command("least")(least)\n'


def test_a_module_and_a_line_make_a_command(package):
    package.write("commands/least.py", COMMAND)
    named = "from latecomer.commands.least import least\n"
    package.edit("commands/app.py", (IMPORT, named + IMPORT), (LINE, LINE + REGISTERED))
    assert package.run("-m", "latecomer", "least", "30") == "0.095\n"
    assert package.run("-m", "latecomer", "least", "30", "--json").startswith("{")
    assert "Say how much any certificate leaves" in package.run("-m", "latecomer", "--help")
    assert sorted(path.name for path in package.written) == ["app.py", "least.py"]
