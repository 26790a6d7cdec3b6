from dynascope.plots.elastic import plot_projection as plot_projection
from dynascope.plots.elastic import plot_strengths as plot_strengths
from dynascope.plots.elastic import plot_triangles as plot_triangles
from dynascope.plots.figures import PALETTE as PALETTE
from dynascope.plots.figures import axis_label as axis_label
from dynascope.plots.figures import new_figure as new_figure
from dynascope.plots.figures import save_figure as save_figure
from dynascope.plots.figures import save_small as save_small
from dynascope.plots.figures import shades as shades
from dynascope.plots.forecast import plot_forecast as plot_forecast
from dynascope.plots.imitation import plot_imitation as plot_imitation
from dynascope.plots.networks import plot_fit as plot_fit
from dynascope.plots.networks import plot_network_phases as plot_network_phases
from dynascope.plots.over_time import plot_curves as plot_curves
from dynascope.plots.over_time import plot_over_time as plot_over_time
from dynascope.plots.run import plot_run as plot_run
from dynascope.plots.spring_block import plot_load_curves as plot_load_curves
from dynascope.plots.spring_block import plot_phase_diagram as plot_phase_diagram
from dynascope.plots.spring_block import plot_trajectories as plot_trajectories
from dynascope.plots.watch import plot_watched as plot_watched

__all__: list[str]
