"""Mechanisms as plain data, and back: what `to_dict` writes, and which names `from_dict` knows.

The contract of format 1. A name in `REGISTRY` is never removed, and neither it nor a field ever changes its meaning. A
new field has a default that says what files without it meant. What changes meaning gets a new name or a new format, and
every format is read for good. Names of one's own are added by `register`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from cumulant.errors import InvalidParameter
from cumulant.neighbors import Neighbors
from cumulant.parameters import by_name, require, shown

if TYPE_CHECKING:
    from cumulant.mechanisms.base import AbstractMechanism

FORMAT = 1  # version of the dictionaries that `to_dict` writes
DEEPEST = 64  # dictionaries and lists inside one another that are written and read
TOO_DEEP = f"a mechanism must be nested at most {DEEPEST} levels deep to be written or read as data"

REGISTRY: Mapping[str, str] = {
    "ApproximateDP": "cumulant.mechanisms.approximate_dp",
    "Composed": "cumulant.composition",
    "CyclicPoisson": "cumulant.cyclic_poisson",
    "ExponentialFamily": "cumulant.mechanisms.exponential_family",
    "FamilyPair": "cumulant.mechanisms.family_pair",
    "Gaussian": "cumulant.mechanisms.gaussian",
    "GaussianMixture": "cumulant.mechanisms.gaussian_mixture",
    "Group": "cumulant.mechanisms.group",
    "Laplace": "cumulant.mechanisms.laplace",
    "LaplaceVector": "cumulant.mechanisms.laplace_vector",
    "MultivariateGaussian": "cumulant.mechanisms.multivariate_gaussian",
    "OncePerEpoch": "cumulant.sampling.once_per_epoch",
    "Parallel": "cumulant.disjoint",
    "PoissonSampled": "cumulant.sampling.poisson",
    "PoissonUsers": "cumulant.sampling.poisson_users",
    "PureDP": "cumulant.mechanisms.pure_dp",
    "RandomAllocation": "cumulant.sampling.random_allocation",
    "RandomizedResponse": "cumulant.mechanisms.randomized_response",
    "RenyiCurve": "cumulant.mechanisms.renyi_curve",
    "SampledWithReplacement": "cumulant.sampling.with_replacement",
    "SampledWithoutReplacement": "cumulant.sampling.without_replacement",
    "SecretOrder": "cumulant.sampling.secret_order",
    "SharpenedGaussianBatch": "cumulant.sampling.gaussian_triples",
    "Shuffled": "cumulant.sampling.shuffled",
    "StatedPair": "cumulant.mechanisms.stated_pair",
    "TruncatedCDP": "cumulant.mechanisms.truncated_cdp",
    "TruncatedPoisson": "cumulant.sampling.truncated_poisson",
    "ZCDP": "cumulant.mechanisms.zcdp",
}
"""The library's own mechanisms: the name in the data, and the module of the class of that name."""

_own: dict[str, type[AbstractMechanism]] = {}

Kind = TypeVar("Kind", bound="type[AbstractMechanism]")


def register(kind: Kind) -> Kind:
    """Make a mechanism of one's own known to `from_dict`: a decorator.

    The name of the class is its name in the data; those of the library are taken.
    """
    name = kind.__name__
    require(name not in REGISTRY, "the library has a mechanism of this name; choose another", name)
    _own[name] = kind
    return kind


def write(mechanism: AbstractMechanism) -> dict[str, Any]:
    """Return a mechanism as JSON-ready data, with the version of its format."""
    try:
        data = {"cumulant": FORMAT, **mechanism._plain()}
    except RecursionError:
        raise InvalidParameter(TOO_DEEP) from None
    require(_nesting(data) <= DEEPEST, TOO_DEEP, type(mechanism).__name__)
    return data


@by_name
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
    kind = _kind(name)
    try:
        return kind._from_plain({key: value for key, value in content.items() if key != "mechanism"})
    except (KeyError, TypeError, AttributeError) as error:
        raise InvalidParameter(f"these are not the fields of {name}: {shown(content)} ({error!r})") from error


def _kind(name: Any) -> type[AbstractMechanism]:
    """Return the class of a name."""
    known = {*REGISTRY, *_own}
    require(isinstance(name, str) and name in known, f"mechanism must be one of {', '.join(sorted(known))}", name)
    if name in _own:
        return _own[name]
    kind: type[AbstractMechanism] = getattr(import_module(REGISTRY[name]), name)
    return kind


def plain_fields(mechanism: AbstractMechanism) -> dict[str, Any]:
    """Return the fields of a mechanism as data; "mechanism" names the kind, and what it is applied to is "of"."""
    content = {field.name: _plain_value(field.name, getattr(mechanism, field.name)) for field in fields(mechanism)}  # type: ignore[arg-type]
    inner = content.pop("mechanism", None)
    return {"mechanism": type(mechanism).__name__, **({"of": inner} if inner else {}), **content}


def arguments_from(content: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that data stand for."""
    return {("mechanism" if name == "of" else name): _from_value(name, content[name]) for name in content}


def _from_value(name: str, value: Any) -> Any:
    """Return a field's value from plain data."""
    if name == "of":
        return from_plain(value)
    if name == "relation":
        require(value in Neighbors.__members__, f"relation must be one of {', '.join(Neighbors.__members__)}", value)
        return Neighbors[value]
    if isinstance(value, list):
        return [_from_value(name, item) for item in value]
    return float(value) if value in ("inf", "-inf") else value


def _plain_value(name: str, value: Any) -> Any:
    if callable(value):
        raise InvalidParameter(f"{name} is a Python function and cannot be written as data; give numbers or a table")
    if isinstance(value, Neighbors):
        return value.name
    if hasattr(value, "_plain"):  # a mechanism inside
        return value._plain()
    if value in (math.inf, -math.inf):
        return "inf" if value > 0 else "-inf"  # JSON has no infinity
    return [_plain_value(name, item) for item in value] if isinstance(value, tuple) else value
