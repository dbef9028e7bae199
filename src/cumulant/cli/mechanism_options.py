"""The options that describe one release: which mechanism, and how its data is sampled.

`@mechanism_options` adds them to a command and hands it one `Release`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, final

import click

from cumulant.cli.hints import OneOf, flag
from cumulant.cli.parameter_types import (
    COUNT,
    CURVE_FILE,
    MATRIX,
    NUMBER,
    RUN_FILE,
    SHARE,
    SIZE,
    VECTOR,
    completed_as_file,
)
from cumulant.errors import InvalidParameter
from cumulant.neighbors import ADD_REMOVE, REPLACE_ONE, ZERO_OUT

if TYPE_CHECKING:
    from cumulant.mechanisms.base import AbstractMechanism

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


@final
@dataclass(frozen=True, slots=True)
class Choice:
    """What a value of --mechanism or --sampling calls in the library, and the options it takes.

    Options are listed as in "rho release_delta:delta": one that is named otherwise than the library's argument is
    followed by that name.
    """

    calls: str
    needs: str = ""
    takes: str = ""

    @property
    def names(self) -> dict[str, str]:
        """The library's argument for each option."""
        return {item.split(":")[0]: item.split(":")[-1] for item in f"{self.needs} {self.takes}".split()}

    @property
    def needed(self) -> list[str]:
        return [item.split(":")[0] for item in self.needs.split()]


MECHANISMS = {
    "gaussian": Choice("Gaussian", "noise_multiplier"),
    "gaussian-mixture": Choice("GaussianMixture", "noise_multiplier sensitivities probabilities"),
    "laplace": Choice("Laplace", "scale"),
    "laplace-vector": Choice("LaplaceVector", "scale"),
    "randomized-response": Choice("RandomizedResponse", "p"),
    "pure": Choice("PureDP", "release_epsilon:epsilon"),
    "approximate": Choice("ApproximateDP", "release_epsilon:epsilon release_delta:delta"),
    "zcdp": Choice("ZCDP", "rho", "xi"),
    "tcdp": Choice("TruncatedCDP", "rho omega"),
    "exponential-family": Choice("ExponentialFamily", "distance", "smoothness lipschitz radius"),
    "multivariate-gaussian": Choice("MultivariateGaussian", "shift covariance neighbor_covariance"),
    "family-pair": Choice("FamilyPair", "family natural neighbor_natural"),
    "curve": Choice("RenyiCurve", "curve"),
}
SAMPLINGS = {
    "poisson": Choice("poisson", "rate", "max_batch population records_per_user neighbors"),
    # batch and population, or rate: the method checks which
    "without-replacement": Choice("without_replacement", takes="batch population rate neighbors"),
    "with-replacement": Choice("with_replacement", "batch:draws population", "neighbors"),
}
NEIGHBORS = {"add-remove": ADD_REMOVE, "replace-one": REPLACE_ONE, "zero-out": ZERO_OUT}


def _number(name: str, text: str) -> Decorator:
    return click.option(name, type=NUMBER, metavar="NUMBER", help=text)


def _name(name: str, names: Iterable[str], text: str, *, metavar: str | None = None) -> Decorator:
    return click.option(name, type=OneOf(names), metavar=metavar, help=text)


def file_option(name: str, kind: Callable[[str], Any], text: str) -> Decorator:
    """Return an option that names a file."""
    return click.option(name, type=kind, metavar="FILE", shell_complete=completed_as_file, help=text)


UNITS = "Poisson: the noise's unit is what one record adds; else what replacing one record changes."
HOW_DRAWN = f"How records are drawn.  [default: poisson if --rate is given]  {UNITS}"
SAMPLING = _name("--sampling", SAMPLINGS, HOW_DRAWN)
OPTIONS = (
    # The names stand in the text, which wraps; as a metavar they would make one line of 120 columns.
    _name(
        "--mechanism",
        MECHANISMS,
        f"What was released: {', '.join(MECHANISMS)}.  [default: gaussian]",
        metavar="NAME",
    ),
    _number("--noise-multiplier", "gaussian, gaussian-mixture: noise / L2 sensitivity."),
    click.option("--sensitivities", type=VECTOR, metavar="A,B,..", help="gaussian-mixture: what a record adds."),
    click.option("--probabilities", type=VECTOR, metavar="A,B,..", help="gaussian-mixture: how likely each is."),
    _number("--scale", "laplace, laplace-vector: noise scale / L1 sensitivity."),
    _number("--p", "randomized-response: probability of a true answer."),
    _number("--release-epsilon", "pure, approximate: epsilon of one release."),
    _number("--release-delta", "approximate: delta of one release."),
    _number("--rho", "zcdp, tcdp: RDP <= xi + rho * order."),
    _number("--xi", "zcdp: the constant part.  [default: 0]"),
    _number("--omega", "tcdp: orders below omega."),
    _number("--distance", "exponential-family: between neighbours' parameters."),
    _number("--smoothness", "exponential-family: of the log-partition function."),
    _number("--lipschitz", "exponential-family: of the log-partition function."),
    _number("--radius", "exponential-family: where these hold.  [default: everywhere]"),
    click.option("--family", metavar="NAME", help="family-pair: bernoulli, categorical, poisson, gamma, normal."),
    click.option("--natural", type=VECTOR, metavar="A,B,..", help="family-pair: natural parameters."),
    click.option("--neighbor-natural", type=VECTOR, metavar="A,B,..", help="family-pair: on the neighbour."),
    click.option("--shift", type=VECTOR, metavar="A,B,..", help="multivariate-gaussian: difference of means."),
    click.option("--covariance", type=MATRIX, metavar="A,B;C,D", help="multivariate-gaussian: on one dataset."),
    click.option("--neighbor-covariance", type=MATRIX, metavar="A,B;C,D", help="multivariate-gaussian: on the other."),
    file_option("--curve", CURVE_FILE, "curve: table of order,epsilon (CSV or blanks)."),
    file_option("--run", RUN_FILE, "JSON of mechanism.to_dict(), instead of --mechanism."),
    SAMPLING,
    click.option(
        "--rate",
        type=SHARE,
        metavar="NUMBER",
        help="Sampling probability, also as 256/50000; without replacement: batch / population.",
    ),
    click.option("--batch", type=COUNT, metavar="COUNT", help="With or without replacement: records drawn."),
    click.option("--population", type=SIZE, metavar="COUNT", help="Records in all; poisson: with --max-batch."),
    click.option("--max-batch", type=SIZE, metavar="COUNT", help="Poisson: larger samples are cut to that size."),
    click.option("--records-per-user", type=SIZE, metavar="COUNT", help="Poisson: of one person, at most."),
    _name("--neighbors", NEIGHBORS, "Datasets that sampling compares.  [default: the theorem's own]"),
)
MECHANISM_NAMES = tuple({name: None for choice in MECHANISMS.values() for name in choice.names})
SAMPLING_NAMES = tuple({name: None for choice in SAMPLINGS.values() for name in choice.names})
NAMES = ("mechanism", *MECHANISM_NAMES, "run", "sampling", *SAMPLING_NAMES)


@final
@dataclass(frozen=True, slots=True)
class Release:
    """One release as its options describe it; those that were left out are absent."""

    options: Mapping[str, Any]

    def build(self, **replaced: Any) -> AbstractMechanism:
        """Return the mechanism, sampling included; a command that searches an option gives it a value here."""
        given = {**self.options, **replaced}
        scheme = _scheme(given)
        mechanism = _from_file(given) if "run" in given else _plain(given)
        if scheme is None:
            return mechanism
        arguments = _arguments(given, SAMPLING_NAMES, SAMPLINGS, "sampling", scheme)
        if "neighbors" in arguments:
            arguments["neighbors"] = NEIGHBORS[arguments["neighbors"]]
        sampled: AbstractMechanism = getattr(mechanism, SAMPLINGS[scheme].calls)(**arguments)
        return sampled

    @property
    def kind(self) -> str:
        """The value of --mechanism."""
        kind: str = self.options.get("mechanism", "gaussian")
        return kind

    def without(self, *names: str) -> Release:
        """Return the release after a check that these options, which a command searches, were left out."""
        for name in names:
            if name in self.options:
                raise click.UsageError(f"{flag(name)} is what this command searches for: leave it out")
        return self

    def run(self, *, steps: int, **replaced: Any) -> AbstractMechanism:
        """Return the release repeated."""
        mechanism = self.build(**replaced)
        return mechanism if steps == 1 else mechanism * steps


def mechanism_options(command: Callable[..., Any], *, sampling: Decorator = SAMPLING) -> Callable[..., Any]:
    """Give a command all options of a release, one of them perhaps with more names; it takes them as `release`."""

    @wraps(command)
    def with_release(**parameters: Any) -> Any:
        options = {name: parameters.pop(name) for name in NAMES}
        return command(release=Release({name: it for name, it in options.items() if it is not None}), **parameters)

    decorated: Callable[..., Any] = with_release
    for option in reversed(OPTIONS):
        decorated = (sampling if option is SAMPLING else option)(decorated)
    return decorated


def _plain(given: Mapping[str, Any]) -> AbstractMechanism:
    import cumulant

    name = given.get("mechanism", "gaussian")
    arguments = _arguments(given, MECHANISM_NAMES, MECHANISMS, "mechanism", name)
    try:
        mechanism: AbstractMechanism = getattr(cumulant, MECHANISMS[name].calls)(**arguments)
    except InvalidParameter as error:
        raise InvalidParameter(f"--mechanism {name}: {error}") from error
    return mechanism


def _from_file(given: Mapping[str, Any]) -> AbstractMechanism:
    for name in ("mechanism", *MECHANISM_NAMES):
        if name in given:
            raise click.UsageError(f"--run describes a whole mechanism: {flag(name)} cannot be added")
    return read_run(given["run"], "--run")


def read_run(content: Any, option: str) -> AbstractMechanism:
    """Return the mechanism that the file of an option describes."""
    from cumulant import from_dict

    try:
        return from_dict(content)
    except (KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:  # any JSON may be in a file
        raise InvalidParameter(f"{option}: not what mechanism.to_dict() writes ({error!r})") from error


def _scheme(given: Mapping[str, Any]) -> str | None:
    """Return the sampling scheme asked for; a rate alone is Poisson sampling."""
    scheme: str | None = given.get("sampling", "poisson" if "rate" in given else None)
    stray = [name for name in SAMPLING_NAMES if name in given]
    if scheme is None and stray:
        schemes = _owners(stray[0], SAMPLINGS)
        raise click.UsageError(f"{flag(stray[0])} describes a sampling: give --sampling {schemes} too")
    return scheme


def _arguments(
    given: Mapping[str, Any], names: Iterable[str], choices: Mapping[str, Choice], kind: str, chosen: str
) -> dict[str, Any]:
    """Return the library's arguments for a choice; refuse options that are not its own, and gaps."""
    known = choices[chosen]
    for name in names:
        if name in given and name not in known.names:
            owners = _owners(name, choices)
            raise click.UsageError(f"{flag(name)} does not belong to --{kind} {chosen}, but to {owners}")
    missing = [flag(name) for name in known.needed if name not in given]
    if missing:
        raise click.UsageError(f"--{kind} {chosen} needs {' and '.join(missing)}")
    return {argument: given[name] for name, argument in known.names.items() if name in given}


def _owners(name: str, choices: Mapping[str, Choice]) -> str:
    return " or ".join(chosen for chosen, choice in choices.items() if name in choice.names)
