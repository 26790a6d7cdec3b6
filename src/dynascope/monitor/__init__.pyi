from dynascope.monitor import show as show
from dynascope.monitor.attach import Run as Run
from dynascope.monitor.attach import watch as watch
from dynascope.monitor.loggers import Logger as Logger
from dynascope.monitor.loggers import MLflow as MLflow
from dynascope.monitor.loggers import TensorBoard as TensorBoard
from dynascope.monitor.loggers import WandB as WandB
from dynascope.monitor.results import open_run as open_run
from dynascope.monitor.verdicts import verdicts as verdicts

__all__: list[str]
