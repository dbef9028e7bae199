"""Flower with this library's accountant: privacy of clients over rounds of federated learning.

from cumulant.integrations.flower import CumulantAccountant

strategy = DifferentialPrivacyServerSideFixedClipping(..., accountant=CumulantAccountant(config))
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

from cumulant.integrations.requirement import require_package

require_package("flwr", distribution="flwr", at_least="1.35", extra="flower")

from flwr.serverapp import GaussianPrivacyEvent, NeighboringRelation, PrivacyConfig, PrivacySpent, SamplingMethod  # noqa: E402
from flwr.serverapp.strategy import (  # noqa: E402
    DifferentialPrivacyClientSideFixedClipping,
    DifferentialPrivacyServerSideFixedClipping,
    FedAvg,
)

from cumulant import parameters  # noqa: E402
from cumulant.composition import Composed  # noqa: E402
from cumulant.errors import BudgetExceeded, InvalidParameter, UnprovenCombination  # noqa: E402
from cumulant.mechanisms.base import AbstractMechanism  # noqa: E402
from cumulant.mechanisms.gaussian import Gaussian  # noqa: E402
from cumulant.parameters import require  # noqa: E402
from cumulant.planning import max_count  # noqa: E402

__all__ = ["CumulantAccountant", "run_of_strategy"]

FIXED_CLIPPING = (DifferentialPrivacyServerSideFixedClipping, DifferentialPrivacyClientSideFixedClipping)
OF_FEDAVG = (FedAvg.configure_train, FedAvg.aggregate_train)  # a subset of fixed size, every client weighed alike

BACKENDS = ("cumulant", "rdp")  # whose states hold the same events
STATE_SCHEMA = 1  # version of Flower's states
EVENT = ("noise_multiplier", "sample_size", "population_size")


@final
class CumulantAccountant:
    """Flower's `PrivacyAccountant`, with exact answers, rounded to the safe side.

    Noise is in clipping norms. A round without amplification has a fixed number of clients, chosen by any rule that
    does not look at their data, so a client that leaves makes room for another: the sum moves by up to two clipping
    norms, and the effective noise multiplier is half.
    """

    def __init__(self, config: Any) -> None:
        require(isinstance(config, PrivacyConfig), "config must be a flwr.serverapp.PrivacyConfig", config)
        self._config = config
        self._events: dict[Any, int] = {}

    @property
    def config(self) -> Any:
        """What is accounted for: the relation, the sampling, δ and the budget."""
        return self._config

    @property
    def num_releases(self) -> int:
        return sum(self._events.values())

    @property
    def run(self) -> Composed:
        """Everything composed so far, as one mechanism, which answers every question of this library."""
        return Composed.of((self._release(event), count) for event, count in self._events.items())

    def compose(self, event: Any, count: int = 1) -> None:
        """Record rounds."""
        self._release(event)  # refused before anything changes
        total = self._events.get(event, 0) + parameters.whole_number("count", count, at_least=1)
        self._events[event] = parameters.count(total)

    def get_epsilon(self, delta: float) -> float:
        """Return the smallest proven ε at δ, rounded up."""
        return float(self.run.epsilon(delta=delta))

    def get_delta(self, epsilon: float) -> float:
        """Return the smallest proven δ at ε, rounded up."""
        return float(self.run.delta(epsilon=epsilon))

    def get_privacy_spent(self, delta: float | None = None) -> Any:
        """Return ε at δ, that of the configuration unless one is given."""
        asked = self._config.target_delta if delta is None else delta
        found = self.run.guarantee(delta=asked)
        return PrivacySpent(
            epsilon=found.epsilon,
            delta=asked,
            num_releases=self.num_releases,
            accounting_method=f"cumulant: {found.theorem}",
            optimal_order=found.order,
        )

    def would_exceed(self, event: Any, max_epsilon: float | None = None, count: int = 1) -> bool:
        """Return whether more rounds would exceed an ε at the configuration's δ."""
        limit = self._config.max_epsilon if max_epsilon is None else max_epsilon
        if limit is None:
            raise InvalidParameter("give max_epsilon, here or in the PrivacyConfig")
        after = self.run + self._release(event) * parameters.whole_number("count", count, at_least=1)
        return not after.epsilon(delta=self._config.target_delta) <= parameters.positive("max_epsilon", limit)

    def remaining(self, event: Any) -> int:
        """Return how many more such rounds the budget of the configuration allows."""
        if self._config.max_epsilon is None:
            raise InvalidParameter("remaining needs max_epsilon in the PrivacyConfig")
        budget = {"epsilon": self._config.max_epsilon, "delta": self._config.target_delta}
        try:
            return max_count(self._release(event), spent=self.run, **budget)
        except BudgetExceeded:
            return 0

    def state_dict(self) -> dict[str, object]:
        """Return the configuration and the events, as Flower's own accountant writes them."""
        return {
            "schema_version": STATE_SCHEMA,
            "backend": BACKENDS[0],
            "config": _config_as_data(self._config),
            "compositions": [
                {"event": {name: getattr(event, name) for name in EVENT}, "count": count}
                for event, count in self._events.items()
            ],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a state of this accountant or of Flower's own, if its configuration is equal."""
        require(isinstance(state, Mapping), "a state must be a dictionary", state)
        require(state.get("schema_version") == STATE_SCHEMA, f"schema_version must be {STATE_SCHEMA}", state)
        require(state.get("backend") in BACKENDS, f"backend must be one of {', '.join(BACKENDS)}", state.get("backend"))
        ours = _config_as_data(self._config)
        require(state.get("config") == ours, f"the state must be about the configuration {ours}", state.get("config"))
        fresh = CumulantAccountant(self._config)
        try:
            for row in state["compositions"]:
                fresh.compose(GaussianPrivacyEvent(**row["event"]), row["count"])
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidParameter(f"compositions must be events with counts ({error})") from error
        self._events = fresh._events

    def _release(self, event: Any) -> AbstractMechanism:
        """Return what one round releases, in the unit of the relation."""
        require(isinstance(event, GaussianPrivacyEvent), "event must be a GaussianPrivacyEvent", event)
        known = self._config.population_size
        require(event.population_size == known, f"population_size must be that of the configuration, {known}", event)
        size, of = event.sample_size, event.population_size
        match (self._config.sampling_method, self._config.neighboring_relation):
            case (SamplingMethod.POISSON, NeighboringRelation.ADD_OR_REMOVE_ONE):
                return Gaussian(noise_multiplier=event.noise_multiplier).poisson(rate=parameters.ratio_above(size, of))
            case (SamplingMethod.WITHOUT_REPLACEMENT, NeighboringRelation.REPLACE_ONE):
                half = Gaussian(noise_multiplier=event.noise_multiplier / 2)
                return half.without_replacement(batch=size, population=of)
            case (SamplingMethod.NO_AMPLIFICATION, NeighboringRelation.ADD_OR_REMOVE_ONE):
                return Gaussian(noise_multiplier=event.noise_multiplier / 2)
        raise UnprovenCombination(
            f"{self._config.sampling_method.value} under {self._config.neighboring_relation.value} has no theorem here"
        )


def run_of_strategy(strategy: Any, *, population_size: int, num_rounds: int) -> Composed:
    """Return the rounds of a strategy with fixed clipping as its sampler draws them: without replacement.

    FedAvg takes random.sample of the clients that are connected: a fresh, uniformly random subset of fixed size in
    every round, so the promise is about a client that is replaced by any other. A `CumulantAccountant` of
    NO_AMPLIFICATION, which is what Flower lets a strategy have, holds for every rule to choose clients, and towards
    whoever is told who was chosen.
    """
    require(isinstance(strategy, FIXED_CLIPPING), "strategy must be one of Flower's with fixed clipping", strategy)
    require(
        strategy.accountant is not None,
        "strategy must have an accountant: without one Flower takes unequal weights and any number of replies",
        strategy.accountant,
    )
    n = parameters.whole_number("population_size", population_size, at_least=1)
    drawn, asked = strategy.strategy, strategy.num_sampled_clients
    kind = type(drawn)
    if not isinstance(drawn, FedAvg) or (kind.configure_train, kind.aggregate_train) != OF_FEDAVG:
        raise UnprovenCombination(
            f"how {kind.__name__} chooses or weighs clients is not known here; rounds without amplification are "
            "covered: CumulantAccountant with SamplingMethod.NO_AMPLIFICATION"
        )
    size = max(int(n * drawn.fraction_train), drawn.min_train_nodes)
    require(size == asked, f"num_sampled_clients must be the {size} that the strategy draws of {n}", asked)
    waits = max(drawn.min_available_nodes, size)
    require(waits == n, f"min_available_nodes must be the population_size of {n}: rounds wait for all", waits)
    noise = parameters.positive("noise_multiplier", strategy.noise_multiplier) / 2
    rounds = parameters.whole_number("num_rounds", num_rounds)
    return Gaussian(noise_multiplier=noise).without_replacement(batch=size, population=n) * rounds


def _config_as_data(config: Any) -> dict[str, object]:
    return {
        "target_delta": config.target_delta,
        "population_size": config.population_size,
        "neighboring_relation": config.neighboring_relation.value,
        "sampling_method": config.sampling_method.value,
        "max_epsilon": config.max_epsilon,
    }
