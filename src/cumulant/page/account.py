"""A ledger's account on the page: read, never written."""

from __future__ import annotations

from typing import Any

from cumulant.page.question import Question, RefusedQuestion


def accounts_answer(ledger: str | None) -> dict[str, Any]:
    """Return the names of all accounts."""
    from cumulant.ledger.ledger import Ledger

    with Ledger(_stated(ledger)) as opened:
        return {"accounts": opened.accounts()}


def account_answer(question: Question, ledger: str | None) -> dict[str, Any]:
    """Return what is left of an account, over time and by whom it was used: its report, its history verified."""
    from cumulant.ledger.ledger import Ledger
    from cumulant.ledger.report import make_report

    name = question.word("account")
    if not name:
        raise RefusedQuestion("account must be the name of one", field="account")
    with Ledger(_stated(ledger)) as opened:
        report = make_report(opened, name).to_dict()
    promise, *others = report["sections"]
    return {
        "title": report["title"],
        "status": promise["table"],
        "tables": [{"title": part["title"], "sentences": part["sentences"], "rows": part["table"]} for part in others],
        "chart": report["chart"],
    }


def _stated(ledger: str | None) -> str:
    if ledger is None:
        raise RefusedQuestion("this page was started without a ledger: cumulant page --ledger URL", kind="NoLedger")
    return ledger
