"""Composition: releases with counts, in one relation."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, final

from cumulant import parameters
from cumulant.curves.curve import Curve, combined_failure, total
from cumulant.errors import InvalidParameter, UnprovenCombination
from cumulant.inversion.solve import Directions
from cumulant.mechanisms.base import AbstractMechanism, Releases
from cumulant.mechanisms.data import from_plain
from cumulant.mechanisms.known import Known, one_release
from cumulant.neighbors import Neighbors, common_relation
from cumulant.pairs.noise import GaussianNoise, Noise, NoRelease
from cumulant.pairs.pair import MEAN_ROUNDED_UP, GaussianPair
from cumulant.pairs.sampled_gaussian import SampledGaussian, SampledReleases
from cumulant.parameters import by_name
from cumulant.profiles.profile import gaussian_groups
from cumulant.profiles.to_pair import pair_of_curve, pair_of_profile
from cumulant.sampling.poisson_users import records_per_person

Knowns = Sequence[tuple[Known, int]]


@final
@dataclass(frozen=True, slots=True)
class Composed(AbstractMechanism):
    """Several releases about one dataset, chosen adaptively or not; equal parts are kept once, with a count.

    Built with `*` and `+`:

    >>> from cumulant import Gaussian, Laplace
    >>> run = Gaussian(noise_multiplier=2.0) * 10 + Laplace(scale=1.0) + Gaussian(noise_multiplier=2.0)
    >>> run.parts
    ((Gaussian(noise_multiplier=2.0), 11), (Laplace(scale=1.0), 1))
    """

    theorem: ClassVar[str] = "CGFs add under adaptive composition (Mironov 2017, Proposition 1)"

    parts: Releases
    _relation: Neighbors | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        counts: dict[AbstractMechanism, int] = {}
        for mechanism, count in _checked_parts(self.parts):
            for release, times in mechanism.releases():
                counts[release] = counts.get(release, 0) + times * count
        kept = tuple((release, parameters.count(count)) for release, count in counts.items() if count)
        object.__setattr__(self, "parts", kept)
        relation = common_relation(release.neighbors for release, _ in kept)  # refuse a mixture now, not when asked
        object.__setattr__(self, "_relation", relation)
        records_per_person(release for release, _ in kept)  # the same for people with several records

    @classmethod
    def of(cls, parts: Iterable[tuple[AbstractMechanism, int]]) -> Composed:
        """Return the composition of mechanisms with counts; compositions among them are opened up."""
        return cls(tuple(parts))

    def _known(self) -> Known:
        parts = [_as_one(release._known(), count) for release, count in self.parts]
        if [count for _, count in parts] == [1]:
            return parts[0][0]
        mean = _gaussian_mean(parts)
        fixed_size = any(known.fixed_size for known, _ in parts)

        def curve() -> Curve:
            return total([(known.curve(), count) for known, count in parts])

        def failure() -> float:
            return combined_failure((known.failure(), count) for known, count in parts)

        if any(
            known.alternatives for known, _ in parts
        ):  # their pairs would be mixed: the curve holds for all mixtures
            return replace(Known.by_curve(curve, fixed_size=fixed_size), failure=failure, single=False)
        return Known(
            curve=curve,
            directions=lambda relation: _compose([(known.directions(relation), count) for known, count in parts]),
            by_profiles=lambda relation: _compose_profiles(parts, relation),
            attained=lambda relation: _compose([(known.attained(relation), count) for known, count in parts]),
            tight=lambda relation: all(known.tight(relation) for known, _ in parts),
            profile=lambda: None,
            failure=failure,
            noise=None if mean is None else _gaussian(mean),
            attained_noise=None if mean is None else _gaussian(mean * (1 - MEAN_ROUNDED_UP)),
            groups=None if mean is None else gaussian_groups(mean),
            least_rdp=lambda order: self._least_rdp(parts, order),
            sharper_curve=any(known.sharper_curve for known, _ in parts),
            fixed_size=fixed_size,
            single=False,
            lower_in_doubles=any(known.lower_in_doubles for known, _ in parts),
            sampled=_on_samples(parts),
        )

    def _least_rdp(self, parts: Knowns, order: float) -> float:
        """One pair of datasets attains the lower end of every part, so lower ends add, too."""
        for (release, _), (known, _) in zip(self.parts, parts, strict=True):
            if known.least_rdp is None:
                raise UnprovenCombination(f"no lower bound on the RDP of {type(release).__name__} is known")
        return math.fsum(known.least_rdp(order) * n for known, n in parts if known.least_rdp is not None)

    def sharpened(self) -> Composed:
        return Composed.of((release.sharpened(), count) for release, count in self.parts)

    @by_name
    def group(self, *, size: int) -> Composed:
        return Composed.of((release.group(size=size), count) for release, count in self.parts)

    @property
    def neighbors(self) -> Neighbors | None:
        return self._relation

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


def _as_one(known: Known, count: int) -> tuple[Known, int]:
    """Return releases of one kind as one, where more is known of all together than of each."""
    return (known.repeated(count), 1) if known.repeated is not None and count > 1 else (known, count)


def _on_samples(parts: Knowns) -> SampledReleases | None:
    """Return all releases if they are Gaussian noise, some of it on Poisson samples."""
    some = [
        (known.sampled, n) for known, n in parts if known.sampled is not None
    ]  # of one release each: no noise beside
    plain = [(known, n) for known, n in parts if known.sampled is None]
    mean = _gaussian_mean(plain) if plain else 0.0
    if not some or mean is None or math.isinf(mean):
        return None
    counts: Counter[SampledGaussian] = Counter()
    for releases, n in some:
        for law, each in releases.parts:
            counts[law] += each * n
    variance = math.nextafter(mean * mean, math.inf) if mean > 0 else 0.0
    return SampledReleases(tuple(counts), tuple(counts.values()), variance)


def _gaussian_mean(parts: Knowns) -> float | None:
    """Return μ of N(μ, 1) against N(0, 1) if that is what all parts together are, rounded up."""
    means = [(GaussianPair(k.noise.mean), n) for k, n in parts if isinstance(k.noise, GaussianNoise)]
    return GaussianPair.product(means).mean if len(means) == len(parts) else None


def _gaussian(mean: float) -> Noise:
    """Composed Gaussians are one Gaussian; nothing is nothing, however it is sampled."""
    return GaussianNoise(mean) if mean > 0 else NoRelease()


def _compose(parts: Sequence[tuple[Directions | None, int]]) -> Directions | None:
    """Return the pairs of all parts for each direction of the neighbours; a single one serves in every direction."""
    known = [(directions, count) for directions, count in parts if directions is not None]
    if len(known) < len(parts):
        return None
    several = max((len(directions) for directions, _ in known), default=1)
    return tuple(
        tuple((pair, n * count) for directions, count in known for pair, n in directions[i % len(directions)])
        for i in range(several)
    )


def _compose_profiles(parts: Knowns, relation: Neighbors | None) -> Directions | None:
    """Return pairs of all parts, where some have none: one for each profile, and one for all curves together.

    None where no part has a pair or a profile: then curves say it all.
    """
    found: list[tuple[Directions | None, int]] = []
    curves: list[tuple[Curve, int]] = []
    for known, count in parts:
        directions = known.directions(relation) or _directions_of_profile(known)
        if directions is None:
            curves.append((known.curve(), count))
        else:
            found.append((directions, count))
    if not found:
        return None
    if curves:
        pair = pair_of_curve(total(curves))
        found.append((None if pair is None else one_release((pair,)), 1))
    return _compose(found)


def _directions_of_profile(known: Known) -> Directions | None:
    """Return the pair of a release that is known by its profile."""
    profile = known.profile() if known.single else None
    pair = None if profile is None else pair_of_profile(profile)
    return None if pair is None else one_release((pair,))
