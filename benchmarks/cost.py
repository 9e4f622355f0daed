"""Calls and tokens per sample for each metric and mode, and what prompts of one sample have in common.

    uv run benchmarks/cost.py

A sample with 5 chunks of 300 characters. Tokens are estimated at four characters each. The common prefix of a call is
the longest one that another call of the sample has as well. Of it a provider's prompt cache, empty at first, can serve
what an earlier call had. The exit status is 1 if a goal is missed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from goals import Goal, Rows, at_least, at_most

from ragmetrics_core import (
    Capabilities,
    ChatModel,
    ChatReply,
    ChatRequest,
    Choice,
    ContextAdherence,
    ContextRecall,
    ContextUtilization,
    LLMJudge,
    Metric,
    RetrievalAccuracy,
    Sample,
    Usage,
)
from ragmetrics_core.testing.replies import plausible_reply

_WORDS = (
    "The harbour office of the old town keeps a ledger of every ship that came in, of its cargo and of its master, "
    "and of the dues that were paid for the berth. Each entry was signed by two clerks, one of whom was sworn in by "
    "the council; copies went to the customs house on the first day of each month, bound in grey. "
)
SAMPLE = Sample.from_row(
    {
        "question": "Who signed the entries of the ledger, and where did the copies go?",
        "contexts": [f"{number}. {_WORDS}"[:300] for number in range(5)],
        "answer": "Each entry was signed by two clerks. Copies went to the customs house each month.",
        "reference": "Two clerks signed each entry. One of them was sworn in by the council. "
        "Copies went to the customs house every month.",
    }
)


@dataclass(frozen=True)
class Mode:
    """A metric with settings, and what it may cost.

    Args:
        name: Name of the row.
        metric: The metric.
        together: Whether the model gives several replies per request.
        tokens: Most prompt tokens, where that is a goal.
        prefix: Least share of the prompts that is a common prefix, where that is a goal.
    """

    name: str
    metric: Metric
    together: bool = True
    tokens: int | None = None
    prefix: float | None = None

    def goals(self, model: Recording) -> Iterator[Goal]:
        """The goals of this mode, for what was recorded."""
        if self.tokens is not None:
            yield at_most(model.result.usage.prompt_tokens, self.tokens, " prompt tokens")
        if self.prefix is not None:
            yield at_least(100 * common(model.prompts), 100 * self.prefix, " % common prefix")


MODES = (
    Mode("utilization pointwise", ContextUtilization(), tokens=1300),
    Mode("utilization listwise", ContextUtilization(judging="listwise"), tokens=900),
    Mode("adherence, 5 polls", ContextAdherence(cause=False)),
    Mode("adherence, 5 polls without n", ContextAdherence(cause=False), together=False, prefix=0.8),
    Mode("recall", ContextRecall()),
    Mode("accuracy per fact", RetrievalAccuracy(), prefix=0.8),
    Mode("accuracy per context", RetrievalAccuracy(calls="per_context")),
)


class Recording(ChatModel):
    """A model on this machine that records prompts.

    Args:
        together: Whether it gives several replies per request.
    """

    name = "recording"

    def __init__(self, together: bool = True) -> None:
        self.prompts: list[str] = []
        self.result: Any = None
        self._together = together

    def capabilities(self) -> Capabilities:
        """Everything but log-probabilities, which change nothing about tokens."""
        return Capabilities(n=self._together, logprobs=False, json_schema=True, temperature=True)

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Reply plausibly, and count tokens."""
        messages = [{"role": message.role, "content": message.content} for message in request.messages]
        prompt = "\n".join(message["content"] for message in messages)
        self.prompts.append(prompt)
        body = {"messages": messages}
        if request.schema:
            body["response_format"] = json.loads(json.dumps({"schema": request.schema}))
        text = plausible_reply(body)
        usage = Usage(calls=1, prompt_tokens=len(prompt) // 4, completion_tokens=request.n * len(text) // 4)
        return ChatReply((Choice(text),) * request.n, usage)


def _prefix(one: str, other: str) -> int:
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def common(prompts: Sequence[str]) -> float:
    """Share of the prompts' characters that is a prefix of another prompt of the sample."""
    shared = sum(
        max((_prefix(prompt, other) for at, other in enumerate(prompts) if at != number), default=0)
        for number, prompt in enumerate(prompts)
    )
    return shared / sum(map(len, prompts))


def cached(prompts: Sequence[str]) -> float:
    """Share of the prompts' characters that is a prefix of an earlier prompt of the sample."""
    shared = sum(max(_prefix(prompts[at], earlier) for earlier in prompts[:at]) for at in range(1, len(prompts)))
    return shared / sum(map(len, prompts))


def recorded(metric: Metric, together: bool = True) -> Recording:
    """The prompts of one sample."""
    model = Recording(together)
    model.result = metric.score(SAMPLE, judge=LLMJudge(model))
    assert model.result.status == "scored", model.result.reason
    return model


def main() -> int:
    """Print one row per metric and mode; 1 if a goal is missed."""
    shown = Rows()
    for mode in MODES:
        model = recorded(mode.metric, mode.together)
        usage = model.result.usage
        shown.add(
            f"cost: {mode.name}: {usage.calls} calls, {usage.prompt_tokens} prompt tokens, "
            f"{usage.completion_tokens} completion tokens{_prefixes(model.prompts)}",
            *mode.goals(model),
        )
    return shown.code


def _prefixes(prompts: Sequence[str]) -> str:
    if len(prompts) < 2:
        return ""
    return f", common prefix {common(prompts):.0%}, {cached(prompts):.0%} from an earlier call"


if __name__ == "__main__":
    sys.exit(main())
