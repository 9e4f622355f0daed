"""From finished runs to samples: pure for one run tree, and with a memory for what spans several."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from langsmith.schemas import RunBase
from typing_extensions import Unpack

from langchain_ragmetrics.capturing import documents, rules, tree
from langchain_ragmetrics.capturing.documents import Call, Retrieval
from langchain_ragmetrics.values import DISTANCE_KEYS, contexts_in, text_of
from ragmetrics_core.capturing import Overrides, Problems
from ragmetrics_core.capturing.overrides import Source
from ragmetrics_core.model.errors import SettingError
from ragmetrics_core.model.sample import CaptureNotes, Context, Sample, Turn

FLOW = "ragmetrics_flow"
WRAPPER = "ragmetrics_fallbacks"
_MOST_WAITING = 1000
_HINT = (
    "model calls were seen, but no retrieval: if documents are fetched by direct calls of a vector store, wrap it "
    "with langchain_ragmetrics.observe(vectorstore), or call langchain_ragmetrics.add_documents(docs) in that step"
)


class FindingOptions(TypedDict, total=False):
    """Arguments that say where things are, from small to large."""

    question_from: Source | None
    contexts_from: Source | None
    answer_from: Source | None
    include: Callable[[Any], bool] | None
    context_tools: Collection[str]
    retrievers: Collection[str]
    carry_over: bool
    build: Callable[[Any], Iterable[Sample]] | None


@dataclass(frozen=True)
class Finding:
    """Where question, contexts and answer of a run are; by default the rules find them.

    Args:
        question_from: A key or path into the root's inputs or outputs, or a callable that gets the root.
        contexts_from: The same for the contexts.
        answer_from: The same for the answer.
        include: Which roots are samples at all; gets the root.
        context_tools: Names of tools whose text counts as a context.
        retrievers: Names of the retrievers that count; empty = the outermost ones, whatever their name.
        carry_over: A turn of a conversation without own retrieval takes the documents of the turn before.
        build: A callable from the root to its samples, instead of all rules.

    Raises:
        SettingError: If names are given as one text.
    """

    question_from: Source | None = None
    contexts_from: Source | None = None
    answer_from: Source | None = None
    include: Callable[[Any], bool] | None = None
    context_tools: Collection[str] = ()
    retrievers: Collection[str] = ()
    carry_over: bool = False
    build: Callable[[Any], Iterable[Sample]] | None = None

    def __post_init__(self) -> None:
        for name in ("context_tools", "retrievers"):
            if isinstance(getattr(self, name), str):
                raise SettingError(f"{name} must be a set of names, got one text; write {{{getattr(self, name)!r}}}")

    @property
    def overrides(self) -> Overrides:
        """The part that all adapters share."""
        return Overrides(self.question_from, self.contexts_from, self.answer_from, self.build)

    def retrieved_in(self, run: RunBase) -> list[Retrieval]:
        """Retrievals of one root."""
        return list(documents.retrievals(run, self.retrievers, self.context_tools))

    def has_retrieval(self, run: RunBase) -> bool:
        """Whether a root retrieved anything, or tried to."""
        return rules.has_retrieval(run, self.retrievers, self.context_tools)


def samples_from(run: RunBase, **options: Unpack[FindingOptions]) -> tuple[Sample, ...]:
    """Make the samples of one run tree.

    Args:
        run: The root, with its child runs: of a LangChain tracer, of ``client.evaluate``, or read back from
            LangSmith with ``load_child_runs=True``.
        **options: See ``Finding``.

    Returns:
        One sample for a run with retrieval, one per item for ``map``, none for a run without retrieval.

    Example:
        >>> from langchain_core.tracers.context import collect_runs
        >>> from langchain_core.runnables import RunnableLambda
        >>> with collect_runs() as runs:
        ...     _ = RunnableLambda(str.upper).invoke("no retrieval here")
        >>> samples_from(runs.traced_runs[0])
        ()
    """
    assembler = Assembler(Finding(**options))
    return (*assembler.add(run), *assembler.rest())


class Assembler:
    """Makes samples of roots as they end, and joins roots that belong to one question.

    Args:
        finding: Where things are.
        problems: Where to note what the user should know.
    """

    def __init__(self, finding: Finding, problems: Problems | None = None) -> None:
        self._finding = finding
        self.problems = Problems() if problems is None else problems
        self._interrupted: OrderedDict[str, tuple[RunBase, ...]] = OrderedDict()
        self._last_turn: OrderedDict[str, tuple[RunBase, ...]] = OrderedDict()
        self._alone: OrderedDict[Any, tuple[RunBase, ...]] = OrderedDict()
        self._unanswered: OrderedDict[str, tuple[RunBase, ...]] = OrderedDict()
        self._failed: OrderedDict[str, RunBase] = OrderedDict()
        self._lock = threading.RLock()
        self._model_calls = 0
        self._made = 0

    def add(self, run: RunBase) -> list[Sample]:
        """Samples that are complete with this root; what must wait for another root is kept."""
        with self._lock:
            found = [sample for root in rules.roots_of(run) for sample in self._of_root(root)]
            if rules.is_fallbacks(run):
                found += self._settled(run)
            self._made += len(found)
            return found

    def rest(self) -> list[Sample]:
        """Retrievals for which no answer came yet; nothing is forgotten."""
        with self._lock:
            return self._waiting()

    def _waiting(self) -> list[Sample]:
        waiting = (*self._alone.values(), *self._unanswered.values())
        return [sample_from(parts, self._finding) for parts in waiting]

    def finish(self) -> list[Sample]:
        """The same, and forget them; say what is missing."""
        with self._lock:
            found = self._waiting()
            if self._interrupted:
                self.problems.note("a graph that waits for a person was not resumed; its question is not evaluated")
            if self._model_calls and not self._made and not found:
                self.problems.note(_HINT)
            self._alone.clear()
            self._unanswered.clear()
            self._interrupted.clear()
            self._made += len(found)
            return found

    def _of_root(self, root: RunBase) -> list[Sample]:
        finding = self._finding
        if finding.include is not None and not finding.include(root):
            return []
        if finding.build is not None:
            return list(finding.build(root))
        if root.error and self._is_alternative(root):
            return []
        thread = rules.thread_of(root)
        earlier = self._resumed(thread, root)
        before = [] if earlier or thread is None else self._given_up(thread)
        return before + self._answered(earlier, root, thread)

    def _given_up(self, thread: str) -> list[Sample]:
        """S5: a turn of this conversation that stopped without an answer, and that nobody went on with."""
        parts = self._unanswered.pop(thread, None)
        return [] if parts is None else [sample_from(parts, self._finding)]

    def _answered(self, earlier: tuple[RunBase, ...], root: RunBase, thread: str | None) -> list[Sample]:
        if rules.is_interrupted(root) and thread is not None:
            _keep(self._interrupted, thread, (*earlier, root))
            return []
        finding = self._finding
        if earlier or finding.has_retrieval(root) or finding.contexts_from is not None:
            return self._with_retrieval(earlier, root, thread)
        return self._without_retrieval(root, thread)

    def _resumed(self, thread: str | None, root: RunBase) -> tuple[RunBase, ...]:
        """S5: the roots that this one continues."""
        if thread is None or not rules.is_continuation(root):
            return ()
        return self._interrupted.pop(thread, ()) or self._unanswered.pop(thread, ())

    def _with_retrieval(self, earlier: tuple[RunBase, ...], root: RunBase, thread: str | None) -> list[Sample]:
        parts = (*earlier, root)
        if self._finding.carry_over and thread is not None:
            _keep(self._last_turn, thread, parts)
        if rules.is_retrieval_only(root) and not root.error:  # S6
            dropped = _keep(self._alone, root.id, (root,))
            return [] if dropped is None else [sample_from(dropped, self._finding)]
        sample = sample_from(parts, self._finding)
        if thread is not None and sample.answer is None and not root.error:  # S5: it may have stopped before a node
            dropped = _keep(self._unanswered, thread, parts)
            return [] if dropped is None else [sample_from(dropped, self._finding)]
        return [sample]

    def _without_retrieval(self, root: RunBase, thread: str | None) -> list[Sample]:
        """S6, S7: a root that answers from what another one retrieved."""
        if not any(map(tree.is_model, tree.walk(root))):
            return []
        joined = self._joined(root)
        if not joined and self._finding.carry_over and thread is not None:
            joined = self._last_turn.get(thread, ())
        if not joined and not any(rules.handed_in(root)):
            self._model_calls += 1
            return []
        return [sample_from((root,), self._finding, before=joined)]

    def _joined(self, root: RunBase) -> tuple[RunBase, ...]:
        """S6: retrievals that stand alone and whose texts this root shows to a model."""
        prompt = "\n".join(documents.prompt_of(one) for one in tree.walk(root) if tree.is_model(one))
        found = [one for one, *_ in self._alone.values() if self._belongs(one, prompt)]
        flow = (root.extra or {}).get(FLOW)
        same = [one for one in found if (one.extra or {}).get(FLOW) == flow]
        for one in same or found:
            del self._alone[one.id]
        return tuple(same or found)

    def _belongs(self, run: RunBase, prompt: str) -> bool:
        contexts = documents.distinct(self._finding.retrieved_in(run) or documents.introduced(run))
        if contexts:
            return bool(documents.shown(contexts, prompt))
        query = rules.query_of(run)
        return query is not None and query in prompt

    def _is_alternative(self, root: RunBase) -> bool:
        """S3: a failed alternative of fallbacks waits for what the wrapper says."""
        wrapper = (root.extra or {}).get(WRAPPER)
        if wrapper is not None:
            _keep(self._failed, str(wrapper), root)
        return wrapper is not None

    def _settled(self, wrapper: RunBase) -> list[Sample]:
        failed = self._failed.pop(str(wrapper.id), None)
        return [sample_from((failed,), self._finding)] if wrapper.error and failed is not None else []


def _keep(held: OrderedDict[Any, Any], key: Any, value: Any) -> Any:
    """Hold something in bounded memory; what had to go for it is returned."""
    held[key] = value
    return held.popitem(last=False)[1] if len(held) > _MOST_WAITING else None


def sample_from(parts: Sequence[RunBase], finding: Finding, before: Sequence[RunBase] = ()) -> Sample:
    """Make one sample.

    Args:
        parts: Roots of one question: the interrupted ones, and last the one that answers.
        finding: Where things are.
        before: Roots that only retrieved for it.
    """
    root = parts[-1]
    notes = _Notes({"run": str(root.id)}, [])
    given = {key: value for part in reversed((*before, *parts)) for key, value in rules.given(part).items()}
    calls = [call for part in parts for call in documents.calls_of(part)]
    answer = _answer(root, finding, calls, notes)
    call = documents.answering_call(calls, answer)
    found = _retrieved((*before, *parts), finding, call, calls)
    retrieved = documents.distinct(found)
    question = _question(parts, before, finding, given, found, notes)
    asked = [*parts, *filter(rules.is_retrieval_only, before)]
    own = {one.id for part in asked for one in tree.walk(part)}
    queries = {query for one in found if one.run.id in own and (query := rules.query_of(one.run)) is not None}
    return Sample(
        question=question,
        contexts=_contexts((*before, *parts), finding, retrieved, call, notes),
        retrieved=retrieved,
        answer=answer,
        reference=given.get("reference", ()),
        facts=given.get("facts"),
        standalone_question=queries.pop() if len(queries) == 1 and question not in queries else None,
        history=_history(root, question),
        generator=documents.model_of(call) if call is not None else None,
        error=rules.error_of(root),
        id=None if given.get("id") is None else str(given["id"]),
        metadata=_own_metadata(given),
        capture=CaptureNotes(
            provenance=notes.provenance,
            warnings=tuple(notes.warnings),
            complete=not root.error and not _is_empty(root.outputs),
        ),
    )


def _history(root: RunBase, question: str | None) -> tuple[Turn, ...]:
    if root.run_type != "chain":
        return ()
    found = rules.history_in(root.inputs) or rules.history_in(root.outputs)
    return found or rules.history_loaded(root, question)


@dataclass
class _Notes:
    provenance: dict[str, str]
    warnings: list[str]


def _is_empty(outputs: Mapping[str, Any] | None) -> bool:
    """True for a stream that was abandoned and a run that never ended."""
    return not outputs or (set(outputs) == {"output"} and outputs["output"] is None)


def _own_metadata(given: Mapping[str, Any]) -> dict[str, Any]:
    own = given.get("metadata")
    fields = ("question", "reference", "facts", "id", "metadata", "answer")
    rest = {str(key): value for key, value in given.items() if key not in fields}
    return {**rest, **own} if isinstance(own, Mapping) else rest


def _override(field: str, finding: Finding, runs: Sequence[RunBase]) -> tuple[bool, Any]:
    places = [place for run in runs for place in (run.inputs, run.outputs or {})]
    return finding.overrides.find(field, runs[-1], *places)


def _question(
    parts: Sequence[RunBase],
    before: Sequence[RunBase],
    finding: Finding,
    given: Mapping[str, Any],
    found: Sequence[Retrieval],
    notes: _Notes,
) -> str | None:
    said, value = _override("question", finding, parts)
    if said:
        notes.provenance["question"] = "question_from"
        return rules.question_in(value)
    if given.get("question") is not None:
        notes.provenance["question"] = "metadata['ragmetrics']['question']"
        return str(given["question"])
    for run in (*parts, *before):
        asked = rules.question_in(run.inputs) if run.run_type == "chain" and not rules.is_continuation(run) else None
        if asked is not None:
            notes.provenance["question"] = f"inputs of {run.name}"
            return asked
    for run in parts:
        asked = rules.question_in_state(run.outputs or {})
        if asked is not None:
            notes.provenance["question"] = f"outputs of {run.name}"
            return asked
    asked = next((query for one in (*(r.run for r in found), *before, *parts) if (query := rules.query_of(one))), None)
    if asked is not None:
        notes.provenance["question"] = "query of the first retriever"
        if not before:
            notes.warnings.append("the question was not found in the inputs; the retriever's query stands for it")
    return asked


def _answer(root: RunBase, finding: Finding, calls: Sequence[Call], notes: _Notes) -> str | None:
    said, value = _override("answer", finding, (root,))
    if said:
        notes.provenance["answer"] = "answer_from"
        return rules.answer_text(value)
    if root.error or rules.is_retrieval_only(root):
        return None
    if tree.is_model(root):
        notes.provenance["answer"] = "the model call"
        return calls[-1].text if calls else None
    answer, notes.provenance["answer"] = rules.answer_in(root.outputs, calls)
    return answer


def _retrieved(runs: Sequence[RunBase], finding: Finding, call: Call | None, calls: Sequence[Call]) -> list[Retrieval]:
    found = [one for run in runs for one in finding.retrieved_in(run)]
    if found:
        ids = [name for one in calls for name in one.ids]
        return documents.in_order(found, call.prompt if call is not None else "", ids)
    found = [one for run in runs for one in documents.introduced(run)]
    return found or [one for run in runs for one in rules.handed_in(run)]


def _contexts(
    runs: Sequence[RunBase], finding: Finding, retrieved: tuple[Context, ...], call: Call | None, notes: _Notes
) -> tuple[Context, ...]:
    said, value = _override("contexts", finding, runs)
    if said:
        notes.provenance["contexts"] = "contexts_from"
        items = value if isinstance(value, (list, tuple)) else [value]
        return tuple(
            context
            for item in items
            for context in (contexts_in(item) if not isinstance(item, str) else (Context(text=text_of(item)),))
        )
    if any(key in context.metadata for context in retrieved for key in DISTANCE_KEYS):
        notes.warnings.append("documents carry a distance (lower is better); it is not taken as their score")
    reworked = documents.reworked((one for run in runs for one in documents.introduced(run)), retrieved)
    candidates = (*retrieved, *reworked)
    in_prompt = documents.shown(candidates, call.prompt) if call is not None else ()
    if not in_prompt:
        notes.provenance["contexts"] = "everything retrieved"
        if retrieved and call is not None:
            notes.warnings.append("no retrieved text occurs in the answering prompt; all retrieved ones stand for it")
        return retrieved
    notes.provenance["contexts"] = f"what occurs in the prompt of {call.run.name}" if call is not None else ""
    hidden = len(retrieved) - len([context for context in in_prompt if context in retrieved])
    if hidden and not reworked:
        notes.warnings.append(f"{hidden} of {len(retrieved)} retrieved documents were not shown to the model")
    return in_prompt
