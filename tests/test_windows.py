"""Texts longer than the model's context window: any window decides, or a typed failure with both token counts."""

from __future__ import annotations

from typing import Any

import pytest

from ragmetrics_core import ContextAdherence, ContextRecall, ContextUtilization, LLMJudge, Metric, RetrievalAccuracy
from ragmetrics_core.judging.chat import Capabilities, ChatModel, ChatReply, ChatRequest, Choice
from ragmetrics_core.judging.windows import _halves
from ragmetrics_core.model.errors import ContextWindowExceeded
from ragmetrics_core.model.questions import Usage

NEEDLE = "the lamp was lit by Ada"
LONG = {
    "beginning": f"{NEEDLE} {'far and wide ' * 800}",
    "middle": f"{'far and wide ' * 400}{NEEDLE} {'far and wide ' * 400}",
    "end": f"{'far and wide ' * 800}{NEEDLE}",
    "nowhere": "far and wide " * 800,
}


class Small(ChatModel):
    """A model with a window of 1,000 tokens, of four characters each, that finds the needle where it is."""

    name = "small"

    def __init__(self) -> None:
        self.prompts: list[str] = []

    def capabilities(self) -> Capabilities:
        return Capabilities(n=True, logprobs=False, json_schema=True, temperature=True)

    async def complete(self, request: ChatRequest) -> ChatReply:
        prompt = request.messages[-1].content
        self.prompts.append(prompt)
        if len(prompt) > 4000:
            raise ContextWindowExceeded.counted("small", None, 1000)
        found = int(f"{NEEDLE} " in f"{prompt} ".replace("\n", " "))
        name = "covered" if "Fact <" in prompt else "useful"
        return ChatReply((Choice(f'{{"{name}": {found}, "reason": "r"}}'),) * request.n, Usage(calls=1))


def score(metric: Metric, context: str) -> tuple[Any, Small]:
    model = Small()
    fields = {"question": "Who?", "contexts": [context], "answer": "Ada.", "reference": "Ada.", "facts": ["Ada did."]}
    return metric.score(**fields, judge=LLMJudge(model)), model


@pytest.mark.parametrize("place", LONG)
@pytest.mark.parametrize("metric", [ContextUtilization(), RetrievalAccuracy()], ids=lambda metric: metric.name)
def test_any_window_decides_and_the_result_is_marked(metric: Metric, place: str) -> None:
    outcome, model = score(metric, LONG[place])
    assert (outcome.status, outcome.value) == ("scored", 0.0 if place == "nowhere" else 1.0)
    assert "windows" in outcome.usage.fallbacks
    assert outcome.usage.calls == len(model.prompts)


def test_what_fits_is_not_split() -> None:
    outcome, model = score(ContextUtilization(), NEEDLE)
    assert outcome.value == 1.0
    assert "windows" not in outcome.usage.fallbacks
    assert len(model.prompts) == 1


@pytest.mark.parametrize("metric", [ContextAdherence(), ContextRecall()], ids=lambda metric: metric.name)
def test_what_needs_the_whole_text_fails_with_both_counts(metric: Metric) -> None:
    outcome, _ = score(metric, LONG["middle"])
    assert (outcome.status, outcome.error.type) == ("failed", "ContextWindowExceeded")
    assert "has about " in outcome.reason
    assert "window of 1000 tokens" in outcome.reason


def test_windows_overlap_and_lose_nothing() -> None:
    text = " ".join(f"word{number}" for number in range(1000))
    first, second = _halves(text)
    assert text.startswith(first)
    assert text.endswith(second)
    assert len(first) + len(second) >= len(text) + 190
    assert _halves("short") == ()
    unbroken = "x" * 5000
    assert sum(map(len, _halves(unbroken))) == 5200
