"""Integrations are collected where their tools are installed; their tests say so where they are not."""

from __future__ import annotations

from importlib.util import find_spec

NEEDS = {"opacus": "opacus", "dp_accounting": "dp_accounting", "flower": "flwr"}

collect_ignore_glob = [f"src/cumulant/integrations/{name}*" for name, tool in NEEDS.items() if find_spec(tool) is None]
