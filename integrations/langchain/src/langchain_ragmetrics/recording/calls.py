"""The calls of one run, from what LangChain reports of each: its begin, what it was given, its end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from langchain_core.messages import ToolMessage
from langsmith import schemas
from langsmith.run_trees import RunTree

from langchain_ragmetrics.values import (
    Snapshots,
    artifacts_of,
    content_of_sent,
    is_command,
    message_of,
    offered_tools,
    plain,
    provider_evidence_of,
)
from ragmetrics_core.capture import Document, Message, Node
from ragmetrics_core.capture.plain_values import documents_in, names_a_history
from ragmetrics_core.capture.providers import add_provider_evidence
from ragmetrics_core.capture.step_documents import note_documents_of_step
from ragmetrics_core.capture.structures import compact, query_of_tool
from ragmetrics_core.capture.tree import Kind
from ragmetrics_core.capture.unread_requests import unread_request
from ragmetrics_core.data.errors import SettingError

# tag of a search of a vector store that the application made without a retriever
STORE_SEARCH = "ragmetrics_by_hand"
# the name of a run in which the application reports documents by ``add_documents()``
ADD_DOCUMENTS = "add_documents"
# the beginning of the tag of each step of a sequence
_STEP = "seq:step:"
# the name of what runs a chain for each item of a list
EACH = "RunnableEach<"
_KINDS: Mapping[str, Kind] = {
    "retriever": "retriever",
    "tool": "tool",
    "llm": "model",
    "chat_model": "model",
}
_ANSWERED_BY_A_PERSON = (
    "a person answered a call of a tool, and no tool ran: what the person wrote is not"
    " among the evidence"
)


@dataclass(eq=False, slots=True)
class Run:
    """What is kept of a run that no other run surrounds.

    Attributes:
        run_type: LangChain's word for what ran, such as "chain".
        root: Its call, with the calls inside it.
        inputs: What it was given, under names. Messages and documents are the core's.
        outputs: What it returned, in the same way.
        metadata: The metadata of its call.
        task_or_thread: Where it ran.
        is_by_hand: Whether it is a search of a store, which LangChain does not report.
        talk: The texts named like a talk with which prompts were filled.
        items: The runs of its items, if it runs a chain for each item of a list.
        native: The run that it was read from; None if it was recorded.
    """

    run_type: str
    root: Node
    metadata: Mapping[str, Any]
    task_or_thread: str = ""
    is_by_hand: bool = False
    inputs: Mapping[str, Any] = field(default_factory=dict)
    outputs: Mapping[str, Any] = field(default_factory=dict)
    talk: dict[str, str] = field(default_factory=dict)
    items: "list[Run]" = field(default_factory=list)
    native: schemas.RunBase | None = None


@dataclass(eq=False, slots=True)
class Call:
    """One call, while the run around it goes on.

    Attributes:
        recording: What records it.
        run_type: LangChain's word for what is called.
        node: What is known of it.
        run: The run that it belongs to.
        is_root: Whether no other call surrounds it in its run.
        tags: LangChain's tags.
        documents_given: What it was given, without all that is no document.
        error: The words of the error that it ended with.
        inside: The calls directly inside it.
    """

    recording: "Recording"
    run_type: str
    node: Node
    run: Run
    is_root: bool
    tags: Sequence[str]
    documents_given: Any = None
    error: str | None = None
    inside: "list[Call]" = field(default_factory=list)

    def settle(self) -> None:
        """Put the calls inside it in their order, each piece of work once.

        Each step of a sequence begins when the step before it has ended. If the
        sequence is streamed, LangChain reports the start of a step as soon as a first
        piece of its input is there. Example: of ``retriever | rerank | write`` it
        reports the start of "write" before the end of "rerank". The function "write" is
        called only then.

        A failed call is left out if a later one has its name and asks the same.
        Searches of a store that were seen are left out where the application tells by
        ``add_documents()`` what it found.
        """
        if not self.inside:
            return
        not_before = self.node.began
        for call in self.inside:
            node = call.node
            # no call ends before it begins
            if node.ended is None or node.ended >= not_before:
                node.began = max(node.began, not_before)
            is_step = any(tag.startswith(_STEP) for tag in call.tags)
            if is_step and node.ended is not None:
                not_before = max(not_before, node.ended)
        is_told = any(call.node.name == ADD_DOCUMENTS for call in self.inside)
        later_attempts: set[tuple[str, str | None]] = set()
        counted: list[Node] = []
        for call in reversed(self.inside):
            attempt = (call.node.name, call.node.query)
            is_repeated = call.error is not None and attempt in later_attempts
            is_told_otherwise = is_told and STORE_SEARCH in call.tags
            if not is_repeated and not is_told_otherwise:
                counted.append(call.node)
            later_attempts.add(attempt)
        self.node.children = [*reversed(counted), *self.node.children]


class Recording:
    """A run that no other run surrounds, while it goes on.

    What the application may change later is copied at once.

    Args:
        task_or_thread: Where it runs.

    Attributes:
        ids: Of its calls, in the order in which they began.
    """

    def __init__(self, task_or_thread: str = "") -> None:
        self.ids: list[UUID] = []
        self._calls: list[Call] = []
        self._task_or_thread = task_or_thread
        self._snapshots = Snapshots()

    def begin(
        self,
        key: UUID,
        around: Call | None,
        run_type: str,
        name: str,
        began: float,
        *,
        tags: Sequence[str] = (),
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
        node = Node(
            _KINDS.get(run_type, "step"),
            name,
            began,
            agent=metadata.get("lc_agent_name"),
        )
        if node.kind == "model":
            model = metadata.get("ls_model_name")
            node.model = model if isinstance(model, str) else None
            # LangChain's middleware has a model shorten the conversation: it answers nothing
            if metadata.get("lc_source") == "summarization":
                node.kind = "ignored"
        is_by_hand = STORE_SEARCH in tags
        run = Run(run_type, node, metadata, self._task_or_thread, is_by_hand)
        if around is not None:
            if around.is_root and around.node.name.startswith(EACH):
                around.run.items.append(run)
            else:
                run = around.run
        call = Call(self, run_type, node, run, run.root is node, tags)
        if around is not None:
            around.inside.append(call)
        self.ids.append(key)
        self._calls.append(call)
        return call

    def give(
        self,
        call: Call,
        inputs: Mapping[str, Any],
        parameters: Mapping[str, Any] | None = None,
        tool_call_id: str | None = None,
    ) -> None:
        """Note what a call was given.

        Args:
            call: The call.
            inputs: What it was given, under LangSmith's names.
            parameters: The parameters of the request, of a call of a model.
            tool_call_id: The call that it answers, of a tool.
        """
        node = call.node
        if call.is_root:
            call.run.inputs = self._snapshots.copied(inputs)
        if call.run_type == "retriever":
            query = inputs.get("query")
            node.query = query if isinstance(query, str) and query.strip() else None
        elif call.run_type == "tool":
            node.query = query_of_tool(plain(inputs))
            node.tool_call_id = tool_call_id
        elif call.run_type in _KINDS:
            self._give_model(node, inputs, parameters)
        elif call.run_type != "parser":
            call.documents_given = self._snapshots.documents(inputs)
            if call.run_type == "prompt":
                for name, value in inputs.items():
                    if isinstance(value, str) and names_a_history(name):
                        call.run.talk[name] = value

    def _give_model(
        self,
        node: Node,
        inputs: Mapping[str, Any],
        parameters: Mapping[str, Any] | None,
    ) -> None:
        """Note what a model was shown: messages, or the user's texts for a model without roles.

        Example: ``ChatOpenAI`` was shown "Who?": this is the node's prompt.
        """
        messages: list[object] = []
        for batch in inputs.get("messages") or ():
            messages += batch if isinstance(batch, list) else [batch]
        shown = [message_of(message) for message in messages]
        prompts = inputs.get("prompts")
        if isinstance(prompts, list):
            shown = [Message("user", str(prompt)) for prompt in prompts]
        node.prompt = tuple(self._snapshots.once(each) for each in shown if each)
        node.offered_tools = offered_tools(parameters)
        # what the model saw and no recorded text holds, such as a PDF
        contents = [content_of_sent(message) for message in messages]
        unread_request(parameters, contents).add_to(node)

    def end(
        self,
        call: Call,
        outputs: Mapping[str, Any],
        error: str | None,
        ended: float | None,
    ) -> None:
        """Note that a call ended, and what it returned.

        Args:
            call: The call.
            outputs: What it returned, under LangSmith's names.
            error: The words of the error that it ended with.
            ended: When; None if a run that is read later did not say.
        """
        node = call.node
        call.error = node.error = error
        node.ended = ended
        if call.is_root:
            call.run.outputs = self._snapshots.copied(outputs)
        if call.run_type == "tool":
            self._end_tool(node, outputs.get("output"), error)
        elif call.run_type == "parser":
            # that of a stream that was left gives nothing: it has not ended properly
            node.ended = None if is_empty(outputs) else ended
        elif call.run_type not in _KINDS:
            self._end_step(call, outputs)
        elif error is None and call.run_type == "retriever":
            found = self._snapshots.documents(outputs.get("documents"))
            node.documents = None if found is None else tuple(documents_in(found))
        elif error is None:
            self._end_model(node, outputs)

    def _end_tool(self, node: Node, output: Any, error: str | None) -> None:
        """Write into a call what its tool returned.

        Example: ``search("Rome")`` that returned "Rome is old" gets this text. A tool
        that steers the graph, such as ``transfer_to_billing``, brings no evidence: it
        is marked as ``is_control``.
        """
        if not node.tool_call_id and isinstance(output, ToolMessage):
            node.tool_call_id = output.tool_call_id
        # the tool returned a command that sends the graph to another agent, or ended
        # with an exception by which LangGraph steers the graph
        hands_over = is_command(output) and bool(output.goto)
        steers = (error or "").startswith(("GraphInterrupt(", "ParentCommand("))
        node.is_control = hands_over or steers
        if error is not None:
            return
        if is_command(output):
            output = output.update
        content = output.content if isinstance(output, ToolMessage) else output
        if isinstance(content, (list, dict)):
            node.result = plain(content)
        node.documents = self._documents_of_tool(output)
        node.text = self._snapshots.once(_text_of_tool(output))
        # a tool that failed may still return a message, which tells the model so
        if isinstance(output, ToolMessage) and output.status == "error":
            node.error, node.text = node.text or "error", None

    def _documents_of_tool(self, output: object) -> tuple[Document, ...] | None:
        """The documents that a tool returned beside its text.

        Example: a tool that searches returned a text and, as its artifact, two
        documents. () for an empty list of documents; None if there is no list.
        """
        artifacts = map(self._snapshots.documents, artifacts_of(output))
        lists = [artifact for artifact in artifacts if artifact is not None]
        documents = tuple(documents_in(lists))
        return documents if documents or () in lists else None

    def _end_model(self, node: Node, outputs: Mapping[str, Any]) -> None:
        """Write into a model's call its reply, and what its provider searched and found.

        Of several replies the first is taken.
        """
        # for each batch of messages, the replies to it
        batches = outputs.get("generations") or [[]]
        first_reply = batches[0][0] if batches[0] else None
        if not isinstance(first_reply, Mapping):
            return
        message = message_of(first_reply.get("message")) or Message("assistant")
        text = str(first_reply.get("text") or message.text)
        reply = Message("assistant", self._snapshots.once(text), message.tool_calls)
        node.reply = self._snapshots.once(reply)
        add_provider_evidence(node, provider_evidence_of(first_reply.get("message")))

    def _end_step(self, call: Call, outputs: Mapping[str, Any]) -> None:
        """Write into a call what its step did: its documents, and what a person answered in it."""
        node = call.node
        if node.name.startswith("HumanInTheLoop") and _has_answered_calls(outputs):
            node.remarks = (_ANSWERED_BY_A_PERSON,)
        given = call.documents_given
        returned = self._snapshots.documents(outputs)
        if given is not None:
            node.documents_among_inputs = tuple(documents_in(given))
        if returned is not None:
            note_documents_of_step(node, given, returned)

    def run(self) -> Run:
        """The whole run, once its outermost call has ended."""
        for call in list(self._calls):
            call.settle()
        return self._calls[0].run


def _text_of_tool(output: object) -> str | None:
    """The text that a model is shown of a tool's output; None if it has none.

    LangChain shows lists and mappings as JSON.
    """
    message = message_of(output)
    text = output if message is None else message.text
    if isinstance(text, str) and text:
        return text
    is_structure = isinstance(output, (list, dict)) and output
    return compact(plain(output)) if is_structure else None


def _has_answered_calls(outputs: Mapping[str, Any]) -> bool:
    """Whether a person answered calls of tools instead of the tools, before any ran."""
    return any(
        isinstance(message, ToolMessage) and message.status == "success"
        for message in outputs.get("messages") or ()
    )


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
    read = recording.run()
    read.native = run
    return read


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
    recording.give(call, run.inputs, extra.get("invocation_params"))
    if isinstance(run, (schemas.Run, RunTree)):
        in_order = sorted(run.child_runs or (), key=lambda inner: inner.start_time)
        for inner in in_order:
            _tell(recording, inner, call)
    ended = None if run.end_time is None else run.end_time.timestamp()
    recording.end(call, run.outputs or {}, run.error or None, ended)
