"""Whether two runs measured the same thing in the same way, and in what they differ if not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ragmetrics_core.data.evidence import AccuracyEvidence, UtilizationEvidence
from ragmetrics_core.data.results import MetricResult, SampleResult

Pair = tuple[SampleResult, SampleResult]

_NAMES = {"T": "temperature", "prompt": "prompt version", "early_stop": "early stop"}


def differences(pairs: Sequence[Pair], metric: str) -> tuple[str, ...]:
    """In what the two runs differ for one metric, one phrase each; empty if their numbers may be compared.

    Args:
        pairs: The rows of both runs, matched.
        metric: Name of the metric.
    """
    sides = [[r for pair in pairs if (r := pair[side].results.get(metric)) is not None] for side in (0, 1)]
    found = [
        f"{metric}: {_NAMES.get(key, key)} {_words(one)} against {_words(other)}"
        for key, one, other in _unequal(*(_settings(side) for side in sides))
    ]
    facts = [(_facts(one, metric), _facts(other, metric)) for one, other in pairs]
    differing = sum(None not in both and both[0] != both[1] for both in facts)
    if differing:
        found.append(f"{metric}: other facts in {differing} of {len(pairs)} samples; give the samples their facts")
    return tuple(found)


def _unequal(
    first: dict[str, set[str]], second: dict[str, set[str]]
) -> list[tuple[str, set[str], set[str]]]:  # fmt: skip
    keys = dict.fromkeys([*first, *second])
    sides = [(key, first.get(key, set()), second.get(key, set())) for key in keys]
    # A side without any such thing, e.g. without a single call, contradicts nothing.
    return [(key, one, other) for key, one, other in sides if one != other and (key != "model" or (one and other))]


def _settings(results: Sequence[MetricResult]) -> dict[str, set[str]]:
    """Every setting that must be the same, with the values that occur."""
    found: dict[str, set[str]] = {}
    for signature in {result.signature for result in results}:
        for name, value in signature.parts():
            found.setdefault(name, set()).add(value)
    for result in results:
        for model in result.usage.models:
            found.setdefault("model", set()).add(model)
    modes = Counter(mode for result in results for mode in _modes(result))
    if modes:  # falling back in some cells only is no other mode
        found["score mode"] = {modes.most_common(1)[0][0]}
    return found


def _modes(result: MetricResult) -> list[str]:
    """How the probabilities behind a score were obtained."""
    evidence = result.evidence
    if isinstance(evidence, AccuracyEvidence):
        return [cell.mode for row in evidence.cells for cell in row]
    if isinstance(evidence, UtilizationEvidence):
        return [chunk.mode for chunk in evidence.chunks]
    return []


def _facts(row: SampleResult, metric: str) -> tuple[str, ...] | None:
    result = row.results.get(metric)
    if result is None or not isinstance(result.evidence, AccuracyEvidence):
        return None
    return tuple(fact.text for fact in result.evidence.facts)


def _words(values: set[str]) -> str:
    return " and ".join(sorted(values)) or "not set"
