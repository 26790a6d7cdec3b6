"""Draw the picture of docs/forecast.md: a network of our own set, half of it seen. `python docs/draw_forecast.py`."""

from pathlib import Path

import numpy as np

from dynascope import forecast, plots
from dynascope.experiments.forecasts.sets import IMAGES

NETWORK, SCHEDULE = "cifar10/4 layers, batch norm/sgd", "cosine"


def main() -> None:
    """Forecast and draw."""
    with np.load(IMAGES) as file:
        place, schedule = list(file["name"]).index(NETWORK), list(file["schedule"]).index(SCHEDULE)
        loss, rate = file["loss"][place, schedule + 3 * len(file["schedule"]), 0], file["factor"][schedule]
        run = {"step": file["step"][place], "loss": loss, "learning_rate": rate}
    result = forecast(run, seen=0.5)
    print(result.attrs["sentence"])
    plots.save_figure(plots.plot_forecast(result, later=run), Path(__file__).with_name("images") / "forecast.png")


if __name__ == "__main__":
    main()
