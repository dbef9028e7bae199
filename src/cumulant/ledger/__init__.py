"""A durable budget that many processes spend, choosing as they go."""

from cumulant.ledger.declaration import Declaration, Stage
from cumulant.ledger.entries import Entry
from cumulant.ledger.hold import Hold
from cumulant.ledger.ledger import Ledger
from cumulant.ledger.values import Receipt, Status, Verification
from cumulant.ledger.verification import verify_export

__all__ = ["Declaration", "Entry", "Hold", "Ledger", "Receipt", "Stage", "Status", "Verification", "verify_export"]
