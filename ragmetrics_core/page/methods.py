"""The methods paragraph of a report: what was measured, how, by which judge, with references."""

from collections.abc import Mapping

from ragmetrics_core.reporting.run_facts import RunFacts
from ragmetrics_core.reporting.summary import Summary

_METRICS: Mapping[str, str] = {
    "context_utilization": "Context Utilization is average precision over the ranks of the chunks judged useful to "
    "arrive at the answer (Buckley & Voorhees 2000)",
    "context_adherence": "Context Adherence is the share of polls of the judge, among those that said yes or no, that "
    "found every claim of the answer supported by the contexts (ChainPoll, Friel & Sanyal 2023)",
    "context_recall": "Context Recall is a rating from 0 to 1, by a rubric of closed bands, of how well the answer "
    "matches the reference",
    "retrieval_accuracy": "Retrieval Accuracy is the share of the facts of the reference that at least one context "
    "fully discusses (probability above one half)",
}

_NOISY_OR = (
    "Retrieval Accuracy is the mean over the facts of the reference of 1 − Π(1 − p) over the contexts, with p the "
    "probability that a context fully discusses the fact and the judge's errors taken as independent"
)

_SOFT = (
    "Retrieval Accuracy is the mean over the facts of the reference of the highest probability with which a context "
    "fully discusses the fact"
)

_REFERENCES: Mapping[str, str] = {
    "Buckley & Voorhees 2000": "Buckley, C. & Voorhees, E. M. (2000). Evaluating evaluation measure stability. SIGIR.",
    "Friel & Sanyal 2023": "Friel, R. & Sanyal, A. (2023). Chainpoll: a high efficacy method for LLM hallucination "
    "detection. arXiv:2310.18344.",
    "Waudby-Smith & Ramdas 2024": "Waudby-Smith, I. & Ramdas, A. (2024). Estimating means of bounded random variables "
    "by betting. JRSS-B 86(1).",
    "Wilson": "Wilson, E. B. (1927). Probable inference, the law of succession, and statistical inference. "
    "JASA 22(158).",
    "BCa": "Efron, B. (1987). Better bootstrap confidence intervals. JASA 82(397).",
    "added": 'Agresti, A. & Coull, B. A. (1998). Approximate is better than "exact" for interval estimation of '
    "binomial proportions. The American Statistician 52(2).",
}


def paragraphs(summary: Summary, run: RunFacts) -> tuple[str, ...]:
    """How the numbers of a report came about, for a paper or a protocol: paragraphs, and the references they name."""
    kinds = {numbers.metric: _kind(numbers.metric, run) for numbers in summary.metrics}
    definitions = [_definition(kind, run) for kind in _METRICS if kind in kinds.values()]
    others = [metric for metric, kind in kinds.items() if kind not in _METRICS]
    judges = ", ".join(run.judges) or "not recorded"
    models = f" (returned as {', '.join(summary.usage.models)})" if summary.usage.models else ""
    made = f"ragmetrics {run.version or 'of unknown version'}"
    first = f"{summary.judged} samples were evaluated with {made}; the judge was {judges}{models}."
    if definitions:
        first += f" {'. '.join(definitions)}."
    if others:
        first += f" Also measured: {', '.join(others)}."
    text = f"{first} {_intervals(summary)}"
    references = [reference for key, reference in _REFERENCES.items() if key in text]
    signatures = "; ".join(map(str, run.metrics.values()))
    second = f"Signatures: {signatures}." if signatures else ""
    return tuple(filter(None, (text, second, " ".join(references))))


def _kind(metric: str, run: RunFacts) -> str:
    """The published name behind a metric's own: the first part of its prompt's signature, else the name."""
    return metric if metric in _METRICS or metric not in run.metrics else run.metrics[metric].metric


def _definition(kind: str, run: RunFacts) -> str:
    settings = run.metrics[kind].settings if kind in run.metrics else {}
    polls = settings.get("polls")
    known = f", {polls} polls at most" if polls else ""
    combination = settings.get("combination")
    definition = _NOISY_OR if combination == "noisy_or" else _METRICS[kind]
    if combination == "soft":
        definition = _SOFT
    elif kind == "retrieval_accuracy" and definition != _NOISY_OR and "lexical" in run.judges:
        definition += (
            "; where the embedded judge split the reference itself, the mean of each fact's highest probability"
        )
    return definition + known


def _intervals(summary: Summary) -> str:
    methods = dict.fromkeys(numbers.interval.method for numbers in summary.metrics if numbers.interval)
    missing = sum(sum(m.undefined.values()) + sum(m.failed.values()) for m in summary.metrics)
    kind = "Bounds (Waudby-Smith & Ramdas 2024) are" if summary.decisions else "Intervals are at 95 %"
    words = f"{kind} for the {summary.caption}; method: {'; '.join(methods)}." if methods else ""
    return words + f" Undefined and failed results ({missing}) stand outside the means and are counted." * bool(missing)
