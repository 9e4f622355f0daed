"""From a recorded run, or from what a pipeline returned, to samples. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from haystack_integrations.tracing.ragmetrics import evidence as contexts
from haystack_integrations.tracing.ragmetrics import reading, rules
from haystack_integrations.tracing.ragmetrics.answers import Found, answers, by_end, call_of, last_replies, outputs
from haystack_integrations.tracing.ragmetrics.nodes import AGENT, PIPELINE, Doc, Node, Reply, Run, copied

from ragmetrics_core import Context, Sample, Turn
from ragmetrics_core.capturing import CaptureNotes, Overrides, Problems, SettingError, Source, changed


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
        context_tools: Names of the tools whose text is a context; None takes those of all tools of an agent.
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
    return made(run, Overrides(question_from, contexts_from, answer_from, context_tools, build))


def made(run: object, where: Overrides) -> list[Sample]:
    """Samples of a run or a result; see ``samples_from``."""
    recorded = run if isinstance(run, Run) else _as_run(run)
    if where.build is not None:
        return list(where.build(recorded))
    generator = where.answer_from if isinstance(where.answer_from, str) else None
    if generator is not None and rules.calls(recorded, generator):
        where = replace(where, answer_from=None)
    else:
        generator = None
    return [_overridden(recorded, where, sample) for sample in _samples(recorded, where, generator)]


def _as_run(result: object) -> Run:
    """A run that holds only what the application returned."""
    value = copied(result)
    if isinstance(value, Reply):
        value = (value,)
    if isinstance(value, tuple) and all(isinstance(item, Reply) for item in value):
        value = {"answers": {"answers": value}}
    if not isinstance(value, dict):
        raise SettingError(f"samples_from() takes a run, a pipeline's result or answers, got {type(result).__name__}")
    agent = "last_message" in value
    run = Run(Problems())
    run.nodes.append(Node(AGENT if agent else PIPELINE, "", "", None, 1, {}, closed=1, output=value))
    return run


def _samples(run: Run, where: Overrides, generator: str | None) -> list[Sample]:
    calls, tools = rules.calls(run, generator), where.context_tools
    if run.error is not None:
        return _broken(run, calls, tools)
    if contexts.written(run) and not calls:
        return []
    found = answers(run, calls, tools)
    if generator is not None:
        found = [one for one in found if call_of(calls, one)[1]] or last_replies(calls)
    if not found:
        return _retrieval(run)
    return [_sample(run, calls, one, tools) for one in found]


# Samples


def _sample(run: Run, calls: list[Node], found: Found, tools: Collection[str] | None) -> Sample:
    call, matched = (None, True) if found.extracted else call_of(calls, found)
    shown = rules.prompt(call) if call is not None else ()
    evidence = contexts.evidence(run, call, tools) if call is not None else _without_call(run, found)
    if not evidence.docs and not evidence.searched and found.documents:
        evidence = contexts.Evidence(found.documents, f"{found.place} documents", ("taken from the answer",), True)
    warnings = [*evidence.warnings]
    if not matched:
        warnings.append("no reply holds the answer; it was changed after the call")
    asked, rewrite, given = rules.question(run, shown, found.query)
    behind = _retrieved(run, call, evidence)
    return Sample(
        question=asked,
        standalone_question=rewrite,
        history=_history(given),
        contexts=tuple(map(_context, evidence.docs)),
        retrieved=None if behind is None else tuple(map(_context, _with_text(behind))),
        answer=found.text,
        generator=found.model or (rules.model_of(call) if call is not None else None),
        capture=CaptureNotes(
            provenance=_provenance(given, found, evidence, call),
            warnings=tuple(warnings),
            complete=run.complete,
        ),
    )


def _without_call(run: Run, found: Found) -> contexts.Evidence:
    """Contexts of an answer that no model wrote: documents that its component was given, else its own."""
    node = next((node for node in by_end(run) if found.place.startswith(f"{node.path}.")), None)
    sockets = contexts.document_sockets(run, node) if node is not None else []
    docs = tuple(doc for _, group in sockets for doc in group)
    if docs and node is not None:
        return contexts.Evidence(docs, f"{node.path}.{sockets[0][0]}", (), True)
    if found.documents:
        return contexts.Evidence(found.documents, f"{found.place} documents", (), True)
    if node is None:  # a result, not a run
        return _left(run)
    return contexts.Evidence(searched=bool(sockets))


def _left(run: Run) -> contexts.Evidence:
    """The last documents in a result."""
    lists = [(place, docs) for place, value in outputs(run) if (docs := tuple(reading.documents(value)))]
    if not lists:
        return contexts.Evidence()
    warnings = ("several lists of documents; the last was taken",) if len(lists) > 1 else ()
    return contexts.Evidence(lists[-1][1], lists[-1][0], warnings, True)


def _retrieved(run: Run, call: Node | None, evidence: contexts.Evidence) -> tuple[Doc, ...] | None:
    found = contexts.retrieved(contexts.sources(run, call.opened if call is not None else None), evidence.docs)
    if found is None and evidence.place.endswith("tools"):
        return tuple(doc for doc in evidence.docs if isinstance(doc, Doc))
    return found


def _history(given: rules.Given | None) -> tuple[Turn, ...]:
    return tuple(Turn(role=one.role, content=one.text or "") for one in (given.history if given else ()))


def _provenance(
    given: rules.Given | None, found: Found | None, evidence: contexts.Evidence, call: Node | None
) -> dict[str, str]:
    provenance = {
        "question": ", ".join(given.places) if given else (f"{found.place} query" if found and found.query else ""),
        "contexts": evidence.place if evidence.searched else "no retrieval in this run",
        "answer": found.place if found else "",
        "generator": call.path if call is not None else "",
    }
    return {name: place for name, place in provenance.items() if place}


def _context(doc: Doc | str) -> Context:
    if isinstance(doc, str):
        return Context(text=doc)
    return Context(text=doc.content or "", id=doc.id, score=doc.score, metadata=dict(doc.meta))


def _with_text(docs: Iterable[Doc]) -> tuple[Doc, ...]:
    return tuple(doc for doc in docs if doc.content and doc.content.strip())


def _broken(run: Run, calls: list[Node], tools: Collection[str] | None) -> list[Sample]:
    """The sample of a run that failed: what was there until then, and the error. Nothing is invented."""
    call = calls[-1] if calls else None
    shown = rules.prompt(call) if call is not None else ()
    evidence = contexts.evidence(run, call, tools) if call is not None else contexts.Evidence()
    asked, _, given = rules.question(run, shown, None)
    if asked is None:
        return []
    behind = _retrieved(run, call, evidence)
    return [
        Sample(
            question=asked,
            history=_history(given),
            contexts=tuple(map(_context, evidence.docs)),
            retrieved=None if behind is None else tuple(map(_context, _with_text(behind))),
            error=run.error,
            capture=CaptureNotes(provenance=_provenance(given, None, evidence, call), complete=False),
        )
    ]


def _retrieval(run: Run) -> list[Sample]:
    """The sample of a run that only retrieves: the documents of its last component, no answer."""
    sources = contexts.sources(run, None)
    if not sources and run.complete and not any(reading.documents(run.output)):
        return []
    emitters = [node for node in by_end(run) if any(reading.documents(node.sockets))]
    left = _left(run)
    last = left if left.docs else contexts.Evidence(tuple(reading.documents(emitters[0].sockets)) if emitters else ())
    asked, rewrite, given = rules.question(run, (), None)
    if asked is None and run.nodes[1:]:
        return []
    place = left.place or (emitters[0].path if emitters else sources[0].path if sources else "")
    docs = _with_text(doc for doc in last.docs if isinstance(doc, Doc))
    evidence = contexts.Evidence(docs, place, left.warnings, True)
    behind = contexts.retrieved(sources, docs)
    return [
        Sample(
            question=asked,
            standalone_question=rewrite,
            history=_history(given),
            contexts=tuple(map(_context, docs)),
            retrieved=None if behind is None else tuple(map(_context, _with_text(behind))),
            capture=CaptureNotes(
                provenance=_provenance(given, None, evidence, None), warnings=left.warnings, complete=run.complete
            ),
        )
    ]


# What the user says


def _overridden(run: Run, where: Overrides, sample: Sample) -> Sample:
    """A sample with the fields that the user says where to find."""
    update: dict[str, Any] = {}
    warnings: list[str] = []
    places = None
    for name in ("question", "contexts", "answer"):
        source = getattr(where, f"{name}_from")
        if source is None:
            continue
        places = places or (_sockets(run, "output"), _sockets(run, "input"), run.output, run.input)
        there, value = where.find(name, run, *places)
        value = copied(value)
        if not there or value is None:
            warnings.append(f"{name}_from={source!r} is not in this run; the rules were used")
        elif name == "contexts":
            update[name] = tuple(map(_context, tuple(reading.documents(value)) or reading.texts(value)))
        else:
            update[name] = _only_text(name, value)
    if not update and not warnings:
        return sample
    notes = sample.capture or CaptureNotes()
    provenance = {**notes.provenance, **{name: _named(where, name) for name in update}}
    notes = notes.model_copy(update={"provenance": provenance, "warnings": (*notes.warnings, *warnings)})
    return changed(sample, {**update, "capture": notes})


def _named(where: Overrides, name: str) -> str:
    source = getattr(where, f"{name}_from")
    return source if isinstance(source, str) else "a function of the user"


def _only_text(name: str, value: object) -> str | None:
    if name == "question":
        said = [message for message in reading.messages(value) if message.role == "user" and message.text]
        return said[-1].text if said else next(iter(reading.texts(value)), None)
    return next(iter(reading.texts(value)), None)


def _sockets(run: Run, part: str) -> dict[str, Any]:
    """Inputs or outputs of the last visit of each component, by ``component`` and by ``component.socket``."""
    found: dict[str, Any] = {}
    for node in run.components():
        values = getattr(node, part)
        if isinstance(values, dict):
            found[node.path] = values
            found |= {f"{node.path}.{name}": value for name, value in values.items()}
    return found
