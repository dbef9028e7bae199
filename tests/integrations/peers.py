"""Running the tests that peers ship in their wheels, with our accountants in place of theirs."""

from __future__ import annotations

import contextlib
import importlib
import logging
import unittest
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

from hypothesis import settings

Reasons = Mapping[str, tuple[str, ...]]
"""Why tests do not pass, and which: names, or beginnings of names that end in *."""


def failures_of(
    module: str, replaced: Mapping[str, Any], classes: Sequence[str] | None = None
) -> tuple[set[str], set[str], int]:
    """Return the names of all tests of a module, of those that fail, and how many pass, with attributes replaced.

    What a module does not have is not replaced; of some modules only some classes are run.
    """
    tests = _imported(module)
    with contextlib.ExitStack() as stack:
        for path, value in replaced.items():
            owner, _, name = path.rpartition(".")
            there = tests
            for part in owner.split(".") if owner else ():
                there = getattr(there, part)
            if hasattr(there, name):
                stack.enter_context(mock.patch.object(there, name, value))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        logging.disable(logging.NOTSET)
        load = unittest.defaultTestLoader
        found = load.loadTestsFromModule(tests)
        suite = (
            found
            if classes is None
            else unittest.TestSuite(load.loadTestsFromTestCase(getattr(tests, name)) for name in classes)
        )
        names = {_name(test) for test in _flat(suite)}
        result = unittest.TestResult()
        suite.run(result)
    # an expected failure of a part of a test is one of the test
    failed = {_name(getattr(test, "test_case", test)) for test, _ in [*result.failures, *result.errors]}
    failing = {test.id() for test, _ in [*result.failures, *result.errors]}
    return names, failed, result.testsRun - len(failing) - len(result.skipped)


def _imported(module: str) -> Any:
    """Import tests of a peer; those that draw examples draw a few: how many is settled when they are imported."""
    usual = settings.get_current_profile_name()
    settings.register_profile("peers", max_examples=5, deadline=None, derandomize=True)
    settings.load_profile("peers")
    try:
        return importlib.import_module(module)
    finally:
        settings.load_profile(usual)


def check(names: set[str], failed: set[str], reasons: Reasons) -> None:
    """Compare what fails with what is listed: nothing else may fail, and what is listed must."""
    listed = {name for patterns in reasons.values() for name in names if any(_fits(name, it) for it in patterns)}
    unused = [it for patterns in reasons.values() for it in patterns if not any(_fits(name, it) for name in names)]
    assert sorted(failed - listed) == [], "these tests of a peer fail and are not listed"
    assert sorted(listed - failed) == [], "these tests of a peer pass now: take them off the list, and off the page"
    assert unused == [], "the peer has no such tests any more"


def _fits(name: str, pattern: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def _flat(suite: Any) -> Iterator[Any]:
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from _flat(test)
        else:
            yield test


def _name(test: Any) -> str:
    return test.id().split(" (")[0].rpartition(".test_")[2]  # type: ignore[no-any-return]
