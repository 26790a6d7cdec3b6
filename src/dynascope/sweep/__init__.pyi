from dynascope.sweep.places import Slurm as Slurm
from dynascope.sweep.places import Ssh as Ssh
from dynascope.sweep.running import asked as asked
from dynascope.sweep.running import status as status
from dynascope.sweep.running import sweep as sweep
from dynascope.sweep.table import gather as gather
from dynascope.sweep.workload import Workload as Workload

__all__: list[str]
