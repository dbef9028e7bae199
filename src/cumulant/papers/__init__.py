"""What the papers say that no answer uses: theorems for comparison, approximations, and their figures.

`CATALOGUE` maps the name of a figure to a function that computes a `Sheet`; those of our own pages are there as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from cumulant.papers import exact_inversion, front_page, loader_costs
from cumulant.papers.asoodeh_2020 import figures as asoodeh_figures
from cumulant.papers.balle_2018 import figures as balle_figures
from cumulant.papers.sheet import Sheet
from cumulant.papers.wang_2019 import figures as wang_figures
from cumulant.papers.wang_slides import figures as slides_figures
from cumulant.papers.zhu_wang_2019 import figures as zhu_wang_figures

CATALOGUE: Mapping[str, Callable[[], Sheet]] = {
    "wang-3": partial(wang_figures.rdp_sheet, rate=0.001),
    "wang-4": partial(wang_figures.composition_sheet, rate=0.001),
    "wang-5": partial(wang_figures.rdp_sheet, rate=0.01),
    "wang-6": partial(wang_figures.rdp_sheet, rate=0.1),
    "wang-7": partial(wang_figures.rdp_sheet, rate=0.5),
    "wang-8": partial(wang_figures.composition_sheet, rate=0.01),
    "wang-9": partial(wang_figures.composition_sheet, rate=0.1),
    "wang-10": partial(wang_figures.composition_sheet, rate=0.5),
    "slides-2": slides_figures.figure2,
    "slides-composition": slides_figures.composition,
    "zhu-wang-5": zhu_wang_figures.figure5,
    "balle-1": balle_figures.figure1,
    "asoodeh-1": asoodeh_figures.figure1,
    "asoodeh-2": asoodeh_figures.figure2,
    "asoodeh-3": asoodeh_figures.figure3,
    "exact-line": exact_inversion.line,
    "exact-nodes": exact_inversion.nodes,
    "loaders": loader_costs.loaders,
    "methods": front_page.methods,
}
