"""What a reading of traces could not make samples of, and what mends that."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ragmetrics_core.data import RowError, Sample

# why a trace gave no sample
Code = Literal[
    "no_retrieval",
    "incomplete",
    "no_content",
    "too_large",
    "unreadable",
]

# why texts of a turn are missing, as its sample says it
SPANS_ARE_MISSING = (
    "spans of the trace are missing: read the files of all processes together, and"
    " enlarge the exporter's queue (OTEL_BSP_MAX_QUEUE_SIZE)"
)
ATTRIBUTES_DROPPED = (
    "attributes or events were dropped at the limit of the SDK: raise"
    " OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT and OTEL_SPAN_EVENT_COUNT_LIMIT"
)
VALUES_CUT = (
    "values were cut at a limit: raise the attribute length limit"
    " (OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT, or max_attribute_length of SpanLimits)"
)
DOCUMENTS_IN_PART = (
    "the spans hold only a part of some documents: let the retriever's span record"
    " their whole texts"
)
FOUND_NOT_RECORDED = (
    "a retriever's span holds nothing of what was found; let it record its output"
)

_MOST_TOOLS = 5  # that are named in a sentence
_IDS_ONLY = "ids_only"  # documents of which only the ids were recorded
# what to do, by the reason why there is no sample
_MENDS_TRACE: Mapping[Code, str] = {
    "no_retrieval": (
        "no search records documents. If the retrieval stands in another trace, put a"
        " span around both"
    ),
    "incomplete": "the run broke off, or waits for a person; nothing mends that",
    "no_content": "no text was recorded under a name that is read",
    "too_large": "give samples_from_spans a larger max_trace_mb=",
    "unreadable": (
        "its spans stand inside each other in a circle or too deep, two of them have one"
        " id, or one cannot be read; export the trace anew"
    ),
}
# reasons and codes that are common where the recording of texts is switched off
_TEXTS_MAY_BE_OFF = frozenset(("no_content", "not_recorded", "no_answer", "no_search"))
_GIVE_TEXTS = (
    "documents are recorded by their ids alone: give their texts with resolve=, on the"
    " command line --resolve module:name"
)
_NO_ANSWER = (
    "no answer was recorded. If it stands in another trace, put a span around both"
)


@dataclass
class Notes:
    """What a reading of spans left out or could not make whole.

    Attributes:
        without_sample: Traces that gave no sample, with the reason in the words of
            docs/traces.md.
        unreadable: A problem for each line that was not read, and for each span.
        incomplete: How many samples are incomplete, by the code of what they lack:
            ``ids_only``, or a doubt of capture.
        examples: What the first sample of each such code says.
        tools: How often a tool returned text that is no context, by its name: in traces
            without a sample, and in samples that have no contexts.
        kinds: How often documents stood on a span that is no search by the word for its
            kind, by that word: in traces without a sample.
        switches: What makes the instrumentations seen record texts, by their dialect.
    """

    without_sample: list[tuple[str, Code]] = field(default_factory=list)
    unreadable: list[RowError] = field(default_factory=list)
    incomplete: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    tools: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    switches: dict[str, str] = field(default_factory=dict)

    def count_what_is_missing(self, sample: Sample) -> None:
        """Count what a sample lacks, and the tools whose text is its only evidence."""
        code, sentence = _what_is_missing(sample)
        if code:
            self.incomplete[code] += 1
            self.examples.setdefault(code, sentence)
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
        lines = []
        n_of_code = Counter(code for _, code in self.without_sample)
        if n_of_code:
            counts = ", ".join(f"{count} {code}" for code, count in n_of_code.items())
            lines.append(f"traces that gave no sample: {counts}")
        lines += [f"{code}: {_MENDS_TRACE[code]}" for code in n_of_code]
        if n_of_code and self.kinds:
            kinds = ", ".join(f"{kind} ({count})" for kind, count in self.kinds.items())
            lines.append(
                "documents stand on spans of a kind that is not known as a search:"
                f" {kinds}; let them be of the kind retriever"
            )
        if self.tools:
            names = [name for name, _ in self.tools.most_common(_MOST_TOOLS)]
            counts = ", ".join(f"{name} ({self.tools[name]})" for name in names)
            setting = ", ".join(repr(name) for name in names)
            lines.append(
                f"tools returned text that is no context: {counts}. Keep those that"
                f" search: context_tools={{{setting}}}, on the command line"
                f" --context-tools {','.join(names)}"
            )
        for what, count in self.incomplete.items():
            lines.append(f"incomplete samples: {count} {what}: {self.examples[what]}")
        are_texts_missing = not _TEXTS_MAY_BE_OFF.isdisjoint(
            (*n_of_code, *self.incomplete)
        )
        if self.switches and are_texts_missing:
            switches = [f"{name}: {text}" for name, text in self.switches.items()]
            lines.append(f"texts are recorded with {'; '.join(switches)}")
        if self.unreadable:
            lines.append(
                f"unreadable lines or spans: {len(self.unreadable)}; the file may have"
                " been cut off, or not be written to its end"
            )
        return lines


def _what_is_missing(sample: Sample) -> tuple[str, str]:
    """The code of what an incomplete sample lacks, and a sentence; "" for any other."""
    notes = sample.capture
    if notes is None or notes.grade != "incomplete":
        return "", ""
    if notes.other:  # documents without a text
        return _IDS_ONLY, _GIVE_TEXTS
    if "not_recorded" in notes.doubts:
        return "not_recorded", notes.doubts["not_recorded"]
    if sample.answer is None and sample.error is None:
        return "no_answer", _NO_ANSWER
    code = "no_answer" if "no_answer" in notes.doubts else "no_search"
    return code, notes.doubts.get(code, "")
