"""From finished roots to samples, with a memory for what spans several roots."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from typing import Any, ClassVar

from langsmith.schemas import RunBase

from langchain_ragmetrics.capturing import documents, rules, tree
from langchain_ragmetrics.capturing.finding import Finding
from langchain_ragmetrics.capturing.samples import sample_from
from langchain_ragmetrics.capturing.tree import FLOW, WRAPPER
from ragmetrics_core import Sample
from ragmetrics_core.capturing import Problems, Source

_MOST_WAITING = 1000
_HINT = (
    "model calls were seen, but no retrieval: if documents are fetched by direct calls of a vector store, wrap it "
    "with langchain_ragmetrics.observe(vectorstore), or call langchain_ragmetrics.add_documents(docs) in that step; "
    "if they come from tools that return text, name these by context_tools=; else say where they are by contexts_from="
)


def samples_from(
    run: RunBase,
    *,
    question_from: Source | None = None,
    contexts_from: Source | None = None,
    answer_from: Source | None = None,
    context_tools: Collection[str] | None = None,
    build: Callable[[Any], Iterable[Sample]] | None = None,
    every_turn: bool = False,
) -> list[Sample]:
    """Make the samples of one run tree.

    Args:
        run: The root, with its child runs: of a LangChain tracer, of ``client.evaluate``, or read back from
            LangSmith with ``load_child_runs=True``.
        question_from: See ``capture``.
        contexts_from: See ``capture``.
        answer_from: See ``capture``.
        context_tools: See ``capture``.
        build: See ``capture``.
        every_turn: See ``capture``.

    Returns:
        One sample for a run with retrieval, one per item for ``map``, none for a run without retrieval.

    Example:
        >>> from langchain_core.tracers.context import collect_runs
        >>> from langchain_core.runnables import RunnableLambda
        >>> with collect_runs() as runs:
        ...     _ = RunnableLambda(str.upper).invoke("no retrieval here")
        >>> samples_from(runs.traced_runs[0])
        []
    """
    assembler = Assembler(Finding(question_from, contexts_from, answer_from, context_tools, build, every_turn))
    return [*assembler.add(run), *assembler.finish()]


class Assembler:
    """Makes samples of roots as they end, and joins roots that belong to one question.

    Args:
        finding: Where things are.
        problems: Where to note what the user should know.
    """

    joins: ClassVar[bool] = True

    def __init__(self, finding: Finding, problems: Problems | None = None) -> None:
        self._finding = finding
        self.problems = Problems() if problems is None else problems
        self._interrupted: OrderedDict[str, tuple[RunBase, ...]] = OrderedDict()
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
        """Retrievals for which no answer came yet; nothing is forgotten, and what the user should know is said."""
        with self._lock:
            waiting = (*self._alone.values(), *self._unanswered.values())
            found = [sample_from(parts, self._finding) for parts in waiting]
            if self._interrupted:
                self.problems.note("a graph waits for a person; its question is evaluated when it is resumed")
            if self._model_calls and not self._made and not found:
                self.problems.note(_HINT)
            return found

    def finish(self) -> list[Sample]:
        """The same, and forget them."""
        with self._lock:
            found = self.rest()
            self._alone.clear()
            self._unanswered.clear()
            self._made += len(found)
            return found

    def _of_root(self, root: RunBase) -> list[Sample]:
        finding = self._finding
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
        return self._without_retrieval(root)

    def _resumed(self, thread: str | None, root: RunBase) -> tuple[RunBase, ...]:
        """S5: the roots that this one continues."""
        if thread is None or not rules.is_continuation(root):
            return ()
        return self._interrupted.pop(thread, ()) or self._unanswered.pop(thread, ())

    def _with_retrieval(self, earlier: tuple[RunBase, ...], root: RunBase, thread: str | None) -> list[Sample]:
        parts = (*earlier, root)
        if rules.is_retrieval_only(root) and not root.error:  # S6
            dropped = _keep(self._alone, root.id, (root,))
            return [] if dropped is None else [sample_from(dropped, self._finding)]
        sample = sample_from(parts, self._finding)
        if thread is not None and sample.answer is None and not root.error:  # S5: it may have stopped before a node
            dropped = _keep(self._unanswered, thread, parts)
            return [] if dropped is None else [sample_from(dropped, self._finding)]
        return [sample]

    def _without_retrieval(self, root: RunBase) -> list[Sample]:
        """S6: a root that answers from what another one retrieved."""
        if not any(map(tree.is_model, tree.walk(root))):
            return []
        joined = self._joined(root)
        if not joined and not any(rules.handed_in(root)) and not self._finding.every_turn:
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
