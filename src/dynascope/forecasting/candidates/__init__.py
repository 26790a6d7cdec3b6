"""Ways to continue a curve. Each takes curves of the same steps and future times, and says where they go on.

`levels`, `lines`: what needs no model. `powers`, `saturating`: shapes that people fit. `theory`: modes of linear
networks and skills of the multilinear model. `schedule`: the multi-power law, which knows the learning rate. `earlier`:
as runs went that are known to their end.
"""

from dynascope.forecasting.candidates import earlier, levels, lines, powers, saturating, schedule, theory
from dynascope.forecasting.candidates.shapes import Candidate

CANDIDATES: tuple[Candidate, ...] = (
    levels.LAST,
    levels.RECENT,
    levels.BEST,
    lines.LINE,
    lines.LOG_LINE,
    powers.POWER,
    powers.SHIFTED_POWER,
    saturating.EXPONENTIAL,
    saturating.MMF,
    theory.MODE,
    theory.SKILLS,
    schedule.MULTI_POWER,
    earlier.NONE,
)


def candidates_after(runs: tuple[earlier.Known, ...], law: schedule.MultiPower) -> tuple[Candidate, ...]:
    """All candidates, where earlier runs and the law that they had are known."""
    known = earlier.Earlier(runs, law)
    return *CANDIDATES[:-2], earlier.LawAlone(known), known
