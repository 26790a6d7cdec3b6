"""Experiments of this folder can be imported, by workers too: they get the path of the process that starts them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
