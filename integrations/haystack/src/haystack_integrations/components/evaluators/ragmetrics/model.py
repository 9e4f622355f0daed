"""A ChatGenerator of Haystack as the chat model of a judge."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Mapping
from functools import partial
from typing import Any

from haystack.components.generators.chat.types import ChatGenerator
from haystack.dataclasses import ChatMessage
from haystack_integrations.components.evaluators.ragmetrics.identity import parts
from haystack_integrations.components.evaluators.ragmetrics.openai_generator import is_openai

from ragmetrics_core.capturing import judge_context
from ragmetrics_core.data import errors
from ragmetrics_core.data.usage import Usage
from ragmetrics_core.endpoints.chat import Capabilities, ChatModel, ChatReply, ChatRequest, Choice, TokenAlternatives
from ragmetrics_core.endpoints.endpoint_errors import Fault, judge_error
from ragmetrics_core.endpoints.identity import apart, identity
from ragmetrics_core.endpoints.threads import in_thread
from ragmetrics_core.engine.loop import submit

_CLOSE_SECONDS = 5.0
_FINISH = {"stop": "stop", "length": "length", "content_filter": "refused"}
_REJECTIONS = (TypeError, ValueError, KeyError)


class HaystackModel(ChatModel):
    """Any ChatGenerator as the model of a judge: ``evaluate(…, judge=HaystackModel(generator))``.

    Args:
        chat_generator: The generator.
        name: Name in results; None takes the generator's ``model``, else its class.
        capabilities: What the model can do, if you know; otherwise see ``capabilities()``.
        judge_async: Await ``run_async`` on the judges' event loop. By default ``run`` is called in threads, because
            a client that the application uses on its own loop must not be shared with another.

    Example:
        >>> from haystack.components.generators.chat import MockChatGenerator
        >>> HaystackModel(MockChatGenerator("yes", model="mock"))
        HaystackModel('mock')
    """

    def __init__(
        self,
        chat_generator: ChatGenerator,
        *,
        name: str | None = None,
        capabilities: Capabilities | None = None,
        judge_async: bool = False,
    ) -> None:
        self.chat_generator = chat_generator
        self._stated = capabilities
        self._apart = apart(chat_generator)
        self._name = name or _attribute(chat_generator, "model") or type(chat_generator).__name__
        self._async = judge_async and hasattr(chat_generator, "run_async")
        self._takes_settings = "generation_kwargs" in inspect.signature(chat_generator.run).parameters
        self._lock = threading.Lock()
        self._warm = False

    def __repr__(self) -> str:
        return f"HaystackModel({self.name!r})"

    @property
    def name(self) -> str:
        """Name of the model."""
        return self._name

    @property
    def endpoint(self) -> str:
        """What makes up the generator, in a digest without keys, to keep stored replies apart.

        It is the same in every process. Where a part cannot be described, it is this object's own: stored replies are
        then used by no other.
        """
        return identity(self.chat_generator, parts) or self._apart

    def capabilities(self) -> Capabilities:
        """What was stated; else nothing is assumed of a generator without ``generation_kwargs``.

        Generators for OpenAI and compatible endpoints are tried once for each feature. The others spell their
        settings differently: they get a temperature, if they take one, and the form of the reply by the prompt.
        """
        if self._stated is not None:
            return self._stated
        if not self._takes_settings:
            return Capabilities(n=False, logprobs=False, json_schema=False, temperature=False)
        if is_openai(self.chat_generator):
            return Capabilities()
        return Capabilities(n=False, logprobs=False, json_schema=False)

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Send one request, in a context of its own, where no tracer sees it.

        Raises:
            JudgeError: Mapped from whatever the generator raised.
        """
        arguments: dict[str, Any] = {"messages": [_message(one.role, one.content) for one in request.messages]}
        if self._takes_settings and (settings := self._settings(request)):
            arguments["generation_kwargs"] = settings
        outcomes: tuple[Any] = await asyncio.gather(self._started(arguments), return_exceptions=True)
        outcome = outcomes[0]
        if isinstance(outcome, Exception) and not isinstance(outcome, errors.RagMetricsError):
            raise self._translated(outcome) from outcome
        if isinstance(outcome, BaseException):
            raise outcome
        return _reply(self.name, outcome)

    def close(self) -> None:
        """Release what the generator holds; an async client on the loop that it lives on."""
        if hasattr(self.chat_generator, "close"):
            self.chat_generator.close()
        if self._async and self._warm and hasattr(self.chat_generator, "close_async"):
            submit(self.chat_generator.close_async()).result(_CLOSE_SECONDS)
        self._warm = False

    def _started(self, arguments: dict[str, Any]) -> asyncio.Future[Any]:
        if self._async:
            return asyncio.get_running_loop().create_task(self._awaited(arguments), context=judge_context())
        call = in_thread(partial(self._called, arguments), context=judge_context(), name="ragmetrics-haystack")
        return asyncio.wrap_future(call)

    def _called(self, arguments: dict[str, Any]) -> Any:
        with self._lock:
            if not self._warm and hasattr(self.chat_generator, "warm_up"):
                self.chat_generator.warm_up()
            self._warm = True
        return self.chat_generator.run(**arguments)

    async def _awaited(self, arguments: dict[str, Any]) -> Any:
        if not self._warm:
            self._warm = True
            if hasattr(self.chat_generator, "warm_up_async"):
                await self.chat_generator.warm_up_async()
            elif hasattr(self.chat_generator, "warm_up"):
                self.chat_generator.warm_up()
        run_async: Any = getattr(self.chat_generator, "run_async")  # noqa: B009  # not part of the protocol
        return await run_async(**arguments)

    def _settings(self, request: ChatRequest) -> dict[str, Any]:
        """Generation settings; only those that this kind of generator spells like OpenAI."""
        known = self.capabilities()
        settings: dict[str, Any] = {}
        if request.temperature is not None and known.temperature is not False:
            settings["temperature"] = request.temperature
        if is_openai(self.chat_generator) and request.max_tokens is not None:
            settings["max_tokens"] = request.max_tokens
        if request.n > 1 and known.n is not False:
            settings["n"] = request.n
        if request.top_logprobs and known.logprobs is not False:
            settings |= {"logprobs": True, "top_logprobs": request.top_logprobs}
        if request.schema is not None and known.json_schema is not False:
            schema = {"name": "reply", "schema": request.own_schema(), "strict": True}
            settings["response_format"] = {"type": "json_schema", "json_schema": schema}
        return settings

    def _translated(self, error: Exception) -> errors.JudgeError:
        """The judge error for what the exception says of the endpoint, else for its class."""
        fault = Fault.of(error)
        rejected = isinstance(error, _REJECTIONS) and fault.about_parameter
        own = errors.RequestRejected if rejected else errors.JudgeError
        return judge_error(fault.kind or own, fault, self.name, None, ())


def _attribute(generator: object, name: str) -> str | None:
    """An attribute that many generators have and the protocol does not name."""
    value = getattr(generator, name, None)
    return value if isinstance(value, str) and value else None


def _message(role: str, content: str) -> ChatMessage:
    if role == "system":
        return ChatMessage.from_system(content)
    return ChatMessage.from_assistant(content) if role == "assistant" else ChatMessage.from_user(content)


def _reply(name: str, output: object) -> ChatReply:
    """Narrow a generator's output to what a judge reads; the usage, which every reply repeats, counts once."""
    replies = output.get("replies") if isinstance(output, Mapping) else None
    messages = [one for one in replies if isinstance(one, ChatMessage)] if isinstance(replies, list) else []
    if not messages:
        raise errors.JudgeServerError(f"{name} returned no reply; check the generator")
    meta = messages[0].meta
    usage = meta.get("usage")
    counts = usage if isinstance(usage, Mapping) else {}
    model = meta.get("model")
    return ChatReply(
        tuple(map(_choice, messages)),
        Usage(
            calls=1,
            prompt_tokens=_count(counts.get("prompt_tokens")),
            completion_tokens=_count(counts.get("completion_tokens")),
            cost=None,
            models=(model,) if isinstance(model, str) and model else (),
        ),
    )


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0


def _choice(message: ChatMessage) -> Choice:
    finish = _FINISH.get(str(message.meta.get("finish_reason") or "stop"), "other")
    return Choice(message.text or "", finish, _tokens(message.meta.get("logprobs")))  # type: ignore[arg-type]  # the values of _FINISH are the literals


def _tokens(logprobs: object) -> tuple[TokenAlternatives, ...]:
    content = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    return tuple(
        TokenAlternatives(
            str(token["token"]),
            float(token["logprob"]),
            tuple((str(other["token"]), float(other["logprob"])) for other in token.get("top_logprobs") or ()),
        )
        for token in (content if isinstance(content, list) else ())
        if isinstance(token, Mapping)
    )
