"""Releases about disjoint parts of the data: a record pays for the part that it is in."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, final

import numpy as np

from cumulant.curves.curve import Array, Curve
from cumulant.errors import InvalidParameter
from cumulant.inversion.solve import Directions
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.data import from_plain
from cumulant.mechanisms.known import Known
from cumulant.neighbors import Neighbors, common_relation
from cumulant.parameters import by_name, require
from cumulant.profiles.profile import PrivacyProfile
from cumulant.sampling.poisson_users import records_per_person


@by_name
def parallel(parts: Iterable[AbstractMechanism]) -> AbstractMechanism:
    """Return releases about disjoint parts of the data as one mechanism, which costs what the worst of them does.

    Every record is in one part, or in none. See `Parallel` for what that must mean.

    >>> from cumulant import Gaussian, Laplace
    >>> both = parallel([Gaussian(noise_multiplier=4.0) * 10, Laplace(scale=2.0)])
    >>> both.epsilon(delta=1e-5) == (Gaussian(noise_multiplier=4.0) * 10).epsilon(delta=1e-5)
    True
    """
    try:
        given = tuple(dict.fromkeys(parts))  # equal parts cost what one of them does
    except TypeError:
        raise InvalidParameter(f"parts must be mechanisms, got {parts!r}") from None
    require(len(given) > 0, "parts must be at least one mechanism", given)
    return given[0] if len(given) == 1 and isinstance(given[0], AbstractMechanism) else Parallel(parts=given)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Parallel(AbstractMechanism):
    """Releases about disjoint parts of the data, chosen adaptively or not.

    A record changes the part that it is in, so δ(ε) is the largest of the parts' (McSherry 2009), and so is the Rényi
    DP of every order. Inside a larger composition, where a record may be in the dearest part of one release and in
    that of another, the Rényi curve answers.

    Holds for:  add-or-remove-one and zero-out, if the part of a record does not depend on other records; replace-one,
                if it does not depend on the record either (a place in a list, a fixed key): else a replacement touches
                two parts.
    Tightness:  alone, that of the worst part.

    >>> import cumulant as cm
    >>> Parallel(parts=(cm.Laplace(scale=2.0), cm.Laplace(scale=4.0))).epsilon(delta=0.0)
    0.5
    """

    theorem: ClassVar[str] = "disjoint parts of the data cost what the worst does (McSherry 2009, Theorem 4)"

    parts: tuple[AbstractMechanism, ...]
    _relation: Neighbors | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        rule = "parts must be at least one mechanism"
        require(isinstance(self.parts, tuple) and len(self.parts) > 0, rule, self.parts)
        require(all(isinstance(part, AbstractMechanism) for part in self.parts), rule, self.parts)
        object.__setattr__(self, "_relation", common_relation(part.neighbors for part in self.parts))
        records_per_person(release for part in self.parts for release, _ in part.releases())

    @property
    def neighbors(self) -> Neighbors | None:
        return self._relation

    def _known(self) -> Known:
        known = [part._known() for part in self.parts]
        return Known(
            curve=lambda: largest([each.curve() for each in known]),
            directions=lambda relation: _all([each.directions(relation) for each in known]),
            attained=lambda relation: _all([each.attained(relation) for each in known]),
            tight=lambda relation: all(each.tight(relation) for each in known),
            profile=lambda: _worst([each.profile() for each in known]),
            failure=lambda: max(each.failure() for each in known),
            sharper_curve=any(each.sharper_curve for each in known),
            fixed_size=any(each.fixed_size for each in known),
            single=all(each.single for each in known),
            alternatives=True,
        )

    def _plain(self) -> dict[str, Any]:
        return {"mechanism": "Parallel", "parts": [part._plain() for part in self.parts]}

    @classmethod
    def _from_plain(cls, content: dict[str, Any]) -> Parallel:
        parts = tuple(from_plain(part) for part in content.pop("parts"))
        if content:
            raise TypeError(f"unknown fields {sorted(map(str, content))}")
        return cls(parts=parts)


def largest(curves: list[Curve]) -> Curve:
    """Return the largest K of several at every λ."""

    def log_moment(lam: Array) -> Array:
        return np.asarray(np.max([curve.log_moment(lam) for curve in curves], axis=0))

    return Curve(
        log_moment=log_moment,
        kl=max(curve.kl for curve in curves),
        pure=max(curve.pure for curve in curves),
        failure=max(curve.failure for curve in curves),
        exact=all(curve.exact for curve in curves),
        summed=any(curve.summed for curve in curves),
    )


def _all(found: list[Directions | None]) -> Directions | None:
    """Return the pairs of every part in every direction: an answer takes the worst of them."""
    known = [directions for directions in found if directions is not None]
    return tuple(pairs for directions in known for pairs in directions) if len(known) == len(found) else None


def _worst(profiles: list[PrivacyProfile | None]) -> PrivacyProfile | None:
    """Return the largest δ of several profiles at every ε, if all are known."""
    known = [profile for profile in profiles if profile is not None]
    if len(known) < len(profiles):
        return None
    return PrivacyProfile(
        lambda epsilon: max(profile.log_delta(epsilon) for profile in known),
        max((profile.pure for profile in known), default=math.inf),
    )
