"""What a reading of traces could not make samples of, and what mends that."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ragmetrics_core.data import RowError, Sample
from ragmetrics_core.data.lazy_patterns import lazy_pattern

# why a trace gave no sample
Code = Literal[
    "no_retrieval",
    "incomplete",
    "no_content",
    "judge",
    "framework",
    "too_large",
    "unreadable",
]
# what an incomplete sample lacks
Gap = Literal[
    "texts",
    "spans",
    "attributes",
    "lengths",
    "parts",
    "end",
    "answer",
    "sources",
    "evidence",
]

# What readers write into the warnings of a sample. The gap is told by these words.
SPANS_ARE_MISSING = (
    "spans of the trace are missing: parents of its spans are not there, or it has fewer"
    " spans than were counted"
)
ATTRIBUTES_DROPPED = (
    "{} spans lack attributes or events, dropped at the limit of the SDK: raise"
    " OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT and OTEL_SPAN_EVENT_COUNT_LIMIT"
)
VALUES_CUT = (
    "values of {} spans were cut at a limit: raise the attribute length limit"
    " (OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT, or max_attribute_length of SpanLimits)"
)
VALUES_WERE_CUT = VALUES_CUT.partition(":")[0].removeprefix("values of {}")
DOCUMENTS_IN_PART = (
    "the spans hold only a part of {} documents, of which the prompt shows more: let the"
    " retriever's span record their whole texts"
)
FOUND_NOT_RECORDED = (
    "a retriever's span holds nothing of what was found; let it record its output"
)
DOCUMENTS_ARE_IN_PART = DOCUMENTS_IN_PART.partition("{} ")[2]
_ATTRIBUTES_WERE_DROPPED = ATTRIBUTES_DROPPED.partition(",")[0].removeprefix("{}")
# The first row counts whose words a warning holds.
_GAP_BY_WARNING: Mapping[str, Gap] = {
    SPANS_ARE_MISSING: "spans",
    _ATTRIBUTES_WERE_DROPPED: "attributes",
    VALUES_WERE_CUT: "lengths",
    DOCUMENTS_ARE_IN_PART: "parts",
}

# Capture's warning of sources, such as those that a model's provider found.
_WITHOUT_TEXT = lazy_pattern(r"the text of \d+ retrieved documents was not recorded")

_MOST_TOOLS = 5  # that are named in a sentence
# what to do, by the reason or the gap
_MENDS_TRACE: Mapping[Code, str] = {
    "no_retrieval": (
        "no span records documents. If the retrieval stands in another trace, put a"
        " span around both, or name their conversation on both (session.id)"
    ),
    "incomplete": "the run broke off, or waits for a person; nothing mends that",
    "no_content": "no text was recorded",
    "framework": (
        "Traceloop's spans of Haystack are not read; use Haystack's own tracing or"
        " OpenInference"
    ),
    "too_large": "give samples_from_spans a larger max_trace_mb=",
    "unreadable": (
        "its spans stand inside each other in a circle or too deep, two of them have one"
        " id, or one cannot be read; export the trace anew"
    ),
}
_MENDS_SAMPLE: Mapping[Gap, str] = {
    "texts": (
        "documents are recorded by their ids alone: give their texts with resolve=, on"
        " the command line --resolve module:name"
    ),
    "spans": (
        "spans of the trace are missing: read the files of all processes together, and"
        " enlarge the exporter's queue (OTEL_BSP_MAX_QUEUE_SIZE)"
    ),
    "attributes": (
        "attributes or events were dropped at the SDK's limit: raise"
        " OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT and OTEL_SPAN_EVENT_COUNT_LIMIT"
    ),
    "lengths": (
        "values were cut at a limit of the SDK, and what stood behind the cut is"
        " unknown: raise the attribute length limit (OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT,"
        " or max_attribute_length of SpanLimits)"
    ),
    "parts": (
        "documents were recorded in part, such as by their first letters: let the"
        " retriever's span record their whole texts"
    ),
    "end": "the run failed or was abandoned; nothing mends that",
    "answer": (
        "no answer was recorded. If it stands in another trace, put a span around both,"
        " or name their conversation on both (session.id)"
    ),
    "sources": (
        "texts that were retrieved, or that the model was shown, were not recorded; the"
        " warnings of the samples say what returns them"
    ),
    "evidence": "what the model was shown was not recorded",
}
# gaps that the instrumentation leaves where its texts are switched off
_TEXTS_MAY_BE_OFF: tuple[Gap, ...] = ("answer", "evidence")


@dataclass
class Notes:
    """What a reading of spans left out or could not make whole.

    Attributes:
        without_sample: Traces that gave no sample, with the reason in the words of
            docs/traces.md.
        unreadable: A problem for each line that was not read, and for each span.
        incomplete: How many samples are incomplete, by what they lack.
        tools: How often a tool returned text that is no context, by its name: in traces
            without a sample, and in samples that have no contexts.
        switches: What makes the instrumentations seen record texts, by their dialect.
    """

    without_sample: list[tuple[str, Code]] = field(default_factory=list)
    unreadable: list[RowError] = field(default_factory=list)
    incomplete: Counter[Gap] = field(default_factory=Counter)
    tools: Counter[str] = field(default_factory=Counter)
    switches: dict[str, str] = field(default_factory=dict)

    def count_what_is_missing(self, sample: Sample) -> None:
        """Count what a sample lacks, and the tools whose text is its only evidence."""
        gap = _gap_of(sample)
        if gap is not None:
            self.incomplete[gap] += 1
        if sample.contexts or sample.ledger is None:
            return
        names = {
            call.name
            for call in sample.ledger.calls
            if call.kind == "tool" and call.name and call.items
        }
        self.tools.update(names)

    @property
    def sentences(self) -> list[str]:
        """What was left out, how often, and what mends it; nothing where all was read."""
        lines = [*self._of_traces(), *self._of_samples()]
        if self.unreadable:
            lines.append(
                f"unreadable lines or spans: {len(self.unreadable)}; the file may have"
                " been cut off, or not be written to its end"
            )
        return lines

    def _of_traces(self) -> list[str]:
        """Say how many traces gave no sample, for which reasons, and what mends them.

        The first line counts the traces by the reason's code: "traces that gave no
        sample: 3 no_retrieval, 1 too_large". Each further line says what mends one of
        the codes. The list is empty if each trace gave a sample.
        """
        n_traces_by_code = Counter(code for _, code in self.without_sample)
        if not n_traces_by_code:
            return []
        counts = [f"{count} {code}" for code, count in n_traces_by_code.items()]
        lines = [f"traces that gave no sample: {', '.join(counts)}"]
        for code in n_traces_by_code:
            remedy = _MENDS_TRACE.get(code)
            if remedy is not None:
                switches = ""
                if code == "no_content":
                    # texts may be missing because their recording is switched off
                    switches = self._switches_in_words()
                lines.append(f"{code}: {remedy}{switches}")
        return lines

    def _of_samples(self) -> list[str]:
        """What samples lack, how many of them, and what mends that."""
        lines = [self._tools_in_words()] if self.tools else []
        for gap, count in self.incomplete.items():
            switches = self._switches_in_words() if gap in _TEXTS_MAY_BE_OFF else ""
            lines.append(f"incomplete samples: {count}: {_MENDS_SAMPLE[gap]}{switches}")
        return lines

    def _tools_in_words(self) -> str:
        """Which tools returned text, and the setting that makes it contexts."""
        names = [name for name, _ in self.tools.most_common(_MOST_TOOLS)]
        counts = ", ".join(f"{name} ({self.tools[name]})" for name in names)
        setting = ", ".join(repr(name) for name in names)
        return (
            f"tools returned text that is no context: {counts}. If it was searched for,"
            f" name them: context_tools={{{setting}}}, on the command line"
            f" --context-tools {','.join(names)}"
        )

    def _switches_in_words(self) -> str:
        """What makes the instrumentations record texts; empty if none is known."""
        words = [f"{dialect}: {switch}" for dialect, switch in self.switches.items()]
        if not words:
            return ""
        return f". Texts are recorded with {'; '.join(words)}"


def _gap_of(sample: Sample) -> Gap | None:
    """Say what an incomplete sample lacks; None for a sample that is not incomplete.

    The first gap that is found counts. Example: a sample with the warning that spans
    are missing lacks "spans", even if it has no answer either.
    """
    notes = sample.capture
    if notes is None or notes.grade != "incomplete":
        return None
    documents_without_text = notes.other
    if documents_without_text:
        return "texts"
    gap = _gap_in_recording(notes.warnings)
    if gap is not None:
        return gap
    if sample.error is not None:
        return "end"  # the run failed or was abandoned
    if sample.answer is None:
        return "answer"
    has_sources_without_text = any(map(_WITHOUT_TEXT.fullmatch, notes.warnings))
    if has_sources_without_text or notes.unread_texts:
        return "sources"  # texts of what was retrieved
    return "evidence"  # what the model was shown


def _gap_in_recording(warnings: Sequence[str]) -> Gap | None:
    """What was not recorded whole, by the warnings that readers write; else None."""
    for words, gap in _GAP_BY_WARNING.items():
        if any(words in warning for warning in warnings):
            return gap
    return None
