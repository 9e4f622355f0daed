"""Calls and tokens per sample for each metric and mode, and what prompts of one sample have in common.

    uv run benchmarks/cost.py

A sample with 5 chunks of 300 characters. Tokens are estimated at four characters each. The common prefix of a call is
the longest one that another call of the sample has as well. Of it a provider's prompt cache, empty at first, can serve
what an earlier call had.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

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
MODES: tuple[tuple[str, Metric, bool, str], ...] = (
    ("utilization pointwise", ContextUtilization(), True, " (goal ≤ 1300 prompt tokens)"),
    ("utilization listwise", ContextUtilization(judging="listwise"), True, " (goal ≤ 900 prompt tokens)"),
    ("adherence, 5 polls", ContextAdherence(cause=False), True, ""),
    ("adherence, 5 polls without n", ContextAdherence(cause=False), False, " (goal: common prefix ≥ 80 %)"),
    ("recall", ContextRecall(), True, ""),
    ("accuracy per fact", RetrievalAccuracy(), True, " (goal: common prefix ≥ 80 %)"),
    ("accuracy per context", RetrievalAccuracy(calls="per_context"), True, ""),
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


def main() -> None:
    """Print one row per metric and mode."""
    for name, metric, together, goal in MODES:
        model = recorded(metric, together)
        usage = model.result.usage
        print(f"cost: {name}: {usage.calls} calls, {usage.prompt_tokens} prompt tokens, "
              f"{usage.completion_tokens} completion tokens{_prefixes(model.prompts)}{goal}")  # fmt: skip


def _prefixes(prompts: Sequence[str]) -> str:
    if len(prompts) < 2:
        return ""
    return f", common prefix {common(prompts):.0%}, {cached(prompts):.0%} from an earlier call"


if __name__ == "__main__":
    main()
