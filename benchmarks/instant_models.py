"""Models in this process that reply at once: always the same, or plausibly to prompts that they record."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from ragmetrics_core.data.replies import Usage
from ragmetrics_core.models.chat import (
    Capabilities,
    ChatModel,
    ChatReply,
    ChatRequest,
    Choice,
)
from ragmetrics_core.models.decision_forms import json_text, openai_fields
from ragmetrics_core.models.decision_model import DecisionModel
from ragmetrics_core.models.openai_form import decision_prices

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
from chat_models import weighed_tokens
from plausible import fenced, plausible_reply


class Instant(ChatModel):
    """Always replies the same.

    Args:
        text: The reply.
        logprobs: Whether it gives log-probabilities.
    """

    name = cache_key = "instant"

    def __init__(self, text: str, *, logprobs: bool = False) -> None:
        self._text = text
        self._logprobs = logprobs

    def capabilities(self) -> Capabilities:
        """Everything but, unless it was told so, log-probabilities."""
        return Capabilities(
            n=True, logprobs=self._logprobs, json_schema=True, temperature=True
        )

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Reply."""
        weighed = weighed_tokens(self._text, None) if request.top_logprobs else ()
        return ChatReply(
            (Choice(self._text, tokens=weighed),) * request.n, Usage(calls=1)
        )


class Recording(ChatModel):
    """Replies plausibly; tokens are counted at four characters each.

    Args:
        together: Whether it gives several replies per request.
        logprobs: Whether it gives log-probabilities.
        verdict: What it says of the adherence of an answer.

    Attributes:
        prompts: The prompt of each call.
    """

    name = cache_key = "recording"

    def __init__(
        self, *, together: bool = True, logprobs: bool = False, verdict: str = "yes"
    ) -> None:
        self.prompts: list[str] = []
        self._together = together
        self._logprobs = logprobs
        self._verdict = verdict

    def capabilities(self) -> Capabilities:
        """What it was told to have."""
        return Capabilities(
            n=self._together,
            logprobs=self._logprobs,
            json_schema=True,
            temperature=True,
        )

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Reply plausibly, and count tokens."""
        messages = [
            {"role": message.role, "content": message.content}
            for message in request.messages
        ]
        prompt = "\n".join(message["content"] for message in messages)
        self.prompts.append(prompt)
        schema = (
            {"response_format": {"json_schema": dict(request.schema)}}
            if request.schema
            else {}
        )
        text = self._reply(prompt, plausible_reply({"messages": messages, **schema}))
        usage = Usage(
            calls=1,
            prompt_tokens=len(prompt) // 4,
            completion_tokens=request.n * len(text) // 4,
        )
        return ChatReply(
            (
                Choice(
                    text,
                    tokens=weighed_tokens(text, None) if request.top_logprobs else (),
                ),
            )
            * request.n,
            usage,
        )

    def _reply(self, prompt: str, text: str) -> str:
        """The reply, with the verdict that was asked for.

        Each sentence claims something, and each chunk is useful.
        """
        reply = json.loads(text)
        if "declined" in reply:
            reply["declined"] = 0
        for sentence in reply.get("sentences", ()):
            sentence["claims"] = 1
        for verdict in reply.get("chunks", [reply]):
            if "useful" in verdict:
                verdict["useful"] = 1
        if "unsupported" in reply:
            is_low = self._verdict == "no"
            reply["supported"] = int(not is_low)
            claims = [text for _, text in fenced(prompt, "Answer")]
            reply["unsupported"] = claims if is_low else []
        return json.dumps(reply)


class RecordingDecisions(DecisionModel):
    """Answers every typed question alike; tokens are counted at four characters each.

    Those of the whole body count, as it is sent in OpenAI's form.

    Attributes:
        bodies: The body of each call, as JSON.
    """

    name = cache_key = "recording decisions"
    most_questions = 400

    def __init__(self) -> None:
        self.bodies: list[str] = []

    def prices(self) -> tuple[float, float] | None:
        """Those of the model of our dated file."""
        return decision_prices("gpt-6-luna")

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Answer, and count tokens."""
        body = {"model": "recording", **openai_fields(request.messages[0].content)}
        self.bodies.append(json_text(body))
        choices = tuple(
            Choice(json.dumps(_even(question))) for question in body["questions"]
        )
        usage = Usage(calls=1, prompt_tokens=len(self.bodies[-1]) // 4)
        return ChatReply(choices, usage)


def _even(question: dict[str, Any]) -> list[float]:
    """A likely predicate, or the same probability for each option."""
    options = question.get("choices") or question.get("levels")
    return [1 / len(options)] * len(options) if options else [0.9]
