"""From the calls of one turn to its samples: question, answering call, contexts, grade. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from ragmetrics_core.capturing.calls import Calls, Key, text_of
from ragmetrics_core.capturing.conversations import BY_WORDS
from ragmetrics_core.capturing.forms import stream
from ragmetrics_core.capturing.ledger import Arrivals, Seen
from ragmetrics_core.capturing.origins import shown_as, without_origin
from ragmetrics_core.capturing.passages import share_a_passage, stands_in
from ragmetrics_core.capturing.reading import (
    Overrides,
    answer_text,
    contexts_in,
    is_message,
    one_line,
    parsed,
    question_in,
    texts_in,
)
from ragmetrics_core.capturing.showings import Showings, Shown
from ragmetrics_core.capturing.tree import DISTANCE_KEYS, FLOW, Answer, Document, Node, Tree
from ragmetrics_core.data import CaptureNotes, Context, EvidenceFrom, Grade, Ledger, Sample

_GRADES: tuple[Grade, ...] = ("exact", "located", "inferred", "incomplete")
_BY_HAND = Overrides()
_QUERY = 200


def samples_of(tree: Tree, where: Overrides = _BY_HAND) -> list[Sample]:
    """Make the samples of one run, or of several that ``joined`` made one, with what the user says of it.

    Returns:
        A sample for each answer; one without an answer for a run that broke or only retrieved; none for a run that
        neither retrieved nor is a query.
    """
    if where.build is not None:
        return list(where.build(tree.run))
    turn = _Turn(tree, where)
    if not turn.counts():
        return []
    return [_Making(turn, answer).sample() for answer in turn.answers()]


class _Turn:
    """What all answers of a run share."""

    def __init__(self, tree: Tree, where: Overrides) -> None:
        self.tree, self.where = tree, where
        self.calls = Calls(tree, where.context_tools or ())
        self.arrivals = Arrivals(self.calls)
        self.error = tree.error or tree.root.error

    def named(self, name: str) -> tuple[bool, Any]:
        """What the user said of a field, as plain values.

        A state's ``chunks: []`` among the inputs is where the run fills in what it found: outputs come first, but for
        the question.
        """
        tree = self.tree
        places = (*tree.places, *tree.results) if name == "question" else (*tree.results, *tree.places)
        there, value = self.where.find(name, tree.run, *places)
        return there, self.tree.plain(value) if there else None

    def counts(self) -> bool:
        """Whether the run gives a sample at all."""
        tree = self.tree
        if tree.root.kind == "ignored":
            return False
        handed_in = bool(tree.root.taken) and tree.question is not None
        if handed_in and not self.calls.tried and not self.error:
            handed_in = any(
                self.calls.weights[one] and not self.calls.replies[one].is_verdict for one in self.calls.models
            )
        return tree.is_query or self.calls.tried or handed_in or self.where.contexts_from is not None

    def answers(self) -> list[Answer]:
        """The answers: the user's word, the framework's, else the answering call's."""
        there, value = self.named("answer")
        if there:
            return [self._written(Answer(answer_text(value), "answer_from"))]
        tree = self.tree
        if tree.gives_documents or tree.root.kind == "retriever":
            return [Answer(None)]
        if self.error or not (tree.complete or tree.answers):
            return [Answer(None, call=self.calls.last)]
        return [self._written(answer) for answer in tree.answers] or [self._found()]

    def _written(self, answer: Answer) -> Answer:
        """An answer of the framework, with the call whose reply equals it, else the last that may have written it."""
        if answer.extracted or answer.text is None:
            return answer
        if answer.call is not None:
            return self._by(answer, answer.call)
        wanted, value = {one_line(text) for text in (answer.text, *answer.replies)} - {""}, parsed(answer.text)
        latest = self.calls.models[::-1]
        wrote = [call for call in latest if one_line(text_of(call)) in wanted]
        replies = self.calls.replies
        wrote += [
            call
            for call in latest
            if wanted & replies[call].fields or (value is not None and value in replies[call].values)
        ]
        wrote += [call for call in latest if wanted & replies[call].parts]
        if wrote:
            return self._by(answer, wrote[0])
        if is_message(self.tree.output, answer.text) and self._based(self._held):
            return self._found()  # a status line that no model wrote
        likely = self.calls.likely
        return replace(answer, call=likely[-1], doubts=(_UNLIKE,)) if likely else answer

    def _by(self, answer: Answer, call: Node, *, stated: bool = True) -> Answer:
        """An answer and its call; where nothing states which call that is, is there another that it does not use?

        One that it uses may be the answer all the same, if that was asked the question and this one was not: a title.
        """
        if stated and self.tree.root.name != FLOW:
            return replace(answer, call=call)
        asked = call in self.calls.asked(self.question()[0], self.calls.likely)
        used = self.showings.of(call).calls if asked else [call]
        said = {one_line(text_of(one)) for one in used}
        others = [one for one in self.calls.likely if one_line(text_of(one)) not in said]
        taken = "the last that was shown the question" if asked else "the last one"
        doubt = f"several calls may have answered; {taken} is taken" if others else ""
        doubt = "the answer may be a verdict" if self.calls.replies[call].is_verdict else doubt
        return replace(answer, call=call, doubts=(doubt,) if doubt else ())

    @cached_property
    def _held(self) -> list[Node]:
        """Calls whose text is in the output."""
        output = {one_line(text) for text in texts_in(self.tree.output)} - {""}
        models = (call for call in self.calls.models if self.calls.weights[call])
        replies = self.calls.replies
        return [call for call in models if replies[call].line in output or self.tree.output in replies[call].values]

    def _based(self, calls: Sequence[Node]) -> list[Node]:
        """Those that were shown documents."""
        return [call for call in calls if self.showings.of(call).found]

    def _found(self) -> Answer:
        """The answering call where the framework names no answer: one whose text is in the output, else the last.

        Of several in the output it is the last that was shown documents, which is sure if no other was.
        """
        held, likely, question = self._held, self.calls.likely, self.question()[0]
        if not held and not likely:
            return Answer(None, "nothing in the outputs", doubts=("no answer was found in the outputs",))
        said = {one_line(text_of(call)) for call in held}
        several = len(held) > 1 and sum(one_line(text) in said for text in texts_in(self.tree.output)) > 1
        based, asked = self._based(held) if several else [], self.calls.asked(question, likely)
        call = sorted(held or likely, key=lambda one: (one in based, one in asked, one in likely))[-1]
        text = self.calls.replies[call].answer
        place = "a model call whose text occurs in the outputs" if held else f"the last text that {call.name} wrote"
        if several and not (based == held[-1:] and self.calls.asked(question, based)):
            return Answer(text, place, call=call, doubts=(_SEVERAL,))
        return self._by(Answer(text, place), call, stated=bool(held))

    def question(self) -> tuple[str | None, str, tuple[str, ...]]:
        """The question, where it was found, and what is uncertain about it."""
        there, value = self.named("question")
        if there:
            return question_in(value), "question_from", ()
        tree = self.tree
        if tree.question is not None:
            return tree.question, tree.asked_at, ()
        paths = [self.calls.paths[node] for node in self.calls.retrievals]
        nodes = [*(path[-1] for path in paths), *(node for path in paths for node in path)]
        nodes += [node for node in self.calls.nodes if node.kind == "retriever" and (tree.unread or node.error)]
        queries = [node.query for node in nodes if node.query and parsed(node.query) is None]  # no arguments of tools
        if not queries:
            return None, "", ("no question was found",)
        if all(self.calls.is_written(query) for query in queries):
            return self._spoken(queries[0]) or (queries[0], "query of the first retriever", (_REWRITTEN,))
        said = "the question was not found in the inputs; the retriever's query stands for it"
        plain = tree.gives_documents or tree.root.kind == "retriever" or tree.root.name == FLOW
        return queries[0], "query of the first retriever", () if plain else (said,)

    @cached_property
    def showings(self) -> Showings:
        question = self.question()[0]
        asked = [text for text in (question, self.standalone(question)) if text]
        return Showings(self.calls, (*asked, *(one.content for one in self.tree.history), *self.tree.instructions))

    def _spoken(self, query: str) -> tuple[str, str, tuple[str, ...]] | None:
        """What the user said last to the call that chose the query for a tool, else to the answering call.

        None if documents or a query stand in what was said to the latter.
        """
        choosing = [
            call for call in self.calls.models if one_line(query) in map(one_line, self.calls.replies[call].arguments)
        ]
        call = next(iter([*choosing, *reversed(self.calls.likely)]), None)
        said = [one.text for one in call.prompt if one.role == "user" and one.text.strip()] if call is not None else []
        if call is None or not said or not (choosing or self._is_plain(said[-1])):
            return None
        return said[-1], f"last message of the user to {call.name}", ()

    def _is_plain(self, said: str) -> bool:
        """Whether a message holds no documents or queries, and no model wrote it."""
        host = stream(said)
        queries = [stream(node.query) for node in self.calls.nodes if node.query]
        documents = [stream(one.text) for some in self.calls.lists() for one in some]
        holds_one = any(stands_in(query, host) for query in queries)
        holds_one = holds_one or any(share_a_passage(document, host) for document in documents)
        return not self.calls.is_written(said) and not holds_one

    def standalone(self, question: str | None) -> str | None:
        """The one text that retrievers were asked instead of the question."""
        nodes = [*self.calls.retrievals, *self.calls.tool_texts]
        nodes += [node for node in self.calls.nodes if node.kind == "retriever" and node.error]
        asked = {node.query for node in nodes if node.query and parsed(node.query) is None}
        found = self.tree.standalone or (asked.pop() if len(asked) == 1 else None)
        if found is not None and len(found) > _QUERY:  # a passage that may stand in an answer, no question
            return None
        return None if one_line(found) == one_line(question) else found


@dataclass
class _Making:
    """One sample in the making."""

    turn: _Turn
    answer: Answer
    warnings: list[str] = field(default_factory=list)
    grades: set[Grade] = field(default_factory=set)
    evidence_from: EvidenceFrom | None = None
    contexts_at: str = ""  # where the contexts were found, in words
    feeding: Sequence[Node] = ()
    known: Sequence[str] = ()
    untold: Collection[Key] = ()  # documents of which the prompts do not tell whether they were shown

    def sample(self) -> Sample:
        """The sample."""
        turn, tree, answer = self.turn, self.turn.tree, self.answer
        question, asked_at, said = turn.question()
        self.warnings += [*tree.warnings, *said]
        standalone = turn.standalone(question)
        contexts, order = self._contexts()
        keys = order or [("named", str(place)) for place in range(len(contexts))]
        by_key = dict(zip(keys, contexts, strict=True))
        added = turn.arrivals.brought_by_steps(by_key)
        retrieved = turn.arrivals.retrieved(order, added)
        if retrieved is not None:
            self._note_differences(retrieved, by_key)
        if any(key in one.metadata for one in retrieved or contexts for key in DISTANCE_KEYS):
            self.warnings.append(_DISTANCE)
        doubts = () if self.evidence_from == "named" else answer.doubts
        self.warnings += doubts
        if answer.text is None or turn.error or not tree.complete or self.evidence_from is None or tree.unread:
            self.grades.add("incomplete")
        self.warnings += [_UNREAD.format(tree.unread)] if tree.unread else []
        if doubts or _REWRITTEN in said or tree.conversation_at == BY_WORDS:
            self.grades.add("inferred")
        if self.evidence_from is None:
            self.warnings += [_TEXT.format(node.name) for node in turn.calls.texts_of_tools]
        sources = ", ".join(dict.fromkeys(node.name for node in (*turn.calls.retrievals, *added)))
        places = {"question": asked_at, "retrieved": sources, "answer": answer.place, "contexts": self.contexts_at}
        places |= {"conversation": tree.conversation_at, "reranker": ", ".join(turn.calls.rerankers)}
        wrote = [*map(text_of, self.feeding), tree.partial or ""]  # on the way, and of an answer that broke off
        return Sample(
            question=question or answer.question,
            contexts=contexts,
            retrieved=None if retrieved is None else tuple(one.context() for one in retrieved),
            answer=answer.text,
            standalone_question=standalone,
            history=tree.history,
            generator=answer.model or (answer.call.model if answer.call is not None else None),
            error=turn.error,
            **tree.given,
            capture=CaptureNotes(
                grade=max(self.grades or {"exact"}, key=_GRADES.index),
                evidence_from=self.evidence_from,
                provenance={name: place for name, place in places.items() if place},
                warnings=tuple(dict.fromkeys(self.warnings)),
                intermediate=tuple(Context(text=text) for text in dict.fromkeys(wrote) if text.strip()),
                other=tuple(one.context() for one in tree.other),
                complete=tree.complete and not turn.error,
            ),
            ledger=self._ledger(by_key, added),
        )

    def _ledger(self, contexts: Mapping[Key, Context], added: Mapping[Node, tuple[Document, ...]]) -> Ledger:
        """The calls that brought evidence, and what this answer was shown of them."""
        tree, call = self.turn.tree, self.answer.call
        calls = () if call is None else (*self.feeding, call)
        prompts = None if call is None else [message.text for one in calls for message in one.prompt]
        seen = Seen(contexts, prompts, self.known)
        turn = tree.turn or 1 + sum(one.role == "user" for one in tree.history)
        told = self.turn.arrivals.told(seen, turn, self.answer.text, tree.earlier, added)
        return Ledger(conversation=tree.conversation, turn=turn, calls=tuple(told))

    def _contexts(self) -> tuple[tuple[Context, ...], list[Key]]:
        """The contexts, and the keys of the documents behind them."""
        turn, call = self.turn, self.answer.call
        self.known = turn.showings.known
        there, value = turn.named("contexts")
        if there:
            self.evidence_from, self.contexts_at = "named", "contexts_from"
            contexts = tuple(contexts_in(value))
            if not contexts:
                self.grades.add("inferred")
                self.warnings.append(_NONE_NAMED)
            return contexts, []
        if call is not None:
            shown = turn.showings.of(call)
            self.feeding = [one for one in shown.calls if one is not call]
            self.untold = shown.traces
            if shown.found:
                return self._from_prompt(shown, call)
            if _taken_out(turn.calls, call):
                self.evidence_from, self.contexts_at = "prompt", f"the prompt of {call.name}"
                self.warnings.append(_TAKEN_OUT)
                return (), []
        flow, place = self._flow()
        if flow:
            self.contexts_at = place
            self.evidence_from = "listed" if call is not None or not turn.tree.gives_documents else "retrieved_only"
            self.grades.add("inferred")
            if call is not None and self.answer.text is not None:
                self.warnings.append(_UNTOLD if any(one.key in self.untold for one in flow) else _UNSEEN)
        elif turn.calls.tried:
            self.evidence_from = "ids_only" if turn.tree.unread else "none_found"
        return tuple(one.context() for one in flow), [one.key for one in flow]

    def _from_prompt(self, shown: Shown, call: Node) -> tuple[tuple[Context, ...], list[Key]]:
        """What the prompt shows, in its order; what it does not tell of stays between its neighbours."""
        turn, order = self.turn, list(shown.found)
        self.evidence_from, self.contexts_at = "prompt", f"what occurs in the prompt of {call.name}"
        if {document.text for document, _ in shown.found.values()} <= {node.text for node in turn.calls.tool_texts}:
            self.evidence_from = "undivided"
        lists = ([one.key for one in some] for some in turn.calls.lists(call.began))
        keys = next((keys for keys in lists if not shown.found.keys().isdisjoint(keys)), [])
        for at, key in enumerate(keys):
            if key in shown.unknown and key not in order:
                before = next((one for one in reversed(keys[:at]) if one in order), None)
                order.insert(0 if before is None else order.index(before) + 1, key)
        contexts = []
        for rank, key in enumerate(order, start=1):
            if key not in shown.found:
                self.grades.add("inferred")
                self.warnings.append(f"context {rank}: the prompt does not tell whether it was shown")
                contexts.append(shown.unknown[key].context())
                continue
            document, place = shown.found[key]
            if place.extent != "whole":
                self.grades.add("located")
                self.warnings.append(f"context {rank} was cut to {place.percentage}")
            contexts.append(document.context(place.text))
        return tuple(contexts), order

    def _flow(self) -> tuple[tuple[Document, ...], str]:
        """The framework's own data flow: the answer's documents, what the adapter says, else the last list."""
        tree, calls = self.turn.tree, self.turn.calls
        if self.answer.documents is not None:
            return self.answer.documents, f"documents of {self.answer.place}"
        if tree.flow is not None:
            return tree.flow, tree.flow_at
        found = self.turn.arrivals.retrieved() or ()
        last = max((node.ended or 0 for node in calls.retrievals), default=0.0)
        later = [node for node in calls.reworking if (node.ended or 0) > last]
        if later:
            return tuple(later[-1].documents or ()), f"what {later[-1].name} returned"
        texts = tuple(Document(node.text or "") for node in calls.tool_texts)
        return (*found, *texts, *(() if found else tree.root.taken)), "everything retrieved"

    def _note_differences(self, retrieved: Sequence[Document], contexts: Mapping[Key, Context]) -> None:
        """Say how many of the retrieved documents were not shown, and how many of the contexts were not retrieved."""
        hidden = shown_as(retrieved, contexts).count(None)
        if self.evidence_from == "prompt" and 0 < hidden < len(retrieved):
            self.warnings.append(f"{hidden} of {len(retrieved)} retrieved documents were not shown to the model")
        foreign = without_origin(retrieved, contexts)
        if foreign:
            self.warnings.append(_FOREIGN.format(len(foreign), len(contexts)))


_UNLIKE = "no reply equals the answer; it is taken to rest on the last call that wrote a text"
_REWRITTEN = "a model wrote every query, and the user's own words were not found; the first query stands for them"
_SEVERAL = "the outputs hold several texts of models; the last that was shown documents, else the question, is taken"
_TEXT = "tool {} returned text without documents; if that is evidence, name it in context_tools"
_UNREAD = "the text of {} retrieved documents was not recorded"
_UNTOLD = "the answering prompt does not tell which retrieved texts it shows; all stand for it"
_UNSEEN = "no retrieved text occurs in the answering prompt; all retrieved ones stand for it"
_NONE_NAMED = "contexts_from= led to a place without any text; if something was retrieved, name the place that holds it"
_FOREIGN = "{} of {} contexts are not among the retrieved documents: they came with the question, or as a tool's text"
_TAKEN_OUT = "what the tools found was taken out of the prompt before the answer"
_DISTANCE = "documents carry a distance (lower is better); it is not taken as their score"


def _taken_out(calls: Calls, call: Node) -> bool:
    """Whether all results that earlier calls of a tool loop were shown are gone from this one's prompt."""
    outer = [node for node, path in calls.paths.items() if not any(one.kind == "tool" for one in path[:-1])]
    given = {one_line(node.text) for node in outer if node.kind == "tool"}
    loop = [one for one in calls.models if one in outer and one.began < call.began]
    before = {one_line(said.text) for one in loop for said in one.prompt if said.role == "tool"} & given
    now = {one_line(said.text) for said in call.prompt if said.role == "tool"}
    return call in outer and bool(now and before) and not before & now
