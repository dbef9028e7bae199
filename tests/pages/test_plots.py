"""Plots draw what the library answers, and say how to install what they need."""

from __future__ import annotations

import json
import math
import random
import re
import subprocess
import sys
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from click.testing import Result
from matplotlib.figure import Figure

import cumulant
from cli_runner import runner
from cumulant import Gaussian, InvalidParameter, Laplace, RandomizedResponse, RenyiCurve, UnprovenCombination, plot
from cumulant.cli.main import main
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.report.chart import LONGEST_LABEL, described, epsilon_against_count_chart, labelled

STEP = Gaussian(noise_multiplier=1.0).poisson(rate=0.01)


def drawn(axes: Any, line: int = 0) -> tuple[list[float], list[float]]:
    curve = axes.get_lines()[line]
    return np.asarray(curve.get_xdata()).tolist(), np.asarray(curve.get_ydata()).tolist()


def test_it_is_reachable_as_plot() -> None:
    assert cumulant.plot is plot


# Curves -----------------------------------------------------------------------------------------------------------


def test_rdp_curve_and_attained_points() -> None:
    axes = plot.rdp({"Poisson": STEP, "Laplace": Laplace(scale=1.0)}, orders=[1.5, 4.0, 32.0])
    assert drawn(axes)[1][1] == STEP.rdp(order=4.0)
    assert all(order == round(order) for order in drawn(axes, 1)[0])
    assert [line.get_label() for line in axes.get_lines()] == [
        "Poisson",
        "Poisson: attained",
        "Laplace",
        "Laplace: attained",
    ]


def test_rdp_lower_bound_is_proposition_20_by_brute_force() -> None:
    """E_Q(1-γ+γr)^α of randomized response has two terms."""
    step, gamma, p = RandomizedResponse(p=0.9).without_replacement(rate=0.1), 0.1, 0.9
    upper, lower = plot.rdp_chart(step, orders=64.0).curves
    for order, value in zip(lower.x, lower.y, strict=True):
        moment = (1 - p) * (1 - gamma + gamma * p / (1 - p)) ** order + p * (1 - gamma + gamma * (1 - p) / p) ** order
        assert value == pytest.approx(math.log(moment) / (order - 1), rel=1e-9)
    assert upper.y[-1] >= lower.y[-1]


def test_an_unknown_lower_bound_is_not_drawn() -> None:
    assert len(plot.rdp_chart(RenyiCurve([(2.0, 0.1), (8.0, 0.4)]), orders=[2.0, 4.0]).curves) == 1


def test_epsilon_against_count() -> None:
    axes = plot.epsilon_against_count({"step": STEP}, counts=[10, 1000], delta=1e-5)
    assert drawn(axes)[1] == pytest.approx([(STEP * count).epsilon(delta=1e-5) for count in (10, 1000)], rel=1e-9)


def test_a_million_steps_are_chosen_geometrically() -> None:
    chart = plot.epsilon_against_count_chart(Gaussian(noise_multiplier=100.0), counts=1_000_000, delta=1e-5)
    (curve,) = chart.curves
    assert (curve.x[0], curve.x[-1], len(curve.x)) == (1.0, 1e6, len(set(curve.x)))
    assert max(later / sooner for sooner, later in zip(curve.x[4:], curve.x[5:], strict=False)) < 1.6
    assert len(curve.x) < 50


def test_several_mechanisms_and_methods_on_one_chart() -> None:
    mechanisms = {"a": Gaussian(noise_multiplier=5.0), "b": Gaussian(noise_multiplier=10.0)}
    chart = plot.epsilon_against_count_chart(mechanisms, counts=[1, 100], delta=1e-5, method=["exact", "rdp"])
    assert [curve.label for curve in chart.curves] == ["a: exact", "a: rdp", "b: exact", "b: rdp"]
    assert chart.curves[0].y[1] < chart.curves[1].y[1]  # what the conversion from RDP loses
    assert chart.curves[0].color == chart.curves[1].color != chart.curves[2].color
    assert chart.curves[0].line == chart.curves[2].line != chart.curves[1].line


def test_delta_of_a_gaussian_is_the_closed_form() -> None:
    (curve,) = plot.delta_against_epsilon_chart(Gaussian(noise_multiplier=1.0), epsilons=[0.0, 1.0, 2.5]).curves
    cdf = NormalDist().cdf
    for epsilon, exponent in zip(curve.x, curve.y, strict=True):
        delta = cdf(0.5 - epsilon) - math.exp(epsilon) * cdf(-0.5 - epsilon)
        assert 10**exponent == pytest.approx(delta, rel=1e-9)


def test_delta_against_epsilon_does_not_underflow(tmp_path: Path) -> None:
    axes = plot.delta_against_epsilon({"run": Gaussian(noise_multiplier=1.0) * 10}, epsilons=[1.0, 500.0])
    assert drawn(axes)[1][1] < -1000
    figure = axes.get_figure()
    assert isinstance(figure, Figure)
    plot.save(figure, tmp_path / "delta.png")
    assert (tmp_path / "delta.png").stat().st_size > 1000


def test_without_epsilons_delta_is_drawn_down_to_small_values() -> None:
    (curve,) = plot.delta_against_epsilon_chart(Gaussian(noise_multiplier=2.0)).curves
    assert -13.5 < curve.y[-1] <= -12


def test_an_impossible_answer_is_a_gap() -> None:
    (curve,) = plot.epsilon_against_count_chart(Gaussian(noise_multiplier=1.0), counts=[1, 2], delta=0.0).curves
    assert curve.y == (math.inf, math.inf)
    assert curve.to_dict()["y"] == ["inf", "inf"]
    axes = plot.epsilon_against_count(Gaussian(noise_multiplier=1.0), counts=[1, 2], delta=0.0)
    assert all(map(math.isnan, drawn(axes)[1]))


def test_tradeoff_of_a_gaussian_is_the_closed_form() -> None:
    """Dong, Roth and Su (2022): G_μ(α) = Φ(Φ⁻¹(1-α) - μ)."""
    curve, guessing = plot.tradeoff_chart(Gaussian(noise_multiplier=2.0), false_positive_rates=[0.01, 0.2, 0.5]).curves
    for rate, value in zip(curve.x, curve.y, strict=True):
        truth = NormalDist().cdf(NormalDist().inv_cdf(1 - rate) - 0.5)
        assert truth - 1e-6 <= value <= truth + 1e-12  # never above: that would be too private
    assert guessing.y == (1.0, 0.0)


def test_tradeoff_is_drawn_from_end_to_end() -> None:
    axes = plot.tradeoff([Laplace(scale=1.0), Gaussian(noise_multiplier=1.0)])
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("false positive rate", "smallest false negative rate")
    x, y = drawn(axes)
    assert (x[0], x[-1]) == (0.0, 1.0)
    assert y == sorted(y, reverse=True)


# Labels and axes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mechanism", "text"),
    [
        (STEP * 10, "10 × Gaussian (noise multiplier 1), Poisson sampled (rate 0.01)"),
        (Laplace(scale=0.5), "Laplace (scale 0.5)"),
        (RenyiCurve([(2.0, 0.1)]), "Renyi curve"),
    ],
)
def test_labels_are_short(mechanism: AbstractMechanism, text: str) -> None:
    assert described(mechanism) == text


def test_labels_of_a_long_run_are_cut() -> None:
    run = sum((Laplace(scale=float(scale)) for scale in range(2, 30)), start=Laplace(scale=1.0) * 1)
    assert len(described(run)) <= LONGEST_LABEL


def test_no_number_of_a_label_is_cut() -> None:
    """Half a number is another number, and less noise or a smaller rate is another promise."""
    draw = random.Random(7)
    for _ in range(300):
        scales = [draw.choice([draw.uniform(1.0, 1e6), float(draw.randrange(1, 10**9))]) for _ in range(6)]
        run = sum((Laplace(scale=scale) for scale in scales), start=Laplace(scale=scales[0]) * draw.randrange(1, 10**9))
        text = described(run)
        assert text.endswith(" …")
        assert len(text) <= LONGEST_LABEL
        assert {float(number) for number in re.findall(r"scale ([\d.e+]+)", text)} <= set(scales)


def test_equal_labels_stay_two_curves() -> None:
    """The relation is not in the short label, so it falls back to the long one."""
    both = [STEP, Gaussian(noise_multiplier=1.0).poisson(rate=0.01, neighbors=cumulant.REPLACE_ONE)]
    assert len(labelled(both)) == 2


@pytest.mark.parametrize("kind", ["rdp", "epsilon_against_count", "delta_against_epsilon"])
def test_every_plot_labels_its_axes(kind: str) -> None:
    arguments: dict[str, object] = {"epsilon_against_count": {"counts": [1, 10], "delta": 1e-5}}.get(kind, {})
    if kind == "delta_against_epsilon":
        arguments = {"epsilons": [0.5, 1.0]}
    axes = getattr(plot, kind)({"step": STEP}, **arguments)
    assert axes.get_xlabel()
    assert axes.get_ylabel()
    assert axes.get_legend() is not None


def test_axes_of_the_caller_are_used() -> None:
    axes = Figure().subplots()
    assert plot.epsilon_against_count({"step": STEP}, counts=[1, 2], delta=1e-3, axes=axes) is axes


def test_the_same_chart_is_the_same_file(tmp_path: Path) -> None:
    for name in ("one.svg", "two.svg"):
        figure: Any = plot.rdp(Laplace(scale=1.0)).get_figure()
        plot.save(figure, tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(UnprovenCombination):
        plot.epsilon_against_count(RenyiCurve([(2.0, 0.1)]), counts=10, delta=1e-5, method="exact")
    with pytest.raises(InvalidParameter):
        plot.epsilon_against_count(STEP, counts=0, delta=1e-5)


def test_without_matplotlib_it_says_how_to_install_it() -> None:
    program = (
        "import sys; sys.modules['matplotlib'] = None; sys.modules['matplotlib.figure'] = None\n"
        "from cumulant import CumulantError, Gaussian, plot\n"
        "try: plot.rdp({'g': Gaussian(noise_multiplier=1.0)})\n"
        "except CumulantError as error: print(error)"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "plots need matplotlib; from a checkout: pip install '.[plot]'"


# The command line -------------------------------------------------------------------------------------------------


def call(*arguments: str) -> Result:
    result = runner(env={"COLUMNS": "80"}).invoke(main, ["plot", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def numbers(*arguments: str) -> dict[str, Any]:
    result = call(*arguments, "--json")
    assert result.exit_code == 0, result.output
    content: dict[str, Any] = json.loads(result.stdout, parse_constant=pytest.fail)  # no Infinity, no NaN
    return content


def test_plot_epsilon_draws_what_the_library_answers(tmp_path: Path) -> None:
    file = tmp_path / "epsilon.svg"
    options = ["--noise-multiplier", "20", "--steps", "100", "--delta", "1e-5", "--method", "best", "--method", "rdp"]
    content = numbers("epsilon", *options, "--out", str(file))
    best, rdp = content["chart"]["curves"]
    assert best["y"][-1] == (Gaussian(noise_multiplier=20.0) * 100).epsilon(delta=1e-5)
    assert rdp["y"][-1] == (Gaussian(noise_multiplier=20.0) * 100).epsilon(delta=1e-5, method="rdp")
    assert content["mechanisms"] == [Gaussian(noise_multiplier=20.0).to_dict()]
    assert file.read_text(encoding="utf-8").count("</svg>") == 1


def test_several_releases_by_options_and_files(tmp_path: Path) -> None:
    run = tmp_path / "run.json"
    run.write_text(json.dumps((Laplace(scale=3.0) * 4).to_dict()), encoding="utf-8")
    content = numbers(
        "rdp", "--noise-multiplier", "2", "--also", "--mechanism laplace --scale 2", "--also", f"--run {run}"
    )
    labels = [curve["label"] for curve in content["chart"]["curves"] if "attained" not in curve["label"]]
    assert labels == ["Gaussian (noise multiplier 2)", "Laplace (scale 2)", "4 × Laplace (scale 3)"]


def test_plot_delta_of_a_run(tmp_path: Path) -> None:
    file = tmp_path / "delta.png"
    result = call("delta", "--mechanism", "laplace", "--scale", "2", "--steps", "10", "--out", str(file))
    assert (result.exit_code, result.stdout) == (0, f"1 curve in {file}\n")
    assert file.read_bytes().startswith(b"\x89PNG")


def test_plot_tradeoff() -> None:
    (curve, _) = numbers("tradeoff", "--noise-multiplier", "2")["chart"]["curves"]
    assert (curve["x"][0], curve["x"][-1]) == (0.0, 1.0)


def test_plot_attack_is_the_tradeoff_upside_down() -> None:
    chart = numbers("attack", "--noise-multiplier", "2")["chart"]
    found, guessing = chart["curves"]
    assert chart["x"]["scale"] == chart["y"]["scale"] == "log"
    for accused, share in zip(found["x"], found["y"], strict=True):
        truth = 1 - NormalDist().cdf(NormalDist().inv_cdf(1 - accused) - 0.5) if accused < 1 else 1.0
        assert truth * (1 - 1e-9) <= share <= truth * (1 + 1e-6)
    assert guessing["x"] == guessing["y"]


def test_curves_that_coincide_are_told_apart() -> None:
    chart = epsilon_against_count_chart(Gaussian(noise_multiplier=2.0), counts=10, delta=1e-5, method=["best", "exact"])
    below, above = chart.curves
    assert below.width > above.width
    assert below.color != above.color
    apart = epsilon_against_count_chart(Gaussian(noise_multiplier=2.0), counts=10, delta=1e-5, method=["best", "rdp"])
    assert len({curve.width for curve in apart.curves}) == 1


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["rdp", "--noise-multiplier", "2"], "--out FILE"),
        (["rdp", "--noise-multiplier", "2", "--out", "x.txt"], ".svg"),
        (["rdp", "--noise-multiplier", "2", "--out", "no/such/directory/x.svg"], "cannot be written"),
        (["rdp", "--out", "x.svg"], "--noise-multiplier"),
        (["rdp", "--noise-multiplier", "2", "--also", "--scale 1", "--out", "x.svg"], "--scale"),
        (["rdp", "--noise-multiplier", "2", "--also", "--wrong 1", "--out", "x.svg"], "--also '--wrong 1'"),
        (["epsilon", "--noise-multiplier", "2", "--out", "x.svg"], "--delta"),
    ],
)
def test_refusals_are_one_line(arguments: list[str], reason: str) -> None:
    result = call(*arguments)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert reason in result.stderr


@pytest.mark.parametrize("kind", ["", "epsilon", "delta", "rdp", "tradeoff", "attack"])
def test_help_fits_and_has_an_example(kind: str) -> None:
    text = call(*kind.split(), "--help").stdout
    assert "Example" in text
    assert f"cumulant plot {kind}".strip() in text
    assert max(map(len, text.splitlines())) <= 80
