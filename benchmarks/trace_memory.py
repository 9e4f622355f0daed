"""Reads a large file of interleaved traces, and prints the memory that it took.

Usage: python benchmarks/trace_memory.py [MEGABYTES]      (2,000 by default; at most 300
MB are to be taken)
"""

import json
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from ragmetrics_core.traces import samples_from_spans

TOGETHER = 20  # traces whose spans are interleaved
TEXTS = [
    f"Page {page} says that gate {page} was built in {1500 + page}. " * 120
    for page in range(4)
]


def spans(trace: int) -> Iterator[dict[str, object]]:
    """A chain, a retriever and a model, of about 90 kB together."""
    found = {
        f"retrieval.documents.{place}.document.content": text
        for place, text in enumerate(TEXTS)
    }
    asked, prompt = f"Question {trace}?", "\n".join([*TEXTS, f"Question {trace}?"])
    message = {
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": prompt,
    }
    said = {
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": "In 1501.",
    }
    told = {"input.value": asked, "output.value": "In 1501."}
    rows = [
        ("1", "", 0, 90, "CHAIN", told),
        ("2", "1", 10, 20, "RETRIEVER", {"input.value": asked, **found}),
    ]
    for own, parent, start, end, kind, attributes in [
        *rows,
        ("3", "1", 30, 80, "LLM", {**message, **said}),
    ]:
        listed = {"openinference.span.kind": kind, **attributes}
        yield {
            "traceId": f"{trace + 1:032x}",
            "spanId": own * 16,
            "parentSpanId": parent * 16,
            "name": kind.lower(),
            "startTimeUnixNano": str(10**18 + 1000 * trace + start),
            "endTimeUnixNano": str(10**18 + 1000 * trace + end),
            "attributes": [
                {"key": key, "value": {"stringValue": text}}
                for key, text in listed.items()
            ],
        }


def written(path: Path, megabytes: int) -> int:
    """Write a file with one span per line; how many traces it holds."""
    trace = 0
    with path.open("w", encoding="utf-8") as file:
        while file.tell() < megabytes * 1_000_000:
            several = [list(spans(trace + place)) for place in range(TOGETHER)]
            for one in (one for same in zip(*several, strict=True) for one in same):
                file.write(
                    json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [one]}]}]})
                    + "\n"
                )
            trace += TOGETHER
    return trace


def memory() -> float:
    """The most memory so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def main() -> None:
    """Write, read, print."""
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "spans.jsonl"
        traces = written(path, megabytes)
        before, start = memory(), time.perf_counter()
        samples = sum(
            len(sample.known_contexts) == len(TEXTS)
            for sample in samples_from_spans(path)
        )
    print(f"traces: {traces}")
    print(f"samples: {samples}")
    print(f"seconds: {time.perf_counter() - start:.0f}")
    print(f"memory, MB: {memory():.0f}")
    print(f"memory beyond the start, MB: {memory() - before:.0f}")


if __name__ == "__main__":
    main()
