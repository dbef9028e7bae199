"""The papers' figures and those of our pages: `CATALOGUE` maps a name to a function that computes a `Sheet`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from cumulant.figures import asoodeh_et_al, balle_et_al, exact, wang_et_al, zhu_wang
from cumulant.figures.sheet import Sheet

CATALOGUE: Mapping[str, Callable[[], Sheet]] = {
    "wang-3": partial(wang_et_al.rdp_sheet, rate=0.001),
    "wang-4": partial(wang_et_al.composition_sheet, rate=0.001),
    "wang-5": partial(wang_et_al.rdp_sheet, rate=0.01),
    "wang-6": partial(wang_et_al.rdp_sheet, rate=0.1),
    "wang-7": partial(wang_et_al.rdp_sheet, rate=0.5),
    "wang-8": partial(wang_et_al.composition_sheet, rate=0.01),
    "wang-9": partial(wang_et_al.composition_sheet, rate=0.1),
    "wang-10": partial(wang_et_al.composition_sheet, rate=0.5),
    "zhu-wang-5": zhu_wang.figure5,
    "balle-1": balle_et_al.figure1,
    "asoodeh-1": asoodeh_et_al.figure1,
    "asoodeh-2": asoodeh_et_al.figure2,
    "asoodeh-3": asoodeh_et_al.figure3,
    "exact-line": exact.line,
    "exact-nodes": exact.nodes,
}
