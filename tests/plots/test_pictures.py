"""Pictures of records of every shape, and refusals of those that have no picture."""

import numpy as np
import pytest
import xarray as xr
from PIL import Image

from dynascope import DeepLinear, LocallyElastic, SpringBlock, forecast, grid
from dynascope.plots import (
    PALETTE,
    new_figure,
    plot_curves,
    plot_forecast,
    plot_load_curves,
    plot_phase_diagram,
    plot_run,
    plot_trajectories,
    save_figure,
    save_small,
)

QUICK = {"duration": 1.0, "trials": 3, "save_points": 3}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"noise": [0.0, 0.01]},
        {"noise": np.zeros((2, 3))},
        {"target": [0.0, 0.0]},
        grid(noise=[0.01]),
        grid(noise=[0.0, 0.01], target=[1.0]),
        grid(stiffness=[1.0, 2.0], target=[1.0, 2.0]),
        {"noise": xr.DataArray([0.0, 0.1], dims="panel", coords={"panel": ["a", "b"]})},
    ],
)
def test_every_shape_of_grid_has_a_picture(fields, tmp_path):
    figure = plot_run(SpringBlock(**fields).simulate(**QUICK))
    for axes in figure.axes:
        assert axes.get_xlabel() or axes.get_ylabel()
    assert save_figure(figure, tmp_path / "picture.svg").stat().st_size > 1000


@pytest.mark.parametrize("fields", [{}, {"noise": [0.1, 0.2]}, grid(noise=[0.1, 0.2])])
def test_quantities_over_time_have_panels_and_curves(fields):
    figure = plot_run(LocallyElastic(**fields).simulate(samples=3, **QUICK))
    assert len(figure.axes) == (6 if fields else 4)  # of one grid point also the samples
    assert figure.axes[-1 if fields else 2].get_title().endswith("class 2")
    assert len(figure.axes[0].lines) == 3
    assert figure.axes[0].get_xlabel() == "time (iterations × step size)"


def test_a_chain_without_a_way_to_go_can_be_drawn():
    run = SpringBlock(target=0.0, **grid(noise=[0.0, 0.0], stiffness=[1.0, 2.0])).simulate(**QUICK)
    plot_run(run)


def test_bars_are_three_standard_errors_and_none_for_one_trial():
    run = SpringBlock(noise=0.05).simulate(**QUICK)
    axes = plot_load_curves(run, new_figure()[1][0, 0])
    segments = axes.containers[0].lines[2][0].get_segments()
    drawn = np.array([segment[1, 1] - segment[0, 1] for segment in segments]) / 2
    np.testing.assert_allclose(drawn, 3 * run["load"].isel(time=-1).std("trial", ddof=1) / np.sqrt(3), atol=1e-12)
    single = plot_load_curves(run.isel(trial=[0]), new_figure()[1][0, 0])
    assert not single.containers[0].has_yerr


def test_noise_grows_to_the_left():
    run = SpringBlock(**grid(friction_right=[0.0, 0.1], noise=[0.0, 0.01, 0.02])).simulate(**QUICK)
    axes = plot_phase_diagram(run, new_figure()[1][0, 0])
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0.02", "0.01", "0"]


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda run, axes: plot_run(run.isel(time=0)), "must hold a quantity over time"),
        (lambda run, axes: plot_run(xr.Dataset({"a": 1.0})), "must hold a quantity over time"),
        (lambda run, axes: plot_trajectories(run, axes), "at most 0 grid dimensions"),
        (lambda run, axes: plot_load_curves(run, axes), "at most 0 grid dimensions"),
        (lambda run, axes: plot_load_curves(run, axes, along="nois"), "along must be a dimension"),
        (lambda run, axes: plot_phase_diagram(run, axes), "must hold 'load' over trial, time, layer, noise"),
    ],
)
def test_records_without_a_picture_are_refused(draw, message):
    run = SpringBlock(noise=[0.0, 0.01]).simulate(**QUICK)
    with pytest.raises(ValueError, match=message):
        draw(run, new_figure()[1][0, 0])


def test_records_of_deep_linear_networks_are_drawn_mode_by_mode():
    run = DeepLinear(2, 4, (1.0, 0.5), label_noise=[0.1, 0.2]).simulate(0.1, 2, method="sgd", save_points=3)
    figure = plot_run(run)
    assert [len(ax.lines) for ax in figure.axes] == [2, 2, 2, 2, 2]  # modes, at two noise levels each; losses
    with pytest.raises(ValueError, match="choose with"):
        plot_curves(run, figure.axes[0], name="amplitude")


def test_pictures_are_png_or_svg(tmp_path):
    with pytest.raises(ValueError, match=r"must end in \.png or \.svg, got 'a\.pdf'"):
        save_figure(new_figure()[0], tmp_path / "a.pdf")


def _forecast(trials=1, **more):
    step = np.arange(0.0, 1000.0, 20.0)
    values = 2 + np.exp(-step / 300) * np.arange(1, trials + 1)[:, None]
    record = xr.Dataset({"train_loss": (("trial", "step"), values)}, {"step": step})
    return forecast(record.isel(trial=0) if trials == 1 else record, until=2000, **more)


def _labels(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_a_forecast_is_drawn_with_bands_goal_and_what_happened():
    step = np.arange(0.0, 2000.0, 20.0)
    later = {"step": step, "loss": 2 + np.exp(-step / 300)}
    (axes,) = plot_forecast(_forecast(reach=2.05), later=later).axes
    assert _labels(axes) == ["seen", "95 %", "80 %", "50 %", "median", "to reach: 2.05", "what happened"]
    assert axes.get_xlim() == (0, 2000)
    assert axes.get_ylim()[1] < 3  # the fall at the start is cut off
    assert axes.lines[-2].get_xdata()[0] == 1000  # what was seen is drawn once
    (axes,) = plot_forecast(_forecast()).axes
    assert _labels(axes) == ["seen", "95 %", "80 %", "50 %", "median"]


def test_six_of_many_trials_are_drawn():
    figure = plot_forecast(_forecast(8))
    assert [axes.get_title() for axes in figure.axes] == [f"trial {place}" for place in range(6)]
    assert figure.get_supxlabel() == "6 of 8 trials"
    figure = plot_forecast(_forecast(4).assign(refused=("trial", ["", "not learning: as an example", "", ""])))
    assert figure.axes[1].get_title() == "trial 1, no forecast: not learning"
    assert [bool(axes.get_title()) for axes in figure.axes] == [True] * 4 + [False] * 2


@pytest.mark.parametrize("values", [[1.0], [2.0, 1.0], [0.0] * 8, [1.0, 0.5, np.nan]])
def test_a_refused_forecast_is_drawn_and_says_why(values, tmp_path):
    result = forecast({"step": np.arange(len(values)), "loss": values}, until=20)
    figure = plot_forecast(result)
    assert figure.axes[0].get_title().startswith("no forecast: ")
    assert save_figure(figure, tmp_path / "picture.svg").stat().st_size > 1000


def test_a_picture_of_a_forecast_needs_one():
    with pytest.raises(ValueError, match=r"the record must be one of forecast\(run\)"):
        plot_forecast(xr.Dataset({"loss": ("step", [1.0])}))


def test_thin_curves_keep_their_colours_in_the_small_picture(tmp_path):
    figure, axes = new_figure(columns=3)
    for height, colour in enumerate(PALETTE):
        axes[0, 0].plot([0, 1], [height, height], color=colour)
        axes[0, 1].fill_between(
            [0, 1], 2 * height, 2 * height + 1, color=colour, alpha=0.3
        )  # shades compete for places
    axes[0, 2].imshow(np.random.default_rng(0).random((64, 64)), cmap="viridis")
    small = save_small(save_figure(figure, tmp_path / "large.png"), tmp_path / "small.png")
    with Image.open(small) as opened:
        pixels = np.asarray(opened.convert("RGB")).reshape(-1, 3).astype(int)
    for colour in PALETTE:
        wanted = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)])
        assert np.abs(pixels - wanted).sum(axis=1).min() < 40, colour
