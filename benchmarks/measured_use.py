"""Labelled rows as small applications: what was measured of each passage, beside judges.

    uv run benchmarks/measured_use.py http://127.0.0.1:8090/v1 --model NAME --data DATA --out FOLDER

Each row is an application of LangChain that answers the row's question from its contexts,
by the model at the address. The measured effect of each context is set against people's
labels of its usefulness, and so are our judge by the same model, the word judge and
Phoenix, which judge the row's own answer. ``FOLDER/judged.jsonl`` gets a line for each row
and tool, ``FOLDER/use.jsonl`` all that was measured; the same command goes on where it
ended.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any

import real_model
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_openai import ChatOpenAI
from langchain_ragmetrics import capture
from real_model import SECONDS, Judged, Proxy, Scores

from ragmetrics_core.data import MeasuredUse
from ragmetrics_core.labelling.labelled_samples import LabelledSample

JUDGES = ("lexical", "ours", "phoenix")
ROWS_AT_ONCE = 5  # applications; the server takes them together
PROMPT = ChatPromptTemplate.from_messages(
    [
        (
            "system",
            "Answer the question in at most two sentences, from these passages alone."
            "\n\n{passages}",
        ),
        ("user", "{question}"),
    ]
)


class Contexts(BaseRetriever):
    """Finds the contexts of a row, in their order."""

    documents: list[Document]

    def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:  # noqa: ARG002  # its name
        return self.documents


def measured_use(
    row: LabelledSample, model: BaseChatModel, repeats: int
) -> MeasuredUse:
    """Answer a row's question from its contexts, and measure what each of them did.

    Raises:
        ValueError: If nothing was measured; it says why.
    """
    contexts = row.sample.known_contexts
    documents = [Document(context.text, id=context.id) for context in contexts]
    retriever = Contexts(documents=documents)

    def inputs(question: str) -> dict[str, str]:
        found = retriever.invoke(question)
        numbered = [
            f"[{number}] {document.page_content}"
            for number, document in enumerate(found, start=1)
        ]
        return {"passages": "\n\n".join(numbered), "question": question}

    chain = RunnableLambda(inputs) | PROMPT | model | StrOutputParser()
    with capture(keep_prompts=True) as captured:
        chain.invoke(row.sample.question or "")
    # one call at a time: seconds tell what the calls take
    measured = captured.measure_use(model=model, repeats=repeats, concurrency=1)
    if not measured:
        raise ValueError(f"no sample: {list(captured.problems)}")
    use = measured[0].use
    assert use is not None
    if use.why_not is not None:
        raise ValueError(use.why_not)
    if len(use.passages) != len(row.labels):
        raise ValueError(
            f"{len(use.passages)} passages and {len(row.labels)} labels: texts repeat"
        )
    return use


def scores_of(use: MeasuredUse, labels: Sequence[bool]) -> Scores:
    """Of each passage that was measured its effect, the verdict and people's label."""
    return [
        (each.effect, each.verdict in ("used", "redundant"), label)
        for each, label in zip(use.passages, labels, strict=True)
        if each.effect is not None
    ]


def measure_all(
    rows: Iterable[LabelledSample], options: argparse.Namespace, file: Path
) -> None:
    """Measure each row that the file does not hold yet, and write a line for it."""
    done = {each.id for each in real_model.read(file) if each.tool == "measured"}
    proxy = Proxy(options.address.rstrip("/"))
    model = ChatOpenAI(
        model=options.model,
        base_url=proxy.address,
        api_key="none",
        temperature=0,
        max_retries=0,
        timeout=SECONDS,
        max_tokens=options.longest_answer,
    )
    for row in rows:
        if row.sample.id in done:
            continue
        scores, error, started = Scores(), "", time.monotonic()
        try:
            use = measured_use(row, model, options.repeats)
        except Exception as why:  # noqa: BLE001  # a client's own; the next row goes on
            error = f"{type(why).__name__}: {why}"[:300]
        else:
            scores = scores_of(use, row.labels)
            line = {"id": row.sample.id, "labels": row.labels, **use.model_dump()}
            with file.with_name("use.jsonl").open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(line, default=vars) + "\n")
        judged = Judged(
            "useful",
            row.sample.id or "",
            row.source,
            "measured",
            scores,
            error,
            seconds=round(time.monotonic() - started, 2),
            **vars(proxy.counted()),
        )
        with file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(vars(judged)) + "\n")


def table(judged: Iterable[Judged]) -> str:
    """The table in Markdown, over the rows that all tools have, and what was measured."""
    by_tool: dict[str, dict[str, Judged]] = {}
    for each in judged:
        by_tool.setdefault(each.tool, {})[each.id] = each
    shared = set.intersection(*(set(rows) for rows in by_tool.values()))
    scored_by_all = {
        row_id
        for row_id in shared
        if not any(rows[row_id].error for rows in by_tool.values())
    }
    lines = [
        f"{len(scored_by_all)} of {len(shared)} rows that all tools scored\n",
        "| tool | AUROC, mean of sources | balanced accuracy | scored | calls | tokens in | out | s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for tool in ("measured", *JUDGES):
        if tool not in by_tool:
            continue
        rows = [by_tool[tool][row_id] for row_id in sorted(scored_by_all)]
        if not rows:
            continue
        _, area = real_model.over_sources(
            rows, real_model.ranked, lambda row: row.source
        )
        _, balanced = real_model.over_sources(
            rows, real_model.decided, lambda row: row.source
        )
        n_scored = sum(not by_tool[tool][row_id].error for row_id in shared)
        means = [
            fmean(getattr(row, name) for row in rows)
            for name in ("calls", "prompt_tokens", "completion_tokens", "seconds")
        ]
        cells = [f"{n_scored} of {len(shared)}", f"{means[0]:.1f}"]
        cells += [f"{mean:,.0f}" for mean in means[1:]]
        lines.append(f"| {tool} | {area} | {balanced} | {' | '.join(cells)} |")
    for tool in JUDGES:
        if tool in by_tool:
            pairs = [
                (by_tool["measured"][row_id], by_tool[tool][row_id])
                for row_id in sorted(scored_by_all)
            ]
            _, gap = real_model.over_sources(
                pairs, real_model.gap, lambda pair: pair[0].source
            )
            lines.append(f"\nmeasured − {tool}, AUROC on the same rows: {gap}")
    measured = by_tool["measured"].values()
    lines += [f"not measured: {row.id}: {row.error}" for row in measured if row.error]
    return "\n".join(lines)


def verdicts(file: Path) -> str:
    """How often each verdict was told of relevant contexts, and of others; by a line each."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    # a run that was cut off may have measured a row twice
    rows = {row["id"]: row for row in map(json.loads, lines)}
    labels_by_verdict: dict[str, list[bool]] = {}
    for row in rows.values():
        for use, label in zip(row["passages"], row["labels"], strict=True):
            labels_by_verdict.setdefault(use["verdict"], []).append(label)
    all_labels = list(chain.from_iterable(labels_by_verdict.values()))
    n_relevant = sum(all_labels)
    return "\n".join(
        f"{verdict}: {sum(labels)} of {n_relevant} relevant contexts,"
        f" {len(labels) - sum(labels)} of {len(all_labels) - n_relevant} others"
        for verdict, labels in sorted(labels_by_verdict.items())
    )


def main() -> None:
    """Measure and judge the rows, then print the table of all that the folder holds."""
    parser = real_model.parser(__doc__, rows=40, longest=4000, parts=5)
    parser.add_argument("--repeats", type=int, default=3, help="of the prompt (3)")
    parser.add_argument(
        "--longest-answer", type=int, default=120, help="tokens of an answer (120)"
    )
    parser.add_argument(
        "--judges",
        type=real_model.names_of(JUDGES),
        default=JUDGES,
        help=f"beside it ({','.join(JUDGES)})",
    )
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    options.tasks = ("useful",)
    file = options.out / "judged.jsonl"
    rows = [
        row
        for row in real_model.drawn(options.data, options)["useful"]
        if row.sample.question
    ]
    done = {(each.task, each.id, each.tool) for each in real_model.read(file)}
    turns = [("useful", row) for row in rows]
    with ThreadPoolExecutor(ROWS_AT_ONCE + len(options.judges)) as pool:
        runs = [
            pool.submit(measure_all, rows[first::ROWS_AT_ONCE], options, file)
            for first in range(ROWS_AT_ONCE)
        ]
        runs += [
            pool.submit(real_model.judge_by, judge, turns, done, options, file)
            for judge in options.judges
        ]
        for run in runs:
            run.result()
    print(table(real_model.read(file)))
    print(verdicts(options.out / "use.jsonl"))


if __name__ == "__main__":
    sys.exit(main())
