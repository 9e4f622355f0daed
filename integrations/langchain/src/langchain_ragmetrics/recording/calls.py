"""The calls of one run, from what LangChain reports of each: its begin, what it was given, its end."""

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from langchain_core.documents import Document
from langchain_core.messages import AIMessage, ToolMessage
from langsmith import schemas
from langsmith.run_trees import RunTree

from langchain_ragmetrics.values import (
    Snapshots,
    is_command,
    message_of,
    plain,
    read_message,
    unwrapped,
)
from ragmetrics_core.capture import (
    Message,
    SettingError,
    documents_in,
    names_a_history,
    texts_in,
    unrecorded_evidence,
)

# tag of a search of a vector store that the application made without a retriever
STORE_SEARCH = "ragmetrics_by_hand"
# the name of a run in which the application reports documents by ``add_documents()``
ADD_DOCUMENTS = "add_documents"
# the beginning of the tag of each step of a sequence
STEP = "seq:step:"
# the name of what runs a chain for each item of a list
EACH = "RunnableEach<"
_TELLING_TAGS = (STEP, STORE_SEARCH)
# what a reply may tell of the searches of its provider stands here
_PLACES_OF_REPLY = ("content", "additional_kwargs", "response_metadata")
# types of runs of which nothing is read
_UNREAD = ("parser", "ignored")
Receiver = Callable[["Run"], object]
MODELS = ("llm", "chat_model")
_ANSWERED_BY_A_PERSON = (
    "a person answered a call of a tool, and no tool ran: what the person wrote is not"
    " among the evidence"
)


@dataclass(eq=False, slots=True)
class Run:
    """What is kept of a run that no other run surrounds.

    Attributes:
        root: Its call, with the calls inside it.
        metadata: The metadata of its call.
        task_or_thread: Where it ran.
        inputs: What it was given, under names. Messages and documents are the core's.
        outputs: What it returned, in the same way.
        items: The runs of its items, if it runs a chain for each item of a list.
        native: The run that it was read from; None if it was recorded.
    """

    root: "Call"
    metadata: Mapping[str, Any]
    task_or_thread: str
    inputs: Mapping[str, Any] = field(default_factory=dict)
    outputs: Mapping[str, Any] = field(default_factory=dict)
    items: "list[Run]" = field(default_factory=list)
    native: schemas.RunBase | None = None

    @property
    def began(self) -> float:
        """When it began."""
        return self.root.began


@dataclass(eq=False, slots=True)
class Call:
    """One call, as it was told; what the application may change later was copied at once.

    Attributes:
        run_type: LangChain's word for what is called; "ignored" for what answers
            nothing.
        name: The name of what is called.
        began: When it began.
        tag: The tag that tells a step of a sequence, or a search of a store.
        agent: The name of the agent that it belongs to.
        talk: What the steps of its run were handed under names of a talk, the first of
            each name.
        fields: Further fields of its node.
        run: The run that it is the root of, until it ends; None for any other call.
        inside: The calls directly inside it, in the order in which they began.
        given: Of a step the documents that it was given, of a retriever the query, of a
            model what no recorded text holds, of a prompt what it is filled with, until
            it ends.
        returned: Of a step or a retriever the documents that it returned, of a model
            the places of its reply that may tell what its provider searched, of a
            prompt the replies that its template holds as examples.
        kept: All that it was given and returned, where the user may look into it.
        error: The words of the error that it ended with.
        ended: When it ended; None if it has not.
    """

    run_type: str
    name: str
    began: float
    tag: str
    agent: str | None
    talk: dict[str, Any]
    fields: Mapping[str, Any]
    run: Run | None = None
    inside: "list[Call]" = field(default_factory=list)
    given: Any = None
    returned: Any = None
    kept: tuple[Any, Any] = (None, None)
    error: str | None = None
    ended: float | None = None


class Recording:
    """A run that no other run surrounds, while it goes on.

    Args:
        task_or_thread: Where it runs.
        receivers: The functions that get it once it has ended.
        names_looked_up: Names of calls, and keys of what calls are given and return, of
            which all is kept; None for all.

    Attributes:
        run: What is kept of it.
        ids: Of its calls, in the order in which they began.
        receivers: The functions that get it.
    """

    run: Run

    def __init__(
        self,
        task_or_thread: str = "",
        receivers: Sequence[Receiver] = (),
        names_looked_up: frozenset[str] | None = None,
    ) -> None:
        self.ids: list[UUID] = []
        self.receivers = receivers
        self._names_looked_up = names_looked_up
        self._task_or_thread = task_or_thread
        self._has_model_begun = False
        self._snapshots = Snapshots()

    def begin(
        self,
        key: UUID,
        around: Call | None,
        run_type: str,
        name: str,
        began: float,
        *,
        tags: Sequence[str],
        metadata: Mapping[str, Any],
    ) -> Call:
        """Note that a call began.

        Args:
            key: Its id.
            around: The call around it.
            run_type: LangChain's word for what is called.
            name: The name of what is called.
            began: When.
            tags: LangChain's tags.
            metadata: LangChain's metadata.
        """
        telling_tag = ""
        for tag in tags:
            if tag.startswith(_TELLING_TAGS):
                telling_tag = sys.intern(tag)  # runs repeat their few tags
        talk = {} if around is None else around.talk
        agent = metadata.get("lc_agent_name")
        fields = {}
        if run_type in MODELS:
            model = metadata.get("ls_model_name")
            fields["model"] = model if isinstance(model, str) else None
            # by LangChain's middleware it shortens the conversation: it answers nothing
            if metadata.get("lc_source") == "summarization":
                run_type = "ignored"
        call = Call(run_type, name, began, telling_tag, agent, talk, fields)
        if around is None:
            call.run = self.run = Run(call, metadata, self._task_or_thread)
        else:
            around.inside.append(call)
            if around.run is not None and around.name.startswith(EACH):
                call.talk = {}
                call.run = Run(call, metadata, self._task_or_thread)
                around.run.items.append(call.run)
        self.ids.append(key)
        return call

    def give(
        self,
        call: Call,
        inputs: Any,
        parameters: Mapping[str, Any] | None = None,
        tool_call_id: str | None = None,
    ) -> None:
        """Note what a call was given.

        Args:
            call: The call.
            inputs: What it was given; of a model or retriever under LangSmith's names.
            parameters: The parameters of the request, of a call of a model.
            tool_call_id: The call that it answers, of a tool.
        """
        if call.run is not None:
            call.run.inputs = self._snapshots.copied(_named("input", inputs))
        call.kept = self._kept(call, inputs), None
        run_type = call.run_type
        if run_type == "retriever":
            query = inputs.get("query")
            call.given = query if isinstance(query, str) and query.strip() else None
        elif run_type == "tool":
            arguments = plain(_named("input", inputs))
            call.fields = {"arguments": arguments, "tool_call_id": tool_call_id}
        elif run_type in MODELS:
            self._give_model(call, inputs, parameters)
        elif run_type == "prompt":
            call.given = inputs
            self._note_talk(call, inputs)
        elif run_type not in _UNREAD:
            call.given = self._snapshots.documents(inputs)
            # what a step is handed after a model spoke may be this run's own talk
            if not self._has_model_begun:
                self._note_talk(call, inputs)

    def _kept(self, call: Call, value: Any) -> Any:
        """Copy all that a call was given or returned, where the user may look into it."""
        names = self._names_looked_up
        keys = value if isinstance(value, dict) else ()
        is_kept = names is None or call.name in names or not names.isdisjoint(keys)
        return self._snapshots.copied(value) if is_kept else None

    def _note_talk(self, call: Call, inputs: Any) -> None:
        """Note what a step is handed under names of a talk, such as a thread's messages.

        Later steps may be handed less of it.
        """
        if call.run is None and isinstance(inputs, dict):
            for name, value in inputs.items():
                if names_a_history(name) and value and name not in call.talk:
                    call.talk[name] = self._snapshots.copied(value)

    def _give_model(
        self,
        call: Call,
        inputs: Mapping[str, Any],
        parameters: Mapping[str, Any] | None,
    ) -> None:
        """Note what a model was shown: messages, or the user's texts for a model without roles.

        Example: ``ChatOpenAI`` was shown "Who?": this is the node's prompt.
        """
        self._has_model_begun = True
        messages: list[object] = []
        for batch in inputs.get("messages") or ():
            messages += batch if isinstance(batch, list) else [batch]
        shown = [Message("user", str(prompt)) for prompt in inputs.get("prompts") or ()]
        blocks: list[object] = []
        for message in filter(None, map(unwrapped, messages)):
            read = self._snapshots.once(read_message(message))
            shown.append(read)
            content = message.fields["content"]
            if not isinstance(content, str) and read.role != "assistant":
                blocks.append(content)
        call.fields = {
            **call.fields,
            "prompt": tuple(shown),
            "offered_tools": _offered_tools(parameters),
        }
        # what the model saw and no recorded text holds, such as a PDF
        call.given = unrecorded_evidence(parameters, blocks)

    def end(
        self,
        call: Call,
        outputs: Any,
        error: str | None,
        ended: float | None,
    ) -> None:
        """Note that a call ended, and what it returned.

        Args:
            call: The call.
            outputs: What it returned; of all but a step under LangSmith's names.
            error: The words of the error that it ended with.
            ended: When; None if a run that is read later did not say.
        """
        if call.run is not None:
            call.run.outputs = self._snapshots.copied(_named("output", outputs))
            call.run = None
        call.kept = call.kept[0], self._kept(call, outputs)
        call.error = error
        call.ended = ended
        run_type = call.run_type
        if run_type == "tool":
            self._end_tool(call, outputs.get("output"))
        elif run_type == "parser":
            # that of a stream that was left gives nothing: it has not ended properly
            call.ended = None if is_empty(_named("output", outputs)) else ended
        elif run_type in MODELS:
            if error is None:
                self._end_model(call, outputs)
        elif run_type == "prompt":
            call.returned = tuple(_examples(outputs, call.given))
            call.given = None
        elif run_type not in _UNREAD:
            texts = outputs.get("documents") if run_type == "retriever" else None
            if isinstance(texts, (list, tuple)):
                # a store of bare texts, behind MultiVectorRetriever, has no others
                documents = [
                    Document(each) if isinstance(each, str) else each for each in texts
                ]
                outputs = {"documents": documents}
            call.returned = self._snapshots.documents(outputs)
            if call.name.startswith("HumanInTheLoop") and isinstance(outputs, dict):
                # a person answered calls of tools before any tool ran
                results = [
                    message
                    for message in outputs.get("messages") or ()
                    if isinstance(message, ToolMessage)
                ]
                if any(message.status == "success" for message in results):
                    call.fields = {"remarks": (_ANSWERED_BY_A_PERSON,)}

    def _end_tool(self, call: Call, output: Any) -> None:
        """Write into a call what its tool returned.

        Example: ``search("Rome")`` that returned "Rome is old" gets this text. A tool
        that steers the graph, such as ``transfer_to_billing``, brings no evidence: it
        is marked as ``is_control``.
        """
        fields = dict(call.fields)
        if not fields["tool_call_id"] and isinstance(output, ToolMessage):
            fields["tool_call_id"] = output.tool_call_id
        # the tool returned a command that sends the graph to another agent, or ended
        # with an exception by which LangGraph steers the graph
        hands_over = is_command(output) and bool(output.goto)
        steers = (call.error or "").startswith(("GraphInterrupt(", "ParentCommand("))
        if hands_over or steers:
            fields["is_control"] = True
        if call.error is None:
            returned = output
            if is_command(output):
                # what it writes into the state, and what a model is shown of it: the
                # message that answers its call, else all of the update. A tool that
                # hands over may repeat all messages of the state: they are left out.
                returned = output = output.update
                messages = (
                    output.get("messages") if isinstance(output, Mapping) else None
                )
                results = [
                    each for each in messages or () if isinstance(each, ToolMessage)
                ]
                id_ = fields["tool_call_id"]
                own = [each for each in results if each.tool_call_id == id_] or results
                if own:
                    returned, output = {**output, "messages": own[-1:]}, own[-1]
            # the documents beside its text: () for an empty list, None without a list
            artifacts = map(self._snapshots.documents, _artifacts_of(returned))
            lists = [artifact for artifact in artifacts if artifact is not None]
            documents = tuple(documents_in(lists))
            is_list = bool(documents) or () in lists
            fields["documents"] = documents if is_list else None
            message = message_of(output)
            text = output if message is None else message.text
            text = text if isinstance(text, str) and text else None
            content = output.content if isinstance(output, ToolMessage) else output
            # LangChain shows a model lists and mappings as JSON, and of a message its
            # texts
            is_shown = text is not None or content is output
            if isinstance(content, (list, dict)) and is_shown:
                fields["result"] = plain(content)
            fields["text"] = self._snapshots.once(text)
            # a tool that failed may still return a message, which tells the model so
            if isinstance(output, ToolMessage) and output.status == "error":
                fields["error"] = fields.pop("text") or "error"
        call.fields = fields

    def _end_model(self, call: Call, outputs: Mapping[str, Any]) -> None:
        """Write into a model's call its replies, and the places that may tell of searches.

        Of several replies the first is asked for searches.
        """
        # for each batch of messages, the replies to it
        batches = outputs.get("generations") or [[]]
        replies: list[Message] = []
        for generation in batches[0]:
            if not isinstance(generation, Mapping):
                continue
            message = unwrapped(generation.get("message"))
            fields = {} if message is None else message.fields
            said = Message("", "") if message is None else read_message(message)
            text = self._snapshots.once(str(generation.get("text") or said.text))
            reply = Message("assistant", text, said.tool_calls)
            replies.append(self._snapshots.once(reply))
            if call.returned is None:
                places = [fields.get(name) or None for name in _PLACES_OF_REPLY]
                call.returned = tuple(map(self._snapshots.copied, places))
        if replies:
            first, *others = replies
            call.fields = {
                **call.fields,
                "reply": first,
                "other_replies": tuple(others),
            }


def _offered_tools(parameters: object) -> tuple[str, ...]:
    """The names of the tools that the parameters of a request offer to a model.

    Example: ``{"tools": [{"type": "function", "function": {"name": "search"}}]}`` offers
    "search". Providers write the name there or one level higher.
    """
    tools = parameters.get("tools") if isinstance(parameters, Mapping) else None
    names: list[str] = []
    for tool in tools if isinstance(tools, (list, tuple)) else ():
        fields = tool.get("function", tool) if isinstance(tool, Mapping) else tool
        name = fields.get("name") if isinstance(fields, Mapping) else fields
        if isinstance(name, str):
            names.append(name)
    return tuple(names)


def _artifacts_of(output: object) -> Iterator[object]:
    """Yield the artifacts that a tool returned: objects beside its text.

    A message of a tool holds one: ``ToolMessage("2 hits", artifact=documents, …)``
    yields the documents. A tool may also return messages, or a mapping that holds some,
    such as an update of the state. Any other output is yielded itself.
    """
    message = unwrapped(output)
    if message is not None:
        yield message.fields.get("artifact")
    elif isinstance(output, (list, tuple)) and all(map(unwrapped, output)):
        for part in output:
            yield from _artifacts_of(part)
    elif isinstance(output, Mapping):
        for part in output.values():
            yield from _artifacts_of(part)
    else:
        yield output


def _examples(prompt: object, given: object) -> Iterator[str]:
    """Yield the replies in a prompt that hold nothing of what its template is filled with.

    Example: of a template with ("human", "2 + 2?"), ("ai", "Four."), ("human", "{question}")
    the reply "Four.".
    """
    messages = getattr(prompt, "messages", ())
    replies = [each.text for each in messages if isinstance(each, AIMessage)]
    if not replies:
        return
    texts = {text.strip() for text in texts_in(plain(given))} - {""}
    for reply in replies:
        if not any(text in reply for text in texts):
            yield reply


def _named(name: str, value: Any) -> dict[str, Any]:
    """Inputs or outputs as LangSmith keeps them: anything but a dict is put under a name."""
    return value if isinstance(value, dict) else {name: value}


def is_empty(outputs: Mapping[str, Any]) -> bool:
    """Whether a call returned nothing."""
    return not outputs or (set(outputs) == {"output"} and outputs["output"] is None)


def as_run(run: object) -> Run:
    """Read a run of a tracer or of LangSmith: it is told like one that goes on.

    Raises:
        SettingError: If it is neither.
    """
    if not isinstance(run, schemas.RunBase):
        raise SettingError(
            "samples_from needs a run of LangSmith or of a tracer, such as what a"
            f" RunTree or a collector of runs holds; got {type(run).__name__}"
        )
    recording = Recording()
    _tell(recording, run, None)
    recording.run.native = run
    return recording.run


def _tell(recording: Recording, run: schemas.RunBase, around: Call | None) -> None:
    """Tell a recording of a run that is read, and of all runs inside it."""
    extra = run.extra or {}
    metadata = extra.get("metadata")
    call = recording.begin(
        run.id,
        around,
        run.run_type,
        run.name,
        run.start_time.timestamp(),
        tags=run.tags or (),
        metadata=metadata if isinstance(metadata, Mapping) else {},
    )
    inputs = run.inputs
    # a tracer keeps the messages of a chat model as one text
    if call.run_type in MODELS and (metadata or {}).get("ls_model_type") == "chat":
        texts = inputs.get("prompts") or ()
        messages = [list(_messages_of_text(text)) for text in texts]
        inputs = {"messages": messages} if messages else inputs
    recording.give(call, inputs, extra.get("invocation_params"))
    if isinstance(run, (schemas.Run, RunTree)):
        in_order = sorted(run.child_runs or (), key=lambda inner: inner.start_time)
        for inner in in_order:
            _tell(recording, inner, call)
    ended = None if run.end_time is None else run.end_time.timestamp()
    recording.end(call, run.outputs or {}, run.error or None, ended)


_SPEAKER = re.compile("^(System|Human|AI|Tool|Function): ", re.MULTILINE)


def _messages_of_text(text: str) -> Iterator[tuple[str, str]]:
    """Yield role and text of each message of a transcript as LangChain writes it."""
    before, *parts = _SPEAKER.split(text)
    if before.strip() or not parts:
        yield "human", text
        return
    for role, words in zip(parts[::2], parts[1::2], strict=True):
        yield role.lower(), words.removesuffix("\n")
