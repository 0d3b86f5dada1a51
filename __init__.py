"""What Python finds when it looks for latecomer in the folder above a clone of that name.

A folder on the path comes before an editable install, so the clone itself would be imported, as a
package with nothing in it.  This imports what is installed instead, as anywhere else.  The modules
of latecomer lie in the folders beside this file; nothing else is here, and it is in no wheel.
"""

import sys
from importlib.util import module_from_spec
from pathlib import Path


def _import_installed() -> None:
    """Put the package that is installed into the place of this module."""
    above = Path(__file__).resolve().parent.parent
    elsewhere = [entry for entry in sys.path if Path(entry).resolve() != above]
    for finder in sys.meta_path:
        spec = finder.find_spec(__name__, elsewhere)
        if spec is not None and spec.loader is not None and spec.origin is not None:
            sys.modules[__name__] = module = module_from_spec(spec)
            spec.loader.exec_module(module)
            return
    raise ModuleNotFoundError(
        f"latecomer is not installed: pip install -e {Path(__file__).resolve().parent}",
        name=__name__,
    )


# Under another name it is a test runner that looks at the folder it runs in.
if __name__ == "latecomer":
    _import_installed()
