from dynascope.monitor import comparing as comparing
from dynascope.monitor import reading as reading
from dynascope.monitor import show as show
from dynascope.monitor import tables as tables
from dynascope.monitor.attach import watch as watch
from dynascope.monitor.comparing import compare as compare
from dynascope.monitor.findings import Finding as Finding
from dynascope.monitor.health import Health as Health
from dynascope.monitor.health import examine as examine
from dynascope.monitor.judging import verdicts as verdicts
from dynascope.monitor.loggers import Logger as Logger
from dynascope.monitor.loggers import MLflow as MLflow
from dynascope.monitor.loggers import TensorBoard as TensorBoard
from dynascope.monitor.loggers import WandB as WandB
from dynascope.monitor.reading import open_run as open_run
from dynascope.monitor.reading import tidy as tidy
from dynascope.monitor.running import Run as Run

__all__: list[str]
