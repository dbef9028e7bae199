"""Composition: releases with counts, in one relation."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, final

from cumulant import parameters
from cumulant.answer import Interval
from cumulant.curves.curve import Curve, combined_failure, total
from cumulant.errors import InvalidParameter
from cumulant.inversion.solve import Directions
from cumulant.mechanisms.base import AbstractMechanism, Releases
from cumulant.mechanisms.data import from_plain
from cumulant.names import by_name
from cumulant.neighbors import Neighbors, common_relation
from cumulant.pairs.likelihood_ratio import LikelihoodRatio, gaussian_ratio
from cumulant.pairs.noise import GaussianNoise, Noise, NoRelease, Pairs
from cumulant.pairs.pair import MEAN_ROUNDED_UP, GaussianPair
from cumulant.profiles.profile import GroupProfiles, PrivacyProfile, gaussian_groups


@final
@dataclass(frozen=True, slots=True)
class Composed(AbstractMechanism):
    """Several releases about the same data, chosen adaptively or not; equal parts are kept once, with a count.

    Built with `*` and `+`:

    >>> from cumulant import Gaussian, Laplace
    >>> run = Gaussian(noise_multiplier=2.0) * 10 + Laplace(scale=1.0) + Gaussian(noise_multiplier=2.0)
    >>> run.parts
    ((Gaussian(noise_multiplier=2.0), 11), (Laplace(scale=1.0), 1))
    """

    theorem: ClassVar[str] = "CGFs add under adaptive composition (Mironov 2017, Proposition 1)"

    parts: Releases

    def __post_init__(self) -> None:
        counts: dict[AbstractMechanism, int] = {}
        for mechanism, count in _checked_parts(self.parts):
            for release, times in mechanism.releases():
                counts[release] = counts.get(release, 0) + times * count
        kept = tuple((release, parameters.count(count)) for release, count in counts.items() if count)
        object.__setattr__(self, "parts", kept)
        common_relation(release.neighbors for release, _ in kept)  # refuse a mixture now, not when asked

    @classmethod
    def of(cls, parts: Iterable[tuple[AbstractMechanism, int]]) -> Composed:
        """Return the composition of mechanisms with counts; compositions among them are opened up."""
        return cls(tuple(parts))

    def loss(self) -> Curve:
        return total([(release.loss(), count) for release, count in self.parts])

    def noise(self) -> Noise | None:
        """Composed Gaussians are one Gaussian; nothing is nothing, however it is sampled."""
        mean = self._gaussian_mean()
        return mean if mean is None else GaussianNoise(mean) if mean > 0 else NoRelease()

    def attained_noise(self) -> Noise | None:
        """The mean of several Gaussians was rounded up; what is attained has a mean a little smaller."""
        mean = self._gaussian_mean()
        if mean is None or mean == 0 or [count for _, count in self.parts] == [1]:
            return self.noise()
        return GaussianNoise(mean * (1 - MEAN_ROUNDED_UP))

    def _gaussian_mean(self) -> float | None:
        """Return μ of N(μ, 1) against N(0, 1) if that is what all parts together are."""
        families = [(release.noise(), count) for release, count in self.parts]
        means = [(GaussianPair(f.mean), count) for f, count in families if isinstance(f, GaussianNoise)]
        return GaussianPair.product(means).mean if len(means) == len(families) else None

    def likelihood_ratio(self) -> LikelihoodRatio | None:
        mean = self._gaussian_mean()
        return gaussian_ratio(mean) if mean is not None and mean > 0 else None

    def group_profiles(self) -> GroupProfiles | None:
        mean = self._gaussian_mean()
        return None if mean is None else gaussian_groups(mean)

    def directions(self) -> Directions | None:
        relation = self.neighbors
        return _in_each_order([(release.pairs(relation), count) for release, count in self.parts])

    def attained_directions(self) -> Directions | None:
        relation = self.neighbors
        return _in_each_order([(release.attained_pairs(relation), count) for release, count in self.parts])

    def pairs_attained(self, relation: Neighbors | None) -> bool:
        return all(release.pairs_attained(relation) for release, _ in self.parts)

    @property
    def sharper_by_rdp(self) -> bool:
        return any(release.sharper_by_rdp for release, _ in self.parts)

    def known_profile(self) -> PrivacyProfile | None:
        if len(self.parts) == 1 and self.parts[0][1] == 1:
            return self.parts[0][0].known_profile()
        return None

    def rdp_interval(self, *, order: float) -> Interval:
        """The same datasets attain the lower end of every part, so lower ends add, too."""
        ends = [(release.rdp_interval(order=order), count) for release, count in self.parts]
        return Interval(math.fsum(end.lower * n for end, n in ends), math.fsum(end.upper * n for end, n in ends))

    def sharpened(self) -> Composed:
        return Composed.of((release.sharpened(), count) for release, count in self.parts)

    @by_name
    def group(self, *, size: int) -> Composed:
        return Composed.of((release.group(size=size), count) for release, count in self.parts)

    @property
    def failure_probability(self) -> float:
        return combined_failure((release.failure_probability, count) for release, count in self.parts)

    @property
    def neighbors(self) -> Neighbors | None:
        return common_relation(release.neighbors for release, _ in self.parts)

    @property
    def fixed_size(self) -> bool:
        return any(release.fixed_size for release, _ in self.parts)

    def releases(self) -> Releases:
        return self.parts

    def __repr__(self) -> str:
        return " + ".join(f"{release!r} * {count}" for release, count in self.parts) or "Composed(())"

    def _plain(self) -> dict[str, Any]:
        parts = [{"count": count, "release": release._plain()} for release, count in self.parts]
        return {"mechanism": "Composed", "parts": parts}

    @classmethod
    def _from_plain(cls, content: dict[str, Any]) -> Composed:
        parts = content.pop("parts")
        strange = set(content).union(*(set(part) - {"count", "release"} for part in parts))
        if strange:
            raise TypeError(f"unknown fields {sorted(map(str, strange))}")
        return cls.of((from_plain(part["release"]), part["count"]) for part in parts)


def _checked_parts(parts: Any) -> Releases:
    """Return pairs of a mechanism and how often it is released."""
    rule = "parts must be pairs of a mechanism and a count"
    try:
        rows = [tuple(part) for part in parts]
    except TypeError:
        raise InvalidParameter(f"{rule}, got {parameters.shown(parts)}") from None
    for row in rows:
        parameters.require(len(row) == 2 and isinstance(row[0], AbstractMechanism), rule, row)
    return tuple((mechanism, parameters.count(count)) for mechanism, count in rows)


def _in_each_order(parts: list[tuple[Pairs | None, int]]) -> Directions | None:
    """Return the pairs of all parts for each order of the neighbours; a single pair serves in every order."""
    known = [(pairs, count) for pairs, count in parts if pairs is not None]
    if len(known) < len(parts):
        return None
    orders = max((len(pairs) for pairs, _ in known), default=1)
    return tuple(tuple((pairs[i % len(pairs)], count) for pairs, count in known) for i in range(orders))
