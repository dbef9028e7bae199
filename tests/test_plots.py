"""Plots draw what the library answers, and say how to install what they need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from cumulant import Gaussian, Laplace, plots

STEP = Gaussian(noise_multiplier=1.0).poisson(rate=0.01)


def test_rdp_curve_and_attained_points() -> None:
    axes = plots.rdp({"Poisson": STEP, "Laplace": Laplace(scale=1.0)}, orders=[1.5, 4.0, 32.0])
    curve, attained = axes.get_lines()[:2]
    assert np.asarray(curve.get_ydata())[1] == STEP.rdp(order=4.0)
    assert np.all(np.asarray(attained.get_xdata()) == np.round(np.asarray(attained.get_xdata())))
    assert axes.get_xlabel() == "order α"


def test_epsilon_against_count() -> None:
    axes = plots.epsilon_against_count({"step": STEP}, counts=[10, 1000], delta=1e-5)
    assert np.asarray(axes.get_lines()[0].get_ydata()).tolist() == [
        (STEP * count).epsilon(delta=1e-5) for count in (10, 1000)
    ]


def test_delta_against_epsilon_does_not_underflow(tmp_path: Path) -> None:
    axes = plots.delta_against_epsilon({"run": Gaussian(noise_multiplier=1.0) * 10}, epsilons=[1.0, 500.0])
    assert np.asarray(axes.get_lines()[0].get_ydata())[1] < -1000
    figure = axes.get_figure()
    assert isinstance(figure, Figure)
    figure.savefig(tmp_path / "delta.png")
    assert (tmp_path / "delta.png").stat().st_size > 1000


def test_axes_of_the_caller_are_used() -> None:
    axes = Figure().subplots()
    assert plots.epsilon_against_count({"step": STEP}, counts=[1, 2], delta=1e-3, axes=axes) is axes


def test_without_matplotlib_it_says_how_to_install_it() -> None:
    program = (
        "import sys; sys.modules['matplotlib'] = None; sys.modules['matplotlib.figure'] = None\n"
        "from cumulant import CumulantError, Gaussian, plots\n"
        "try: plots.rdp({'g': Gaussian(noise_multiplier=1.0)})\n"
        "except CumulantError as error: print(error)"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "plots need matplotlib: pip install 'cumulant[plot]'"


@pytest.mark.parametrize("kind", ["rdp", "epsilon_against_count", "delta_against_epsilon"])
def test_every_plot_labels_its_axes(kind: str) -> None:
    arguments: dict[str, object] = {"epsilon_against_count": {"counts": [1, 10], "delta": 1e-5}}.get(kind, {})
    if kind == "delta_against_epsilon":
        arguments = {"epsilons": [0.5, 1.0]}
    axes = getattr(plots, kind)({"step": STEP}, **arguments)
    assert axes.get_xlabel()
    assert axes.get_ylabel()
    assert axes.get_legend() is not None
