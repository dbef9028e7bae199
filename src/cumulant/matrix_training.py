"""Training with correlated noise, in the words of people who train: banded matrices, and matrices without sampling."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import Any

from cumulant import parameters
from cumulant.cyclic_poisson import NEEDS_ZERO_OUT, PARTITIONS, CyclicPoisson, Partition, cyclic_poisson
from cumulant.errors import InvalidParameter, UnprovenCombination
from cumulant.loaders.loader import Sizes
from cumulant.mechanisms.gaussian import Gaussian
from cumulant.neighbors import ADD_REMOVE, NAMED, REPLACE_ONE, ZERO_OUT, Neighbors
from cumulant.numerics.rounding import float_above
from cumulant.numerics.strategy_matrix import bands_of, column_shares, parts_of_cycle, sensitivity, strategy_matrix
from cumulant.parameters import by_name, require


@by_name
def banded_dp_sgd(
    *,
    noise_multiplier: float,
    bands: int,
    partition: Partition,
    batch_size: int | None = None,
    dataset_size: int | None = None,
    sample_rate: float | None = None,
    epochs: float | None = None,
    steps: int | None = None,
    matrix: Any = None,
    neighbors: Neighbors | None = None,
) -> CyclicPoisson:
    """Return a run of DP-SGD whose noise is correlated by a banded matrix C, on cyclic Poisson samples: BandMF.

    The data are split into `bands` parts; step i takes records of part i mod bands only, each by its own coin, and
    noise Z is added to CX. `noise_multiplier` is the standard deviation of Z / (the largest column norm of C times the
    clipping norm). A batch has batch_size records on average, so the coin has probability bands·batch_size /
    dataset_size; or give this probability as `sample_rate`.

    partition="independent":  every record draws its part by itself. Add-or-remove-one by default.
    partition="equal":        the records are split into parts of equal size, ⌊dataset_size / bands⌋. Zero-out only:
                              the number of records is public. The coin has probability batch_size / that size.

    Without a `matrix` all columns may have the largest norm. With one, steps by steps or as its Toeplitz coefficients,
    columns that are shorter cost less; it must be lower triangular with no more than `bands` bands.

    >>> plan = {"batch_size": 100, "dataset_size": 10_000, "steps": 1000, "partition": "independent"}
    >>> for bands in (1, 2, 4):
    ...     print(round(banded_dp_sgd(noise_multiplier=1.0, bands=bands, **plan).epsilon(delta=1e-5), 6))
    1.828237
    2.773448
    4.185152
    """
    sigma = parameters.positive("noise_multiplier", noise_multiplier)
    b = parameters.whole_number("bands", bands, at_least=1)
    require(partition in PARTITIONS, "partition must be 'independent' or 'equal'", partition)
    sizes = Sizes(batch_size=batch_size, dataset_size=dataset_size, sample_rate=sample_rate, epochs=epochs, steps=steps)
    coin, share = _coin(b, partition, sizes)
    count = sizes.steps_at(share)
    return cyclic_poisson(
        _parts(matrix, b, count),
        noise_multiplier=sigma,
        rate=float_above(coin),
        bands=b,
        steps=count,
        partition=partition,
        neighbors=_relation_of(partition, neighbors),
    )


@by_name
def matrix_gaussian(
    *, noise_multiplier: float, matrix: Any, steps: int | None = None, participations: int = 1, separation: int = 1
) -> Gaussian:
    """Return CX + Z without sampling as one Gaussian mechanism, however its rows are chosen: a matrix mechanism.

    A record takes part in at most `participations` steps, any two of them at least `separation` apart, fixed without
    looking at others. `noise_multiplier` is the standard deviation of Z / (the largest column norm of C times the
    clipping norm); what is returned has it in units of how far one record moves CX. The matrix is square, or `steps`
    and its Toeplitz coefficients are given.

    >>> matrix_gaussian(noise_multiplier=2.0, matrix=[1.0, 0.5], steps=100)
    Gaussian(noise_multiplier=2.0)
    >>> matrix_gaussian(noise_multiplier=2.0, matrix=[1.0, 0.5], steps=100, participations=4, separation=2)
    Gaussian(noise_multiplier=0.99999999999...)
    """
    sigma = parameters.positive("noise_multiplier", noise_multiplier)
    most = parameters.whole_number("participations", participations, at_least=1)
    apart = parameters.whole_number("separation", separation, at_least=1)
    count = None if steps is None else parameters.whole_number("steps", steps, at_least=1)
    found = strategy_matrix(matrix, count)
    if most == 1:
        return Gaussian(noise_multiplier=sigma)
    moved = sensitivity(found, count or len(found), participations=most, separation=apart)
    return Gaussian(noise_multiplier=parameters.noise_per_unit("noise_multiplier", sigma, moved))


def _coin(bands: int, partition: Partition, sizes: Sizes) -> tuple[Fraction, Fraction]:
    """Return the probability of a record's coin in its turns, and how much of the data a step takes."""
    given = sizes.rate()
    if sizes.sample_rate is not None:
        return given, given / bands
    b, n = sizes.counts()
    of_part = Fraction(n, bands) if partition == "independent" else Fraction(n // bands)
    require(b <= of_part, f"batch_size must be at most a part of the data: {n} records in {bands} bands", b)
    return b / of_part, given


def _parts(matrix: Any, bands: int, steps: int) -> list[Counter[float]]:
    """Return norms of columns with how many there are; without a matrix all are 1, and the first part has most."""
    if steps == 0:
        return []
    if matrix is None:
        return [Counter({1.0: math.ceil(Fraction(steps, bands))})]
    found = strategy_matrix(matrix, steps)
    if (its := bands_of(found)) > bands:
        raise InvalidParameter(
            f"matrix must have at most {bands} bands, got {its}: columns of one part would meet in a row; give "
            f"bands={its}, or account for the matrix without sampling by matrix_gaussian"
        )
    return parts_of_cycle(column_shares(found, steps), bands)


def _relation_of(partition: Partition, neighbors: Any) -> Neighbors:
    """Return the relation that is asked for, or the one that the partition is natural for."""
    natural = ZERO_OUT if partition == "equal" else ADD_REMOVE
    require(neighbors is None or isinstance(neighbors, Neighbors), f"neighbors must be {NAMED}", neighbors)
    if neighbors is REPLACE_ONE:
        raise UnprovenCombination("banded matrices have no theorem here for replace-one; ask under cumulant.ZERO_OUT")
    if partition == "equal" and neighbors is ADD_REMOVE:
        raise UnprovenCombination(NEEDS_ZERO_OUT)
    return natural if neighbors is None else neighbors
