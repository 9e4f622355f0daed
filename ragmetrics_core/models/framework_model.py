"""A model object of a framework as the model behind a judge.

The module says how it is called, and what its replies are kept under.

That is the object in the framework's own serialised form. No code is read. Where the
form leaves out a part, or the code is somebody's own, there is no key: replies are then
kept for the process only, and whoever wants more gives ``cache_key=``.
"""

import asyncio
import copy
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cached_property, partial
from typing import Any, TypeAlias

from pydantic import BaseModel, ValidationError

from ragmetrics_core.data.errors import JudgeError, RequestRejected
from ragmetrics_core.models.attempts import call_authors_code
from ragmetrics_core.models.cache_keys import address_in, is_installed, key_of
from ragmetrics_core.models.chat import Capabilities, ChatModel, ChatReply, ChatRequest
from ragmetrics_core.models.endpoint_sentences import leave_secret_out
from ragmetrics_core.models.judge_work import judge_context
from ragmetrics_core.models.openai_form import chat_reply, request_body
from ragmetrics_core.models.threads import call_in_thread


class FrameworkModel(ChatModel):
    """A framework's own model object.

    It is called through its sync API in a daemon thread of its own, in a context where
    neither the framework's tracing nor our capture sees it. A thread that hangs delays
    nothing.

    Args:
        held: The object.
        name: Name in results.
        capabilities: What it can do, as far as known.
        judge_async: Await its async API instead, on the event loop of users' models.
        cache_key: What beside the name changes its replies; by default its own
            serialised form, without secrets.
    """

    # the call for a thread, the call for the loop, and what reads what either returns
    Exchange: TypeAlias = tuple[
        Callable[[], Any], Callable[[], Awaitable[Any]], Callable[[Any], dict[str, Any]]
    ]
    name = ""

    def __init__(
        self,
        held: object,
        name: str,
        capabilities: Capabilities,
        judge_async: bool,
        cache_key: str | None,
    ) -> None:
        self._held = held
        self.name = name
        self._capabilities = capabilities
        self._judge_async = judge_async
        self._cache_key = cache_key

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @property
    def cache_key(self) -> str | None:
        """As given, else a digest of the object's own serialised form.

        None if it has no complete one.
        """
        if self._cache_key is not None:
            return self._cache_key
        return key_of(self._held, self._form)

    @cached_property
    def address(self) -> str:
        """The first address in the object's own serialised form; "" without one."""
        with suppress(Exception):  # the framework's or a user's code
            return address_in(self._form())
        return ""

    def capabilities(self) -> Capabilities:
        """What the model can do, as far as known without a call."""
        return self._capabilities

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Send one request.

        Raises ``JudgeError`` by what the object's exception says of the endpoint, else
        by its class.
        """
        secrets = tuple(self._secrets())
        read = partial(chat_reply, self.name, prices=None, secrets=secrets)
        try:
            return await call_authors_code(
                self.name, self._ask_framework, request, read
            )
        except JudgeError as error:
            for secret in secrets:
                leave_secret_out(error, secret)
            raise

    def _secrets(self) -> Sequence[str]:
        """Return the keys that the object holds: an endpoint may repeat them."""
        return ()

    async def _ask_framework(
        self, request: ChatRequest, read: Callable[[Any], ChatReply]
    ) -> ChatReply:
        """Send a request to the framework's object, where no tracing sees it.

        Example: for a model of LangChain it calls ``invoke`` in a thread, or awaits
        ``ainvoke``.

        The sync API is called in a thread of its own; with ``judge_async`` the async
        API is awaited on this loop. If this coroutine is cancelled, the call is given
        up.
        """
        # a copy: thousands of requests share the schema
        settings = copy.deepcopy(request_body(request))
        messages = settings.pop("messages")
        try:
            # the sync call, the async call, and the reader of what either returns
            call, acall, body_of = self._exchange(messages, settings)
        except NotImplementedError as error:
            if request.schema is None:
                raise
            raise RequestRejected(
                f"{self.name} cannot be bound to a json_schema"
            ) from error

        # Two kinds of tracers must not see the call: ``_quiet`` hides it from those of
        # the framework, ``judge_context`` from those set in a context variable.
        def call_quietly() -> ChatReply:
            with self._quiet():
                return read(body_of(call()))

        async def await_quietly() -> ChatReply:
            with self._quiet():
                return read(body_of(await acall()))

        task: asyncio.Future[ChatReply]
        if self._judge_async:
            task = asyncio.get_running_loop().create_task(
                await_quietly(), context=judge_context()
            )
        else:
            task = asyncio.wrap_future(
                call_in_thread(
                    call_quietly, context=judge_context(), name="ragmetrics-model"
                )
            )
        try:
            # Raises only if this coroutine is cancelled. What the call raises is raised
            # by ``result``, below.
            await asyncio.wait([task])
        finally:
            task.cancel()  # has no effect on a task that is done
        try:
            return task.result()
        except (
            ValidationError
        ) as error:  # some clients' types take no enumerated numbers
            if request.schema is None:
                raise
            raise RequestRejected(f"{self.name} takes no such json_schema") from error
        except Exception as error:
            # OpenAI's client raises at the token limit, and hands the reply on
            completion = getattr(error, "completion", None)
            if not isinstance(completion, BaseModel):
                raise
        return read(completion.model_dump())

    def _quiet(self) -> AbstractContextManager[object]:
        """Return a context to hold around a call.

        It does whatever else the framework needs to be told so that its tracing looks
        away.
        """
        return nullcontext()

    @abstractmethod
    def _exchange(
        self, messages: list[dict[str, str]], settings: dict[str, Any]
    ) -> Exchange:
        """Make a request ready; return how it is sent and how its result is read.

        That is the call for a thread, the call for the loop, and the function that
        reads what either returns. Requests and replies have the form of OpenAI's chat
        endpoint: ``{"choices": [{"message": {"content": "Yes"}}]}`` is a reply.

        Args:
            messages: Of each its ``role`` (system, user or assistant) and ``content``.
            settings: The other parameters, such as ``temperature``; it may be changed.

        Raises:
            NotImplementedError: If the object cannot be bound to the JSON schema.
        """

    @abstractmethod
    def _form(self) -> object:
        """Return the object's settings as the framework serialises them: data of JSON."""

    def _refuse_own_code(self, module: str) -> None:
        """Raise ``ValueError`` for a module that is not installed: its code may change."""
        if not is_installed(module):
            raise ValueError(f"{module} is defined outside an installed package")
