"""Stage 2: what was answered, and which call of a model answered. Pure.

``ANSWER_RULES`` say what the answer is, ``CALL_RULES`` which call wrote an answer that
the framework gives. Both are tried in order; the first that finds something decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ragmetrics_core.capture.calls import (
    FREE_TEXT,
    LABEL,
    NO_ANSWER,
    Calls,
    Reply,
    began_after,
    form_of_structure,
)
from ragmetrics_core.capture.normalized_text import normalize_text
from ragmetrics_core.capture.order import tools_of
from ragmetrics_core.capture.passages import SHORTEST
from ragmetrics_core.capture.plain_values import (
    answer_text,
    as_one_line,
    compact,
    has_no_answer,
    is_message,
    parse_json,
    texts_in,
)
from ragmetrics_core.capture.prompt_contents import PromptContents
from ragmetrics_core.capture.question import Turn
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
# a text that a later call made of the answer has at least this share of its length; a
# title is shorter
_SHORTEST_REWRITE = 0.5


@dataclass(frozen=True, eq=False)
class FoundAnswer:
    """One answer of a turn: the result of stage 2.

    Attributes:
        answer: What was said.
        writing_call: The call of a model that wrote it; None if none did, or none is known.
        doubts: What is uncertain about that call, in words.
    """

    answer: Answer
    writing_call: Node | None = None
    doubts: tuple[str, ...] = ()

    @property
    def text(self) -> str | None:
        """The answer; None if there is none."""
        return self.answer.text

    @property
    def model(self) -> str | None:
        """The name of the model that wrote it; None if that is unknown."""
        if self.answer.model or self.writing_call is None:
            return self.answer.model
        return self.writing_call.model


def answers(turn: Turn, prompt_contents: PromptContents) -> tuple[FoundAnswer, ...]:
    """The answers of a turn, by the first rule that finds any.

    Args:
        turn: The turn.
        prompt_contents: What its calls were shown: an answer rests on a call that was shown
            documents.
    """
    turn_and_prompts = _TurnAndPrompts(turn, prompt_contents)
    # the last rule always gives one
    results = (rule(turn_and_prompts) for rule in ANSWER_RULES)
    by_first_rule = next(answered for answered in results if answered)
    return tuple(_without_empty_text(answered) for answered in by_first_rule)


def _without_empty_text(answered: FoundAnswer) -> FoundAnswer:
    """An answer as it is; without text if it is blank or its field for the answer is empty."""
    text = answered.text
    if text is None:
        return answered
    is_empty = not text.strip() or has_no_answer(parse_json(text))
    if not is_empty:
        return answered
    no_answer = replace(answered.answer, text=None)
    return FoundAnswer(no_answer, answered.writing_call, (_LEFT_EMPTY,))


@dataclass(frozen=True, eq=False)
class _TurnAndPrompts:
    """A turn, and what the prompts of its calls show.

    Attributes:
        turn: The turn.
        prompt_contents: What its calls were shown.
    """

    turn: Turn
    prompt_contents: PromptContents

    @property
    def tree(self) -> Tree:
        """The run of the turn."""
        return self.turn.tree

    @property
    def calls(self) -> Calls:
        """The calls of the turn."""
        return self.turn.calls

    @cached_property
    def calls_in_output(self) -> list[Node]:
        """Calls whose text, or structure, is in the output."""
        return [
            call
            for call, form in self.calls.reply_forms.items()
            if form != NO_ANSWER and self._is_in_output(self.calls.replies[call])
        ]

    def _is_in_output(self, reply: Reply) -> bool:
        """Whether a reply's text, or a structure that it wrote, is in the output."""
        if reply.line and reply.line in self._output_lines:
            return True
        return any(value in self._output_structures for value in reply.values)

    @cached_property
    def _output_lines(self) -> Counter[str]:
        """The texts of the output, each in one line, with how often each stands in it."""
        return Counter(as_one_line(text) for text in texts_in(self.tree.output))

    @cached_property
    def _output_structures(self) -> list[Mapping[str, Any]]:
        """The mappings in the output."""
        return _structures_in(self.tree.output)

    @cached_property
    def has_several_texts(self) -> bool:
        """Whether the output holds several texts that different model calls wrote."""
        if len(self.calls_in_output) < 2:
            return False
        replies = self.calls.replies
        reply_lines = {replies[call].line for call in self.calls_in_output}
        n_model_texts = sum(self._output_lines[line] for line in reply_lines)
        return n_model_texts > 1

    @cached_property
    def calls_in_output_with_documents(self) -> list[Node]:
        """Calls whose text is in the output and that were shown documents."""
        return self.with_documents_shown(self.calls_in_output)

    @cached_property
    def likely_calls_shown_question(self) -> list[Node]:
        """Calls that look like answering and were shown the question."""
        likely_calls = self.calls.likely_answer_calls
        return self.calls.filter_by_question(self.turn.question, likely_calls)

    def last_answer_shown_to(self, reader: Node) -> Node | None:
        """Find the last earlier model call whose answer stands in a reader's prompt.

        A reply such as "relevant" is no answer. None if there is no such call.
        """
        prompt = _prompt_without_tools(reader)
        for call in reversed(self.calls.models):
            if not began_after(reader, call) or not self.calls.looks_like_answer(call):
                continue
            is_shown = self.calls.replies[call].line in prompt
            if is_shown and self._may_answer_to(reader, call):
                return call
        return None

    def _may_answer_to(self, reader: Node, call: Node) -> bool:
        """Whether an earlier call's reply may be an answer that a reader was shown.

        A reply inside a tool answers to that tool. A reply inside the reader's own
        synthesizer is a draft of what the reader wrote.
        """
        paths = self.calls.paths
        synthesizer = self.calls.step_with_documents(reader)
        is_draft = synthesizer is not None and synthesizer in paths[call]
        return not is_draft and tools_of(paths[call]) == tools_of(paths[reader])

    def with_documents_shown(self, calls: Sequence[Node]) -> list[Node]:
        """Those of some calls that were shown documents."""
        return [
            call
            for call in calls
            if self.prompt_contents.shown_to(call).shown_documents
        ]


def _prompt_without_tools(reader: Node) -> str:
    """Return a call's prompt, each message in a line, without the results of tools."""
    lines = []
    for message in reader.prompt:
        if message.role != "tool":
            lines.append(as_one_line(message.text))
    return "\n".join(lines)


# What the answer is


def by_the_users_place(turn_and_prompts: _TurnAndPrompts) -> tuple[FoundAnswer, ...]:
    """The place that ``answer_from=`` names.

    Seen in HaileyTQuach/docchat-docling, agents/workflow.py: the answer is a draft in
    the state, written by a model that the framework does not see.
    """
    if "answer" not in turn_and_prompts.turn.named:
        return ()
    text = answer_text(turn_and_prompts.turn.named["answer"])
    return (_with_its_call(turn_and_prompts, Answer(text, "answer_from")),)


def by_documents_alone(turn_and_prompts: _TurnAndPrompts) -> tuple[FoundAnswer, ...]:
    """None, of a run that gives documents and nothing else.

    Seen in deepset-ai/haystack-cookbook,
    notebooks/improve-retrieval-by-embedding-metadata.ipynb: pipelines that only search.
    """
    gives_documents = (
        turn_and_prompts.tree.gives_only_documents
        or turn_and_prompts.tree.root.kind == "retriever"
    )
    if not gives_documents:
        return ()
    return (FoundAnswer(Answer(None)),)


def by_a_broken_run(turn_and_prompts: _TurnAndPrompts) -> tuple[FoundAnswer, ...]:
    """None, of a run that failed or was left: what the last call had been shown until then counts.

    Seen in deepset-ai/haystack,
    docs-website/docs/concepts/pipelines/pipeline-breakpoints.mdx: a run that fails
    leaves a snapshot to go on from.
    """
    tree = turn_and_prompts.tree
    has_answer = tree.is_complete or bool(tree.answers)
    if has_answer and turn_and_prompts.turn.error is None:
        return ()
    return (FoundAnswer(Answer(None), turn_and_prompts.calls.last_prompted),)


def by_the_framework(turn_and_prompts: _TurnAndPrompts) -> tuple[FoundAnswer, ...]:
    """The answers that the framework gives, each with the call that wrote it.

    Seen in deepset-ai/haystack-tutorials, tutorials/35_Evaluating_RAG_Pipelines.ipynb:
    ``AnswerBuilder`` gives an answer object.
    """
    return tuple(
        _with_its_call(turn_and_prompts, answer)
        for answer in turn_and_prompts.tree.answers
    )


def by_the_output(turn_and_prompts: _TurnAndPrompts) -> tuple[FoundAnswer, ...]:
    """A model's text that stands in the output.

    Seen in lalashiwoya/Chatbot_Design_with_LangGraph, api/nodes/retrieve.py: the state
    keeps a list of generations.

    Of several texts the best is taken, with a doubt if another may be the answer.
    """
    if not turn_and_prompts.calls_in_output:
        return ()
    call = _best_call_in_output(turn_and_prompts)
    place = "a model call whose text occurs in the outputs"
    answer = Answer(turn_and_prompts.calls.replies[call].answer, place)
    if turn_and_prompts.has_several_texts and not _is_last_alone_with_documents(
        turn_and_prompts
    ):
        return (FoundAnswer(answer, call, (_SEVERAL_TEXTS,)),)
    return (_with_doubts(turn_and_prompts, answer, call),)


def _best_call_in_output(turn_and_prompts: _TurnAndPrompts) -> Node:
    """Return the call whose text in the output is most likely the answer.

    Of several texts, one whose call was shown documents goes first, then one whose call
    was shown the question, then one that looks like an answer, then the last. Example:
    of a draft "In 1874." and a grade "yes" in the output, the draft was written from
    documents: it is returned.
    """
    calls_with_documents: Sequence[Node] = ()
    if turn_and_prompts.has_several_texts:
        calls_with_documents = turn_and_prompts.calls_in_output_with_documents

    def preference(call: Node) -> tuple[bool, bool, bool]:
        has_documents = call in calls_with_documents
        has_question = call in turn_and_prompts.likely_calls_shown_question
        return (
            has_documents,
            has_question,
            call in turn_and_prompts.calls.likely_answer_calls,
        )

    latest_first = reversed(turn_and_prompts.calls_in_output)
    return max(latest_first, key=preference)


def _is_last_alone_with_documents(turn_and_prompts: _TurnAndPrompts) -> bool:
    """Whether of the calls in the output the last alone was shown documents.

    It must have been shown the question as well.
    """
    last_call = turn_and_prompts.calls_in_output[-1]
    if turn_and_prompts.calls_in_output_with_documents != [last_call]:
        return False
    return bool(
        turn_and_prompts.calls.filter_by_question(
            turn_and_prompts.turn.question, [last_call]
        )
    )


def by_the_last_reply(turn_and_prompts: _TurnAndPrompts) -> tuple[FoundAnswer, ...]:
    """The last text that a model wrote; calls whose prompts hold the question go first.

    Seen in chziakas/Icarus, rag_openai.py: what the model wrote is printed, and no
    framework hands it on.
    """
    likely = turn_and_prompts.calls.likely_answer_calls
    if not likely:
        return ()
    candidates = turn_and_prompts.likely_calls_shown_question or likely
    call = candidates[-1]
    text = turn_and_prompts.calls.replies[call].answer
    answer = Answer(text, f"the last text that {call.name} wrote")
    return (_with_doubts(turn_and_prompts, answer, call, is_stated=False),)


def by_a_structure_that_is_the_output(
    turn_and_prompts: _TurnAndPrompts,
) -> tuple[FoundAnswer, ...]:
    """The mapping that a model wrote, if the run returned just this mapping.

    Seen in langchain-ai/langchain, docs/docs/how_to/output_parser_json.ipynb: a parser
    makes a mapping of the reply, and the chain returns it.

    Here even a decision such as ``{"route": "search"}`` is an answer.
    """
    for call in reversed(turn_and_prompts.calls.models):
        if call in turn_and_prompts.calls.query_writers:
            continue  # what it wrote was searched for, and is no answer
        mapping = _mapping_returned(turn_and_prompts, call)
        if mapping is not None:
            answer = Answer(compact(mapping), "the structure that the run returned")
            return (_with_doubts(turn_and_prompts, answer, call),)
    return ()


def _mapping_returned(
    turn_and_prompts: _TurnAndPrompts, call: Node
) -> Mapping[str, Any] | None:
    """Return the mapping that a call wrote, if it is the output or a value of the output."""
    output = turn_and_prompts.tree.output
    returned = [output, *output.values()] if isinstance(output, Mapping) else [output]
    for value in turn_and_prompts.calls.replies[call].values:
        if isinstance(value, Mapping) and value in returned:
            return value
    return None


def by_nothing(turn_and_prompts: _TurnAndPrompts) -> tuple[FoundAnswer, ...]:
    """No answer, and that is said.

    Seen in deepset-ai/haystack,
    docs-website/docs/pipeline-components/agents-1/agent.mdx: an agent that runs out of
    steps.
    """
    del turn_and_prompts
    return (FoundAnswer(Answer(None, "nothing in the outputs"), doubts=(_NOTHING,)),)


ANSWER_RULES: tuple[Callable[[_TurnAndPrompts], tuple[FoundAnswer, ...]], ...] = (
    by_the_users_place,
    by_documents_alone,
    by_a_broken_run,
    by_the_framework,
    by_the_output,
    by_the_last_reply,
    by_a_structure_that_is_the_output,
    by_nothing,
)


# Which call wrote it


@dataclass(frozen=True, eq=False)
class _Attribution:
    """An answer of the framework whose writer is looked for.

    Attributes:
        turn_and_prompts: The turn, and what its calls were shown.
        answer: The answer.
    """

    turn_and_prompts: _TurnAndPrompts
    answer: Answer

    @cached_property
    def lines(self) -> frozenset[str]:
        """The answer, and the replies that it was built from, as they are compared."""
        texts = (self.answer.text, *self.answer.replies)
        lines = {as_one_line(text) for text in texts}
        return frozenset(lines - {""})

    @property
    def last_writer(self) -> Node | None:
        """The call that the framework names, else the last that replied this text."""
        if self.answer.writing_call is not None:
            return self.answer.writing_call
        return next(iter(self.calls_of_equal_text), None)

    @property
    def latest_first(self) -> list[Node]:
        """Calls of models that replied, the last first."""
        return self.turn_and_prompts.calls.models[::-1]

    @cached_property
    def calls_of_equal_text(self) -> list[Node]:
        """Calls whose reply is the answer, apart from white space; the last first."""
        replies = self.turn_and_prompts.calls.replies
        return [call for call in self.latest_first if replies[call].line in self.lines]

    @cached_property
    def structure(self) -> object:
        """The answer as JSON; None if it is no JSON."""
        return parse_json(self.answer.text or "")

    def is_said_in(self, reply: Reply) -> bool:
        """Whether the answer is all of a reply, a field of it, or stands there apart.

        Apart is what stands behind a label such as "Final Answer:" or "SOURCES:".
        """
        if self.structure is not None and self.structure in reply.values:
            return True
        texts_of_reply = {reply.line} | reply.fields | reply.parts
        return not self.lines.isdisjoint(texts_of_reply)

    def written_by_first(self, calls: Sequence[Node]) -> FoundAnswer | None:
        """The answer as written by the first of some calls; None without calls."""
        if not calls:
            return None
        return _with_doubts(self.turn_and_prompts, self.answer, calls[0])


def by_nobody(attribution: _Attribution) -> FoundAnswer | None:
    """A text that was cut out of a document, or an empty answer: no model wrote it.

    Seen in deepset-ai/haystack-tutorials, tutorials/34_Extractive_QA_Pipeline.ipynb: a
    reader marks a passage.
    """
    answer = attribution.answer
    if answer.text is not None and not answer.is_extracted:
        return None
    return FoundAnswer(answer)


def by_the_text_behind_a_verdict(attribution: _Attribution) -> FoundAnswer | None:
    """The earlier reply, where the last call only judged it or asked further questions.

    A run that ends in a verdict on its answer, or in further questions: this rule is
    kept for safety, since we know no public application that ends so.

    Example: one call writes "It opened in 1874."; the last call is shown this and
    writes "yes", or the further questions ["Who built it?", "Where is it?"]. The answer
    is "It opened in 1874."

    None if the last reply is neither a verdict nor a list of questions, or if the last
    call was shown no answer.
    """
    turn_and_prompts = attribution.turn_and_prompts
    last_writer = attribution.last_writer
    if last_writer is None:
        return None
    reply = turn_and_prompts.calls.replies[last_writer]
    is_answer_itself = not reply.is_verdict and not _has_further_questions(reply)
    if is_answer_itself:
        return None
    # the call that wrote "It opened in 1874."
    judged_call = turn_and_prompts.last_answer_shown_to(last_writer)
    if judged_call is None:
        return None
    place = f"what {judged_call.name} wrote, behind a verdict on it"
    answer = Answer(turn_and_prompts.calls.replies[judged_call].answer, place)
    if _is_surely_judged(turn_and_prompts, judged_call, reply):
        return FoundAnswer(answer, judged_call)
    # the user may have read "yes": the sample says that its answer is a guess
    return FoundAnswer(answer, judged_call, (_JUDGED,))


def _has_further_questions(reply: Reply) -> bool:
    """Whether a reply is several questions; a single one may ask the user back."""
    return len(reply.questions) > 1


def _is_surely_judged(
    turn_and_prompts: _TurnAndPrompts, judged_call: Node, judgement: Reply
) -> bool:
    """Whether the text of a judged call, and not the judgement of it, is the answer.

    It is if its text is in the output too, or if it was shown documents and the
    judgement is a verdict or a numbered list of questions.
    """
    if judged_call in turn_and_prompts.calls_in_output:
        return True
    is_no_answer = judgement.is_verdict or judgement.lists_questions
    return is_no_answer and bool(turn_and_prompts.with_documents_shown([judged_call]))


def by_no_query(attribution: _Attribution) -> FoundAnswer | None:
    """None, where the answer's text is a query that was searched for later, and its writer had seen no document.

    A step that returns the query it wrote beside what it found: no public application
    is known that does.
    """
    turn_and_prompts = attribution.turn_and_prompts
    writers = attribution.calls_of_equal_text
    if not writers or not turn_and_prompts.calls.query_writers.issuperset(writers):
        return None
    if turn_and_prompts.with_documents_shown(writers):
        return None
    answers_of_calls = by_the_last_reply(turn_and_prompts) or by_nothing(
        turn_and_prompts
    )
    return answers_of_calls[0]


def by_identity(attribution: _Attribution) -> FoundAnswer | None:
    """The call that the framework names.

    Seen in deepset-ai/haystack-cookbook, notebooks/query_decomposition.ipynb: of
    several components with replies, the last one.
    """
    call = attribution.answer.writing_call
    if call is None:
        return None
    return attribution.written_by_first([call])


def by_a_reply(attribution: _Attribution) -> FoundAnswer | None:
    """The last call whose reply is the answer, or holds it as a field or behind a label.

    Seen in langchain-ai/rag-from-scratch, rag_from_scratch_1_to_4.ipynb: a parser hands
    the model's text on.
    """
    for call in attribution.latest_first:
        if attribution.is_said_in(attribution.turn_and_prompts.calls.replies[call]):
            return attribution.written_by_first([call])
    return None


def by_a_part_of_a_reply(attribution: _Attribution) -> FoundAnswer | None:
    """The one call whose reply holds the answer as a part, where the part is too long to stand there by chance.

    ray_haystack, ReAct pipeline: what stands in "Action: finish[…]".
    """
    replies = attribution.turn_and_prompts.calls.replies
    part = as_one_line(attribution.answer.text)
    if len(normalize_text(part)) < SHORTEST:
        return None
    holders = [call for call in attribution.latest_first if part in replies[call].line]
    if len(holders) != 1:
        return None
    return attribution.written_by_first(holders)


def by_a_text_behind_a_status(attribution: _Attribution) -> FoundAnswer | None:
    """Where the last message is a status line that no model wrote: the text of a model beside it in the output.

    Seen in sajal2692/llm_tutorials,
    blog_posts/adaptive_agenic_rag/adaptive_agentic_rag.ipynb: the last message is a
    status, no answer.
    """
    turn_and_prompts = attribution.turn_and_prompts
    is_status = is_message(turn_and_prompts.tree.output, attribution.answer.text or "")
    if not is_status or not turn_and_prompts.with_documents_shown(
        turn_and_prompts.calls_in_output
    ):
        return None
    return by_the_output(turn_and_prompts)[0]


def by_the_last_likely_call(attribution: _Attribution) -> FoundAnswer:
    """The last call that wrote a text, inferred: a step changed what it said.

    Seen in samwiserr/volverag, advanced_rag/src/graph/generation/answer.py: what a tool
    found is answered without a model.
    """
    likely = attribution.turn_and_prompts.calls.likely_answer_calls
    if not likely:
        return FoundAnswer(attribution.answer)
    return FoundAnswer(attribution.answer, likely[-1], (_UNLIKE,))


CALL_RULES: tuple[Callable[[_Attribution], FoundAnswer | None], ...] = (
    by_nobody,
    by_the_text_behind_a_verdict,
    by_no_query,
    by_identity,
    by_a_reply,
    by_a_part_of_a_reply,
    by_a_text_behind_a_status,
    by_the_last_likely_call,
)


def _is_rewritten_later(turn_and_prompts: _TurnAndPrompts, call: Node) -> bool:
    """Whether a later call made another text of the output out of a call's reply.

    An example is a blog post that a second model writes from a summary.
    """
    return any(
        began_after(later_call, call)
        and _may_rewrite(
            turn_and_prompts, later_call, turn_and_prompts.calls.replies[call]
        )
        and turn_and_prompts.last_answer_shown_to(later_call) is call
        for later_call in turn_and_prompts.calls_in_output
    )


def _may_rewrite(
    turn_and_prompts: _TurnAndPrompts, later_call: Node, earlier: Reply
) -> bool:
    """Whether a later reply is a text that may say an earlier reply anew."""
    later = turn_and_prompts.calls.replies[later_call]
    is_same_text = later.line == earlier.line
    is_title = len(later.text) < _SHORTEST_REWRITE * len(earlier.text)
    if is_same_text or is_title or later.questions:
        return False
    # no verdict on the answer, and no data made of it
    return turn_and_prompts.calls.reply_forms[later_call] == FREE_TEXT


def _may_judge(calls: Calls, call: Node) -> bool:
    """Whether a reply is one word or number, or a structure without a field for an answer."""
    text = calls.replies[call].text
    return len(text.split()) == 1 or _is_a_list_or_grade(calls, call)


def _is_a_list_or_grade(calls: Calls, call: Node) -> bool:
    """Whether a reply is a structure without a field for an answer.

    A reply whose tool ran is no answer by its form, also where that tool only parsed
    the answer. Then the arguments of the tool are looked at.
    """
    reply = calls.replies[call]
    # a call with another call inside it has no form: the inner one is looked at
    form = calls.reply_forms.get(call, FREE_TEXT)
    if reply.tool_calls:
        last_arguments = reply.tool_calls[-1].arguments
        form = max(form, form_of_structure(last_arguments))
    return form <= LABEL and reply.values != ()


def _doubts_of_stated(turn_and_prompts: _TurnAndPrompts, call: Node) -> tuple[str, ...]:
    """What is uncertain about an answer that the framework gives, and whose call is known."""
    if _is_rewritten_later(turn_and_prompts, call):
        return (_WRITTEN_ON,)
    if _may_judge(turn_and_prompts.calls, call):
        judged_call = turn_and_prompts.last_answer_shown_to(call)
        if judged_call is not None and turn_and_prompts.with_documents_shown(
            [judged_call]
        ):
            return (_MAY_BE_A_VERDICT,)
    return ()


def _structures_in(value: object) -> list[Mapping[str, Any]]:
    """List the mappings in a value, also those inside of others.

    Example: ``[{"a": {"b": 1}}]`` has two, ``{"a": {"b": 1}}`` and ``{"b": 1}``.
    """
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


def _with_its_call(turn_and_prompts: _TurnAndPrompts, answer: Answer) -> FoundAnswer:
    """An answer with the call that wrote it, by the first rule that finds one."""
    attribution = _Attribution(turn_and_prompts, answer)
    # the last rule always gives one
    results = (rule(attribution) for rule in CALL_RULES)
    return next(answered for answered in results if answered is not None)


def _with_doubts(
    turn_and_prompts: _TurnAndPrompts,
    answer: Answer,
    call: Node,
    *,
    is_stated: bool = True,
) -> FoundAnswer:
    """Return an answer with the call that wrote it, and what is uncertain in words.

    Example: the last call of some plain functions replied "yes": the answer gets the
    doubt "the answer may be a verdict".

    Args:
        turn_and_prompts: The turn, and what its calls were shown.
        answer: The answer.
        call: The call that wrote it.
        is_stated: Whether the framework itself gives this text as the answer. Then other
            calls raise no doubt, unless one of them rewrote the text.
    """
    # runs of plain functions that were joined have no framework to state the answer
    is_joined = turn_and_prompts.tree.root.name == FLOW
    if is_stated and not is_joined:
        return FoundAnswer(answer, call, _doubts_of_stated(turn_and_prompts, call))
    is_verdict = turn_and_prompts.calls.replies[call].is_verdict
    if is_verdict or _is_a_list_or_grade(turn_and_prompts.calls, call):
        return FoundAnswer(answer, call, (_MAY_BE_A_VERDICT,))
    return FoundAnswer(answer, call, _doubts_of_other_calls(turn_and_prompts, call))


def _doubts_of_other_calls(
    turn_and_prompts: _TurnAndPrompts, call: Node
) -> tuple[str, ...]:
    """Say that other calls may have written the answer, if one replied another text.

    Replies that the call used for its own answer raise no doubt. Example: one call
    wrote "In 1874.", another "In 1879.", and nothing tells which is the answer.
    """
    replies = turn_and_prompts.calls.replies
    used_lines = {
        as_one_line(replies[used_call].answer)
        for used_call in _calls_used_by(turn_and_prompts, call)
    }
    choice = "the last one"
    if call in turn_and_prompts.likely_calls_shown_question:
        choice = "the last that was shown the question"
    for likely_call in turn_and_prompts.calls.likely_answer_calls:
        if as_one_line(replies[likely_call].answer) not in used_lines:
            return (_SEVERAL_CALLS.format(choice),)
    return ()


def _calls_used_by(turn_and_prompts: _TurnAndPrompts, call: Node) -> Sequence[Node]:
    """List a call, and the earlier calls whose replies it used for its own answer.

    A call that was not shown the question used none: it may only have written a title
    for an earlier reply.
    """
    if call not in turn_and_prompts.likely_calls_shown_question:
        return (call,)
    return turn_and_prompts.prompt_contents.shown_to(call).calls
