from dynascope.cli import claims as claims
from dynascope.cli.app import app as app
from dynascope.cli.app import main as main

__all__: list[str]
