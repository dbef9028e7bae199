"""Rules that arguments must obey: they have names, and each check of a value returns the clean one or raises.

Parameters that are computed from others, at the end, are rounded to the side on which more is revealed.
"""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cache, wraps
from numbers import Real
from typing import Any, Literal, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from cumulant.errors import InvalidParameter, MisnamedParameter

Bins = Literal["fresh", "kept"] | None
"""Whether records draw their batches anew in every epoch, or keep what they drew; None: it was not said."""
AnyMethod = TypeVar("AnyMethod", bound=Callable[..., Any])

MOST = 10**18  # releases: 30 years of a billion a second
MOST_OF_DOUBLES = 2**53  # up to which every whole number is one
LONGEST = 2000  # characters of a value in a message
"""What to do instead, for names that people bring from elsewhere."""


def require(condition: bool, rule: str, value: object) -> None:
    """Raise `InvalidParameter` with the rule and the value unless the condition holds.

    >>> require(-1.0 > 0, "scale must be > 0", -1.0)
    Traceback (most recent call last):
    ...
    cumulant.errors.InvalidParameter: scale must be > 0, got -1.0
    """
    if not condition:
        raise InvalidParameter(f"{rule}, got {shown(value)}")


def shown(value: object) -> str:
    """Return how a value looks in a message: its repr, unless that has thousands of digits or levels."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):
        return f"a {type(value).__name__} too large to print"
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def real(name: str, value: Any, rule: str, holds: Callable[[float], bool] = lambda number: True) -> float:
    """Return value as a plain float for which the rule holds; NaN, text, booleans and arrays are refused."""
    scalar = value.item() if getattr(value, "shape", None) == () else value
    require(isinstance(scalar, Real) and not isinstance(scalar, bool), f"{name} {rule}", value)
    try:
        number = float(scalar)
    except OverflowError:
        raise InvalidParameter(f"{name} {rule}, got a number beyond the range of floats") from None
    require(not math.isnan(number) and holds(number), f"{name} {rule}", value)
    return number


def positive(name: str, value: Any) -> float:
    """Return a finite number > 0."""
    return real(name, value, "must be a finite number > 0", lambda number: 0 < number < math.inf)


def nonnegative(name: str, value: Any) -> float:
    """Return a finite number >= 0."""
    return real(name, value, "must be a finite number >= 0", lambda number: 0 <= number < math.inf)


def probability(name: str, value: Any) -> float:
    """Return a number in [0, 1]."""
    return real(name, value, "must be a number between 0 and 1", lambda number: 0 <= number <= 1)


def inner_probability(name: str, value: Any, rule: str = "must be a number strictly between 0 and 1") -> float:
    """Return a number in (0, 1)."""
    return real(name, value, rule, lambda number: 0 < number < 1)


def whole_number(name: str, value: Any, *, at_least: int = 0) -> int:
    """Return an integer >= `at_least` that a double can hold; 1000.0 is refused rather than guessed at."""
    rule = f"{name} must be a whole number >= {at_least}"
    require(not isinstance(value, bool), rule, value)
    try:
        number = operator.index(value)
    except TypeError:
        raise InvalidParameter(f"{rule} of type int, got {shown(value)}") from None
    require(number >= at_least, rule, value)
    require(number <= 10**300, f"{name} must be at most 1e300", value)
    return number


def count(value: Any) -> int:
    """Return how often something is released, in all: a whole number up to 1e18."""
    number = whole_number("count", value)
    require(number <= MOST, "count must be at most 1e18 releases in all", value)
    return number


def counts(values: Any) -> NDArray[np.float64]:
    """Return an array of counts; integers of NumPy are checked together, and one by one only to say what is wrong."""
    of_integers = isinstance(values, np.ndarray) and values.dtype.kind in "iu" and values.size > 0
    if of_integers and int(values.min()) >= 0 and int(values.max()) <= MOST_OF_DOUBLES:
        return np.asarray(values, dtype=float)
    return array_of(lambda _, one: _above(Fraction(count(one))), "counts", values)  # up: more releases cost more


def accuracy(value: Any) -> float:
    """Return how far an answer may be above the truth, as a share of ε: a number between 0 and 1, both left out."""
    return real("accuracy", value, "must be a number > 0 and < 1, a share of epsilon", lambda share: 0 < share < 1)


def array_of(check: Callable[[str, Any], float], name: str, value: Any) -> NDArray[np.float64]:
    """Return numbers that each pass a check, in the shape they came in.

    >>> array_of(probability, "delta", [[0.5], [1]]).shape
    (2, 1)
    """
    try:
        numbers = np.asarray(value)
    except ValueError:
        raise InvalidParameter(f"{name} must be a number or an array of numbers, got {shown(value)}") from None
    return np.array([check(name, one) for one in numbers.ravel()], dtype=float).reshape(numbers.shape)


def is_array(value: Any) -> bool:
    """Return whether a value is an array, or a list or tuple that stands for one; a single number is none."""
    return isinstance(value, list | tuple) or getattr(value, "ndim", 0) > 0


def order(value: Any) -> float:
    """Return a Rényi order: a number >= 1, infinity included."""
    return real("order", value, "must be a number >= 1 (1 is KL, inf is pure DP)", lambda order: order >= 1)


def sampled_rate(*, batch: Any, population: Any, rate: Any) -> float:
    """Return m/n, from the two numbers, rounded up, or as given."""
    if rate is not None:
        if batch is not None or population is not None:
            raise InvalidParameter(f"give batch and population, or rate, got {batch!r}, {population!r} and {rate!r}")
        return probability("rate", rate)
    m = whole_number("batch", batch)
    n = whole_number("population", population, at_least=1)
    require(m <= n, f"batch must be at most the population of {n}", m)
    return ratio_above(m, n)


def log_of_delta(*, delta: Any, log_delta: Any) -> float:
    """Return log δ from exactly one of δ in [0, 1] and log δ in [-inf, 0]."""
    if (delta is None) == (log_delta is None):
        raise InvalidParameter(f"give either delta or log_delta, got delta={delta!r} and log_delta={log_delta!r}")
    if log_delta is None:
        number = probability("delta", delta)
        return math.log(number) if number > 0 else -math.inf
    return real("log_delta", log_delta, "must be a number <= 0", lambda number: number <= 0)


def logs_of_deltas(*, delta: Any, log_delta: Any) -> NDArray[np.float64]:
    """Return log δ, of arrays, from exactly one of δ and log δ."""
    if (delta is None) == (log_delta is None):
        raise InvalidParameter(f"give either delta or log_delta, got delta={delta!r} and log_delta={log_delta!r}")
    if log_delta is None:
        return array_of(lambda _, one: log_of_delta(delta=one, log_delta=None), "delta", delta)
    return array_of(lambda _, one: log_of_delta(delta=None, log_delta=one), "log_delta", log_delta)


def ratio_above(part: int, whole: int) -> float:
    """Return part/whole, rounded up; exact where a double holds it.

    >>> ratio_above(1, 4), ratio_above(1, 3) >= Fraction(1, 3)
    (0.25, True)
    """
    return _above(Fraction(part, whole))


def product_above(count: int | Fraction, value: float) -> float:
    """Return count·value for values >= 0, rounded up; exact where a double holds it, inf beyond the largest.

    >>> product_above(3, 0.5), product_above(3, 0.1) >= 3 * Fraction(0.1), product_above(0, math.inf)
    (1.5, True, 0.0)
    """
    if count == 0 or value == 0:
        return 0.0
    return value if count == 1 or math.isinf(value) else _above(count * Fraction(value))


def share_below(value: float, size: int | Fraction) -> float:
    """Return value/size for value > 0, rounded down; exact where a double holds it.

    >>> share_below(1.0, 4), share_below(1.0, 3) <= Fraction(1, 3)
    (0.25, True)
    """
    exact = Fraction(value) / size
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf
    return nearest if nearest <= exact else math.nextafter(nearest, 0.0)


def noise_for_group(name: str, noise: float, size: Any) -> float:
    """Return the noise in units of what `size` records can change: noise/size, rounded down."""
    share = share_below(noise, whole_number("size", size, at_least=1))
    require(share > 0, f"size must leave some noise: {name}={noise!r} over size underflows", size)
    return share


def noise_per_unit(name: str, noise: Any, sensitivity: Any) -> float:
    """Return noise / sensitivity, rounded down: less noise reveals more."""
    unit = Fraction(positive("sensitivity", sensitivity))
    share = share_below(positive(name, noise), unit)
    require(0 < share < math.inf, f"{name} over sensitivity must be a double > 0", (noise, sensitivity))
    return share


def _above(exact: Fraction) -> float:
    """Return the smallest double that is not below, inf beyond the largest."""
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf
    return nearest if nearest >= exact else math.nextafter(nearest, math.inf)


# Names: an argument without one is refused with the line that was meant -----------------------------------------------


def by_name(asked: AnyMethod) -> AnyMethod:
    """Refuse a call whose arguments have no names, or others, and say how to write it; of a class all public methods.

    >>> import cumulant as cm
    >>> cm.Gaussian(noise_multiplier=1.0).epsilon(1e-5)
    Traceback (most recent call last):
    ...
    cumulant.errors.MisnamedParameter: epsilon takes its arguments by name: epsilon(delta=1e-05)
    """
    if isinstance(asked, type):
        for name, member in list(vars(asked).items()):
            if inspect.isfunction(member) and (name == "__init__" or not name.startswith("_")):
                setattr(asked, name, by_name(member))
        return asked

    @wraps(asked)
    def called(*unnamed: Any, **named: Any) -> Any:
        try:
            return asked(*unnamed, **named)
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise  # from within: the call itself was understood
            raise MisnamedParameter(_misnamed(asked, unnamed, named) or str(error)) from None

    return cast(AnyMethod, called)


def _misnamed(asked: Callable[..., Any], unnamed: Sequence[Any], named: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the arguments of a call, if their names are."""
    what = asked.__qualname__.removesuffix(".__init__").rpartition(".")[2]
    parameters = list(inspect.signature(asked).parameters.values())
    if parameters and parameters[0].name in ("self", "cls"):
        parameters, unnamed = parameters[1:], unnamed[1:]
    places = [parameter.name for parameter in parameters if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]
    known = [parameter.name for parameter in parameters]
    if not set(known).issuperset(named):
        return _unknown(what, known, named, asked)
    if len(unnamed) > len(places):
        missing = [name for name in known if name not in places and name not in named]
        return _by_name(what, missing, unnamed[len(places) :], places)
    given = {*places[: len(unnamed)], *named}
    left = [one.name for one in parameters if one.default is one.empty and one.name not in given]
    return f"{what} needs {' and '.join(left)}" if left else None


def check_names(kind: type, unnamed: Sequence[Any], named: Mapping[str, Any]) -> None:
    """Refuse arguments of a class that have no name, or one that it does not know.

    >>> import cumulant as cm
    >>> cm.Gaussian(sigma=1.0)
    Traceback (most recent call last):
    ...
    cumulant.errors.MisnamedParameter: Gaussian has no parameter 'sigma', it takes noise_multiplier. Add N(0, σ²) ...
    """
    known = _named_parameters(kind)
    if known is None:
        return
    if unnamed:
        raise MisnamedParameter(_by_name(kind.__name__, known, unnamed))
    if not set(known).issuperset(named):
        raise MisnamedParameter(_unknown(kind.__name__, known, named, kind))


@cache
def _named_parameters(kind: type) -> list[str] | None:
    """Return the parameters of a class; None if it takes some without a name."""
    _, *parameters = inspect.signature(kind.__init__).parameters.values()  # type: ignore[misc]
    named = all(parameter.kind is parameter.KEYWORD_ONLY for parameter in parameters)
    return [parameter.name for parameter in parameters] if named else None


def _unknown(what: str, known: Sequence[str], named: Iterable[str], about: Any) -> str:
    name = next(name for name in named if name not in known)
    way_out = (inspect.getdoc(about) or "").partition("\n")[0]
    return f"{what} has no parameter {name!r}, it takes {', '.join(known)}. {way_out}"


def _by_name(what: str, known: Sequence[str], unnamed: Sequence[Any], places: Sequence[str] = ()) -> str:
    if len(unnamed) > len(known):
        return f"{what} takes its arguments by name: {', '.join([*places, *known]) or 'none'}"
    meant = [f"{name}={value!r}" for name, value in zip(known, unnamed, strict=False)]
    return f"{what} takes its arguments by name: {what}({', '.join([*places, *meant])})"
