"""Figures of scores with matplotlib, for notebooks, in the style that is set there.

The page draws its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Any

from ragmetrics_core.data import import_extra

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def histogram(metric: str, values: Sequence[float]) -> Figure:
    """Draw a histogram with ten bins on [0, 1], and the mean as a dashed line.

    A score on the edge of two bins belongs to the upper one. Without scores the axes
    are empty. Example: .2 is counted between .2 and .3.
    """
    figure, axes = _axes(3.0)
    axes.hist(
        [round(value, 9) for value in values],
        bins=[edge / 10 for edge in range(11)],
        rwidth=0.92,
    )
    if values:
        axes.axvline(sum(values) / len(values), color="C1", linestyle="--")
    axes.set_xlabel(metric, parse_math=False)
    axes.set_ylabel("samples")
    axes.locator_params(axis="y", integer=True, nbins=5)
    return figure


def box_plot(values: Mapping[str, Sequence[float]]) -> Figure:
    """Draw a box plot of each metric's scores, one below the other.

    A box goes from the lower to the upper quartile, with a line at the median. Whiskers
    reach to the last score within 1.5 times the box's length. A diamond is the mean.
    Metrics without a score are left out. Example: scores of two metrics: two boxes, the
    first metric above.
    """
    scores_by_metric = {name: scores for name, scores in values.items() if scores}
    figure, axes = _axes(1.0 + 0.5 * len(scores_by_metric))
    diamond = {"marker": "D", "markerfacecolor": "C1", "markeredgecolor": "C1"}
    axes.boxplot(
        list(scores_by_metric.values()),
        orientation="horizontal",
        widths=0.55,
        showmeans=True,
        meanprops=diamond,
    )
    axes.set_yticks(
        range(1, len(scores_by_metric) + 1), list(scores_by_metric), parse_math=False
    )
    axes.invert_yaxis()
    return figure


def _axes(height: float) -> tuple[Figure, Any]:
    """Make a figure that opens no window, with empty axes for scores."""
    figure = import_extra("matplotlib.figure", "report", "a figure").Figure(
        figsize=(5.0, height), layout="constrained"
    )
    axes = figure.subplots()
    axes.set_xlim(-0.02, 1.02)
    axes.spines[["top", "right"]].set_visible(False)
    # notebooks show it; without pyplot they know no other way
    figure._repr_png_ = partial(_png, figure)
    return figure, axes


def _png(figure: Figure) -> bytes:
    file = BytesIO()
    figure.savefig(file, format="png", dpi=150)
    return file.getvalue()
