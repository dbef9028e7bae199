"""The accountant: a composition that grows as releases are made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, final

from numpy.typing import ArrayLike

from cumulant import parameters
from cumulant.answer import EXACTLY, Method, table_html
from cumulant.composition import Composed
from cumulant.errors import BudgetExceeded, InvalidParameter, MixedNeighbors
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.data import from_dict
from cumulant.mechanisms.online import Allowance, Followed
from cumulant.neighbors import Neighbors
from cumulant.parameters import MOST, by_name, is_array, require
from cumulant.planning import max_count
from cumulant.printed import counted, given, rounded_up

STATE = "cumulant.Accountant"  # the key that names the format of a state
STATE_FORMAT = 1  # version of what `state_dict` writes

Arguments = ParamSpec("Arguments")
Found = TypeVar("Found")


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One line of a history: a release, how often, and what for."""

    mechanism: AbstractMechanism
    count: int
    label: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return {"mechanism": self.mechanism.to_dict(), "count": self.count, "label": self.label}


def _of_run(
    question: Callable[Concatenate[AbstractMechanism, Arguments], Found],
) -> Callable[Concatenate[Accountant, Arguments], Found]:
    """Return a question to a mechanism as one to an accountant, which asks it of its run."""

    @wraps(question)
    def asked(accountant: Accountant, /, *unnamed: Arguments.args, **named: Arguments.kwargs) -> Found:
        return question(accountant.run, *unnamed, **named)

    return asked


@by_name
class Accountant:
    """The analytical moments accountant of Wang, Balle and Kasiviswanathan (2019), Algorithms 1 and 4.

    `compose` takes constant time, whatever was composed before; memory is linear in the number of *distinct*
    mechanisms. It answers the same questions as a mechanism. A refused release changes nothing.

    With a budget, `Accountant(epsilon=, delta=)`, every release is checked before it is recorded. That is a budget for
    plans fixed in advance: as for every answer here, the parameters of the releases must not depend on earlier outputs.
    Where they do, stopping at a budget proves nothing; `cumulant.Ledger` is for releases that are chosen by looking.

    >>> from cumulant import Gaussian
    >>> accountant = Accountant()
    >>> accountant.compose(Gaussian(noise_multiplier=20.0), count=1000)
    >>> round(accountant.epsilon(delta=1e-5), 4)
    7.5113
    """

    __slots__ = ("_budget", "_counts", "_followed", "_kept_allowance", "_labelled", "_neighbors")

    def __init__(self, *, epsilon: float | None = None, delta: float | None = None) -> None:
        """Give epsilon and delta to make them a budget for a plan fixed in advance: beyond it, `BudgetExceeded`."""
        self._counts: dict[AbstractMechanism, int] = {}
        self._labelled: dict[tuple[AbstractMechanism, str], int] = {}
        self._neighbors: Neighbors | None = None
        if (epsilon is None) != (delta is None):
            raise InvalidParameter(f"a budget needs both epsilon and delta, got {epsilon!r} and {delta!r}")
        self._budget: tuple[float, float] | None = None
        self._followed: Followed | None = None  # since ε was asked for
        self._kept_allowance: Allowance | None = None
        if epsilon is not None:
            self._budget = (parameters.nonnegative("epsilon", epsilon), parameters.probability("delta", delta))

    def compose(self, mechanism: AbstractMechanism, count: int = 1, *, label: str | None = None) -> None:
        """Record that a mechanism was released `count` more times; `label` says for what, in the `history`."""
        try:
            known = self._counts.get(mechanism)
        except TypeError:  # unhashable, so no mechanism
            known = None
        if (
            known is not None
            and label is None
            and type(count) is int
            and 0 <= count <= MOST - known
            and (self._budget is None or self._allowance(*self._budget).takes(mechanism, count))
        ):
            self._counts[mechanism] = known + count  # a training step again: one dictionary update
            if self._followed is not None:
                self._followed.add(mechanism, count)
            return
        if not isinstance(mechanism, AbstractMechanism):
            raise InvalidParameter(f"mechanism must be a cumulant mechanism, got {mechanism!r}")
        count = parameters.count(count)
        require(label is None or isinstance(label, str), "label must be a text", label)
        if count == 0:
            return
        if self._budget is not None:
            self._check_budget(mechanism, count, *self._budget)
        added = [(release, times * count) for release, times in mechanism.releases()]
        # refused before anything changes
        after = {release: parameters.count(self._counts.get(release, 0) + more) for release, more in added}
        neighbors = mechanism.neighbors
        if neighbors is not None and self._neighbors is not neighbors:
            self._settle(neighbors)
        self._counts.update(after)
        for release, more in added:
            if label is not None:
                self._labelled[release, label] = self._labelled.get((release, label), 0) + more
            if self._followed is not None:
                self._followed.add(release, more)

    def _check_budget(self, mechanism: AbstractMechanism, count: int, epsilon: float, delta: float) -> None:
        """Refuse what would exceed the budget: by one number where that is enough, else by asking, a few ahead."""
        allowance, spent = self._allowance(epsilon, delta), self.run
        if allowance.takes(mechanism, count):
            return
        for number in allowance.numbers_ahead(count):
            after = (spent + mechanism * number).epsilon(delta=delta)
            if after <= epsilon:
                allowance.found_ahead(mechanism, number, count)
                return
        raise BudgetExceeded(
            f"this release would take epsilon from {rounded_up(spent.epsilon(delta=delta), digits=4)} to "
            f"{rounded_up(after, digits=4)}, over the budget of {given(epsilon)} at delta={given(delta)}; nothing was "
            "recorded (a budget for plans fixed in advance; cm.Ledger is for releases that are chosen by looking)"
        )

    def _allowance(self, epsilon: float, delta: float) -> Allowance:
        """Return what the budget still allows; it is reckoned anew where other counts were put in place."""
        kept = self._kept_allowance
        if kept is None or kept.run is not self._counts:
            log_delta = parameters.log_of_delta(delta=delta, log_delta=None)
            kept = self._kept_allowance = Allowance(self._counts, epsilon, log_delta)
        return kept

    def _settle(self, neighbors: Neighbors) -> None:
        if self._neighbors is not None:
            raise MixedNeighbors(
                f"this accountant holds releases for {self._neighbors.value}, the new one is for {neighbors.value}; "
                "give both the same `neighbors=`, or account for them apart; nothing was recorded"
            )
        self._neighbors = neighbors

    @property
    def budget(self) -> tuple[float, float] | None:
        """The budget (ε, δ); None where every release is recorded."""
        return self._budget

    @property
    def history(self) -> tuple[Entry, ...]:
        """What was released, how often and under which label; distinct releases in the order of their first."""
        rows: list[Entry] = []
        for release, count in self._counts.items():
            labelled = [(label, n) for (of, label), n in self._labelled.items() if of == release]
            rest = count - sum(n for _, n in labelled)
            rows += [Entry(mechanism=release, count=rest)] if rest else []
            rows += [Entry(mechanism=release, count=n, label=label) for label, n in labelled]
        return tuple(rows)

    def remaining(self, step: AbstractMechanism, *, method: Method = "best") -> int:
        """Return how many releases of a step the budget still allows, each of them asked; 0 if it is used up.

        >>> from cumulant import Gaussian
        >>> accountant = Accountant(epsilon=6.0, delta=1e-5)
        >>> accountant.compose(Gaussian(noise_multiplier=20.0), count=600)
        >>> accountant.remaining(Gaussian(noise_multiplier=20.0))
        85
        """
        if self._budget is None:
            raise InvalidParameter("remaining needs a budget: Accountant(epsilon=, delta=)")
        epsilon, delta = self._budget
        try:
            return max_count(step, epsilon=epsilon, delta=delta, spent=self.run, method=method)
        except BudgetExceeded:
            return 0

    def state_dict(self) -> dict[str, Any]:
        """Return everything so far with the budget: text, numbers, lists and dictionaries, for any checkpoint.

        PyTorch reads it back with weights only, that is, without running code from the file.
        """
        return {
            STATE: STATE_FORMAT,
            "budget": None if self._budget is None else {"epsilon": self._budget[0], "delta": self._budget[1]},
            "history": [row.to_dict() for row in self.history],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` wrote, in place of what was here; the state is copied, and checked before.

        The budget of the state becomes the accountant's. One that was given here must be the same: a budget that
        changes with a restart is none.
        """
        rows, stated = _read_state(state)
        budget = agreed_budget(self._budget, stated)
        fresh = Accountant()
        for row in rows:
            fresh.compose(row.mechanism, row.count, label=row.label)
        self._counts, self._labelled, self._neighbors = fresh._counts, fresh._labelled, fresh._neighbors
        self._budget = budget

    @property
    def run(self) -> Composed:
        """Everything composed so far, as one mechanism."""
        return Composed.of(self._counts.items())

    def epsilon(
        self,
        *,
        delta: ArrayLike | None = None,
        log_delta: ArrayLike | None = None,
        method: Method = "best",
        accuracy: float = EXACTLY,
    ) -> Any:
        """Return the smallest proven ε at δ of everything so far, rounded up. Give δ in [0, 1], or log δ."""
        if method != "best" or accuracy != EXACTLY or is_array(delta) or is_array(log_delta):
            return self.run.epsilon(delta=delta, log_delta=log_delta, method=method, accuracy=accuracy)
        asked = parameters.log_of_delta(delta=delta, log_delta=log_delta)
        followed = self._followed
        if followed is None or followed.run is not self._counts or followed.relation is not self._neighbors:
            followed = self._followed = Followed(self._counts, self._neighbors)
        found = followed.epsilon(asked)
        if found is None:
            found = self.run.epsilon(delta=delta, log_delta=log_delta, method=method)
            if self.run._known().failure() == 0:  # else δ next to it is told apart by more than its logarithm
                followed.remember(asked, found)
        return found

    # Questions to everything so far, as to one mechanism; the first of these is above, as it is asked again and again.
    cgf = _of_run(AbstractMechanism.cgf)
    rdp = _of_run(AbstractMechanism.rdp)
    delta = _of_run(AbstractMechanism.delta)
    log_delta = _of_run(AbstractMechanism.log_delta)
    epsilon_interval = _of_run(AbstractMechanism.epsilon_interval)
    delta_interval = _of_run(AbstractMechanism.delta_interval)
    tradeoff = _of_run(AbstractMechanism.tradeoff)
    true_positive_rate = _of_run(AbstractMechanism.true_positive_rate)
    rdp_interval = _of_run(AbstractMechanism.rdp_interval)
    guarantee = _of_run(AbstractMechanism.guarantee)
    explain = _of_run(AbstractMechanism.explain)
    statement = _of_run(AbstractMechanism.statement)

    def advantage(self) -> float:
        """Return the largest difference of true and false positive rate of any attacker, rounded up."""
        return self.run.advantage()

    def __getstate__(self) -> tuple[None, dict[str, Any]]:
        """Return what was released, for copies and pickles; what is kept between questions is found again."""
        state = {"_budget": self._budget, "_counts": dict(self._counts), "_labelled": dict(self._labelled)}
        return None, {**state, "_neighbors": self._neighbors, "_followed": None, "_kept_allowance": None}

    def to_dict(self) -> dict[str, Any]:
        """Return everything so far as plain data; `cumulant.from_dict` reads it as one mechanism."""
        return self.run.to_dict()

    def __repr__(self) -> str:
        budget = "" if self._budget is None else f"epsilon={self._budget[0]!r}, delta={self._budget[1]!r}"
        spent = f" holding {self.run!r}" if self._counts else ""
        return f"<Accountant({budget}){spent}>"

    def _repr_html_(self) -> str:
        """Return the history as a table, for notebooks."""
        within = "" if self._budget is None else ", within ε = {} at δ = {}".format(*map(given, self._budget))
        rows = [(row.mechanism._words(row.count), row.label or "") for row in self.history]
        return table_html(f"{counted(len(rows), 'entry')}{within}", rows, ("release", "label"))


def agreed_budget(own: tuple[float, float] | None, stated: tuple[float, float] | None) -> tuple[float, float] | None:
    """Return the budget of an accountant that takes over a state: its own, which may not change with a restart."""
    if own is not None and stated is not None and stated != own:
        raise InvalidParameter(
            f"this accountant has the budget (epsilon, delta) = {own}, the state has {stated}; "
            "give the accountant the same, or none"
        )
    return own if stated is None else stated


def _read_state(state: Any) -> tuple[list[Entry], tuple[float, float] | None]:
    """Return the history and the budget of a state; refuse what `state_dict` does not write."""
    rule = f"a state must be what Accountant.state_dict() returns, with {STATE!r}: {STATE_FORMAT}"
    require(isinstance(state, Mapping) and state.get(STATE) == STATE_FORMAT, rule, state)
    require(set(state) == {STATE, "budget", "history"}, rule, sorted(map(str, state)))
    try:
        rows = [
            Entry(mechanism=from_dict(row["mechanism"]), count=parameters.count(row["count"]), label=row["label"])
            for row in state["history"]
        ]
        budget = state["budget"]
        if budget is None:
            return rows, None
        pair = parameters.nonnegative("epsilon", budget["epsilon"]), parameters.probability("delta", budget["delta"])
    except (KeyError, TypeError) as error:
        raise InvalidParameter(f"{rule} ({error!r})") from error
    return rows, pair
