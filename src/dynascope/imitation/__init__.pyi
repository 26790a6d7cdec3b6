from dynascope.imitation.procedure import imitate as imitate
from dynascope.imitation.runs import class_means as class_means

__all__: list[str]
