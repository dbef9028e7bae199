"""What "one person's data" means: the relation between datasets that a guarantee compares."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from cumulant.errors import MixedNeighbors


class Neighbors(Enum):
    """The neighbouring relation a theorem is proven for.

    ADD_REMOVE:   one of two datasets has a record more; so their number is private.
    REPLACE_ONE:  a record has another value.
    ZERO_OUT:     a record is replaced by a null record, which adds nothing; the number of records is public.
    """

    ADD_REMOVE = "add-or-remove-one"
    REPLACE_ONE = "replace-one"
    ZERO_OUT = "zero-out"

    @property
    def joins(self) -> bool:
        """Whether one neighbour has a record where the other has nothing, in every release: one goes one way, all do.

        Then a dominating pair of add-or-remove-one dominates under zero-out as well, and what attains it does so there,
        for releases of which the null record is no part: on a dataset with null records they are what they are on
        the others. For let X be those of the others, x the record and n the public number of records. Zero-out
        neighbours are X with x, and X with a null record in its place. For fixed n a release is a function of the
        records that are no null records, so it compares what it is on X with x and on X: two neighbours of
        add-or-remove-one. It may use n as it likes, which is the same for both: divide by it, sample at a rate and as
        often as it says.

        A Poisson sample keeps this: a null record that joins is no part of what is released on the sample, so the coin
        of its own that it tosses changes nothing, and the sample is that of X. Samples of fixed size do not: there the
        null record takes the place of another one.

        Holds for:  unsampled releases, and Poisson samples of releases that are proven for add-or-remove-one; groups
                    of records, each of them replaced; adaptive composition of these.
        Tightness:  attained wherever add-or-remove-one is.
        """
        return self is not Neighbors.REPLACE_ONE

    def __repr__(self) -> str:
        return f"cumulant.{self.name}"


ADD_REMOVE = Neighbors.ADD_REMOVE
REPLACE_ONE = Neighbors.REPLACE_ONE
ZERO_OUT = Neighbors.ZERO_OUT

NAMED = "cumulant.ADD_REMOVE, cumulant.REPLACE_ONE or cumulant.ZERO_OUT"


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
