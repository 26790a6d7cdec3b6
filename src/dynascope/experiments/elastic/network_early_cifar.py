"""elastic Figure 3: The first updates of networks on photographs: how wild A is by either model."""

from dataclasses import replace

from dynascope.experiments.elastic.course_claims import claims_on
from dynascope.experiments.elastic.network_early import CLAIMS, Config
from dynascope.experiments.elastic.network_early import EXPERIMENT as SHAPES

EXPERIMENT = replace(
    SHAPES,
    config=Config(data="cifar10", per_class=5000),
    claims=claims_on("CIFAR", CLAIMS),
    needs=("torch", "sklearn"),
    smoke={**SHAPES.smoke, "data": "digits", "learning_rate": 0.03},  # digits stand for photographs
    laptop={**SHAPES.laptop, "per_class": 2000},
)
