"""Draw the picture of docs/forecast.md: a network of our own set, half of it seen. `python docs/draw_forecast.py`."""

from pathlib import Path

import numpy as np

from dynascope import forecast, plots
from dynascope.experiments.forecasts.sets import OWN

WHICH = "cifar10/4 layers, batch norm/sgd/cosine"


def main() -> None:
    """Forecast and draw."""
    with np.load(OWN) as file:
        place = list(file["name"]).index(WHICH)
        run = {"step": file["step"], "loss": file["loss"][place, 3, 0], "learning_rate": file["factor"][place]}
    result = forecast(run, seen=0.5)
    print(result.attrs["sentence"])
    plots.save_figure(plots.plot_forecast(result, later=run), Path(__file__).with_name("images") / "forecast.png")


if __name__ == "__main__":
    main()
