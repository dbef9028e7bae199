"""What "one person's data" means: the relation between datasets that a guarantee compares."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from cumulant.errors import MixedNeighbors


class Neighbors(Enum):
    """The neighbouring relation a theorem is proven for."""

    ADD_REMOVE = "add-or-remove-one"
    REPLACE_ONE = "replace-one"

    def __repr__(self) -> str:
        return f"cumulant.{self.name}"


ADD_REMOVE = Neighbors.ADD_REMOVE
REPLACE_ONE = Neighbors.REPLACE_ONE


def common_relation(relations: Iterable[Neighbors | None]) -> Neighbors | None:
    """Return the one relation among them; None stands for "whichever the sensitivity is for".

    >>> common_relation([None, ADD_REMOVE, ADD_REMOVE])
    cumulant.ADD_REMOVE
    """
    named = {relation for relation in relations if relation is not None}
    if len(named) > 1:
        raise MixedNeighbors(
            "a composition needs one neighbouring relation, these parts have two: "
            + " and ".join(sorted(relation.value for relation in named))
            + "; give all parts the same `neighbors=`, or account for them apart"
        )
    return next(iter(named), None)
