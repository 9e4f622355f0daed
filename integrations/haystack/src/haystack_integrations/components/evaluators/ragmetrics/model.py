"""A ChatGenerator of Haystack as the chat model of a judge."""

import inspect
import json
import operator
import re
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from copy import copy
from typing import Any

from haystack.components.generators.chat.types import ChatGenerator
from haystack.core.component import Component
from haystack.core.serialization import component_to_dict
from haystack.dataclasses import ChatMessage
from haystack.tracing.tracer import NullTracer, ProxyTracer
from haystack.utils import Secret

from ragmetrics_core.capture import (
    Capabilities,
    FrameworkModel,
    ReplacedMethods,
    submit,
)

_CLOSE_SECONDS = 5.0
# attributes of a generator that a judge's copy does without
_LEFT_OUT = ("streaming_callback", "tools")
# else the user's
_MESSAGE = {"system": ChatMessage.from_system, "assistant": ChatMessage.from_assistant}

# The tracer is the whole process's: what stands before it opens no span of a judge's call.
_HIDDEN_CALLS = ReplacedMethods(
    {
        (ProxyTracer, "trace"): lambda _: NullTracer.trace,
        (ProxyTracer, "current_span"): lambda _: NullTracer.current_span,
    }
)


class HaystackModel(FrameworkModel):
    """Any ChatGenerator of Haystack as a judge's model.

    Use it as ``evaluate(…, judge=HaystackModel(generator))``. No tracer that the
    application enabled sees its calls.

    Args:
        chat_generator: The generator. Where it streams, a copy without its
            ``streaming_callback`` is called, so that the application sees no reply.
        name: Name in results; None takes the generator's ``model``, else its class.
        capabilities: What the model can do, if you know; otherwise see
            ``capabilities()``.
        judge_async: Await ``run_async`` on the judges' event loop. By default ``run``
            is called in threads, because a client that the application uses on its own
            loop must not be shared with another.
        cache_key: What beside the name changes its replies, for stored ones; by default
            what ``to_dict`` writes, without secrets. Where that leaves out a part,
            replies are kept for the process only.

    Examples:
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
        cache_key: str | None = None,
    ) -> None:
        """Take the generator; see the class for the arguments.

        Without ``name``, ``OpenAIChatGenerator(model="gpt-5")`` is called "gpt-5", and
        a generator without a model's name by its class.
        """
        self.chat_generator: ChatGenerator = _unwatched(chat_generator)
        run_parameters = inspect.signature(chat_generator.run).parameters
        # whether a call can set a temperature and the like
        self._takes_settings = "generation_kwargs" in run_parameters
        if not name:
            model = getattr(chat_generator, "model", None)
            model = model or getattr(chat_generator, "_model", None)  # as for Google
            has_model_name = isinstance(model, str) and bool(model)
            name = str(model) if has_model_name else type(chat_generator).__name__
        if capabilities is None:
            # What those for OpenAI spell like OpenAI is tried once; others take at most
            # a temperature and a prompt.
            capabilities = Capabilities(
                n=False,
                logprobs=False,
                json_schema=False,
                temperature=None if self._takes_settings else False,
            )
            if self._takes_settings and _is_openai(self.chat_generator):
                capabilities = Capabilities()
        super().__init__(
            chat_generator,
            name,
            capabilities,
            judge_async and hasattr(chat_generator, "run_async"),
            cache_key,
        )

    def _form(self) -> object:
        """As Haystack writes it to a file.

        Raises:
            ValueError: If the class of a part is the user's own.
        """
        form = component_to_dict(self.chat_generator, "judge")
        types = re.findall(r'"type": "([\w.]+)\.\w+"', json.dumps(form, default=str))
        for module in types:
            self._refuse_own_code(module)
        return form

    def _secrets(self) -> list[str]:
        parts: list[Any] = [self.chat_generator]
        for part in parts:  # the list grows
            parts += getattr(part, "chat_generators", ())  # of a fallback
        held = [value for part in parts for value in vars(part).values()]
        keys = [each.resolve_value() for each in held if isinstance(each, Secret)]
        return [key for key in keys if key]

    def _quiet(self) -> AbstractContextManager[object]:
        return _HIDDEN_CALLS.hide()

    def _exchange(
        self, messages: list[dict[str, str]], settings: dict[str, Any]
    ) -> FrameworkModel.Exchange:
        """Make ready how a request is sent to the generator and how its output is read.

        Example: a request with the temperature 0 calls ``generator.run(messages=[…],
        generation_kwargs={"temperature": 0.0})``. A generator that takes no settings
        gets the messages alone.
        """
        shown = []
        for message in messages:
            make_message = _MESSAGE.get(message["role"], ChatMessage.from_user)
            shown.append(make_message(message["content"]))
        arguments: dict[str, Any] = {"messages": shown}
        if not _is_openai(self.chat_generator):
            # others may spell the limit otherwise
            settings.pop("max_tokens", None)
            settings.pop("max_completion_tokens", None)
        if self._takes_settings and settings:
            arguments["generation_kwargs"] = settings
        return (
            lambda: self.chat_generator.run(**arguments),
            lambda: self.chat_generator.run_async(**arguments),  # type: ignore[attr-defined]  # not part of the protocol
            _read_output,
        )

    def close(self) -> None:
        """Release what the generator holds.

        An async client on the loop that it lives on.
        """
        if hasattr(self.chat_generator, "close"):
            self.chat_generator.close()
        if self._judge_async and hasattr(self.chat_generator, "close_async"):
            submit(self.chat_generator.close_async()).result(_CLOSE_SECONDS)


def _read_output(output: object) -> dict[str, Any]:
    """Read the replies in a generator's output, with why each ended.

    Example: ``{"replies": [ChatMessage.from_assistant("Yes")]}`` gives one choice,
    "Yes". Each reply repeats the usage and the model of the whole call: the first
    reply's are taken. An output without a list of replies gives no choice.
    """
    replies = output.get("replies") if isinstance(output, Mapping) else None
    if not isinstance(replies, list):
        replies = []
    messages = [reply for reply in replies if isinstance(reply, ChatMessage)]
    choices = [
        {
            "message": {"content": message.text, "tool_calls": message.tool_calls},
            "finish_reason": message.meta.get("finish_reason"),
            "logprobs": message.meta.get("logprobs"),
        }
        for message in messages
    ]
    meta = messages[0].meta if messages else {}
    return {"choices": choices, "usage": meta.get("usage"), "model": meta.get("model")}


def _unwatched(part: Any) -> Any:
    """Copy a generator without streaming callback and tools, with those that it holds.

    Example: of ``FallbackChatGenerator([generator])`` a copy that holds a copy of
    ``generator``, which streams to nobody.

    Args:
        part: A generator, or what one holds in an attribute: anything, also a list of
            generators. Where there is nothing to leave out, the same object is returned.
    """
    if isinstance(part, list):
        items = [_unwatched(each) for each in part]
        return part if all(map(operator.is_, items, part)) else items
    if not isinstance(part, Component):
        return part
    changes: dict[str, Any] = {}
    for name, value in vars(part).items():
        unwatched = None if name in _LEFT_OUT else _unwatched(value)
        if unwatched is not value:
            changes[name] = unwatched
    if not changes:
        return part
    copied = copy(part)
    vars(copied).update(changes)
    return copied


def _is_openai(generator: object) -> bool:
    """Whether a generator is OpenAI's, found out without importing OpenAI's client.

    Where the module of that generator is not loaded there is none.
    """
    module = sys.modules.get("haystack.components.generators.chat.openai")
    return module is not None and isinstance(generator, module.OpenAIChatGenerator)
