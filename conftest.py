"""Types and shapes are checked at run time where DYNASCOPE_CHECK_TYPES is set, as `make test-ci` does.

The checks make imports three times as long and tests by an eighth. They cover all packages but networks, whose layers
are called so often that the checks take longer than training.
"""

import os
from importlib.util import find_spec
from pathlib import Path

from jaxtyping import install_import_hook

if os.environ.get("DYNASCOPE_CHECK_TYPES"):
    _MODULES = sorted(path.stem for path in Path(__file__).with_name("src").glob("dynascope/[!_]*"))
    install_import_hook(
        [f"dynascope.{name}" for name in _MODULES if name != "networks"],
        "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))",
    )
# PyTorch for processors alone comes without Triton
collect_ignore = [] if find_spec("triton") else ["src/dynascope/networks/kernels"]
