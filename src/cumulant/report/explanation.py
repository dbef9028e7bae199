"""How a guarantee of a run came about, release by release, and what would serve it better."""

from __future__ import annotations

from cumulant.answer import Explanation, Guarantee, Part, relation_text
from cumulant.mechanisms.answers import bound_from_below
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.report.advice import advice_on
from cumulant.report.release_words import release_words


def explanation_of(run: AbstractMechanism, guarantee: Guarantee) -> Explanation:
    """Return a guarantee with which theorem bounded each part, and how far it can be above what is true."""
    return Explanation(
        guarantee=bound_from_below(run._known(), run.neighbors, guarantee),
        neighbors=run.neighbors,
        parts=tuple(_part(release, count) for release, count in run.releases()),
        advice=advice_on(run, guarantee),
    )


def _part(release: AbstractMechanism, count: int) -> Part:
    return Part(
        mechanism=repr(release),
        words=release_words(release, count),
        count=count,
        theorem=release.theorem,
        exact=release._known().curve().exact,
        neighbors=relation_text(release.neighbors),
    )
