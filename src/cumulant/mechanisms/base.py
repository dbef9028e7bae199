"""What every mechanism says of itself, and what it can become.

A mechanism says what it is (fields) and what is known of its loss (`loss`, and `family` or `pairs` where a dominating
pair is known). The questions it answers then follow in `questions`.

This is the one module that looks downstream: `*`, `+` and the sampling methods build mechanisms that are
defined on top of this class, so they import them where they are used.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar, Self

from cumulant import parameters
from cumulant.answer import relation_text, table_html
from cumulant.conversion.exact import Scenarios
from cumulant.errors import InvalidParameter, UnprovenCombination
from cumulant.loss.cgf import Cgf
from cumulant.loss.likelihood_ratio import LikelihoodRatio
from cumulant.loss.pair_family import PairFamily, Pairs
from cumulant.loss.profile import GroupProfiles, PrivacyProfile
from cumulant.mechanisms.questions import Questions
from cumulant.names import by_name, check_names
from cumulant.neighbors import ADD_REMOVE, REPLACE_ONE, Neighbors
from cumulant.parameters import require, shown

if TYPE_CHECKING:
    from cumulant.composition import Composed

FORMAT = 1  # version of the dictionaries that `to_dict` writes
DEEPEST = 64  # dictionaries and lists inside one another that are written and read
TOO_DEEP = f"a mechanism must be nested at most {DEEPEST} levels deep to be written or read as data"

Releases = tuple[tuple["AbstractMechanism", int], ...]


class AbstractMechanism(Questions):
    """Anything that was, or will be, released about the data."""

    __slots__ = ()

    kinds: ClassVar[dict[str, type[AbstractMechanism]]] = {}
    theorem: ClassVar[str]
    """The statement that `loss` rests on, for explanations."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        AbstractMechanism.kinds[cls.__name__] = cls

    def __new__(cls, *unnamed: Any, **named: Any) -> Self:
        if unnamed or named:
            check_names(cls, unnamed, named)
        return super().__new__(cls)

    # What a mechanism says of itself -------------------------------------------------------------

    @abstractmethod
    def loss(self) -> Cgf:
        """Return what is known of the CGF of the privacy loss."""

    def family(self) -> PairFamily | None:
        """Return a dominating pair, and what sampling makes of it, if one is known."""
        return None

    def pairs(self, relation: Neighbors | None) -> Pairs | None:
        """Return dominating pairs if they are known: one for both orders of neighbours, or one for each.

        `relation` is that of the whole run, for mechanisms that have none of their own.
        """
        family = self.family()
        return None if family is None else family.unsampled(self.neighbors or relation)

    def attained_family(self) -> PairFamily | None:
        """Return the pairs that some neighbours attain, by which answers can be bounded from below."""
        return self.family()

    def attained_pairs(self, relation: Neighbors | None) -> Pairs | None:
        """Return pairs that some neighbours attain."""
        family = self.attained_family()
        return self.pairs(relation) if family is None else family.both_orders()

    def pairs_attained(self, relation: Neighbors | None) -> bool:
        """Return whether some neighbours attain the dominating pairs, so that answers from them are exact."""
        return True

    @property
    def sharper_by_rdp(self) -> bool:
        """Whether the loss is known more sharply than the pairs."""
        return False

    def group_pairs(self, size: int) -> Pairs | None:
        """Return dominating pairs for `size` records that join or leave together, if they are known."""
        return None

    def scenarios(self) -> Scenarios | None:
        """Return the pairs of all releases with counts, for each order of the neighbours."""
        return _one_release(self.pairs(self.neighbors))

    def attained_scenarios(self) -> Scenarios | None:
        return _one_release(self.attained_pairs(self.neighbors))

    def likelihood_ratio(self) -> LikelihoodRatio | None:
        """Return the law of the ratio of a symmetric dominating pair if one is known."""
        return None

    def group_profiles(self) -> GroupProfiles | None:
        """Return the privacy profiles of groups of every size if they are known."""
        return None

    def known_profile(self) -> PrivacyProfile | None:
        """Return the privacy profile of one release if there is a formula for it."""
        groups = self.group_profiles()
        return None if groups is None else groups(1)

    @property
    def neighbors(self) -> Neighbors | None:
        """The relation the guarantee is for; None: whichever the sensitivity is measured for."""
        return None

    @property
    def failure_probability(self) -> float:
        """The probability that everything is revealed: `loss().failure`, known without K where that takes a while."""
        return self.loss().failure

    @property
    def tight_and_self_consistent(self) -> bool:
        """Whether one pair of outputs attains the RDP and the |χ|^α-divergence at every order.

        Wang et al. (2019), Definition 18.
        """
        return False

    @property
    def fixed_size(self) -> bool:
        """Whether the guarantee is for datasets of one known size, as sampling rates m/n are."""
        return False

    def releases(self) -> Releases:
        """Return the distinct releases with their counts."""
        return ((self, 1),)

    # What it can become --------------------------------------------------------------------------

    def __mul__(self, count: int) -> Composed:
        from cumulant.composition import Composed

        return Composed.of([(self, parameters.count(count))])

    __rmul__ = __mul__

    def __add__(self, other: AbstractMechanism) -> Composed:
        from cumulant.composition import Composed

        if not isinstance(other, AbstractMechanism):
            return NotImplemented
        return Composed.of([(self, 1), (other, 1)])

    @by_name
    def poisson(self, *, rate: float, neighbors: Neighbors | None = None) -> AbstractMechanism:
        """Return this mechanism on a sample that every record joins independently with probability `rate`.

        Default relation: add-or-remove-one. The unit of noise stays the largest contribution of one record.
        """
        from cumulant.sampling.poisson import PoissonSampled

        return PoissonSampled(mechanism=self, rate=rate, relation=ADD_REMOVE if neighbors is None else neighbors)

    @by_name
    def without_replacement(
        self,
        *,
        batch: int | None = None,
        population: int | None = None,
        rate: float | None = None,
        neighbors: Neighbors | None = None,
    ) -> AbstractMechanism:
        """Return this mechanism on a random subset of `batch` out of `population` records, or of that rate.

        Default relation: replace-one. The unit of noise is the replace-one sensitivity: twice the clipping norm for a
        sum of clipped vectors. Under add-or-remove-one a rate of 1 stands for the limit of smaller ones.
        """
        from cumulant.sampling.without_replacement import SampledWithoutReplacement

        share = parameters.sampled_rate(batch=batch, population=population, rate=rate)
        if rate is None and batch == population and neighbors is ADD_REMOVE:
            raise UnprovenCombination(
                "a batch of all records has another size when one is added or removed, which a guarantee for "
                "replace-one does not cover; ask under replace-one, or leave out the sampling"
            )
        return SampledWithoutReplacement(
            mechanism=self, rate=share, relation=REPLACE_ONE if neighbors is None else neighbors
        )

    @by_name
    def with_replacement(self, *, draws: int, population: int, neighbors: Neighbors | None = None) -> AbstractMechanism:
        """Return this mechanism on `draws` records drawn with replacement from `population`.

        Default relation: replace-one. The unit of noise is the replace-one sensitivity on the sample.
        """
        from cumulant.sampling.with_replacement import SampledWithReplacement

        return SampledWithReplacement(
            mechanism=self,
            draws=draws,
            population=population,
            relation=REPLACE_ONE if neighbors is None else neighbors,
        )

    def sharpened(self) -> AbstractMechanism:
        """Return the same release with the tightest loss that is known, also where that takes seconds to compute."""
        return self

    @by_name
    def group(self, *, size: int) -> AbstractMechanism:
        """Return the guarantee for `size` records at once, of the relation of this mechanism.

        Ask for the group last: records of a group are sampled one by one, so a group cannot be sampled.
        """
        from cumulant.mechanisms.group import Group

        return self if parameters.whole_number("size", size, at_least=1) == 1 else Group(mechanism=self, size=size)

    def _repr_html_(self) -> str:
        """Return the releases as a table, for notebooks."""
        rows = [(str(count), repr(release), release.theorem) for release, count in self.releases()]
        return table_html(f"holds for {relation_text(self.neighbors)}", rows, ("times", "release", "by"))

    # To and from data ----------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data that `cumulant.from_dict` reads back."""
        try:
            data = {"cumulant": FORMAT, **self._plain()}
        except RecursionError:
            raise InvalidParameter(TOO_DEEP) from None
        require(_nesting(data) <= DEEPEST, TOO_DEEP, type(self).__name__)
        return data

    def _plain(self) -> dict[str, Any]:
        content = {field.name: _plain_value(field.name, getattr(self, field.name)) for field in fields(self)}  # type: ignore[arg-type]
        inner = content.pop("mechanism", None)  # "mechanism" names the kind; what it is applied to is "of"
        return {"mechanism": type(self).__name__, **({"of": inner} if inner else {}), **content}

    @classmethod
    def _from_plain(cls, content: dict[str, Any]) -> AbstractMechanism:
        arguments = {("mechanism" if name == "of" else name): _from_value(name, content[name]) for name in content}
        return cls(**arguments)


def from_dict(data: dict[str, Any]) -> AbstractMechanism:
    """Return the mechanism that `to_dict` described; what is unknown, missing or too deep is refused.

    A key that a JSON text has twice is gone from the dictionary: `json.loads(text, object_pairs_hook=unique_keys)`
    refuses it.

    >>> from cumulant import Laplace
    >>> from_dict(Laplace(scale=2.0).to_dict())
    Laplace(scale=2.0)
    """
    require(_nesting(data) <= DEEPEST, TOO_DEEP, type(data).__name__)
    version = data.get("cumulant") if isinstance(data, dict) else None
    require(
        type(version) is int and version == FORMAT, f"a mechanism must be a dictionary with 'cumulant': {FORMAT}", data
    )
    return from_plain({key: value for key, value in data.items() if key != "cumulant"})


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the dictionary of a JSON object, refusing a key that comes twice: an `object_pairs_hook`.

    >>> import json
    >>> json.loads('{"scale": 2.0, "scale": 200.0}', object_pairs_hook=unique_keys)
    Traceback (most recent call last):
    ...
    cumulant.errors.InvalidParameter: keys of a JSON object must differ, got 'scale' twice
    """
    content: dict[str, Any] = {}
    for key, value in pairs:
        if key in content:
            raise InvalidParameter(f"keys of a JSON object must differ, got {key!r} twice")
        content[key] = value
    return content


def _nesting(data: Any) -> int:
    """Return how many dictionaries and lists are inside one another, without recursion; ends one beyond the limit."""
    level, depth = [data], 0
    while level and depth <= DEEPEST:
        inner = {id(x): x for x in level if isinstance(x, dict | list | tuple)}  # once each, however often it is shared
        depth += bool(inner)
        level = [item for x in inner.values() for item in (x.values() if isinstance(x, dict) else x)]
    return depth


def from_plain(content: dict[str, Any]) -> AbstractMechanism:
    """Return the mechanism of a nested description, whose version was checked outside."""
    require(isinstance(content, dict), "a mechanism must be a dictionary", content)
    name = content.get("mechanism")
    kinds = _all_kinds()
    require(isinstance(name, str) and name in kinds, f"mechanism must be one of {', '.join(sorted(kinds))}", name)
    try:
        return kinds[str(name)]._from_plain({key: value for key, value in content.items() if key != "mechanism"})
    except (KeyError, TypeError, AttributeError) as error:
        raise InvalidParameter(f"these are not the fields of {name}: {shown(content)} ({error!r})") from error


def _all_kinds() -> dict[str, type[AbstractMechanism]]:
    """Return every kind of mechanism by name, also those whose modules are not loaded with the library."""
    from cumulant.sampling import gaussian_triples  # noqa: F401  (its class names itself in `kinds`)

    return AbstractMechanism.kinds


def _from_value(name: str, value: Any) -> Any:
    """Return a field's value from plain data."""
    if name == "of":
        return from_plain(value)
    if name == "relation":
        require(value in Neighbors.__members__, "relation must be ADD_REMOVE or REPLACE_ONE", value)
        return Neighbors[value]
    if isinstance(value, list):
        return [_from_value(name, item) for item in value]
    return float(value) if value in ("inf", "-inf") else value


def _plain_value(name: str, value: Any) -> Any:
    if callable(value):
        raise InvalidParameter(f"{name} is a Python function and cannot be written as data; give numbers or a table")
    if isinstance(value, Neighbors):
        return value.name
    if isinstance(value, AbstractMechanism):
        return value._plain()
    if value in (math.inf, -math.inf):
        return "inf" if value > 0 else "-inf"  # JSON has no infinity
    return [_plain_value(name, item) for item in value] if isinstance(value, tuple) else value


def _one_release(pairs: Pairs | None) -> Scenarios | None:
    return None if pairs is None else tuple(((pair, 1),) for pair in pairs)
