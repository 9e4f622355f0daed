"""From a recorded run, or from what a pipeline returned, to samples. Pure."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from haystack_integrations.tracing.ragmetrics.answers import answers, documents_left, replies_of
from haystack_integrations.tracing.ragmetrics.asked import history, question
from haystack_integrations.tracing.ragmetrics.nodes import AGENT, PIPELINE, Node, Run, copied
from haystack_integrations.tracing.ragmetrics.tree import Calls

from ragmetrics_core import Sample
from ragmetrics_core.capturing import Answer, Overrides, Problems, SettingError, Source, Tree, Turns, documents_in


def samples_from(
    run: Run | Mapping[str, Any] | Iterable[Any] | Any,
    *,
    question_from: Source | None = None,
    contexts_from: Source | None = None,
    answer_from: Source | None = None,
    context_tools: Collection[str] | None = None,
    build: Callable[[Any], Iterable[Sample]] | None = None,
) -> list[Sample]:
    """Make samples of a run or of what a pipeline or agent returned.

    Args:
        run: A recorded run; or the result of ``Pipeline.run`` or ``Agent.run``; or answers of an ``AnswerBuilder``.
            A result holds less than a run: the contexts are the documents that the answers carry, or the last ones
            in the result.
        question_from: Where the question is: ``component[.socket]``, dotted into SuperComponents, or a function of
            the run.
        contexts_from: Where the contexts are, in the same way.
        answer_from: Where the answer is, in the same way; a generator's name takes all replies of that component.
        context_tools: Names of the tools whose text is a context, where they return no documents.
        build: A function from the run to its samples, instead of all rules.

    Returns:
        One sample per answer; one without answer for a retrieval alone or a run that failed; none for a run that
        neither retrieves nor answers, e.g. one that fills a document store.

    Raises:
        SettingError: If ``run`` is none of these.

    Example:
        >>> from haystack.dataclasses import Document, GeneratedAnswer
        >>> answer = GeneratedAnswer(data="Paris", query="Capital?", documents=[Document(content="Paris.")])
        >>> samples_from([answer])[0].contexts[0].text
        'Paris.'
    """
    where = Overrides(question_from, contexts_from, answer_from, context_tools, build)
    turns: Turns[Run] = Turns(partial(trees, where=where), where)
    return [*turns.add(run if isinstance(run, Run) else _as_run(run)), *turns.finish()]


def _as_run(result: object) -> Run:
    """A run that holds only what the application returned."""
    value = copied(result)
    value = (value,) if isinstance(value, Answer) else value
    if isinstance(value, tuple) and all(isinstance(item, Answer) for item in value):
        value = {"answers": {"answers": value}}
    if not isinstance(value, dict):
        raise SettingError(f"samples_from() takes a run, a pipeline's result or answers, got {type(result).__name__}")
    run = Run(Problems())
    run.nodes.append(Node(AGENT if "last_message" in value else PIPELINE, "", "", None, 1, {}, closed=1, output=value))
    return run


def trees(run: Run, where: Overrides) -> list[Tree]:
    """A tree for each answer, because each may have its own question; one for a run without any."""
    calls = Calls(run)
    named = replies_of(calls, where.answer_from) if isinstance(where.answer_from, str) else []
    found = named or ([] if run.error else answers(calls))
    if where.build is None and not calls.models and any("documents_written" in one.sockets for one in run.components()):
        return []
    made = [_tree(calls, one, where) for one in found[: 1 if where.build else None]] or [_tree(calls, None, where)]
    for one in made if named else ():
        one.places = tuple(
            {name: at for name, at in place.items() if name != where.answer_from} for place in one.places
        )
    return made


def _tree(calls: Calls, answer: Answer | None, where: Overrides) -> Tree:
    run = calls.run
    last = calls.models[-1] if calls.models else None
    call = answer.call if answer is not None else calls.of[last] if last is not None else None
    carried, at = (answer.question, f"{answer.place} query") if answer is not None else (None, "")
    asked = question(calls, call.prompt if call is not None else (), carried)
    flow, place = calls.flow(last) if answer is None and last is not None else (None, "")
    left = documents_left(run)
    gives_documents = answer is None and bool(left) and run.error is None and _ends_with_retrieval(calls, last)
    if gives_documents or (answer is not None and left and call is None and not answer.documents):
        place, flow = left[-1]
        answer = answer and replace(answer, documents=None)
    held = {one.id: one for node in run.nodes for one in documents_in(node.output)}
    blank = tuple(one for one in held.values() if not one.text.strip())
    return Tree(
        calls.root,
        question=carried if asked is None else asked.text,
        asked_at=", ".join(asked.places) if asked is not None else at if carried else "",
        standalone=carried if asked is not None and carried and carried != asked.text else None,
        history=history(calls, None if call is None else int(call.began)),
        answers=() if answer is None else (answer,),
        output=run.output,
        flow=flow,
        flow_at=place,
        is_query=answer is not None or (last is not None and asked is not None),
        gives_documents=gives_documents,
        error=run.error,
        complete=run.complete,
        strand=run.strand,
        thread=repr(run.input) if run.resumable or _resumed(run) else None,
        paused=run.paused,
        continues=_resumed(run),
        other=blank,
        warnings=(*_warnings(run, where), *([f"{len(blank)} documents without text are no contexts"] if blank else [])),
        run=run,
        places=_places(run),
        plain=copied,
    )


def _ends_with_retrieval(calls: Calls, last: Node | None) -> bool:
    """Whether models, if any were called, only wrote queries for a later retriever."""
    return last is None or any(node.opened > last.closed and calls.retrieves(node) for node in calls.run.nodes)


def _resumed(run: Run) -> bool:
    """True for a run from a snapshot: its first component was given what no component of the run returned."""
    first = next(run.components(), None)
    spec = first.tags.get("haystack.component.input_spec") or {} if first is not None else {}
    given = run.input.get(first.name) or {} if first is not None else {}
    fed = [name for name, socket in spec.items() if socket.get("senders") and name not in given]
    return first is not None and any(first.input.get(name) for name in fed)


def _warnings(run: Run, where: Overrides) -> list[str]:
    """Places of the user that lead nowhere."""
    sources = {name: getattr(where, f"{name}_from") for name in ("question", "contexts", "answer")}
    named = [name for name, source in sources.items() if isinstance(source, str)]
    lost = [f"{name}_from={sources[name]!r}" for name in named if not where.find(name, run, *_places(run))[0]]
    return [f"{one} is not in this run; the rules were used" for one in lost]


def _places(run: Run) -> tuple[Mapping[str, Any], ...]:
    """Outputs and inputs of the last visit of each component, by ``component`` and ``component.socket``."""
    found: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    for node in run.components():
        for there, values in zip(found, (node.output, node.input), strict=True):
            if isinstance(values, dict):
                there[node.path] = values
                there |= {f"{node.path}.{name}": value for name, value in values.items()}
    return (*found, run.output, run.input)
