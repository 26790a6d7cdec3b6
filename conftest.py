"""Types and shapes are checked at run time in every test.

All packages but networks, whose layers are called so often that the checks take longer than training.
"""

import os
from pathlib import Path

from jaxtyping import install_import_hook

_MODULES = sorted(path.stem for path in Path(__file__).with_name("src").glob("dynascope/[!_]*"))
if os.environ.get("CHECK_TYPES", "1") == "1":
    install_import_hook(
        [f"dynascope.{name}" for name in _MODULES if name != "networks"],
        "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))",
    )
