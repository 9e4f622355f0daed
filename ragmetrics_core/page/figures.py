"""Figures of scores with matplotlib: for notebooks as they are, for the page as SVG in the page's own colours."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from io import StringIO
from typing import TYPE_CHECKING, Any, NamedTuple

from ragmetrics_core.data.extras import extra
from ragmetrics_core.page.biases import RankShare

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BINS = 10


class _Palette(NamedTuple):
    ink: str
    bar: str
    soft: str
    second: str


_NOTEBOOK = _Palette("#222222", "#2f6fb0", "#cccccc", "#b4541f")
_PAGE = _Palette("#010203", "#040506", "#070809", "#0a0b0c")
_VARIABLES = dict(zip(_PAGE, ("var(--ink)", "var(--accent)", "var(--line)", "var(--warn)"), strict=True))


def counts(values: Sequence[float]) -> list[int]:
    """Number of scores in each of ten bins on [0, 1]; a score on an edge belongs to the bin above, 1 to the last.

    Example:
        >>> counts([0.0, 0.1, 0.3, 0.95, 1.0])
        [1, 1, 0, 1, 0, 0, 0, 0, 0, 2]
    """
    found = [0] * BINS
    for value in values:
        found[min(int(round(value * BINS, 9)), BINS - 1)] += 1
    return found


def histogram(metric: str, values: Sequence[float]) -> Figure:
    """A histogram with ten bins on [0, 1], and the mean as a dashed line; empty axes without scores."""
    with _drawing(5.0, 3.0, _NOTEBOOK) as figure:
        axes = figure.add_subplot()
        _bars(axes, values, _NOTEBOOK)
        axes.set_xlabel(metric, parse_math=False)
    return figure


def box_plot(values: Mapping[str, Sequence[float]]) -> Figure:
    """A box plot per metric: median, quartiles, whiskers to 1.5 times their distance, the mean as a diamond."""
    shown = {name: own for name, own in values.items() if own}
    with _drawing(5.0, 1.0 + 0.5 * len(shown), _NOTEBOOK) as figure:
        axes = figure.add_subplot()
        _boxes(axes, list(shown.values()), _NOTEBOOK)
        axes.set_yticks(range(1, len(shown) + 1), list(shown), parse_math=False)
        axes.invert_yaxis()
    return figure


def scores_svg(values: Sequence[float], label: str) -> str:
    """Histogram above box plot, as an SVG element; the label is for readers who do not see it."""
    with _drawing(4.4, 2.5, _PAGE) as figure:
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=[4, 1])
        _bars(above, values, _PAGE)
        _boxes(below, [values], _PAGE)
        below.set_yticks([])
        below.set_xlabel("score")
        return _svg(figure, label)


def ranks_svg(shares: Sequence[RankShare], shuffled: Sequence[RankShare], label: str) -> str:
    """Share of useful chunks by rank with Wilson bars; beside it that by place shown when shuffled, if audited."""
    with _drawing(6.4, 2.6, _PAGE) as figure:
        axes = figure.add_subplot()
        for offset, own, colour, name in ((0.0, shares, _PAGE.bar, "as ranked"),
                                          (0.15, shuffled, _PAGE.second, "shuffled, by place shown")):  # fmt: skip
            if own:
                bars = [[max(0.0, s.share - s.low) for s in own], [max(0.0, s.high - s.share) for s in own]]
                places = [share.rank + offset for share in own]
                axes.errorbar(
                    places, [s.share for s in own], yerr=bars, fmt="o", color=colour, capsize=3, label=name
                )  # fmt: skip
        axes.set_ylim(-0.03, 1.03)
        axes.set_xticks(sorted({share.rank for share in (*shares, *shuffled)}))
        axes.set_xlabel("rank")
        axes.set_ylabel("share useful")
        if shuffled:
            axes.legend(frameon=False)
        _plain_frame(axes)
        return _svg(figure, label)


def check_matplotlib() -> None:
    """Raise ``MissingDependency`` if matplotlib is not installed."""
    with _drawing(1.0, 1.0, _NOTEBOOK):
        pass


@contextmanager
def _drawing(width: float, height: float, colours: _Palette) -> Iterator[Figure]:
    """A figure of no window, in a style that no setting of the user changes."""
    matplotlib, module = (extra(name, "report", "a figure") for name in ("matplotlib", "matplotlib.figure"))
    style: dict[Any, Any] = {
        "svg.fonttype": "none",
        "svg.hashsalt": "ragmetrics",
        "font.family": ["sans-serif"],
        "font.size": 9.0,
        **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), colours.ink),
        "axes.edgecolor": colours.soft,
    }
    with matplotlib.rc_context(style):
        figure = module.Figure(figsize=(width, height), layout="constrained")
        figure.patch.set_alpha(0.0)
        yield figure


def _bars(axes: Axes, values: Sequence[float], colours: _Palette) -> None:
    axes.bar([(place + 0.5) / BINS for place in range(BINS)], counts(values), width=0.092, color=colours.bar)
    if values:
        axes.axvline(sum(values) / len(values), color=colours.second, linestyle="--", linewidth=1.2)
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylabel("samples")
    axes.locator_params(axis="y", integer=True, nbins=5)
    _plain_frame(axes)


def _boxes(axes: Axes, values: Sequence[Sequence[float]], colours: _Palette) -> None:
    line = {"color": colours.ink, "linewidth": 1.0}
    axes.boxplot(
        [list(own) for own in values], orientation="horizontal", widths=0.55, patch_artist=True, showmeans=True,
        boxprops={"facecolor": colours.soft, "edgecolor": colours.ink}, whiskerprops=line, capprops=line,
        medianprops={"color": colours.bar, "linewidth": 2.0},
        flierprops={"marker": ".", "markersize": 3, "markeredgecolor": colours.ink},
        meanprops={"marker": "D", "markersize": 4, "markerfacecolor": colours.second,
                   "markeredgecolor": colours.second},
    )  # fmt: skip
    axes.set_xlim(-0.02, 1.02)
    _plain_frame(axes)


def _plain_frame(axes: Axes) -> None:
    axes.patch.set_alpha(0.0)
    axes.spines[["top", "right"]].set_visible(False)


def _svg(figure: Figure, label: str) -> str:
    """The figure as an SVG element in the page's colours, without prologue and metadata, ids made its own."""
    buffer = StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    for colour, variable in _VARIABLES.items():
        text = text.replace(colour, variable)
    used = set(re.findall(r'(?:url\(#|href="#)([^)"]+)', text))
    text = re.sub(r' id="([^"]+)"', lambda found: found[0] if found[1] in used else "", text)
    words = f'<svg role="img" aria-label="{escape(label)}" '
    return re.sub(r' (?:width|height)="[\d.]+pt"', "", text.replace("<svg ", words, 1), count=2).strip()
