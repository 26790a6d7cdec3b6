"""elastic Figure 1, Figure 3, Figure 5, Figure D.1, Figure D.7–D.10: Networks that learn photographs: strengths and
stages.
"""

from dynascope.experiments.elastic.course_claims import CIFAR, claims_on
from dynascope.experiments.elastic.network_courses import PICTURE, Config, run
from dynascope.experiments.elastic.network_training import SMALL
from dynascope.experiments.experiment import Experiment
from dynascope.experiments.sources import elastic

_DIGITS = {"data": "digits", "per_class": 100, "pair": (0, 1)}  # they stand for photographs

EXPERIMENT = Experiment(
    elastic(figure="1, 3, 5, D.1, D.7–D.10"),
    Config(data="cifar10", per_class=5000, probes=1000, steps=300_000, pair=(1, 2), window=551),
    run,
    claims=claims_on("CIFAR", CIFAR),
    picture=PICTURE,
    model="Ensemble",
    precision="float32",
    needs=("torch", "sklearn"),
    smoke=SMALL | _DIGITS | {"learning_rate": 0.03, "steps": 800, "records": 50, "trials": 12},
    laptop={"per_class": 2000, "probes": 40, "steps": 8000, "records": 80, "trials": 16},
    adapted="strengths as printed, their tails, Figures D.6 and D.10 on class means over a probe set",
)
