"""Calls and tokens per sample for each metric and mode, and what prompts of one sample have in common.

    uv run benchmarks/cost.py

A sample with 5 chunks of 300 characters. Tokens are estimated at four characters each. The share of a common
prefix is what a provider's prompt cache can serve: from the second call of a sample on, the longest prefix that
an earlier call of the sample had as well.
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
MODES: tuple[tuple[str, Metric], ...] = (
    ("utilization pointwise", ContextUtilization()),
    ("utilization listwise", ContextUtilization(judging="listwise")),
    ("adherence, 5 polls", ContextAdherence(cause=False)),
    ("recall", ContextRecall()),
    ("accuracy per fact", RetrievalAccuracy()),
    ("accuracy per context", RetrievalAccuracy(calls="per_context")),
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


def common(prompts: Sequence[str], again: bool = False) -> float:
    """Share of the prompts' characters that is a prefix of an earlier prompt of the sample.

    Args:
        prompts: In the order of the calls.
        again: Count only calls about a context that an earlier call was about as well; else all but the first.
    """
    shared = total = 0
    for number, prompt in enumerate(prompts[1:], start=1):
        if again and not any(c.text in prompt and any(c.text in p for p in prompts[:number]) for c in SAMPLE.contexts):
            continue
        shared += max(_prefix(prompt, earlier) for earlier in prompts[:number])
        total += len(prompt)
    return shared / total if total else 0.0


def recorded(metric: Metric, together: bool = True) -> Recording:
    """The prompts of one sample."""
    model = Recording(together)
    model.result = metric.score(SAMPLE, judge=LLMJudge(model))
    assert model.result.status == "scored", model.result.reason
    return model


def measure(metric: Metric, together: bool = True) -> tuple[Usage, float]:
    """Usage of one sample, and the share of common prefixes."""
    model = recorded(metric, together)
    return model.result.usage, common(model.prompts)


def main() -> None:
    """Print one row per metric and mode."""
    for name, metric in MODES:
        usage, share = measure(metric)
        goal = {"utilization pointwise": "; goal ≤ 1300", "utilization listwise": "; goal ≤ 900"}.get(name, "")
        prefix = f", common prefix {share:.0%}" if usage.calls > 1 else ""
        print(f"cost: {name}: {usage.calls} calls, {usage.prompt_tokens} prompt tokens{goal}, "
              f"{usage.completion_tokens} completion tokens{prefix}")  # fmt: skip
    usage, share = measure(ContextAdherence(cause=False), together=False)
    print(f"cost: adherence, 5 polls without n: {usage.calls} calls, {usage.prompt_tokens} prompt tokens, "
          f"common prefix {share:.0%} (goal ≥ 80 %)")  # fmt: skip
    share = common(recorded(RetrievalAccuracy()).prompts, again=True)
    print(f"cost: accuracy per fact, from the second fact of a context on: common prefix {share:.0%} (goal ≥ 80 %)")


if __name__ == "__main__":
    main()
