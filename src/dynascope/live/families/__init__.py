"""The families of models that the page puts under sliders, one description each."""

from collections.abc import Mapping

from dynascope.live.families import elastic, mode, skills, spring_block_run, two_layer
from dynascope.live.families.description import Family

FAMILIES: Mapping[str, Family] = {
    "spring-block": spring_block_run.FAMILY,
    "elastic": elastic.FAMILY,
    "mode": mode.FAMILY,
    "two-layer": two_layer.FAMILY,
    "multilinear": skills.FAMILY,
}
