"""Two hundred rows with a known fault each, and a judge that is always right about them.

The rows were written before the rules of the diagnosis. ``python tests/support/planted.py``
writes them to ``tests/reporting/golden/planted_rows.json``, and a test holds
the file against this module.
"""

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ragmetrics_core import Sample
from ragmetrics_core.data.sample_parts import CaptureNotes
from ragmetrics_core.judging.judge import ScriptedJudge
from ragmetrics_core.metrics.answer_relevance import Addresses
from ragmetrics_core.metrics.context_recall import RateRecall
from ragmetrics_core.metrics.context_sufficiency import SufficientContexts
from ragmetrics_core.metrics.context_utilization import Useful
from ragmetrics_core.metrics.declined import Declined
from ragmetrics_core.metrics.fact_matrix import ExtractFacts, FactInContext
from ragmetrics_core.metrics.polls import Adherent

GOLDEN = Path(__file__).parents[1] / "reporting" / "golden"
ROWS = GOLDEN / "planted_rows.json"

Topic = Mapping[str, str]

_DECLINES = "The sources do not say."


def _topics() -> list[Topic]:
    """The twenty topics that the rows are made of."""
    text = (GOLDEN / "planted_topics.toml").read_text(encoding="utf-8")
    topics: list[Topic] = tomllib.loads(text)["topic"]
    return topics


def _rows_of_topic(
    topic: Topic, foreign: Sequence[Topic], *, is_even: bool
) -> Iterator[dict[str, Any]]:
    """The ten rows of a topic, each with another fault.

    A row says where its fault happened: "search", "prompt" or "answer"; None for no
    fault.

    Args:
        topic: The topic.
        foreign: Two other topics, whose passages are noise here.
        is_even: Which of two forms a fault has, where it has two.
    """
    gold = topic["gold"]
    noise = [topic["near"], *(other["gold"] for other in foreign)]
    found = [gold, *noise[:2]]

    def row(
        fault: str,
        stage: str | None,
        answer: str,
        contexts: Sequence[str] | None,
        retrieved: Sequence[str] | None = None,
        **more: Any,
    ) -> dict[str, Any]:
        return {
            "fault": fault,
            "stage": stage,
            "question": topic["question"],
            "contexts": contexts,
            "retrieved": contexts if retrieved is None else retrieved,
            "answer": answer,
            **more,
        }

    invented = topic["made_up"]
    yield row("no fault", None, topic["right"], found)
    yield row("made up", "answer", invented, found)
    yield row("a wrong number", "answer", topic["wrong_number"], found)
    yield row(
        "not in the text",
        "search",
        topic["wrong_number"] if is_even else topic["from_near"],
        noise,
    )
    yield row(
        "dropped before the prompt",
        "prompt",
        invented if is_even else _DECLINES,
        noise,
        [*noise, gold],
    )
    yield row("nothing retrieved", "search", invented if is_even else _DECLINES, [], [])
    yield row("did not search", "search", invented, None, searched=False)
    yield row("beside the expected answer", "answer", topic["beside"], found)
    if is_even:
        yield row("declined wrongly", "answer", _DECLINES, found)
        yield row("declined rightly", None, _DECLINES, noise)
    else:
        yield row("declined wrongly", "answer", _DECLINES, [noise[0], gold])
        yield row("ranked low", None, topic["right"], [*noise, gold])


def planted_rows() -> list[dict[str, Any]]:
    """The rows as data; every second pair of topics has references."""
    topics = _topics()
    rows: list[dict[str, Any]] = []
    for place, topic in enumerate(topics):
        foreign = [topics[place - 1], topics[place - 7]]
        has_reference = place % 4 < 2
        for row in _rows_of_topic(topic, foreign, is_even=place % 2 == 0):
            reference = topic["reference"] if has_reference else None
            rows.append({"id": f"row-{len(rows)}", **row, "reference": reference})
    return rows


def sample_of(row: Mapping[str, Any]) -> Sample:
    """The row as an application's adapter or a table gives it.

    A run that did not search was captured, and the capture says so.
    """
    fields = {
        name: row[name]
        for name in ("id", "question", "answer", "reference", "retrieved", "contexts")
        if row[name] is not None
    }
    if not row.get("searched", True):
        fields["capture"] = CaptureNotes(
            grade="incomplete", doubts={"no_search": "nothing was searched for"}
        )
    return Sample(**fields)


class RightJudge:
    """What is true of the rows, from a table of their texts: nothing is compared.

    Attributes:
        source_by_answer: The passage that an answer rests on; none for one that is
            made up, is wrong or declines.
        gold_by_question: The passage that answers a question.
    """

    def __init__(self) -> None:
        self.source_by_answer: dict[str, str] = {}
        self.gold_by_question: dict[str, str] = {}
        self.gold_by_reference: dict[str, str] = {}
        self.right_answers: set[str] = set()
        for topic in _topics():
            self.source_by_answer[topic["right"]] = topic["gold"]
            self.source_by_answer[topic["beside"]] = topic["gold"]
            self.source_by_answer[topic["from_near"]] = topic["near"]
            self.gold_by_question[topic["question"]] = topic["gold"]
            self.gold_by_reference[topic["reference"]] = topic["gold"]
            self.right_answers.add(topic["right"])

    def judge(self) -> ScriptedJudge:
        """The judge, for ``evaluate``."""
        return ScriptedJudge(
            {
                Adherent: self._adherent,
                SufficientContexts: self._sufficient_contexts,
                Addresses: {"grade": 3},
                Declined: lambda asked: {"declined": int(asked["answer"] == _DECLINES)},
                Useful: self._useful,
                RateRecall: lambda asked: {
                    "score": float(asked["answer"] in self.right_answers)
                },
                ExtractFacts: lambda asked: {"facts": [asked["reference"]]},
                FactInContext: lambda asked: {
                    "covered": int(
                        asked["context"] == self.gold_by_reference[asked["fact"]]
                    )
                },
            }
        )

    def _sufficient_contexts(self, asked: Any) -> dict[str, Any]:
        """Whether the contexts of a question hold the passage that answers it."""
        is_enough = self.gold_by_question[asked["question"]] in asked["contexts"]
        return {"missing": [] if is_enough else ["what is asked"]}

    def _adherent(self, asked: Any) -> dict[str, Any]:
        answer = asked["answer"]
        if answer == _DECLINES:
            return {"claims": 0, "unsupported": []}
        if self.source_by_answer.get(answer) in asked["contexts"]:
            return {"claims": 1, "unsupported": []}
        return {"claims": 1, "unsupported": [answer]}

    def _useful(self, asked: Any) -> dict[str, Any]:
        """A passage is useful to arrive at an answer that rests on it."""
        source = self.source_by_answer.get(asked["answer"])
        return {"useful": int(asked["chunk"] == source)}


if __name__ == "__main__":
    text = json.dumps(planted_rows(), ensure_ascii=False, indent=1)
    ROWS.write_text(f"{text}\n", encoding="utf-8")
