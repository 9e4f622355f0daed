"""A comparison as plain text."""

from __future__ import annotations

from ragmetrics_core.reporting.comparison import Comparison, MetricChange


def text_table(comparison: Comparison) -> str:
    """The comparison as plain text, a paragraph per metric and slice, without texts of samples."""
    lines = [sentence_of_matching(comparison)]
    lines += [f"! not comparable: {found}" for found in comparison.differing]
    for change in comparison.changes:
        lines += ["", *change_lines(change, comparison.margin)]
    return "\n".join(lines)


def sentence_of_matching(comparison: Comparison) -> str:
    """Which samples are compared."""
    alone = f"{comparison.first_only} only in the first, {comparison.second_only} only in the second"
    return f"{comparison.matched} samples matched by {comparison.matched_by}; {alone}. Differences: second − first."


def change_lines(change: MetricChange, margin: float) -> list[str]:
    """One metric's change in words, the verdict first."""
    outcomes = ", ".join(f"{count} {kind}" for kind, count in change.outcomes.items())
    lines = [f"{change.name}: {change.verdict}", f"  outcomes (first/second): {outcomes}"]
    if change.difference is None or change.interval is None or change.bounds is None or change.p is None:
        lines.append("  no sample is scored in both runs")
    else:
        interval = change.interval
        how = "every pattern of signs" if change.exact else "9,999 random patterns of signs"
        adjusted = "" if change.p_holm is None else f", {change.p_holm:.4f} after Holm"
        lines += [
            f"  difference {change.difference:+.4f} over {change.pairs} pairs, 95 % interval {interval.low:+.4f} to "
            f"{interval.high:+.4f} ({interval.method})",
            f"  permutation test ({how}): p = {change.p:.4f}{adjusted}",
        ]
        if change.bounds != (change.difference, change.difference):
            low, high = change.bounds
            lines.append(f"  with failures at the worst and the best: {low:+.4f} to {high:+.4f}")
        if change.detectable is not None:
            needed = f"; {margin:g} would need {change.needed:,} pairs" if change.needed else ""
            lines.append(f"  smallest difference found with 80 %: {change.detectable:.4f}{needed}")
    for name, p in (("abstentions", change.abstained), ("failures", change.failed)):
        if p < 1:
            lines.append(f"  {name}: McNemar's p = {p:.4f}")
    return lines
