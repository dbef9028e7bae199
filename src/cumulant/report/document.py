"""The document of an answer: version, question, answer, mechanism and proof, as plain data that JSON can hold.

And what is said where a file cannot be written.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cumulant.answer import Explanation
from cumulant.errors import CumulantError, InvalidParameter
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.version import __version__


def document(
    question: Mapping[str, Any],
    answer: Mapping[str, Any],
    run: AbstractMechanism,
    explanation: Explanation,
    **more: Any,
) -> dict[str, Any]:
    """Return the library's version, the question, the answer, the mechanism and the proof.

    Infinities, which JSON has not, become text; a mechanism that no data can describe becomes None.
    """
    content = {
        "version": __version__,
        "question": question,
        "answer": answer,
        "mechanism": written(run),
        "explanation": explanation.to_dict(),
        **more,
    }
    plain: dict[str, Any] = plain_value(content)
    return plain


def written(run: AbstractMechanism) -> dict[str, Any] | None:
    """Return a mechanism as data, None if no data can describe it."""
    try:
        return run.to_dict()
    except InvalidParameter:  # a part that no data can describe
        return None


@contextmanager
def writing(file: Path, *, done: str = "written") -> Iterator[None]:
    """Say in one sentence why a file cannot be written."""
    try:
        yield
    except OSError as error:
        raise CumulantError(f"{str(file)!r} cannot be {done}: {error.strerror}") from error


def plain_value(value: Any) -> Any:
    """Replace infinities, which JSON has not, by text."""
    if isinstance(value, Mapping):
        return {key: plain_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_value(item) for item in value]
    return str(value) if isinstance(value, float) and math.isinf(value) else value
