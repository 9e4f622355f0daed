"""Holds the trace reader against the adapters: the same runs, recorded by real instrumentations, read back.

Usage: python benchmarks/traces.py [DIALECT:FRAMEWORK[:resolve]…] [--write] [--shuffle] [--keep]

Each shape of the adapters' tests runs once under the adapter's capture and the
instrumentation; what the reader makes of the spans is held against what the adapter
made of the run. ``--write`` puts the table into docs/traces.md. With ``:resolve`` the
reader gets the texts of documents by their ids, as a store would give them. ``--keep``
keeps some shapes in tests/traces/golden, where the tests read them.

- right: question, history, contexts, answer and retrieved are the adapter's; hedged:
  the same, but graded weaker than by it.
- said: other than the adapter's, and graded inferred or incomplete, or noted as giving
  no sample.
- silent: other than the adapter's, and nothing says so.
- absent: of those said or silent, such as have a text that the spans do not hold at
  all.
"""

from __future__ import annotations

import gzip
import json
import logging
import random
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from ragmetrics_core.capture.forms import letters_of
from ragmetrics_core.traces import samples_from_spans

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tests" / "support"))
from trace_verdicts import held, verdict  # noqa: E402

ALL = [
    *(
        "openinference:langchain",
        "mlflow:langchain",
        "traceloop:langchain",
        "otel:langchain",
        "otel:langchain:resolve",
    ),
    *("openinference:haystack", "mlflow:haystack"),
    *("openinference:llamaindex", "mlflow:llamaindex", "traceloop:llamaindex"),
]
_HIDE = "leave `OPENINFERENCE_HIDE_…` unset"
_CONTENT = "`TRACELOOP_TRACE_CONTENT=true`, the default"
_LATEST = (
    "`OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY` with"
    " `OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental`; without both no texts"
)
# What each pair records and does not, and the switch that brings more.
RECORDED = {
    "openinference:langchain": ("all", _HIDE),
    "mlflow:langchain": ("all", "none needed"),
    "traceloop:langchain": (
        "no ids of documents; of agents not what tools returned",
        _CONTENT,
    ),
    "otel:langchain": ("documents by their ids alone", f"`resolve=`; {_LATEST}"),
    "otel:langchain:resolve": ("texts by `resolve=`; often no input", "the same"),
    "openinference:haystack": (
        "answers and messages as Python writes them",
        _HIDE,
    ),
    "mlflow:haystack": ("all, by component", "MLflow sets it"),
    "openinference:llamaindex": (
        "histories of chats, events of agents and workflows as Python writes them",
        _HIDE,
    ),
    "mlflow:llamaindex": ("all but streamed answers", "none needed"),
    "traceloop:llamaindex": (
        "events of agents and workflows as Python writes them",
        _CONTENT,
    ),
}
# Of so many shapes one is kept, of any other pair one of four.
SHAPES_PER_KEPT = {"mlflow:haystack": 12, "otel:langchain": 8}
# Shapes that one rule alone decides: they are always kept.
DECIDED_BY_ONE_RULE = {
    *("shape batch", "shape retry_of_chain", "app map_and_reduce"),
    *("shape stream_abandoned", "shape graph_never_resumed", "app research_agent"),
    *("app grader_alone", "shape message_history", "shape all_filtered_out run"),
    "shape an evaluator of the framework",
    "shape citation query engine",
    "shape multi-step query engine",
    "shape retry query engine",
    "shape sub-question query engine",
    "app a graph of indices, whose inner answers are no evidence",
    "app a model chooses the query of an engine that is asked by hand",
    "app a router whose tools are retrieved",
    "app questions made by a generator, then asked",
}
# What is about capturing itself: how a capture finds and joins its runs, or what it is told.
ABOUT_CAPTURING = {
    "shape documents_handed_in",
    "shape observed_store",
    "shape observed_store_async",
    "shape agent_middleware_observed",
    "shape agent_middleware_named_by_hand",
    "shape rewriting_said_as_the_last_message_of_a_chain",
    "shape rewriting_searched_for_twice",
    "app a_bare_thread",
    "app a_tracer_enabled_inside",
}
COLUMNS = ("shapes", "right", "hedged", "said", "silent", "absent")
BEGIN, END = "<!-- made by benchmarks/traces.py -->", "<!-- end -->"


def recorded(pair: str, folder: Path) -> dict[str, Any]:
    """Run the shapes in a process of their own.

    What the adapter made of each, by name.
    """
    command = [
        sys.executable,
        str(ROOT / "benchmarks" / "record_traces.py"),
        *pair.split(":")[:2],
        str(folder),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{pair}: {done.stderr[-2000:]}")
    return json.loads((folder / "expected.json").read_text(encoding="utf-8"))


def read(
    text: str, resolve: dict[str, str] | None, *, shuffle: bool
) -> list[dict[str, Any]]:
    """The reader's samples of one file's text."""
    values = [json.loads(line) for line in text.splitlines() if line.strip()]
    if shuffle:
        values = [one for value in values for one in _apart(value)]
        random.Random(7).shuffle(values)
    return [
        held(sample.model_dump(mode="json"))
        for sample in samples_from_spans(values, resolve=resolve)
    ]


def _apart(value: dict[str, Any]) -> list[dict[str, Any]]:
    """Each span as a value of its own."""
    if "info" in value:
        return [{**value, "data": {"spans": [span]}} for span in value["data"]["spans"]]
    groups = [group for one in value["resourceSpans"] for group in one["scopeSpans"]]
    return [
        {
            "resourceSpans": [
                {"scopeSpans": [{"scope": group["scope"], "spans": [span]}]}
            ]
        }
        for group in groups
        for span in group["spans"]
    ]


def absent(pair: str, text: str, theirs: list[dict[str, Any]]) -> bool:
    """Whether a text of the adapter's samples is not in the spans at all.

    OpenTelemetry names documents by ids only.
    """
    spans = letters_of(text)
    if pair.startswith("otel:langchain") and any(
        not (pair.endswith(":resolve") and c["id"] and f'\\"{c["id"]}\\"' in text)
        for s in theirs
        for c in s["contexts"] or ()
    ):
        return True
    texts = [one["text"] for sample in theirs for one in sample["contexts"] or []]
    texts += [sample[name] for sample in theirs for name in ("question", "answer")]
    return any(one and letters_of(one) not in spans for one in texts)


def read_shapes(
    folder: Path, *, with_texts: bool, shuffle: bool
) -> dict[str, list[dict[str, Any]]]:
    """The reader's samples of each recorded shape, by its name.

    Args:
        folder: Where the spans of the shapes stand, and what the adapter made of them.
        with_texts: Whether the reader gets the texts of documents by their ids.
        shuffle: Whether the spans come in any order.
    """
    samples_by_shape = {}
    for name, one in _expected(folder).items():
        text = (folder / f"{name}.json").read_text(encoding="utf-8")
        texts = _texts_by_id(one["samples"]) if with_texts else None
        samples_by_shape[name] = []
        if text.strip():
            samples_by_shape[name] = read(text, texts, shuffle=shuffle)
    return samples_by_shape


def _expected(folder: Path) -> dict[str, Any]:
    """What the adapter made of each shape that is held against it, by its name."""
    recorded_shapes = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    return {
        name: one
        for name, one in recorded_shapes.items()
        if not one["options"] and name not in ABOUT_CAPTURING
    }


def _texts_by_id(samples: list[dict[str, Any]]) -> dict[str, str]:
    """The texts of the adapter's documents by their ids, as a store would give them."""
    listed = []
    for sample in samples:
        listed += [*(sample["retrieved"] or ()), *(sample["contexts"] or ())]
    return {one["id"]: one["text"] for one in reversed(listed) if one["id"]}


def row(pair: str, *, shuffle: bool = False) -> Counter[str]:
    """Record and read the shapes of one dialect and framework: how many have which verdict."""
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name_of_folder:
        folder = Path(name_of_folder)
        recorded(pair, folder)
        with_texts = pair.endswith(":resolve")
        samples_by_shape = read_shapes(folder, with_texts=with_texts, shuffle=shuffle)
        if "--keep" in sys.argv and not with_texts:
            keep(pair, folder, samples_by_shape)
        for name, one in _expected(folder).items():
            theirs = list(map(held, one["samples"]))
            found = verdict(samples_by_shape[name], theirs)
            text = (folder / f"{name}.json").read_text(encoding="utf-8")
            is_absent = absent(pair, text, one["samples"])
            counts["shapes"] += 1
            counts[found] += 1
            counts["absent"] += found in ("said", "silent") and is_absent
            if found in ("hedged", "silent") or "--all" in sys.argv:
                print(f"  {pair} {found}: {name}{' (absent)' if is_absent else ''}")
    return counts


def keep(
    pair: str, folder: Path, samples_by_shape: dict[str, list[dict[str, Any]]]
) -> None:
    """Write some recorded shapes into a file of the tests, with their verdicts.

    Shapes in which a path of this machine stands are left out, and so are traces of
    exceptions.
    """
    lines = []
    shapes_per_kept = SHAPES_PER_KEPT.get(pair, 4)
    for place, (name, one) in enumerate(_expected(folder).items()):
        if place % shapes_per_kept and name not in DECIDED_BY_ONE_RULE:
            continue
        text = (folder / f"{name}.json").read_text(encoding="utf-8")
        theirs = list(map(held, one["samples"]))
        shape = {
            "name": name,
            "verdict": verdict(samples_by_shape[name], theirs),
            "samples": theirs,
            "spans": [
                _without_places(json.loads(line)) for line in text.splitlines() if line
            ],
        }
        line = json.dumps(shape, ensure_ascii=False)
        if text.strip() and str(ROOT) not in line and str(Path.home()) not in line:
            lines.append(f"{line}\n")
    path = ROOT / "tests" / "traces" / "golden" / f"{pair.replace(':', '_')}.jsonl.gz"
    path.write_bytes(gzip.compress("".join(lines).encode(), 9, mtime=0))


def _without_places(value: Any) -> Any:
    """A value of OTLP or MLflow without its resource and traces of exceptions."""
    if isinstance(value, list):
        kept = [
            one
            for one in value
            if not (isinstance(one, dict) and one.get("key") == "exception.stacktrace")
        ]
        return [_without_places(one) for one in kept]
    if isinstance(value, dict):
        return {
            key: _without_places(one)
            for key, one in value.items()
            if key not in ("resource", "exception.stacktrace")
        }
    return value


def table(rows: dict[str, Counter[str]]) -> str:
    """The table as Markdown; exact: the share of right ones, hedged included, of those whose texts are in the spans."""
    lines = [
        f"| recorded by | {' | '.join(COLUMNS)} | exact |",
        "|---" * (len(COLUMNS) + 2) + "|",
    ]
    for pair, counts in rows.items():
        there = counts["shapes"] - counts["absent"]
        exact = (counts["right"] + counts["hedged"]) / there if there else 0.0
        lines.append(
            f"| {pair.replace(':', ', ')} |"
            f" {' | '.join(str(counts[one]) for one in COLUMNS)} | {exact:.0%} |"
        )
    return "\n".join(lines)


def page_table(rows: dict[str, Counter[str]]) -> str:
    """The table of docs/traces.md: the shares by row, with what each pair records."""
    lines = [
        "| instrumentation, framework | records | sure | hedged | told | the switch that brings more |",
        "|---|---|---|---|---|---|",
    ]
    for pair, counts in rows.items():
        records, switch = RECORDED[pair]
        shares = [
            f"{counts[name] / counts['shapes']:.0%}"
            for name in ("right", "hedged", "said")
        ]
        name = pair.replace(":", ", ")
        lines.append(f"| {name} | {records} | {' | '.join(shares)} | {switch} |")
    return "\n".join(lines)


def main() -> None:
    """Print the table, or write it."""
    logging.disable(logging.CRITICAL)
    arguments = sys.argv[1:]
    options = [one for one in arguments if one.startswith("--")]
    pairs = [one for one in arguments if not one.startswith("--")] or ALL
    rows = {pair: row(pair, shuffle="--shuffle" in options) for pair in pairs}
    print(table(rows))
    if "--write" in options:
        page = ROOT / "docs" / "traces.md"
        text = page.read_text(encoding="utf-8")
        before, after = text.split(BEGIN)[0], text.split(END)[1]
        page.write_text(
            f"{before}{BEGIN}\n{page_table(rows)}\n{END}{after}", encoding="utf-8"
        )


if __name__ == "__main__":
    main()
