"""Integrations and their pages are run where their tools are installed; their tests say where they are not.

And one thread for each worker.
"""

from __future__ import annotations

import os
from importlib.util import find_spec

# Before numpy is imported: every core has a worker, and threads of matrix products would only wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

NEEDS = {
    "opacus": ["src/cumulant/integrations/opacus/*", "docs/with-opacus.md", "docs/train.md", "docs/coming-from.md"],
    "torch": [
        "tests/integrations/training.py",
        "tests/integrations/two_processes.py",
        "tests/integrations/stand_in_for_torchvision.py",
    ],
    "dp_accounting": ["src/cumulant/integrations/dp_accounting/*", "docs/coming-from.md"],
    "jax_privacy": ["src/cumulant/integrations/dp_accounting/jax_privacy.py", "docs/with-jax-privacy.md"],
    "flwr": ["src/cumulant/integrations/flower.py", "docs/with-flower.md", "tests/integrations/local_grid.py"],
}

collect_ignore_glob = [path for tool, paths in NEEDS.items() if find_spec(tool) is None for path in paths]
