"""Stage 2: what was answered, and which call of a model answered. Pure.

``ANSWER_RULES`` say what the answer is, ``CALL_RULES`` which call wrote an answer that
the framework gives. Both are tried in order; the first that finds something decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ragmetrics_core.capture.calls import (
    FREE_TEXT,
    LABEL,
    STRUCTURED,
    Calls,
    end_of,
)
from ragmetrics_core.capture.letters import stream
from ragmetrics_core.capture.order import tools_of
from ragmetrics_core.capture.passages import SHORTEST
from ragmetrics_core.capture.plain_values import (
    answer_text,
    as_one_line,
    has_no_answer,
    is_message,
    parse_json,
    texts_in,
)
from ragmetrics_core.capture.question import Turn
from ragmetrics_core.capture.showings import Showings
from ragmetrics_core.capture.tree import FLOW, Answer, Node, Tree

_UNLIKE = (
    "no reply equals the answer; it is taken to rest on the last call that wrote a text"
)
_SEVERAL_TEXTS = (
    "the outputs hold several texts of models; the last that was shown documents, else"
    " the question, is taken"
)
_SEVERAL_CALLS = "several calls may have answered; {} is taken"
_MAY_BE_A_VERDICT = "the answer may be a verdict"
_WRITTEN_ON = (
    "a later call wrote on the answer, and its text is in the outputs too; what the"
    " framework gives is taken"
)
_JUDGED = "the output is a verdict, or further questions; the text behind it is taken"
_LEFT_EMPTY = "the model left the field of the answer empty: there is no answer"
_NOTHING = "no answer was found in the outputs"
# a text that a later call made of the answer is at least so long; a title is shorter
_ALIKE = 0.5


@dataclass(frozen=True, eq=False)
class Answered:
    """One answer of a turn: the result of stage 2.

    Attributes:
        answer: What was said.
        call: The call of a model that wrote it; None if none did, or none is known.
        doubts: What is uncertain about that call, in words.
    """

    answer: Answer
    call: Node | None = None
    doubts: tuple[str, ...] = ()

    @property
    def text(self) -> str | None:
        """The answer; None if there is none."""
        return self.answer.text

    @property
    def model(self) -> str | None:
        """The name of the model that wrote it."""
        return self.answer.model or (self.call.model if self.call is not None else None)


def answers(turn: Turn, showings: Showings) -> tuple[Answered, ...]:
    """The answers of a turn, by the first rule that finds any.

    Args:
        turn: The turn.
        showings: What its calls were shown: an answer rests on a call that was shown
            documents.
    """
    search = _Search(turn, showings)
    tried = (rule(search) for rule in ANSWER_RULES)
    by_first_rule = next(answered for answered in tried if answered)
    return tuple(_drop_empty_field(answered) for answered in by_first_rule)


def _drop_empty_field(answered: Answered) -> Answered:
    """An answer as it is; without text if its field for the answer is empty."""
    text = answered.text
    if text is None or (text.strip() and not has_no_answer(parse_json(text))):
        return answered
    none_given = replace(answered.answer, text=None)
    return Answered(none_given, answered.call, (_LEFT_EMPTY,))


@dataclass(frozen=True, eq=False)
class _Search:
    """What the rules of the answer look at.

    Attributes:
        turn: The turn.
        showings: What its calls were shown.
    """

    turn: Turn
    showings: Showings

    @property
    def tree(self) -> Tree:
        return self.turn.tree

    @property
    def calls(self) -> Calls:
        return self.turn.calls

    @cached_property
    def held(self) -> list[Node]:
        """Calls whose text, or structure, is in the output."""
        texts = {as_one_line(text) for text in texts_in(self.tree.output)} - {""}
        structures = _structures_in(self.tree.output)
        replies = self.calls.replies
        candidates = [call for call, weight in self.calls.weights.items() if weight]
        return [
            call
            for call in candidates
            if replies[call].line in texts
            or any(value in structures for value in replies[call].values)
        ]

    @cached_property
    def asked(self) -> list[Node]:
        """Calls that look like answering and were shown the question."""
        return self.calls.filter_by_question(self.turn.question, self.calls.likely)

    def last_that_is_read_by(self, reader: Node) -> Node | None:
        """The last call whose answer a later call was shown; None if there is none.

        Both are of the same agent's loop. Some replies do not count: labels and
        verdicts, those that were shown as the result of a tool, and those of calls
        beside the later one that answer from the same documents.
        """
        paths, replies = self.calls.paths, self.calls.replies
        tools = tools_of(paths[reader])
        host = self.calls.step_with_documents(reader)
        prompt = "\n".join(
            as_one_line(message.text)
            for message in reader.prompt
            if message.role != "tool"
        )
        for call in reversed(self.calls.models):
            # both answer from the documents of one step
            is_beside = host is not None and host in paths[call]
            if (
                end_of(call) > reader.began
                or is_beside
                or tools_of(paths[call]) != tools
            ):
                continue
            if self.calls.weights[call] >= STRUCTURED and replies[call].line in prompt:
                return call
        return None

    def with_documents_shown(self, calls: Sequence[Node]) -> list[Node]:
        """Those of some calls that were shown documents."""
        return [call for call in calls if self.showings.shown_to(call).found]


# What the answer is


def by_the_users_place(search: _Search) -> tuple[Answered, ...]:
    """The place that ``answer_from=`` names.

    HaileyTQuach/docchat-docling, agents/workflow.py: the answer is a draft in the
    state, written by a model that the framework does not see.
    """
    if "answer" not in search.turn.named:
        return ()
    text = answer_text(search.turn.named["answer"])
    return (_with_its_call(search, Answer(text, "answer_from")),)


def by_documents_alone(search: _Search) -> tuple[Answered, ...]:
    """None, of a run that gives documents and nothing else.

    deepset-ai/haystack-cookbook,
    notebooks/improve-retrieval-by-embedding-metadata.ipynb: pipelines that only search.
    """
    gives_documents = (
        search.tree.gives_documents or search.tree.root.kind == "retriever"
    )
    return (Answered(Answer(None)),) if gives_documents else ()


def by_a_broken_run(search: _Search) -> tuple[Answered, ...]:
    """None, of a run that failed or was left: what the last call had been shown until then counts.

    deepset-ai/haystack, docs-website/docs/concepts/pipelines/pipeline-breakpoints.mdx:
    a run that fails leaves a snapshot to go on from.
    """
    tree = search.tree
    is_whole = search.turn.error is None and (tree.complete or bool(tree.answers))
    return () if is_whole else (Answered(Answer(None), search.calls.last_prompted),)


def by_the_framework(search: _Search) -> tuple[Answered, ...]:
    """The answers that the framework gives, each with the call that wrote it.

    deepset-ai/haystack-tutorials, tutorials/35_Evaluating_RAG_Pipelines.ipynb:
    ``AnswerBuilder`` gives an answer object.
    """
    return tuple(_with_its_call(search, answer) for answer in search.tree.answers)


def by_the_output(search: _Search) -> tuple[Answered, ...]:
    """A model's text that stands in the output: of several the last that was shown documents, else the question.

    lalashiwoya/Chatbot_Design_with_LangGraph, api/nodes/retrieve.py: the state keeps a
    list of generations.
    """
    in_output = search.held
    if not in_output:
        return ()
    calls = search.calls
    lines = {calls.replies[call].line for call in in_output}
    texts_of_models = sum(
        as_one_line(text) in lines for text in texts_in(search.tree.output)
    )
    several = len(in_output) > 1 and texts_of_models > 1
    based = search.with_documents_shown(in_output) if several else []
    call = sorted(
        in_output,
        key=lambda call: (call in based, call in search.asked, call in calls.likely),
    )[-1]
    answer = Answer(
        calls.replies[call].answer, "a model call whose text occurs in the outputs"
    )
    if several and not (
        based == in_output[-1:]
        and calls.filter_by_question(search.turn.question, based)
    ):
        return (Answered(answer, call, (_SEVERAL_TEXTS,)),)
    return (_name_call_of_answer(search, answer, call),)


def by_the_last_reply(search: _Search) -> tuple[Answered, ...]:
    """The last text that a model wrote, of those that were shown the question if there are such.

    chziakas/Icarus, rag_openai.py: what the model wrote is printed, and no framework
    hands it on.
    """
    likely = search.calls.likely
    if not likely:
        return ()
    call = [*likely, *search.asked][-1]
    answer = Answer(
        search.calls.replies[call].answer, f"the last text that {call.name} wrote"
    )
    return (_name_call_of_answer(search, answer, call, is_stated=False),)


def by_nothing(search: _Search) -> tuple[Answered, ...]:
    """No answer, and that is said.

    deepset-ai/haystack, docs-website/docs/pipeline-components/agents-1/agent.mdx: an
    agent that runs out of steps.
    """
    del search
    return (Answered(Answer(None, "nothing in the outputs"), doubts=(_NOTHING,)),)


ANSWER_RULES: tuple[Callable[[_Search], tuple[Answered, ...]], ...] = (
    by_the_users_place,
    by_documents_alone,
    by_a_broken_run,
    by_the_framework,
    by_the_output,
    by_the_last_reply,
    by_nothing,
)


# Which call wrote it


@dataclass(frozen=True, eq=False)
class _Attribution:
    """An answer of the framework whose writer is looked for.

    Attributes:
        search: What the rules look at.
        answer: The answer.
    """

    search: _Search
    answer: Answer

    @cached_property
    def lines(self) -> frozenset[str]:
        """The answer, and the replies that it was built from, as they are compared."""
        texts = (self.answer.text, *self.answer.replies)
        return frozenset(map(as_one_line, texts)) - {""}

    @property
    def latest(self) -> list[Node]:
        """Calls of models that replied, the last first."""
        return self.search.calls.models[::-1]

    def by(self, calls: Sequence[Node]) -> Answered | None:
        """The answer as written by the first of some calls; None if there is none."""
        return (
            _name_call_of_answer(self.search, self.answer, calls[0]) if calls else None
        )


def by_nobody(attribution: _Attribution) -> Answered | None:
    """A text that was cut out of a document, or an empty answer: no model wrote it.

    deepset-ai/haystack-tutorials, tutorials/34_Extractive_QA_Pipeline.ipynb: a reader
    marks a passage.
    """
    answer = attribution.answer
    return Answered(answer) if answer.extracted or answer.text is None else None


def by_the_text_behind_a_verdict(attribution: _Attribution) -> Answered | None:
    """The text that is judged, where a verdict on it, or a list of further questions, stands for the answer.

    A run that ends in a verdict on its answer, or in further questions: no public
    application is known that does. One question alone is an answer: it asks back.
    """
    search = attribution.search
    replies = search.calls.replies
    named = attribution.answer.call
    writers = (
        [named]
        if named is not None
        else [
            call
            for call in attribution.latest
            if replies[call].line in attribution.lines
        ]
    )
    if not writers:
        return None
    reply = replies[writers[0]]
    if not (reply.is_verdict or len(reply.questions) > 1):
        return None
    judged = search.last_that_is_read_by(writers[0])
    if judged is None:
        return None
    answer = Answer(
        replies[judged].answer, f"what {judged.name} wrote, behind a verdict on it"
    )
    is_sure = judged in search.held or (
        (reply.is_verdict or reply.lists_questions)
        and bool(search.with_documents_shown([judged]))
    )
    return Answered(answer, judged, () if is_sure else (_JUDGED,))


def by_no_query(attribution: _Attribution) -> Answered | None:
    """None, where the answer's text is a query that was searched for later, and its writer had seen no document.

    A step that returns the query it wrote beside what it found: no public application
    is known that does.
    """
    search = attribution.search
    replies = search.calls.replies
    writers = [
        call for call in attribution.latest if replies[call].line in attribution.lines
    ]
    is_query = bool(writers) and all(
        call in search.calls.query_writers for call in writers
    )
    if not is_query or search.with_documents_shown(writers):
        return None
    return next(iter((*by_the_last_reply(search), *by_nothing(search))))


def by_identity(attribution: _Attribution) -> Answered | None:
    """The call that the framework names.

    deepset-ai/haystack-cookbook, notebooks/query_decomposition.ipynb: of several
    components with replies, the last one.
    """
    return (
        attribution.by([attribution.answer.call])
        if attribution.answer.call is not None
        else None
    )


def by_an_equal_reply(attribution: _Attribution) -> Answered | None:
    """The last call whose reply is the answer, but for white space.

    langchain-ai/rag-from-scratch, rag_from_scratch_1_to_4.ipynb: a parser hands the
    model's text on.
    """
    calls = attribution.search.calls
    equal = [
        call
        for call in attribution.latest
        if calls.replies[call].line in attribution.lines
    ]
    # an agent that repeats, behind a label, what a model inside its tool wrote
    agents = [
        call
        for call in _with_a_labelled_part(attribution)
        if equal and _is_inside_a_tool_of(equal[0], call, calls)
    ]
    return attribution.by([*agents, *equal])


def _is_inside_a_tool_of(call: Node, reader: Node, calls: Calls) -> bool:
    """Whether a call was made inside a tool whose result a later one was shown."""
    around = tools_of(calls.paths[reader])
    tools = tools_of(calls.paths[call])
    is_inside = len(tools) > len(around) and tools[: len(around)] == around
    return is_inside and end_of(call) <= reader.began


def by_a_structured_reply(attribution: _Attribution) -> Answered | None:
    """The last call whose structured reply is the answer, or has it as a field.

    langchain-ai/langchain, docs/docs/how_to/qa_citations.ipynb: the answer stands in
    the arguments of a call.
    """
    replies = attribution.search.calls.replies
    value = parse_json(attribution.answer.text or "")

    def fits(call: Node) -> bool:
        is_a_value = value is not None and value in replies[call].values
        return is_a_value or not attribution.lines.isdisjoint(replies[call].fields)

    return attribution.by([call for call in attribution.latest if fits(call)])


def by_a_labelled_part(attribution: _Attribution) -> Answered | None:
    """The last call of whose reply a parser kept what stands between its labels.

    run-llama/llama_index, docs/examples/agent/react_agent_with_query_engine.ipynb:
    "Thought: … Answer: …".
    """
    return attribution.by(_with_a_labelled_part(attribution))


def _with_a_labelled_part(attribution: _Attribution) -> list[Node]:
    """Calls of whose reply the answer is what stands between labels, or all of it.

    The last call stands first.
    """
    replies = attribution.search.calls.replies
    return [
        call for call in attribution.latest if attribution.lines & replies[call].parts
    ]


def by_a_part_of_a_reply(attribution: _Attribution) -> Answered | None:
    """The one call of whose reply a parser kept a part, where the part is too long to stand there by chance.

    ray_haystack, ReAct pipeline: what stands in "Action: finish[…]".
    """
    replies = attribution.search.calls.replies
    part = as_one_line(attribution.answer.text)
    is_long = len(stream(part)) >= SHORTEST
    holding = [
        call for call in attribution.latest if is_long and part in replies[call].line
    ]
    return attribution.by(holding) if len(holding) == 1 else None


def by_a_text_behind_a_status(attribution: _Attribution) -> Answered | None:
    """Where the last message is a status line that no model wrote: the text of a model beside it in the output.

    sajal2692/llm_tutorials, blog_posts/adaptive_agenic_rag/adaptive_agentic_rag.ipynb:
    the last message is a status, no answer.
    """
    search = attribution.search
    is_status = is_message(search.tree.output, attribution.answer.text or "")
    if not is_status or not search.with_documents_shown(search.held):
        return None
    return next(iter(by_the_output(search)))


def by_the_last_likely_call(attribution: _Attribution) -> Answered:
    """The last call that wrote a text, inferred: a step changed what it said.

    samwiserr/volverag, advanced_rag/src/graph/generation/answer.py: what a tool found
    is answered without a model.
    """
    likely = attribution.search.calls.likely
    if not likely:
        return Answered(attribution.answer)
    return Answered(attribution.answer, likely[-1], (_UNLIKE,))


CALL_RULES: tuple[Callable[[_Attribution], Answered | None], ...] = (
    by_nobody,
    by_the_text_behind_a_verdict,
    by_no_query,
    by_identity,
    by_an_equal_reply,
    by_a_structured_reply,
    by_a_labelled_part,
    by_a_part_of_a_reply,
    by_a_text_behind_a_status,
    by_the_last_likely_call,
)


def _is_written_on(search: _Search, call: Node) -> bool:
    """Whether a later call made another text of a reply, which is in the output.

    An example is a post that is written of a summary.
    """
    replies = search.calls.replies
    least = _ALIKE * len(replies[call].text)
    later = [
        later_call
        for later_call in search.held
        if later_call.began >= end_of(call) and len(replies[later_call].text) >= least
    ]
    return any(
        search.calls.weights[later_call] == FREE_TEXT
        and search.last_that_is_read_by(later_call) is call
        for later_call in later
        if replies[later_call].line != replies[call].line
        and not replies[later_call].questions
    )


def _may_judge(calls: Calls, call: Node) -> bool:
    """Whether a reply is one word or number, or a structure without a field for an answer."""
    text = calls.replies[call].text
    return len(text.split()) == 1 or _is_a_list_or_grade(calls, call)


def _is_a_list_or_grade(calls: Calls, call: Node) -> bool:
    """Whether a reply is a structure without a field for an answer."""
    # the outer one of nested calls has no weight of its own
    weight = calls.weights.get(call, FREE_TEXT)
    return weight <= LABEL and calls.replies[call].values != ()


def _doubts_of_stated(search: _Search, call: Node) -> tuple[str, ...]:
    """What is uncertain about an answer that the framework gives, and whose call is known."""
    if _is_written_on(search, call):
        return (_WRITTEN_ON,)
    if _may_judge(search.calls, call):
        judged = search.last_that_is_read_by(call)
        if judged is not None and search.with_documents_shown([judged]):
            return (_MAY_BE_A_VERDICT,)
    return ()


def _structures_in(value: object) -> list[Mapping[str, Any]]:
    """Mappings in a value, those inside of others included."""
    structures: list[Mapping[str, Any]] = []
    waiting = [value]
    while waiting:
        current = waiting.pop()
        if isinstance(current, Mapping):
            structures.append(current)
            waiting += current.values()
        elif isinstance(current, (list, tuple)):
            waiting += current
    return structures


def _with_its_call(search: _Search, answer: Answer) -> Answered:
    """An answer with the call that wrote it, by the first rule that finds one."""
    attribution = _Attribution(search, answer)
    tried = (rule(attribution) for rule in CALL_RULES)
    return next(answered for answered in tried if answered is not None)


def _name_call_of_answer(
    search: _Search, answer: Answer, call: Node, *, is_stated: bool = True
) -> Answered:
    """An answer with the call that wrote it, and with doubts where that may be another.

    Where the framework states the call, only signs that the text is no answer raise
    doubts. Otherwise any other likely call raises one, unless this call used its
    answer. A call that was not shown the question used none that counts: its text may
    be a title.

    Args:
        search: What the rules look at.
        answer: The answer.
        call: The call.
        is_stated: Whether the framework gives this answer.
    """
    if is_stated and search.tree.root.name != FLOW:
        return Answered(answer, call, _doubts_of_stated(search, call))
    replies = search.calls.replies
    if replies[call].is_verdict or _is_a_list_or_grade(search.calls, call):
        return Answered(answer, call, (_MAY_BE_A_VERDICT,))
    was_asked = call in search.asked
    used = search.showings.shown_to(call).calls if was_asked else (call,)
    said_lines = {as_one_line(replies[used_call].answer) for used_call in used}
    other_calls = [
        call
        for call in search.calls.likely
        if as_one_line(replies[call].answer) not in said_lines
    ]
    if not other_calls:
        return Answered(answer, call)
    which = "the last that was shown the question" if was_asked else "the last one"
    return Answered(answer, call, (_SEVERAL_CALLS.format(which),))
