"""Limits of time and memory for a question: it is asked in a fresh process, and what that used is looked at."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import cumulant

SOURCE = Path(cumulant.__file__).parent.parent
SECONDS = 10  # of processor time
BYTES = 10**9  # of memory that was in use at once

AROUND = """
import resource, sys
from pathlib import Path
import cumulant as cm
try:
{code}
except cm.CumulantError as error:
    print(type(error).__name__)
status = Path("/proc/self/status")
if status.exists():  # what `getrusage` says of this process begins with what its parent had
    used = 1024 * next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM"))
else:
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
print(used, file=sys.stderr)
"""


def within_limits(code: str, *, seconds: int = SECONDS) -> str:
    """Return what code prints, `cm` being the library, or the name of the `CumulantError` it raises.

    Fails if it raises anything else, warns, takes more than `seconds` of processor time or 1 GB of memory.
    """
    indented = "\n".join(f"    {line}" for line in code.splitlines())
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", AROUND.format(code=indented)],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(SOURCE), "OPENBLAS_NUM_THREADS": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1)),
        check=False,
    )
    assert run.returncode == 0, f"{code}\nended with {run.returncode}\n{run.stderr[-2000:]}"
    used = int(run.stderr.split()[-1])
    assert used <= BYTES, f"{code}\ntook {used / 1e9:.2f} GB"
    return run.stdout.strip()
