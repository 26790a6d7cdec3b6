"""How long forecasts take: one curve of 1000 records, and 1000 curves, beside least squares with curve_fit alone.

python benchmarks/forecast.py
"""

import time

import numpy as np
import xarray as xr
from scipy.optimize import curve_fit

from dynascope import forecast


def seconds(call, times: int = 3) -> float:
    spans = []
    for _ in range(times):
        begun = time.perf_counter()
        call()
        spans.append(time.perf_counter() - begun)
    return min(spans)


def main() -> None:
    rng = np.random.default_rng(0)
    step = np.arange(1.0, 1001.0)
    curves = 1 + rng.random((1000, 1)) * step ** -rng.uniform(0.2, 1.0, (1000, 1))
    curves += 0.01 * rng.standard_normal(curves.shape)
    one = {"step": step, "loss": curves[0]}
    record = xr.Dataset({"loss": (("trial", "step"), curves)}, {"step": step.astype(int)})

    def power(t, a, b, c):
        return a + b * t**-c

    print(f"first forecast, tables included: {seconds(lambda: forecast(one, until=2000), 1):.3f} s")
    print(f"one curve of 1000 records:       {seconds(lambda: forecast(one, until=2000)):.3f} s")
    print(f"1000 curves of 1000 records:     {seconds(lambda: forecast(record, until=2000), 1):.1f} s")
    fitted = seconds(lambda: [curve_fit(power, step, each, p0=(1, 1, 0.5), maxfev=5000) for each in curves], 1)
    print(f"1000 power laws by curve_fit:    {fitted:.1f} s")


if __name__ == "__main__":
    main()
