"""The command line, one module a command."""

if __name__ != "latecomer.commands":
    raise ImportError("import latecomer.commands, not the folder commands")
