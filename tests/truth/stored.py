"""References that take long are stored beside the programs that compute them; some are computed again on every run.

`@stored` on a reference program makes it look its answers up in `stored_references/<its module>.json`, by its name and
its arguments. A tenth of what is asked is computed anew and compared, so that no number outlives its program: under CI
the tenth that the program's text draws, at a desk that of the day. What is not stored is computed, and counted at
the end of the run.

    CUMULANT_REFERENCES=all  pytest -n 0 tests/truth/test_truth.py    # compute all that is asked anew, and compare
    CUMULANT_REFERENCES=make pytest -n 0 tests/truth/test_truth.py    # compute all that is asked anew, and store it
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from datetime import date
from functools import cache, wraps
from pathlib import Path
from typing import Any, TypeVar

from flint import acb, arb, ctx
from mpmath import mp, mpc, mpf

DIRECTORY = Path(__file__).parent / "stored_references"
DIGITS = 45  # of what is stored
SHARE = 10  # one in so many is computed again
REAL_AGREES, DOUBLE_AGREES = 1e-15, 1e-11  # relative: doubles choose nodes and lattices, and differ between machines
LONGEST = 200  # signs of a question that are kept; of tables a digest says the rest
BITS = 256  # at which balls are read
MODE = os.environ.get("CUMULANT_REFERENCES", "tenth")

Program = TypeVar("Program", bound=Callable[..., Any])


class Unstored:
    """What had to be computed for want of a stored number."""

    count = 0
    seconds = 0.0


def stored(program: Program) -> Program:
    """Return a reference program that looks up what it once computed; its arguments say all that it depends on."""

    @wraps(program)
    def answer(*arguments: Any, **named: Any) -> Any:
        shelf, question = shelf_of(program.__module__), question_of(program.__qualname__, arguments, named)
        known = shelf.kept.get(question)
        if MODE == "make":
            return shelf.keep(question, program(*arguments, **named))
        if known is None:
            begun = time.process_time()
            value = program(*arguments, **named)
            Unstored.count, Unstored.seconds = Unstored.count + 1, Unstored.seconds + time.process_time() - begun
            return value
        if MODE == "all" or is_drawn(question, seed_of(program)):
            anew = program(*arguments, **named)
            assert agree(read(known), anew), f"{question} is stored as {known}, and computed as {write(anew)}"
        return read(known)

    return answer  # type: ignore[return-value]


def question_of(name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> str:
    words = [*map(_word, arguments), *(f"{key}={_word(named[key])}" for key in sorted(named))]
    text = f"{name}({', '.join(words)})"
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}... {hashlib.sha256(text.encode()).hexdigest()[:32]}"


def _word(argument: Any) -> str:
    """Return a text that says all of an argument: mpmath and Arb print only some digits by themselves."""
    if isinstance(argument, mpf):
        return f"mpf({mp.nstr(argument, DIGITS)})"
    if isinstance(argument, arb):
        return f"arb({argument.str(DIGITS)})"
    if isinstance(argument, list | tuple):
        return f"[{', '.join(map(_word, argument))}]"
    if is_dataclass(argument) and not isinstance(argument, type):
        values = (f"{field.name}={_word(getattr(argument, field.name))}" for field in fields(argument))
        return f"{type(argument).__name__}({', '.join(values)})"
    return repr(argument)


def seed_of(program: Callable[..., Any]) -> str:
    return _text_of(program.__globals__["__file__"]) if os.environ.get("CI") else date.today().isoformat()


@cache
def _text_of(file: str) -> str:
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()


def is_drawn(question: str, seed: str, one_in: int = SHARE) -> bool:
    return int.from_bytes(hashlib.sha256(f"{seed}:{question}".encode()).digest()[:8], "big") % one_in == 0


# Values ---------------------------------------------------------------------------------------------------------------


def write(value: Any) -> Any:
    """Return what JSON holds of a value: balls as balls that hold them."""
    if isinstance(value, tuple | list):
        return [write(each) for each in value]
    for name, (kind, text, _) in KINDS.items():
        if isinstance(value, kind):
            return f"{name} {text(value)}"
    if value is None or isinstance(value, bool | int):
        return value
    raise TypeError(f"a {type(value).__name__} cannot be stored: {value!r}")


def read(kept: Any) -> Any:
    if isinstance(kept, list):
        return tuple(read(each) for each in kept)
    if not isinstance(kept, str):
        return kept
    name, _, text = kept.partition(" ")
    return KINDS[name][2](text)


def _ball(text: str) -> Any:
    before = ctx.prec
    ctx.prec = BITS
    try:
        return arb(text)
    finally:
        ctx.prec = before


KINDS: dict[str, tuple[type, Callable[[Any], str], Callable[[str], Any]]] = {
    "ball": (arb, lambda x: x.str(DIGITS), _ball),
    "box": (acb, lambda z: f"{z.real.str(DIGITS)} | {z.imag.str(DIGITS)}", lambda z: acb(*map(_ball, z.split(" | ")))),
    "complex": (mpc, lambda z: f"{mp.nstr(z.real, DIGITS)} {mp.nstr(z.imag, DIGITS)}", lambda z: mpc(*z.split())),
    "real": (mpf, lambda x: mp.nstr(x, DIGITS), mpf),
    "double": (float, lambda x: repr(float(x)), float),
}  # by what stands before a text: the type, how it is written, how it is read


def agree(known: Any, anew: Any) -> bool:
    """Say whether two values are one: balls overlap, numbers differ by rounding only, all else is equal."""
    if isinstance(anew, tuple | list):
        return len(known) == len(anew) and all(agree(a, b) for a, b in zip(known, anew, strict=True))
    if isinstance(anew, arb | acb):
        return bool(known.overlaps(anew))
    if isinstance(anew, mpf | mpc | float) and mp.isfinite(anew):
        return bool(abs(known - anew) <= abs(anew) * (DOUBLE_AGREES if isinstance(anew, float) else REAL_AGREES))
    return bool(known == anew)


# Shelves --------------------------------------------------------------------------------------------------------------


class Shelf:
    """What is stored of one module's programs."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.kept: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        self.made: dict[str, Any] = {}

    def keep(self, question: str, value: Any) -> Any:
        if not self.made:
            atexit.register(self.save)
        self.made[question] = write(value)
        return read(self.made[question])

    def save(self) -> None:
        """Replace what was asked, and leave the rest."""
        self.file.parent.mkdir(exist_ok=True)
        lines = json.dumps(dict(sorted({**self.kept, **self.made}.items())), indent=0, ensure_ascii=False)
        self.file.write_text(lines + "\n", encoding="utf-8")


@cache
def shelf_of(module: str) -> Shelf:
    return Shelf(DIRECTORY / f"{module.rpartition('.')[2]}.json")
