from dynascope.cli import claims as claims
from dynascope.cli.commands import app as app
from dynascope.cli.commands import main as main

__all__: list[str]
