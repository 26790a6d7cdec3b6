"""elastic Figure 3, Figure 5, Figure D.1, Figure D.7–D.10: Networks that learn shapes: strengths and stages.

GeoMNIST.
"""

from dynascope.experiments.elastic.course_claims import GEOMNIST, claims_on
from dynascope.experiments.elastic.network_courses import PICTURE, Config, run
from dynascope.experiments.elastic.network_training import SMALL
from dynascope.experiments.experiment import Experiment
from dynascope.experiments.sources import elastic

EXPERIMENT = Experiment(
    elastic(figure="3, 5, D.1, D.7–D.10"),
    Config(),
    run,
    claims=claims_on("GeoMNIST", GEOMNIST),
    picture=PICTURE,
    model="Ensemble",
    precision="float32",
    needs=("torch",),
    smoke=SMALL | {"per_class": 100, "steps": 1200, "records": 50, "trials": 12},
    laptop={"probes": 40, "steps": 8000, "records": 80, "trials": 16},
    adapted="strengths as printed, their tails, Figures D.6 and D.10 on class means over a probe set",
)
