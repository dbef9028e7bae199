"""The papers' figures: what is drawn is what the papers' texts say of them, and the gallery shows every one."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from cumulant import Gaussian, Laplace, RandomizedResponse, plot
from cumulant.cli.main import main
from cumulant.composition_theorems.calibrated import calibrated_composition
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.papers import CATALOGUE, loader_costs
from cumulant.papers.asoodeh_2020 import figures as asoodeh_et_al
from cumulant.papers.balle_2018 import figures as balle_et_al
from cumulant.papers.sheet import Sheet
from cumulant.papers.wang_2019 import figures as wang_et_al
from cumulant.papers.wang_slides import figures as slides
from cumulant.papers.zhu_wang_2019 import figures as zhu_wang
from cumulant.report.chart import geometric_counts
from cumulant.sampling.without_replacement_theorems import proposition20, theorem9

ROOT = Path(__file__).parents[2]
GALLERY = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
LARGEST = 150_000  # bytes of a picture
THREE = [Gaussian(noise_multiplier=1.0), Laplace(scale=2.0), RandomizedResponse(p=0.9)]


@pytest.fixture(scope="module")
def composed() -> Sheet:
    """Return Figure 4 at k = 1, 84, 7114 and 600 000."""
    return wang_et_al.composition_sheet(rate=0.001, points=4)


@pytest.mark.parametrize("name", CATALOGUE)
def test_the_gallery_shows_every_figure(name: str) -> None:
    assert f"](figures/{name}.svg)" in GALLERY
    picture = (ROOT / "docs" / "figures" / f"{name}.svg").read_bytes()
    assert b"</svg>" in picture
    assert len(picture) < LARGEST


def test_the_gallery_shows_nothing_else() -> None:
    assert set(re.findall(r"\]\(figures/([\w-]+)\.svg\)", GALLERY)) == set(CATALOGUE)
    assert {file.stem for file in (ROOT / "docs" / "figures").iterdir()} == set(CATALOGUE)


# Wang et al. ------------------------------------------------------------------------------------------------------


def test_figure_3_bounds_enclose_and_show_the_phase_transition() -> None:
    sheet = wang_et_al.rdp_sheet(rate=0.001, points=8)
    for row in (0, 1):
        for column in (0, 1, 2):
            upper, ours, lower = (
                sheet.curve(row, column, name).y for name in ("upper bound, T", "upper bound of", "lower")
            )
            assert all(a >= b * (1 - 1e-9) for a, b in zip(upper, ours, strict=True))
            assert all(a >= b * (1 - 1e-9) for a, b in zip(ours, lower, strict=True))
    gaussian = sheet.curve(1, 0, "upper bound of").y
    assert gaussian[-1] / gaussian[0] > 1e9  # from γ²α to α/2: no bounded loss does that
    assert sheet.curve(1, 1, "upper bound of").y[-1] < 0.0064  # log(1 + γ(e² - 1)), where it flattens


def test_figure_3_bad_data_is_on_the_lower_bound_and_good_data_below() -> None:
    """Section 5: "matches almost exactly with lower bound up to the phase transition point"."""
    sheet = wang_et_al.rdp_sheet(rate=0.001, points=12)
    lower, bad, good = (sheet.curve(0, 0, name) for name in ("lower", "Example 21", "Example 22"))
    before = [i for i, order in enumerate(lower.x) if order < 150]
    assert len(before) >= 4
    for i in before:
        assert bad.y[i] == pytest.approx(lower.y[i], rel=0.15)
        assert good.y[i] < lower.y[i]


@pytest.mark.slow
def test_figure_4_orders_of_magnitude(composed: Sheet) -> None:
    """Section 5: "about an order of magnitude" in 4a; "five orders" in 4d, where the ratio is 24 800."""
    for row, low, high in ((0, 7, 12), (1, 2e4, 1e5)):
        strong, rdp = (composed.curve(row, 0, name).y[-1] for name in ("strong", "RDP, upper"))
        assert low < strong / rdp < high


def test_figure_4_rdp_starts_above_naive_composition_for_gaussian_noise(composed: Sheet) -> None:
    for row in (0, 1):
        naive, lower = (composed.curve(row, 0, name).y for name in ("naive", "RDP, lower"))
        assert lower[0] > naive[0]
        assert lower[-1] < naive[-1]


def test_figure_4_scaling(composed: Sheet) -> None:
    """The root of k for strong composition and RDP, k for naive composition."""
    growth = math.log(600_000 / 7114)
    for column, exponents in ((1, (0.5, 0.5, 1.0)), (2, (0.5, 0.5, 1.0))):
        for name, exponent in zip(("strong", "RDP, upper", "naive"), exponents, strict=True):
            y = composed.curve(0, column, name).y
            assert math.log(y[-1] / y[-2]) / growth == pytest.approx(exponent, abs=0.06)


def test_figure_4_ours_is_never_above_the_paper(composed: Sheet) -> None:
    for row in (0, 1):
        for column in (0, 1, 2):
            (ours,) = (curve for curve in composed.rows[row][column].curves if curve.label.endswith("(cumulant)"))
            for name in ("RDP, upper", "strong", "naive"):
                theirs = composed.curve(row, column, name).y
                assert all(a <= b * (1 + 1e-9) for a, b in zip(ours.y, theirs, strict=True))


@pytest.mark.parametrize("mechanism", THREE, ids=repr)
@pytest.mark.parametrize("count", [1, 1000])
def test_few_values_of_the_round_delta_are_enough(mechanism: AbstractMechanism, count: int) -> None:
    baseline = wang_et_al.Baseline(mechanism, 0.01)
    searched, _ = calibrated_composition(
        lambda log_delta: baseline.round_epsilon(math.exp(log_delta)), count=count, delta=wang_et_al.DELTA
    )
    assert searched * (1 - 1e-3) <= baseline.strong(count) <= searched * 1.02


@pytest.mark.parametrize("mechanism", THREE, ids=repr)
def test_losses_of_the_composition_curves_are_the_paper_s(mechanism: AbstractMechanism) -> None:
    loss, rate = mechanism._known().curve(), 0.01
    upper, lower = wang_et_al.theorem9_loss(loss, rate), mechanism.poisson(rate=rate)._known().curve()
    for order in (2, 3, 7, 31, 100, 999):
        paper = theorem9(order, rate=rate, cgf=loss)
        assert upper.at(order - 1.0) <= paper * 1.1
        assert lower.at(order - 1.0) == pytest.approx(proposition20(order, rate=rate, cgf=loss), rel=1e-9)


def test_theorem_19_is_drawn_below_theorem_9_where_noise_is_large() -> None:
    """Section 3.2: "could be substantially stronger": at σ = 5, γ = 0.01 by a factor above 5 at order 100."""
    sheet = wang_et_al.rdp_sheet(rate=0.01, points=20)
    nine, nineteen, lower = (sheet.curve(0, 0, name) for name in ("upper bound, T", "Theorem 19", "lower"))
    assert max(a / b for a, b in zip(nine.y, nineteen.y, strict=True)) > 5
    assert all(a >= b * (1 - 1e-9) for a, b in zip(nineteen.y, lower.y, strict=True))


@pytest.mark.parametrize(
    ("column", "row", "expected"),
    [(0, 0, (9.4, 23.7, 21.7, 14.9)), (1, 0, (2.6, 2.6, 2.6, 2.3)), (0, 1, (3.2, 3.2, 3.1, 2.4))],
)
def test_the_gap_does_not_widen_by_the_inverse_of_one_less_the_rate(
    column: int, row: int, expected: tuple[float, ...]
) -> None:
    """Appendix G says that it does; the printed Theorem 9 over Proposition 20, largest over the orders drawn."""
    found = []
    for rate in (0.001, 0.01, 0.1, 0.5):
        name, mechanism = list(wang_et_al.REGIMES[row].items())[column]
        loss = mechanism._known().curve()
        orders = [order for order in geometric_counts(100_000, points=48) if order >= 2]
        found.append(max(theorem9(n, rate=rate, cgf=loss) / proposition20(n, rate=rate, cgf=loss) for n in orders))
    assert tuple(round(ratio, 1) for ratio in found) == expected, name
    assert found[-1] < found[0] * 2  # 1/(1-γ) at γ = 0.5


def test_theorem_19_is_drawn_in_the_composition_figures(composed: Sheet) -> None:
    """Below Theorem 9 where the noise is large; no bound is below what is answered."""
    for row, regime in enumerate(composed.rows):
        for column, chart in enumerate(regime):
            (ours,) = (curve for curve in chart.curves if curve.label.endswith("(cumulant)"))
            drawn = composed.curve(row, column, "RDP, Theorem 19").y
            assert all(a <= b * (1 + 1e-9) for a, b in zip(ours.y, drawn, strict=True))
    assert composed.curve(0, 0, "RDP, Theorem 19").y[-1] < composed.curve(0, 0, "RDP, upper").y[-1]


# Slides ---------------------------------------------------------------------------------------------------------------


def test_slides_figure_2_has_negative_divergences_of_odd_order() -> None:
    """Poisson distributions a little below the mean of q, by the closed form Σ (-1)^{α-l} C(α,l) e^{...}."""
    sheet = slides.figure2(points=15)
    for order in slides.ORDERS:
        curve = sheet.curve(0, 0, f"α = {order}")
        for mean, height in zip(curve.x, curve.y, strict=True):
            moments = [math.exp(mean**n - n * mean + n - 1) for n in range(order + 1)]
            chi = math.fsum((-1) ** (order - n) * math.comb(order, n) * moments[n] for n in range(order + 1))
            assert math.copysign(abs(height) ** order, height) == pytest.approx(chi, rel=1e-6, abs=1e-12)
        below = [y for x, y in zip(curve.x, curve.y, strict=True) if 0.85 < x < 0.99]
        assert all((y < 0) == (order % 2 == 1) for y in below)
        assert min(sheet.curve(0, 1, f"α = {order}").y) < 0 or order % 2 == 0


@pytest.mark.slow
def test_slides_composition_at_little_noise() -> None:
    """σ = 0.5: one round by RDP is far above naive composition; what is answered is below all bounds drawn."""
    sheet = slides.composition(points=3)
    for row, column in ((0, 0), (0, 1), (1, 0), (1, 1)):
        (ours,) = (curve for curve in sheet.rows[row][column].curves if curve.label.endswith("(cumulant)"))
        for name in ("RDP, upper", "RDP, Theorem 19", "strong", "naive", "Theorem 26"):
            assert all(a <= b * (1 + 1e-9) for a, b in zip(ours.y, sheet.curve(row, column, name).y, strict=True))
    assert sheet.curve(0, 1, "RDP, upper").y[0] > sheet.curve(0, 1, "naive").y[0]


# Zhu and Wang -----------------------------------------------------------------------------------------------------


def test_figure_5_approaches_the_tight_bound() -> None:
    sheet = zhu_wang.figure5(points=12)
    for row in (0, 1):
        for column in (0, 1, 2):
            tight = sheet.curve(row, column, "tight").y
            five, twenty, hundred = (sheet.curve(row, column, f"Theorem 11, τ = {tau}").y for tau in (5, 20, 100))
            for a, b, c, d in zip(five, twenty, hundred, tight, strict=True):
                assert a >= b * (1 - 1e-9) >= c * (1 - 1e-8) >= d * (1 - 1e-7)


def test_figure_5_randomized_response_by_brute_force() -> None:
    curve, p, gamma = zhu_wang.figure5(points=8).curve(1, 2, "tight"), 0.9, 0.001
    for order, value in zip(curve.x, curve.y, strict=True):
        moment = (1 - p) * math.expm1(order * math.log1p(gamma * (p / (1 - p) - 1)))
        moment += p * math.expm1(order * math.log1p(gamma * ((1 - p) / p - 1)))
        assert value == pytest.approx(math.log1p(moment) / (order - 1), rel=1e-6)


# Balle et al. -----------------------------------------------------------------------------------------------------


def test_balle_figure_1_poisson_by_brute_force() -> None:
    """The hockey-stick divergence of a mixture of two Laplace densities, summed on a grid."""
    curve = balle_et_al.figure1(points=30).curve(0, 0, "Theorem 8")
    x = np.linspace(-40, 41, 810_001)
    q, p = np.exp(-abs(x)) / 2, np.exp(-abs(x - 1)) / 2
    mixture = 0.9 * q + 0.1 * p
    for epsilon, exponent in list(zip(curve.x, curve.y, strict=True))[:4]:
        delta = float(np.sum(np.maximum(mixture - math.exp(epsilon) * q, 0))) * 1e-4
        assert 10**exponent == pytest.approx(delta, rel=1e-4)


def test_balle_figure_1_white_box_groups_are_better() -> None:
    sheet = balle_et_al.figure1(points=16)
    for column in (0, 1, 2):
        white, black = (sheet.curve(1, column, f"group of 3, {box} box").y for box in ("white", "black"))
        assert all(a <= b + 1e-12 for a, b in zip(white, black, strict=True))
        known, unknown = (
            sheet.curve(0, column, f"Theorem 10, with replacement, {box}").y for box in ("white", "black")
        )
        assert all(a <= b + 1e-12 for a, b in zip(known, unknown, strict=True))


def test_balle_figure_1_membership_attains_the_bound() -> None:
    sheet = balle_et_al.figure1(points=16)
    bound = sheet.curve(0, 2, "Theorem 8")
    p = math.e / (1 + math.e)
    for epsilon, exponent in list(zip(bound.x, bound.y, strict=True))[:3]:
        yes, no = 0.1 * p + 0.9 * (1 - p), 1 - p  # the probability of "yes", with the record and without
        assert 10**exponent == pytest.approx(yes - math.exp(epsilon) * no, rel=1e-9)


# Asoodeh et al. ---------------------------------------------------------------------------------------------------


def test_asoodeh_figure_1_theorem_4_is_below_theorem_3_and_meets_it() -> None:
    """They meet where αδ >= 1."""
    sheet = asoodeh_et_al.figure1(points=24)
    for alpha, epsilon, _ in asoodeh_et_al.PAIRS:
        exact, below = (sheet.curve(0, 0, f"α = {alpha:g}, ε = {epsilon:g}: Theorem {n}") for n in (3, 4))
        assert all(a >= b - 1e-9 for a, b in zip(exact.y, below.y, strict=True))
        assert exact.y[-1] == pytest.approx(epsilon - math.log(0.05), abs=1e-12)


def test_asoodeh_figure_2_gains_three_quarters() -> None:
    sheet = asoodeh_et_al.figure2()
    classical, lemma, exact = (sheet.curve(0, 0, name).y for name in ("moments", "Lemma 2", "exact (cumulant)"))
    assert max(a - b for a, b in zip(classical, lemma, strict=True)) == pytest.approx(0.7588, abs=1e-4)
    assert all(a <= b for a, b in zip(exact, lemma, strict=True))


def test_asoodeh_figure_3_allows_a_hundred_more_epochs() -> None:
    """The text says "often over a hundred": 98 more at ε = 0.75, 156 at 1, 221 at 1.25."""
    sheet = asoodeh_et_al.figure3(points=20)
    classical, lemma, ours = sheet.curve(0, 0, "moments"), sheet.curve(0, 0, "Lemma 2"), sheet.rows[0][0].curves[-1]
    for budget, least in ((0.75, 90), (1.0, 145), (1.25, 205)):
        gained = np.interp(budget, lemma.y, lemma.x) - np.interp(budget, classical.y, classical.x)
        assert gained > least
    assert all(a <= b for a, b in zip(ours.y, lemma.y, strict=True))


# What loaders cost ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_loader_is_answered_as_the_page_says() -> None:
    """Drawn anew, a coin, and then a factor: what a shuffled loader attains is above both, whatever the epochs."""
    sheet = loader_costs.loaders(points=3)
    label = "shuffled, cut into batches: "
    for column in (0, 1):
        proven, attained = (np.array(sheet.curve(0, column, label + end).y) for end in ("proven", "attained"))
        coin = np.array(sheet.curve(0, column, "a coin").y)
        assert np.all(attained <= proven)
        assert np.all(attained > 3.8 * coin)
    fresh, kept = (np.array(sheet.curve(0, 0, f"one batch, drawn {how}").y) for how in ("anew", "once"))
    coin = np.array(sheet.curve(0, 0, "a coin").y)
    assert np.all((0.8 * coin < fresh) & (fresh < coin))
    assert kept[0] == fresh[0]  # of one epoch
    assert np.all(kept[1:] > 7 * fresh[1:])
    subset = np.array(sheet.curve(0, 1, "a subset").y)
    assert np.all(subset > 5 * np.array(sheet.curve(0, 1, "a coin").y))


# Drawing and the command ------------------------------------------------------------------------------------------


def test_a_sheet_is_one_figure_with_one_legend() -> None:
    figure = zhu_wang.figure5(points=5).draw()
    assert len(figure.axes) == 6
    assert all(axes.get_legend() is None for axes in figure.axes)
    assert len(figure.legends[0].get_texts()) == 5


def test_the_same_numbers_make_the_same_file(tmp_path: Path) -> None:
    for name in ("one.svg", "two.svg"):
        plot.save(asoodeh_et_al.figure1(points=8).draw(), tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def call(*arguments: str) -> Result:
    result = CliRunner(env={"COLUMNS": "80"}).invoke(main, ["figures", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_figures_shows_progress_and_writes_files(tmp_path: Path) -> None:
    out = tmp_path / "new" / "directory"
    result = call("--out", str(out), "--only", "asoodeh-1", "--only", "asoodeh-2", "--format", "png")
    assert (result.exit_code, result.stdout) == (0, f"2 figures in {out}\n")
    first, second = result.stderr.splitlines()
    assert re.fullmatch(r"1/2 asoodeh-1 \d+\.\d s", first)
    assert re.fullmatch(r"2/2 asoodeh-2 \d+\.\d s", second)
    assert sorted(file.name for file in out.iterdir()) == ["asoodeh-1.png", "asoodeh-2.png"]


def test_figures_prints_numbers() -> None:
    result = call("--only", "asoodeh-2", "--json")
    content: dict[str, Any] = json.loads(result.stdout, parse_constant=pytest.fail)
    ((chart,),) = content["figures"]["asoodeh-2"]["rows"]
    assert chart["curves"][0]["x"][-1] == 1000


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "--out DIR"),
        (["--out", "x", "--only", "wang-2"], "there is no figure 'wang-2'"),
        (["--out", "/dev/null/x", "--only", "asoodeh-1"], "/dev/null"),
    ],
)
def test_refusals(arguments: list[str], reason: str) -> None:
    result = call(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert reason in result.stderr


def test_help_fits_and_names_every_paper() -> None:
    text = call("--help").stdout
    assert max(map(len, text.splitlines())) <= 80
    assert all(word in text for word in ("wang-3", "zhu-wang-5", "balle-1", "asoodeh-3", "Examples:"))
