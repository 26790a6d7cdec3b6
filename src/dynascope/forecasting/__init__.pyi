from dynascope.forecasting.curves import Curve as Curve
from dynascope.forecasting.curves import read_curves as read_curves
from dynascope.forecasting.forecasts import forecast as forecast
from dynascope.forecasting.schedules import future_rates as future_rates
from dynascope.forecasting.whatif import best_schedule as best_schedule

__all__: list[str]
