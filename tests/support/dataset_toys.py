"""Documents and a model for tests of data sets; nothing here is a test."""

import json
import re
from collections.abc import Callable
from typing import Any

from chat_models import weighed_tokens
from plausible import fenced, plausible_reply

from ragmetrics_core.data.replies import Usage
from ragmetrics_core.judging.llm import LLMJudge
from ragmetrics_core.labelling import Document
from ragmetrics_core.models.chat import (
    Capabilities,
    ChatModel,
    ChatReply,
    ChatRequest,
    Choice,
)

SIZE = 100
_WORD = re.compile(r"[^\W_]+")
Body = dict[str, Any]


def corpus(documents: int = 5, parts: int = 4) -> list[Document]:
    """Documents whose paragraphs are one chunk each.

    Every word of a paragraph tells where it stands.
    """
    return [
        Document(
            id=f"doc{d}",
            text="\n\n".join(
                " ".join(f"d{d}p{p}w{w}" for w in range(11)) + f" d{d}p{p}end."
                for p in range(parts)
            ),
        )
        for d in range(documents)
    ]


def quoting_reply(body: dict[str, Any]) -> str:
    """As ``plausible_reply``, but a fact is covered if and only if the context quotes it word for word.

    Questions that were written by it are answered in the words of the chunks, so that
    labels made of these replies are right by construction.
    """
    prompt = "\n".join(
        str(message.get("content")) for message in body.get("messages", ())
    )
    facts, contexts = fenced(prompt, "Fact"), fenced(prompt, "Context")
    if not facts or not contexts:
        return plausible_reply(body)
    return json.dumps({"covered": int(_words(facts[0][1]) in _words(contexts[0][1]))})


def _words(text: str) -> str:
    """The words of a text, one space around each."""
    return " ".join(["", *_WORD.findall(text), ""])


class Model(ChatModel):
    """A chat model in this process; by default it quotes."""

    cache_key = "toy"

    def __init__(
        self, reply: Callable[[Body], str] = quoting_reply, name: str = "toy/quoting"
    ) -> None:
        self.asked: list[ChatRequest] = []
        self._reply, self._name = reply, name

    @property
    def name(self) -> str:
        return self._name

    def capabilities(self) -> Capabilities:
        return Capabilities(n=True, logprobs=True, json_schema=True, temperature=True)

    def prices(self) -> tuple[float, float] | None:
        return (1e-6, 2e-6)

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.asked.append(request)
        body: Body = {
            "messages": [{"content": message.content} for message in request.messages]
        }
        if request.schema is not None:
            body["response_format"] = dict(request.schema)
        text = self._reply(body)
        listed = weighed_tokens(text, None) if request.top_logprobs else ()
        return ChatReply(
            (Choice(text, "stop", listed),) * request.n,
            Usage(calls=1, cost=0.001),
        )


def judge(
    reply: Callable[[Body], str] = quoting_reply, name: str = "toy/quoting"
) -> LLMJudge:
    return LLMJudge(Model(reply, name))


def fourteen_facts(body: Body) -> str:
    """Fourteen facts, of which eleven stand in one golden chunk each, and three in none."""
    prompt = "\n".join(str(message["content"]) for message in body["messages"])
    if '"facts" is a list of texts' in prompt:
        (document,) = {match[1] for match in re.finditer(r"d(\d+)p\d+w", prompt)}
        return json.dumps(
            {"facts": [f"Number {n} of d{document}p{n % 4}end" for n in range(14)]}
        )
    if '{"covered"' in prompt and (
        fact := re.search(r"Number (\d+) of (d\d+p\d+end)", prompt)
    ):
        context = prompt[prompt.index("<context-") : prompt.index("<fact-")]
        return json.dumps({"covered": int(int(fact[1]) < 11 and fact[2] in context)})
    return quoting_reply(body)
