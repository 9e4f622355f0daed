"""From a recorded run, or from what a pipeline returned, to samples. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from haystack_integrations.tracing.ragmetrics import rules
from haystack_integrations.tracing.ragmetrics.nodes import AGENT, PIPELINE, Doc, Message, Node, Reply, Run, copied
from ragmetrics_core.capturing import Overrides, Problems
from ragmetrics_core.model.errors import SettingError
from ragmetrics_core.model.sample import CaptureNotes, Context, Sample, Turn


@dataclass(frozen=True)
class Where(Overrides):
    """What the user says about where things are; names are ``component[.socket]``, dotted into SuperComponents.

    Args:
        generator: The component that writes the answers.
    """

    generator: str | None = None

    def check(self) -> None:
        """Refuse places that are neither names nor functions.

        Raises:
            SettingError: With the name of the argument.
        """
        for name in ("question_from", "contexts_from", "answer_from"):
            source = getattr(self, name)
            if source is not None and not isinstance(source, str) and not callable(source):
                raise SettingError(f"{name} must be component[.socket] or a function, got {type(source).__name__}")


@dataclass(frozen=True)
class Found:
    """An answer of a run.

    Args:
        text: The answer.
        place: ``component.socket`` that it was found at.
        query: The question that it carries.
        replies: The replies that it was built from.
        documents: The documents that it carries.
        extracted: True if it was cut out of a document.
        model: The model that wrote it.
        call: The call that wrote it, where that is already known.
    """

    text: str | None
    place: str
    query: str | None = None
    replies: tuple[str, ...] = ()
    documents: tuple[Doc, ...] = field(default=(), repr=False)
    extracted: bool = False
    model: str | None = None
    call: Node | None = None


def samples_from(run: Run | Mapping[str, Any] | Iterable[Any] | Any, where: Where | None = None) -> list[Sample]:
    """Make samples of a run or of what a pipeline or agent returned.

    Args:
        run: A recorded run; or the result of ``Pipeline.run`` or ``Agent.run``; or answers of an ``AnswerBuilder``.
            A result holds less than a run: the contexts are the documents that the answers carry, or the last ones
            in the result.
        where: What the user says about where things are.

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
    recorded = run if isinstance(run, Run) else _as_run(run)
    where = where or Where()
    if where.build is not None:
        return list(where.build(recorded))
    return [_overridden(recorded, where, sample) for sample in _samples(recorded, where)]


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


def _samples(run: Run, where: Where) -> list[Sample]:
    calls = rules.calls(run, where.generator)
    if run.error is not None:
        return _broken(run, calls)
    if rules.written(run) and not calls:
        return []
    found = _answers(run, calls)
    if where.generator is not None:
        found = [one for one in found if _call(calls, one)[1]] or _last_replies(calls)
    if not found:
        return _retrieval(run)
    return [_sample(run, calls, one) for one in found]


# Answers


def _answers(run: Run, calls: list[Node]) -> list[Found]:
    """Answers of a run: answer objects, else replies in the output, else those of the last call."""
    outputs = _outputs(run)
    found = [one for place, value in outputs for one in _answer_objects(place, value)]
    if not found:
        emitter = next((node for node in _by_end(run) if any(rules.answers(node.sockets))), None)
        if emitter is not None:
            found = [one for name, value in emitter.sockets.items() for one in _answer_objects(f"{emitter.path}.{name}", value)]
    if found:
        return _deduplicated(found)
    left = [one for place, value in outputs for one in _replies(place, value, calls)]
    if left:
        return _of_those_with_documents(run, calls, _deduplicated(left))
    left = _last_replies(calls)
    if left and left[0].call is not None and run.complete and _only_for_retrieval(run, left[0].call):
        return []
    return left


def _last_replies(calls: list[Node]) -> list[Found]:
    """Replies of the last call that gave any: nothing else passed them on."""
    last = next((call for call in reversed(calls) if rules.replies(call)), None)
    return [Found(text, f"{last.path}.replies", call=last) for text in rules.replies(last)] if last is not None else []


def _outputs(run: Run) -> list[tuple[str, Any]]:
    """What the user got, by place; without what other components took, unless that is all there is."""
    if run.root.operation == AGENT:
        return [(name, value) for name, value in run.output.items() if name != "messages" or "last_message" not in run.output]
    nodes = {node.path: node for node in run.components()}
    taken, left = [], []
    for component, sockets in run.output.items():
        for name, value in sockets.items() if isinstance(sockets, dict) else ():
            if name == "messages" and "last_message" in sockets:
                continue
            spec = nodes[component].tags.get("haystack.component.output_spec", {}) if component in nodes else {}
            received = bool((spec.get(name) or {}).get("receivers"))
            (taken if received else left).append((f"{component}.{name}", value))
    return left if any(_speaks(value) for _, value in left) else left + taken


def _speaks(value: object) -> bool:
    return any(rules.answers(value)) or any(rules.texts(value)) or any(rules.documents(value))


def _by_end(run: Run) -> list[Node]:
    return sorted(run.components(), key=lambda node: -node.closed)


def _answer_objects(place: str, value: object) -> list[Found]:
    """One answer per generated answer; of extracted ones the best."""
    made = list(rules.answers(value))
    extracted = [one for one in made if one.extracted]
    best = next((one for one in extracted if one.text), extracted[0] if extracted else None)
    chosen = [one for one in made if not one.extracted] + ([best] if best is not None else [])
    return [
        Found(one.text, place, one.query, one.replies, one.documents, one.extracted, one.model) for one in chosen
    ]


def _replies(place: str, value: object, calls: list[Node]) -> list[Found]:
    """Replies of models in a value: messages of the assistant, texts called replies, texts that a call wrote."""
    said = [message for message in rules.messages(value) if message.role in ("assistant", "tool")]
    if said:
        conversation = len(said) < len(list(rules.messages(value)))
        kept = said[-1:] if conversation else said
        return [Found(text, place, model=one.model) for one in kept if (text := _text_of(one))]
    named = place.rpartition(".")[2] == "replies"
    found = []
    for text in rules.strings(value):
        wrote = [call for call in calls if any(_same(text, reply) for reply in rules.replies(call))]
        if text.strip() and (named or wrote):
            found.append(Found(text, place, call=wrote[-1] if wrote else None))
    return found


def _text_of(message: Message) -> str:
    return message.text or "\n".join(result.text for result in message.results if not result.failed)


def _same(text: str, reply: str) -> bool:
    one, two = rules.normal(text), rules.normal(reply)
    return bool(one) and (one == two or (len(one) >= 2 and one in two))


def _deduplicated(found: list[Found]) -> list[Found]:
    """Without answers that a second component passed on; equal answers of one component stay."""
    kept: list[Found] = []
    for one in found:
        known = [other for other in kept if (other.text, other.query) == (one.text, one.query)]
        if not any(other.place != one.place for other in known):
            kept.append(one)
    return kept


def _of_those_with_documents(run: Run, calls: list[Node], found: list[Found]) -> list[Found]:
    """Of several components that left replies, those whose call had documents."""
    if len({one.place for one in found}) < 2:
        return found
    informed = []
    for one in found:
        call, _ = _call(calls, one)
        if call is not None and rules.evidence(run, call).docs:
            informed.append(one)
    return informed or found


def _only_for_retrieval(run: Run, call: Node) -> bool:
    """True for a call that rewrote the query of a later retriever, where the run ends with documents."""
    later = [node for node in rules.sources(run, None) if node.opened > call.closed]
    return bool(later) and any(rules.documents(run.output))


# Samples


def _call(calls: list[Node], found: Found) -> tuple[Node | None, bool]:
    if found.call is not None and found.call in calls:
        return found.call, True
    return rules.call_behind(calls, found.text, found.replies)


def _sample(run: Run, calls: list[Node], found: Found) -> Sample:
    call, matched = (None, True) if found.extracted else _call(calls, found)
    shown = rules.prompt(call) if call is not None else ()
    evidence = rules.evidence(run, call) if call is not None else _without_call(run, found)
    if not evidence.docs and not evidence.searched and found.documents:
        evidence = rules.Evidence(found.documents, f"{found.place} documents", ("taken from the answer",), True)
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


def _without_call(run: Run, found: Found) -> rules.Evidence:
    """Contexts of an answer that no model wrote: documents that its component was given, else its own."""
    node = next((node for node in _by_end(run) if found.place.startswith(f"{node.path}.")), None)
    sockets = rules.document_sockets(run, node) if node is not None else []
    docs = tuple(doc for _, group in sockets for doc in group)
    if docs and node is not None:
        return rules.Evidence(docs, f"{node.path}.{sockets[0][0]}", (), True)
    if found.documents:
        return rules.Evidence(found.documents, f"{found.place} documents", (), True)
    if node is None:  # a result, not a run
        return _left(run)
    return rules.Evidence(searched=bool(sockets))


def _left(run: Run) -> rules.Evidence:
    """The last documents in a result."""
    lists = [(place, docs) for place, value in _outputs(run) if (docs := tuple(rules.documents(value)))]
    if not lists:
        return rules.Evidence()
    warnings = ("several lists of documents; the last was taken",) if len(lists) > 1 else ()
    return rules.Evidence(lists[-1][1], lists[-1][0], warnings, True)


def _retrieved(run: Run, call: Node | None, evidence: rules.Evidence) -> tuple[Doc, ...] | None:
    found = rules.retrieved(rules.sources(run, call.opened if call is not None else None), evidence.docs)
    if found is None and evidence.place.endswith("tools"):
        return tuple(doc for doc in evidence.docs if isinstance(doc, Doc))
    return found


def _history(given: rules.Given | None) -> tuple[Turn, ...]:
    return tuple(Turn(role=one.role, content=one.text or "") for one in (given.history if given else ()))


def _provenance(
    given: rules.Given | None, found: Found | None, evidence: rules.Evidence, call: Node | None
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


def _broken(run: Run, calls: list[Node]) -> list[Sample]:
    """The sample of a run that failed: what was there until then, and the error. Nothing is invented."""
    call = calls[-1] if calls else None
    shown = rules.prompt(call) if call is not None else ()
    evidence = rules.evidence(run, call) if call is not None else rules.Evidence()
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
    sources = rules.sources(run, None)
    if not sources and run.complete and not any(rules.documents(run.output)):
        return []
    emitters = [node for node in _by_end(run) if any(rules.documents(node.sockets))]
    left = _left(run)
    last = left if left.docs else rules.Evidence(tuple(rules.documents(emitters[0].sockets)) if emitters else ())
    asked, rewrite, given = rules.question(run, (), None)
    if asked is None and run.nodes[1:]:
        return []
    place = left.place or (emitters[0].path if emitters else sources[0].path if sources else "")
    docs = _with_text(doc for doc in last.docs if isinstance(doc, Doc))
    evidence = rules.Evidence(docs, place, left.warnings, True)
    behind = rules.retrieved(sources, docs)
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


def _overridden(run: Run, where: Where, sample: Sample) -> Sample:
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
            update[name] = tuple(map(_context, tuple(rules.documents(value)) or rules.texts(value)))
        else:
            update[name] = _only_text(name, value)
    if not update and not warnings:
        return sample
    notes = sample.capture or CaptureNotes()
    provenance = {**notes.provenance, **{name: _named(where, name) for name in update}}
    notes = notes.model_copy(update={"provenance": provenance, "warnings": (*notes.warnings, *warnings)})
    return Sample(**{**{name: getattr(sample, name) for name in Sample.model_fields}, **update, "capture": notes})


def _named(where: Where, name: str) -> str:
    source = getattr(where, f"{name}_from")
    return source if isinstance(source, str) else "a function of the user"


def _only_text(name: str, value: object) -> str | None:
    if name == "question":
        said = [message for message in rules.messages(value) if message.role == "user" and message.text]
        return said[-1].text if said else next(iter(rules.texts(value)), None)
    return next(iter(rules.texts(value)), None)


def _sockets(run: Run, part: str) -> dict[str, Any]:
    """Inputs or outputs of the last visit of each component, by ``component`` and by ``component.socket``."""
    found: dict[str, Any] = {}
    for node in run.components():
        values = getattr(node, part)
        if isinstance(values, dict):
            found[node.path] = values
            found |= {f"{node.path}.{name}": value for name, value in values.items()}
    return found
