"""Every statement names what its program must do."""

from __future__ import annotations

import json
from typing import Any

import pytest

import cumulant as cm
from cumulant.report.assumptions import (
    BOUNDED,
    DISJOINT,
    FIXED_SIZE,
    FRESH,
    OWN_COIN,
    SIZE,
    STATED,
    UNIT,
    assumptions_of,
)

GAUSSIAN = cm.Gaussian(noise_multiplier=2.0)
DRAWN: dict[str, Any] = {"batch": 10, "population": 1000}
RUNS: list[tuple[Any, list[str]]] = [
    (GAUSSIAN, [UNIT]),
    (GAUSSIAN * 3 + cm.Laplace(scale=5.0), [UNIT]),
    (GAUSSIAN.poisson(rate=0.1) * 9, [OWN_COIN, BOUNDED, SIZE[cm.ADD_REMOVE]]),
    (GAUSSIAN.poisson(rate=0.1, neighbors=cm.ZERO_OUT) * 9, [OWN_COIN, BOUNDED, SIZE[cm.ZERO_OUT]]),
    (GAUSSIAN.poisson(rate=0.1, neighbors=cm.REPLACE_ONE), [OWN_COIN, BOUNDED, SIZE[cm.REPLACE_ONE]]),
    (GAUSSIAN.poisson(rate=0.1) * 9 + GAUSSIAN, [OWN_COIN, BOUNDED, UNIT, SIZE[cm.ADD_REMOVE]]),
    (cm.PureDP(epsilon=1.0).poisson(rate=0.1), [OWN_COIN, STATED, SIZE[cm.ADD_REMOVE]]),
    (GAUSSIAN.without_replacement(**DRAWN), [FIXED_SIZE, SIZE[cm.REPLACE_ONE]]),
    (cm.ZCDP(rho=0.1).without_replacement(**DRAWN), [FIXED_SIZE, STATED, SIZE[cm.REPLACE_ONE]]),
    (GAUSSIAN.without_replacement(**DRAWN).sharpened(), [FIXED_SIZE, SIZE[cm.REPLACE_ONE]]),
    (GAUSSIAN.poisson(rate=0.1).group(size=2), [OWN_COIN, BOUNDED, SIZE[cm.ADD_REMOVE]]),
    (cm.RenyiCurve([(2.0, 0.5)]).group(size=2), [STATED]),
    (cm.parallel([GAUSSIAN, cm.Laplace(scale=1.0)]), [DISJOINT, UNIT]),
    (cm.parallel([GAUSSIAN * 2, cm.ZCDP(rho=0.1)]), [DISJOINT, UNIT, STATED]),
    (cm.dp_sgd(noise_multiplier=9.0, sample_rate=0.1, epochs=2, sampling="shuffled"), [BOUNDED, SIZE[cm.REPLACE_ONE]]),
]


@pytest.mark.parametrize(("run", "expected"), RUNS, ids=[repr(run)[:60] for run, _ in RUNS])
def test_what_a_run_needs(run: Any, expected: list[str]) -> None:
    found = assumptions_of(run)
    assert found[0] == FRESH
    assert [text for text in found if text in expected] == expected
    assert len(found) == len(set(found)) <= len(expected) + 2  # freshness, and how an epoch goes


@pytest.mark.parametrize(("run", "expected"), RUNS[:4], ids=["plain", "two", "joins", "nulls"])
def test_every_form_of_a_statement_says_it(run: Any, expected: list[str]) -> None:
    text = " ".join(run.statement(delta=1e-5).split())
    markdown = run.statement(delta=1e-5, format="markdown")
    assert text.count(" assumes ") == 1
    assert json.loads(run.statement(delta=1e-5, format="json"))["assumes"] == assumptions_of(run)
    for said in expected:
        assert said in text
        assert f"| assumes | {said} |" in markdown
