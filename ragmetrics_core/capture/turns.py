"""Which runs of an application are one turn of the user, and the samples of each turn.

::

    run of the application                  what becomes of it
    a chain that searched and answered      a turn
    a search by itself                      waits for a model that shows what it found
    a model by itself                       one turn with the searches whose texts it shows
    a chain that answers from earlier turns waits for the next run, whose helper it may be
    a graph that stops for a person         waits for the run that resumes it
    any run under ``capture(question=…)``   part of the one turn of the block

Searches wait in the task or thread in which they ran. What waits is bounded in number
and time; then it becomes what it is, a search without an answer.
"""

from __future__ import annotations

import re
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import chain
from operator import attrgetter
from typing import Any, Generic

from ragmetrics_core.capture.calls import Reply, are_made_alike, end_of
from ragmetrics_core.capture.doubts import CAPTURE_EARLIER, Doubt
from ragmetrics_core.capture.forms import SHORTEST, letters_of
from ragmetrics_core.capture.history import history_of_prompts, is_same_history
from ragmetrics_core.capture.hooks import Lock, Problems, Run
from ragmetrics_core.capture.plain_values import Overrides
from ragmetrics_core.capture.question import has_both_speakers
from ragmetrics_core.capture.shown import edges_of, shows, shows_some
from ragmetrics_core.capture.stages import samples_of
from ragmetrics_core.capture.structures import (
    ENDS_OF_QUESTION,
    as_one_line,
    compact,
    find_instances,
    lines_without_labels,
    query_of_tool,
)
from ragmetrics_core.capture.tree import (
    FLOW,
    THREAD,
    Node,
    Tree,
    check_tree,
    last_words_of_user,
)
from ragmetrics_core.data import EvidenceCall, Ledger, Sample, SettingError, Turn
from ragmetrics_core.data.replies import takes_words
from ragmetrics_core.data.sample_parts import before_this_turn

_MOST_WAITING = 1000
_MOST_OF_OTHER_TASKS = 32
_LONGEST_WAIT_SECONDS = 30.0
_PART = 24  # letters of a text by which a question is seen to hold it
_SHORTEST_QUESTION = 8  # letters by which a text is seen to hold it before its answer
_ENDS_OF_STATEMENT = (".", "!", "\u3002", "\uff01", "\u0964")
_BESIDE = 8  # letters on each side of an edge by which it is of one text

# an empty list as a tool's text
_EMPTY_LISTS = frozenset(("", "[]", "()"))

_ONE_BLOCK = "; put capture(question=…) around the calls of one question"
_OF_ANOTHER_TASK = Doubt(
    "which_turn",
    "the search ran in another task or thread than the model's call that shows what it"
    " found" + _ONE_BLOCK,
)
_SEVERAL_QUESTIONS = Doubt(
    "which_turn", "its runs were asked different questions" + _ONE_BLOCK
)
_OF_A_MODEL = Doubt(
    "which_turn",
    "a run was asked what a model wrote, or a part of it, and may have been asked by the"
    " user" + _ONE_BLOCK,
)
_SEVERAL_ANSWERS = Doubt(
    "which_turn",
    "several of them answered, and one answer counts; put capture(question=…,"
    " answer_from=…) around the calls of one question, with a function that returns the"
    " answer",
)
_SEVERAL_ANSWERS_IN_BLOCK = Doubt(
    "answer_guessed",
    "several runs of this block answered, and one answer counts; if they answer"
    " other questions, put each into a block of its own",
)
_EARLIER_RESULTS = Doubt(
    "which_turn",
    "a prompt shows what a tool returned in an earlier turn, whose calls are not known;"
    " capture that turn, too, and name both by conversation=",
)
_MAY_BE_EXAMPLES = Doubt(
    "history_unread",
    "messages in a prompt are taken for earlier turns, and may be examples;"
    f" {CAPTURE_EARLIER}",
)
_OTHER_TOOLS = "tools were called, and context_tools= names none of them"
_UNREAD = (
    "a store was searched outside of any run, and no model that was seen was shown what"
    " it found: such a search gives no sample"
)
_PAUSED = "a run waits for a person; its question is evaluated when it is resumed"


def join_trees(
    trees: Sequence[Tree], name: str, *, is_question_named: bool = False
) -> Tree:
    """Join the runs of one turn into one run.

    Example: run 1 searched, and run 2 asked a model with what was found. The joined run
    has the calls of both, the answer of run 2, and the first question that is known.

    Args:
        trees: The runs, in the order in which they began. A single run is returned as
            it is.
        name: Why they belong together: ``FLOW`` for runs of plain functions, ``THREAD``
            for a run that stopped for a person and those that resumed it.
        is_question_named: Whether the user named the question of all these runs. If
            not, runs that were asked different questions are in doubt.
    """
    if len(trees) == 1:
        return trees[0]
    roots = [tree.root for tree in trees]
    last_ends = [root.ended for root in roots if root.ended is not None]
    answering_runs = [tree for tree in trees if tree.answers] or [*trees]
    # plain code may have had an answer put into other words
    rewriting_runs = [tree for tree in trees if _rewrites(tree, answering_runs[-1])]
    answering_runs += rewriting_runs
    # what to ask next is no answer beside another one
    stating = [tree for tree in answering_runs if not _last_reply(tree).asks_questions]
    answering_run = (stating or answering_runs)[-1]
    asking_runs = _asked_by_the_user(trees)
    if name == THREAD:  # all go on with one input, the last one furthest
        asking_runs = asking_runs[-1:]
    asking_run = asking_runs[0] if asking_runs else answering_run
    given_fields: dict[str, Any] = {}
    for tree in trees:
        given_fields = {**tree.given_fields, **given_fields}
    doubts = list(_joined(tree.doubts for tree in trees))
    if any(answering_run is tree for tree in rewriting_runs):
        doubts.append(_SEVERAL_ANSWERS_IN_BLOCK)
    are_asked_unlike = len({tree.question for tree in asking_runs}) > 1
    if are_asked_unlike and not is_question_named:
        doubts.append(_SEVERAL_QUESTIONS)
    question = asking_run.question if asking_runs else None
    if question is not None and name == FLOW and not is_question_named:
        searched_for = _searched_for_within(trees, question)
        if searched_for is not None:
            question = searched_for
            doubts.append(Doubt("question_guessed"))
    # what was searched for is of no matter where another run was asked in other words
    made = chain.from_iterable(
        _texts_asked(tree) for tree in trees if _OF_A_MODEL in tree.doubts
    )
    if question is not None and not any(are_made_alike(question, t) for t in made):
        doubts = [doubt for doubt in doubts if doubt is not _OF_A_MODEL]
    return replace(
        answering_run,
        root=Node("step", name, roots[0].began, max(last_ends, default=None), roots),
        question=question,
        history=asking_run.history or answering_run.history,
        error=answering_run.error or answering_run.root.error,
        gives_only_documents=all(tree.only_searches for tree in trees),
        is_by_hand=all(tree.is_by_hand for tree in trees),
        given_fields=given_fields,
        n_without_text=sum(tree.n_without_text for tree in trees),
        documents_without_text=_joined(tree.documents_without_text for tree in trees),
        doubts=tuple(dict.fromkeys(doubts)),
        further_native_runs=tuple(
            tree.native_run for tree in reversed(trees) if tree is not answering_run
        ),
        # paths such as contexts_from="docs" are looked up in the last run first
        lookup_inputs=_joined(tree.lookup_inputs for tree in reversed(trees)),
        lookup_outputs=_joined(tree.lookup_outputs for tree in reversed(trees)),
    )


def _rewrites(tree: Tree, answering_run: Tree) -> bool:
    """Whether a model was shown what an earlier run answered, and replied with a text."""
    answer = answering_run.answers[-1].text if answering_run.answers else None
    reply = _last_reply(tree)
    is_text = bool(_letters_said(reply)) and not (reply.is_verdict or reply.values)
    if not answer or not is_text or tree.answers:
        return False
    return shows([m.text for call in _model_calls(tree) for m in call.prompt], answer)


def _asked_by_the_user(trees: Iterable[Tree]) -> list[Tree]:
    """Return the runs that were asked a question of the user's own.

    A model of an earlier run did not write it, and it holds no text that was found. A
    search by itself is asked a query, which need not be the user's question, and so are
    the runs inside of it.
    """
    searches = [tree for tree in trees if tree.only_searches]
    asking_runs: list[Tree] = []
    replies: list[Reply] = []
    found: set[str] = set()
    for tree in trees:
        question = letters_of(tree.question or "")
        holds_text = any(text[:_PART] in question for text in found)
        is_of_user = not holds_text and not _asked_of(replies, tree)
        is_searching = any(  # a search, or a run that went on inside of one
            search.root.began <= tree.root.began
            and end_of(tree.root) <= end_of(search.root)
            for search in searches
        )
        if question and is_of_user and not is_searching:
            asking_runs.append(tree)
        replies += [Reply(call.reply) for call in _model_calls(tree)]
        for node in tree.root.walk():
            forms = [letters_of(document.text) for document in node.documents or ()]
            found.update(form for form in forms if len(form) >= SHORTEST)
    return asking_runs


def _searched_for_within(trees: Iterable[Tree], question: str) -> str | None:
    """Return the question that a search was asked, if words were put around it later.

    Example: the search was asked "Who?", and a synthesizer "Be short. Question: Who?".
    """
    lines = lines_without_labels(question)
    for tree in trees:
        for text in _texts_asked(tree) if tree.only_searches else ():
            asked = text.strip()
            is_question = asked.endswith(ENDS_OF_QUESTION)
            is_within = asked in lines or (is_question and asked in question)
            if is_within and as_one_line(asked) != as_one_line(question):
                return text
    return None


def _joined(parts: Iterable[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Join tuples into one."""
    return tuple(chain.from_iterable(parts))


def _has_searched(tree: Tree) -> bool:
    """Return whether the application searched in a run: a call gave documents, or was to.

    A search that a model's provider makes is part of the model's call.
    """
    nodes = [node for node in tree.root.walk() if not node.by_provider]
    return any(node.kind == "retriever" or node.documents is not None for node in nodes)


def _finds(tree: Tree) -> set[tuple[str, str]]:
    """Of each search of a run its words, and the letters of what it found."""
    return {
        (as_one_line(node.query), letters_of("\n".join(map(str, node.documents or ()))))
        for node in tree.root.walk()
        if node.kind == "retriever"
    }


def _finds_all_of(run: Tree, search: Tree) -> bool:
    """Whether a run that does more than search found what a search by itself found."""
    finds = _finds(search)
    return not run.only_searches and bool(finds) and finds <= _finds(run)


def _model_calls(tree: Tree) -> list[Node]:
    """Return the calls of models in a run, in the order in which they began."""
    return [node for node in tree.root.walk() if node.kind == "model"]


@dataclass(eq=False)
class _OpenTurn:
    """Runs of plain functions that are one turn, for which further runs are awaited.

    Attributes:
        runs: The runs: searches, and calls of models.
        is_found_beside: Whether the run that searched before or after its one search found
            the same for the same words, as where an application shows its sources.
        forms: The letters and digits of the texts that its searches found; of a search
            that found nothing those of its query.
        replies: What its models replied, which further runs may be asked.
        reply: What its last model run said, by its letters, if that is no call of a
            tool.
        last_added: When its last run was added, by the monotonic clock.
        rests_on_earlier: Whether its first run searched nothing, and may answer from
            what earlier turns of its conversation found.
    """

    runs: list[Tree] = field(default_factory=list)
    forms: list[str] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    reply: str = ""
    last_added: float = 0.0
    is_found_beside: bool = False
    rests_on_earlier: bool = False

    def asked_for(self, tree: Tree) -> bool:
        """Return whether one of its model runs wrote what a run was asked, the first time.

        Or once more, while what was found for it has no answer.
        """
        written = _asked_of(self.replies, tree)
        for run in self.runs if written and self.reply else ():
            written.difference_update(_texts_asked(run))
        return bool(written)

    def is_read_by(self, tree: Tree, elsewhere: Iterable[str] = ()) -> bool:
        """Return whether a run was given or shown a text that it found, or works on its answer.

        A run that searches itself may be shown what others found, and works on no answer.
        What stands inside of what it found, such as a sentence of its page, or of its
        question is its own.

        Args:
            tree: The run.
            elsewhere: What other turns found, by letters: what stands inside is theirs.
        """
        given_texts = [document.text for document in tree.root.input_documents]
        if not set(map(letters_of, given_texts)).isdisjoint(self.forms):
            return True
        if not self.forms:  # it holds no search
            return False
        found_elsewhere = {*elsewhere}
        if _has_searched(tree):
            if self.reply:
                return False
            found_elsewhere.add(letters_of(tree.question))
            # an index of the moment holds what was found here, joined to one text
            for form in _forms_found(tree):
                if form in self.forms or _without(self.forms, form):
                    found_elsewhere.add(form)
        answer = self.reply if len(self.reply) >= SHORTEST else ""

        shown: list[str] = []
        for call in _model_calls(tree):
            for message in call.prompt:
                letters = letters_of(message.text)
                if message.role != "assistant":
                    shown.append(letters)
                elif letters and letters == self.reply:
                    return False  # a later turn of the conversation
        edges = {edge for text in (*self.forms, answer) for edge in edges_of(text)}
        ground = self._without_others("\n".join(shown), edges, found_elsewhere)
        return any(edge in ground for edge in edges)

    def _without_others(
        self, ground: str, edges: set[str], found_elsewhere: set[str]
    ) -> str:
        """Return what prompts show without what was found elsewhere, by letters.

        Of two texts that hold one another the longer one takes the ground. Example: this
        turn found a sentence, and another one the page around it. Where a prompt shows the
        page, it does not show the sentence.

        Args:
            ground: What the prompts show.
            edges: Beginnings and ends of the texts of this turn; no other ground counts.
            found_elsewhere: The texts of others.
        """
        others = "\n".join(found_elsewhere)
        # sorted: which of two that overlap goes first must not depend on hashes
        shared = sorted(edge for edge in edges if edge in others)
        longest_first = sorted(sorted(found_elsewhere), key=len, reverse=True)
        for form in longest_first:
            shared_with_form = [edge for edge in shared if edge in form]
            if not shared_with_form:
                continue
            longer = [own for own in self.forms if form in own and own in ground]
            # what others found may stand side by side, and make up a longer text
            if form not in self.forms and any(
                _without(longest_first, own) for own in longer
            ):
                continue
            if form in ground:
                ground = ground.replace(form, "\n")
                continue
            # a part of it may be shown: its own letters stand beside the edge
            for edge in shared_with_form:
                at = form.find(edge)
                beside = form[max(0, at - _BESIDE) : at + len(edge) + _BESIDE]
                ground = ground.replace(beside, "\n")
        return ground

    def ends_with_talk(self) -> bool:
        """Whether its last run was shown, as lines of a talk, what an earlier one answered."""
        replies = [each for each in map(_letters_said, self.replies[:-1]) if each]
        texts = [m.text for call in _model_calls(self.runs[-1]) for m in call.prompt]
        return any(
            has_both_speakers(text)
            and any(each in letters_of(text) for each in replies)
            for text in texts
        )

    def searches_of_suggestion(self, tree: Tree) -> list[Tree]:
        """Return its last searches, if the user took up what an answer had suggested.

        Example: an answer ends with "You may also ask: Who painted it?". That was searched
        for, and the user's last message shows it, and nothing that was asked before.
        """
        answering = [n for n, run in enumerate(self.runs) if not run.only_searches]
        n_before = max(answering, default=-1) + 1
        before, searches = self.runs[:n_before], self.runs[n_before:]
        if not (searches and any(map(_has_searched, before))):
            return []
        asked = [text for run in searches for text in _texts_asked(run)]
        said_last = [
            last_words_of_user(call.prompt) or "" for call in _model_calls(tree)
        ]
        is_suggested = any(map(_last_reply(before[-1]).mentions_query, asked))
        is_asked = any(shows(said_last, text) for text in asked)
        earlier = [text for run in before for text in _texts_asked(run)]
        is_over = not any(shows(said_last, text) for text in earlier)
        return searches if is_suggested and is_asked and is_over else []

    def add_search(self, tree: Tree) -> None:
        """Add a run that only searched."""
        queries = [letters_of(node.query) for node in tree.root.walk()]
        self.forms += _forms_found(tree) or list(filter(None, queries))
        self.reply = ""  # what a model wrote before is what was searched for
        self._add(tree)

    def add_model_run(self, tree: Tree) -> None:
        """Add a run of models."""
        reply = _last_reply(tree)
        self.replies.append(reply)
        self.reply = _letters_said(reply)
        self._add(tree)

    def _add(self, tree: Tree) -> None:
        self.runs.append(tree)
        self.last_added = time.monotonic()


def _without(forms: Iterable[str], text: str) -> str:
    """Return what is left of a text without some others, by letters."""
    for form in forms:
        text = text.replace(form, "")
    return text


def _forms_found(tree: Tree) -> list[str]:
    """The letters of the texts that a run found, each once."""
    texts: dict[str, None] = {}
    for node in tree.root.walk():
        for document in node.documents or ():
            texts.update(dict.fromkeys(map(letters_of, document.texts)))
        if node.kind == "tool" and node.documents is None:
            texts[letters_of(node.text)] = None
    texts.pop("", None)
    return list(texts)


def _last_reply(tree: Tree) -> Reply:
    """Return what the last model of a run replied; an empty reply without one."""
    replies = [call.reply for call in _model_calls(tree)]
    return Reply(replies[-1] if replies else None)


def _letters_said(reply: Reply) -> str:
    """The letters of what a model said; "" where it called a tool."""
    calls_a_tool = reply.message is not None and bool(reply.message.tool_calls)
    return "" if calls_a_tool else letters_of(reply.text)


def _texts_asked(tree: Tree) -> list[str]:
    """Return the question of a run; of a search by itself its queries as well."""
    texts = [tree.question or ""]
    if tree.only_searches:
        texts += [node.query or "" for node in tree.root.walk()]
    return [text for text in texts if text.strip()]


def _shows_earlier_results(tree: Tree) -> bool:
    """Whether a prompt shows, before the user's last message, what no tool of the run returned."""
    nodes = list(tree.root.walk())
    returned = "\n".join(letters_of(node.text) for node in nodes if node.kind == "tool")
    for node in nodes:
        of_user = [n for n, each in enumerate(node.prompt) if each.role == "user"]
        for message in node.prompt[: max(of_user, default=0)]:
            if message.role == "tool" and letters_of(message.text) not in returned:
                return True
    return False


def _several_answered(runs: Sequence[Tree]) -> bool:
    """Whether several runs may have answered, after a search if there was one.

    One may have answered the question and one what to ask next, or each a part of it.
    What a later run was asked is no answer, but for what was stated from what was found;
    nor is what models wrote before anything was searched, or, without a search of their
    own, beside an answer that the framework names.
    """
    has_searched = not any(run.only_searches for run in runs)
    answering: list[Tree] = []
    first = next((n for n, run in enumerate(runs) if _has_searched(run)), 0)
    for place, run in enumerate(runs[first:], start=first):
        has_searched = has_searched or run.only_searches
        if run.only_searches:  # models inside of a search answer nobody
            continue
        reply = _last_reply(run)
        later = runs[place + 1 :]
        is_asked_later = any(_asked_of([reply], each) for each in later)
        is_asked_later &= not _states_what_was_found(runs[: place + 1], later)
        if run.answers:
            answering = [each for each in answering if each.answers]
        is_likely = has_searched or bool(run.answers)
        # a text, and no bare number, verdict or call of a tool
        letters = _letters_said(reply)
        may_answer = bool(letters) and not (letters.isdigit() or reply.is_verdict)
        if is_likely and may_answer and not is_asked_later:
            answering.append(run)
        has_searched = has_searched and not run.answers
    return len(answering) > 1


def _states_what_was_found(runs: Sequence[Tree], later: Sequence[Tree]) -> bool:
    """Whether the last of some runs was shown what they found, and stated something.

    A query that it wrote is a question, or some words that no later model is shown.
    """
    run, reply = runs[-1], _last_reply(runs[-1])
    text = reply.text.strip()
    asked = [letters_of(each) for run in later for each in _texts_asked(run)]
    if letters_of(text) not in asked or text.endswith(ENDS_OF_QUESTION):
        return False
    prompts = [m.text for call in _model_calls(run) for m in call.prompt]
    ground = letters_of("\n".join(prompts))
    forms = chain.from_iterable(map(_forms_found, runs))
    if not any(shows_some(ground, form) for form in forms):
        return False
    shown = [m.text for run in later for call in _model_calls(run) for m in call.prompt]
    return text.endswith(_ENDS_OF_STATEMENT) or shows(shown, text)


def _share_a_task(one: str, other: str) -> bool:
    """Whether two runs ran in one task or thread, or one inside of the other's."""
    return one.startswith(other) or other.startswith(one)


def _may_be_one_turn(one: Tree, other: Tree) -> bool:
    """Whether two runs, of which one searched nothing, may be one turn of one user.

    Not if their conversations differ, nor, unless both name the same, their tasks; nor if
    the later one knows the earlier one's question as said before.
    """
    earlier, later = sorted((one, other), key=lambda tree: tree.root.began)
    said_before, said_later = (
        [as_one_line(message.content) for message in tree.history]
        for tree in (earlier, later)
    )
    if as_one_line(earlier.question) in said_later:
        return False
    if said_before and said_later and said_before != said_later:
        return False
    if earlier.conversation_id is not None and later.conversation_id is not None:
        return earlier.conversation_id == later.conversation_id
    return _share_a_task(earlier.task_or_thread, later.task_or_thread)


def _is_helper(helper: Tree, run: Tree) -> bool:
    """Whether a run without a search says something about the question of one that searched.

    Such as its kind, or what to ask next: it is given that question or its answer alone.
    What states something may be an answer.
    """
    if not _has_searched(run) or _has_searched(helper) or run.error or run.root.error:
        return False
    reply = _last_reply(helper)
    lines = [line.strip() for line in reply.text.splitlines() if line.strip()]
    are_questions = all(line.endswith(ENDS_OF_QUESTION) for line in lines)
    is_word = " " not in reply.text.strip()
    states_nothing = are_questions or is_word or reply.is_verdict or bool(reply.values)
    given_texts = [helper.question]
    if helper.question is None:
        inputs = map(helper.to_plain_value, helper.lookup_inputs)
        given_texts = [*find_instances([*inputs], str)]
    said = {run.question, *(answer.text for answer in run.answers)}
    given_lines, said_lines = (
        {as_one_line(text) for text in texts} - {""} for texts in (given_texts, said)
    )
    is_same = bool(given_lines) and given_lines <= said_lines
    return is_same and states_nothing and _may_be_one_turn(helper, run)


def _asked_of(replies: Iterable[Reply], run: Tree) -> set[str]:
    """Return the texts that some replies wrote and a run was asked."""
    texts = _texts_asked(run)
    return {text for reply in replies for text in filter(reply.writes_query, texts)}


def _doubtful(tree: Tree, doubt: Doubt) -> Tree:
    """Return a copy of a run with one more doubt."""
    return replace(tree, doubts=tuple(dict.fromkeys([*tree.doubts, doubt])))


# What a later turn knows of earlier ones of its conversation. The name of a conversation
# is the user's, ``capture(conversation="c7")``, else the framework's id, such as the
# thread of a graph. A run without a name is a turn of no known conversation: the history
# of its prompt is all that is known then.

_MOST_CONVERSATIONS = 500
_MOST_TURNS = 8  # of a conversation: samples are made late, but not that late
_MOST_CALLS = 200
# of a sample with one of these, the user's words or what was said before may be others
_DOUBTS_OF_HISTORY = frozenset({"history_unread", "question_guessed", "which_turn"})
_ASKED_AN_ANSWER = Doubt(
    "which_turn", "a run was asked what an earlier one had answered" + _ONE_BLOCK
)
_MAY_BE_MEMORY = Doubt(
    "by_data_flow",
    "a text holds what an earlier turn answered, and nothing that was found there: a"
    " memory of what a model said is no evidence",
)
_NOT_CAPTURED = Doubt(
    "history_unread",
    "the conversation holds words of the user that no captured run was asked; they are"
    " taken for earlier turns: keep what an agent tells itself out of the user's messages",
)


@dataclass(frozen=True)
class CapturedTurn:
    """A captured turn of a conversation.

    Attributes:
        began: When its run began.
        ledger: Its ledger, with the calls of earlier turns.
        history: What user and assistant had said when it was over.
        may_hold_examples: Whether a prompt alone tells the history.
        is_sure: Whether it is certain what was said.
        task_or_thread: Where its run ran.
    """

    began: float
    ledger: Ledger
    history: tuple[Turn, ...]
    may_hold_examples: bool = False
    is_sure: bool = True
    task_or_thread: str = ""

    @property
    def answer(self) -> str:
        """What was answered, as it was; empty without an answer."""
        last = self.history[-1:]
        return last[0].content if last and last[0].role == "assistant" else ""

    @cached_property
    def letters_answered(self) -> str:
        """The letters of its answer, which each later turn is compared with."""
        return letters_of(self.answer)

    @cached_property
    def letters_by_search(self) -> tuple[tuple[EvidenceCall, tuple[str, ...]], ...]:
        """Its own searches, and the letters of what each found."""
        return tuple(
            (call, tuple(letters_of(item.text) for item in call.items))
            for call in self.ledger.calls
            if call.turn >= self.ledger.turn and call.kind == "retrieval"
        )

    def is_remembered_in(self, text: str, question: str | None) -> bool:
        """Whether a text holds its answer, alone or behind its question, and nothing it found does.

        Args:
            text: What a later turn found.
            question: What that turn was asked: the same is answered in the same words.
        """
        answer, letters = self.letters_answered, letters_of(text)
        if not answer or answer not in letters:
            return False
        asked = letters_of(self.history[-2].content) if self.history[1:] else ""
        talks: list[str] = []
        if len(answer) >= SHORTEST and letters_of(question) != asked:
            talks.append(re.escape(answer))
        if len(asked) >= _SHORTEST_QUESTION:
            talks.append(f"{re.escape(asked)}.{{0,{_PART}}}?{re.escape(answer)}")
        said = [talk for talk in talks if re.search(talk, letters)]
        calls = [each for each in self.ledger.calls if said and each.kind != "written"]
        found = [letters_of(item.text) for call in calls for item in call.items]
        return any(not re.search(talk, "\n".join(found)) for talk in said)


class Conversations:
    """The last turns of each conversation, in bounded memory.

    What is earlier is earlier in time: a sample that is made late finds the turn that
    began before it.

    Args:
        user_name: The name that the user gave the conversation of all runs; None if
            they gave none. It goes before the framework's id.
        other_blocks: The turns of other ``capture()`` blocks; None to share with no
            block. Where the framework names the conversation, such a turn counts only
            if the run's history ends with its words: two applications may use one id.
    """

    def __init__(
        self, user_name: str | None = None, other_blocks: Conversations | None = None
    ) -> None:
        """Begin without any turn of its own."""
        self._user_name = user_name
        self._other_blocks = other_blocks
        self.last_turns: OrderedDict[str, tuple[CapturedTurn, ...]] = OrderedDict()
        # of all conversations
        self._latest: deque[CapturedTurn] = deque(maxlen=_MOST_OF_OTHER_TASKS)

    def copy(self) -> Conversations:
        """Return a copy: turns added to it reach other blocks, and not this object."""
        trial = Conversations(self._user_name, self._other_blocks)
        trial.last_turns.update(self.last_turns)
        trial._latest.extend(self._latest)
        return trial

    def place_turn(self, tree: Tree) -> Tree:
        """Return a run as the next turn of its conversation.

        Example: the turn "When did it open?" of the thread "t1" was captured as turn 1.
        The next run of "t1" becomes turn 2, and gets the searches of turn 1 as
        ``earlier_calls``. A run without a name has those of the turn after which was said
        what its history holds.
        """
        name = self._user_name or tree.conversation_id
        if name is None:
            turn = self.turn_repeated_by(tree)
            if turn is None:
                return tree
            return replace(tree, earlier_calls=turn.ledger.calls[-_MOST_CALLS:])
        last_turn = self.turn_before(name, tree)
        if last_turn is None and self._other_blocks is not None:
            last_turn = self._other_blocks.turn_before(name, tree)
            # two applications may use one id of a framework
            if last_turn is not None and self._user_name is None:
                is_repeated = _last_lines(tree.history) == _last_lines(
                    last_turn.history
                )
                last_turn = last_turn if is_repeated else None
        if last_turn is None or tree.turn_number == 1:
            return replace(tree, conversation_id=name)
        history = tree.history
        n_questions = sum(message.role == "user" for message in history)
        n_captured = sum(message.role == "user" for message in last_turn.history)
        # the application may have cut, deleted or summed up its messages, or answered by
        # a call of a tool; and what a prompt shows may be its wording of them
        captured = (n_captured, len(last_turn.history))
        is_surer = captured > (n_questions, len(history)) or (
            tree.is_history_of_prompt and n_captured == n_questions
        )
        # examples may stand in what was captured, and not in what was handed in
        if last_turn.may_hold_examples and history and not tree.is_history_of_prompt:
            is_surer = False
        if is_surer:
            history = last_turn.history
        doubts = tree.doubts
        if n_captured < n_questions:
            doubts += (_NOT_CAPTURED,)
        return replace(
            tree,
            conversation_id=name,
            turn_number=max(last_turn.ledger.turn, n_questions) + 1,
            earlier_calls=last_turn.ledger.calls[-_MOST_CALLS:],
            history=history,
            doubts=doubts,
            is_history_of_prompt=(
                last_turn.may_hold_examples if is_surer else tree.is_history_of_prompt
            ),
        )

    def turn_before(self, name: str, tree: Tree) -> CapturedTurn | None:
        """Return the last turn kept here that began before a run; None without one.

        One whose history the run repeats goes first: the turns behind it were taken back.
        """
        turns = [*self.last_turns.get(name, ())]
        turns = [turn for turn in turns if turn.began < tree.root.began]
        repeated = [t for t in turns if is_same_history(tree.history, t.history)]
        return next(iter((repeated or turns)[-1:]), None)

    def turn_repeated_by(self, tree: Tree) -> CapturedTurn | None:
        """Return the latest turn after which was said what a run's history holds."""
        for turn in reversed(self._latest):
            is_earlier = turn.is_sure and turn.began < tree.root.began
            if is_earlier and is_same_history(tree.history, turn.history):
                return turn
        return None

    def with_finds_shown(self, tree: Tree) -> Tree:
        """Return a run that searched with what its prompts show of earlier searches' finds.

        These are searches of its own task or thread. Example: an application keeps what
        it found in a list of its own, and puts all of it into each prompt.
        """
        if not (self._latest and _has_searched(tree)):
            return tree
        forms_found = _forms_found(tree)
        found_now = "\n".join(forms_found)
        asked = letters_of(tree.question or "")
        texts: list[str] = []
        for model in _model_calls(tree):
            by_role = [(each.role, letters_of(each.text)) for each in model.prompt]
            # the last that shows the question: one before may only sum up what was said
            if any(asked in letters for _, letters in by_role):
                # what a tool returned before is read with its call
                others = ("assistant", "tool")
                texts = [letters for role, letters in by_role if role not in others]
        all_shown = ground = "\n".join(dict.fromkeys(texts))
        for form in sorted(forms_found, key=len, reverse=True):
            ground = ground.replace(form, "\n")
        shown: list[EvidenceCall] = []
        for turn in self._latest:
            is_of_others = turn.ledger.conversation not in (None, tree.conversation_id)
            is_of_task = _share_a_task(turn.task_or_thread, tree.task_or_thread)
            if is_of_others or not is_of_task or turn.began >= tree.root.began:
                continue
            for call, forms_of_call in turn.letters_by_search:
                forms = []
                for form in forms_of_call:
                    # a word or two has no edges, and shows nothing
                    is_whole = bool(edges_of(form)) and form in all_shown
                    is_shown = is_whole or shows_some(ground, form)
                    if is_shown and form not in found_now:
                        forms.append(form)
                if not forms:
                    continue
                shown.append(call)
                said = letters_of("\n".join(each.content for each in turn.history))
                if any(form in said for form in forms):  # it may quote that answer
                    tree = _doubtful(tree, Doubt("short_text"))
        shown.sort(key=attrgetter("turn"))
        return replace(tree, earlier_calls=tuple(shown[-_MOST_CALLS:]))

    def talk_shown(self, tree: Tree) -> tuple[Turn, ...]:
        """Return what a prompt shows of an earlier turn's talk as text, whatever its labels.

        Example: turn 1 was "Who lit it?" and "Anna did.", and a prompt of turn 2 shows
        "Kunde: Who lit it? Berater: Anna did.". A document may hold both, too.
        """
        nodes = list(tree.root.walk())
        prompts = [letters_of(m.text) for node in nodes for m in node.prompt]
        for turn in reversed(self._latest):
            said = [letters_of(each.content) for each in turn.history]
            is_said = turn.is_sure and bool(said)
            shown = [prompt for prompt in prompts if is_said and said[-1] in prompt]
            if not shown or turn.began >= tree.root.began:
                continue
            for first in range(0, len(said) - 1, 2):
                talk = f".{{0,{_PART}}}?".join(map(re.escape, said[first:]))
                if all(said[first:]) and any(re.search(talk, each) for each in shown):
                    found = [
                        each.text for node in nodes for each in node.documents or ()
                    ]
                    is_of_documents = re.search(talk, letters_of("\n".join(found)))
                    return () if is_of_documents else turn.history[first:]
        return ()

    def doubts_of_repeated(self, tree: Tree, samples: Sequence[Sample]) -> list[Doubt]:
        """Return the doubts of samples that hold what a model answered in an earlier turn.

        No user asks such a statement, though perhaps a question that was suggested. A text
        that holds it is a memory, but for what the earlier turn had found as well.
        """
        name = tree.conversation_id or ""
        turns = [*self._latest, *self.last_turns.get(name, ())]
        if self._other_blocks is not None:
            turns += self._other_blocks.last_turns.get(name, ())
        runs = tree.root.children if tree.root.name == FLOW else []
        asked = [each.query for each in runs if each.kind == "retriever"]
        asked += [sample.question for sample in samples]
        letters_asked = set(map(letters_of, asked))
        doubts: list[Doubt] = []
        for turn in turns:
            if turn.began >= tree.root.began:
                continue
            answer = turn.letters_answered
            is_question = turn.answer.rstrip().endswith(ENDS_OF_QUESTION)
            if len(answer) >= SHORTEST and not is_question and answer in letters_asked:
                doubts.append(_ASKED_AN_ANSWER)
            if any(
                turn.is_remembered_in(context.text, sample.question)
                for sample in samples
                for context in sample.contexts or ()
            ):
                doubts.append(_MAY_BE_MEMORY)
        return doubts

    def add(self, tree: Tree, samples: Sequence[Sample]) -> None:
        """Remember the samples of a run as a turn of its conversation.

        Args:
            tree: The run, as ``place_turn`` returned it.
            samples: Its samples.
        """
        name = tree.conversation_id
        for sample in samples:
            said: list[Turn] = list(sample.history or ())
            if sample.question:
                said.append(Turn(role="user", content=sample.question))
            if sample.answer:
                said.append(Turn(role="assistant", content=sample.answer))
            notes = sample.capture
            is_sure = notes is not None and _DOUBTS_OF_HISTORY.isdisjoint(notes.doubts)
            turn = CapturedTurn(
                tree.root.began,
                sample.ledger or Ledger(),
                tuple(said),
                tree.is_history_of_prompt,
                is_sure,
                tree.task_or_thread,
            )
            self._latest.append(turn)
            if name is not None:
                self.keep(name, turn)

    def keep(self, name: str, turn: CapturedTurn) -> None:
        """Keep a turn of a conversation, for this block and for others.

        It takes the place of one that began with it: what waits is told each time that
        samples are read.
        """
        others = [
            each for each in self.last_turns.get(name, ()) if each.began != turn.began
        ]
        turns = sorted((*others, turn), key=attrgetter("began"))
        self.last_turns[name] = tuple(turns[-_MOST_TURNS:])
        self.last_turns.move_to_end(name)
        if len(self.last_turns) > _MOST_CONVERSATIONS:
            self.last_turns.popitem(last=False)
        if self._other_blocks is not None:
            self._other_blocks.keep(name, turn)


@lru_cache(_MOST_CONVERSATIONS)
def conversations_named(redact: object = None) -> Conversations:
    """Return the conversations that blocks with one ``redact=`` share.

    Blocks that hide other texts have another one: no text that one block hides reaches
    the other.
    """
    del redact
    return Conversations()


def _last_lines(history: Sequence[Turn]) -> tuple[str, ...]:
    """Return the last two messages of a history, each in one line."""
    return tuple(as_one_line(message.content) for message in history[-2:])


def _complete_tools(root: Node) -> None:
    """Write into the calls of tools what a run tells of them without words.

    That is their query and text, and which searches found nothing. Example: the tool
    "lookup" gave two documents in one call, and "[]" in another: the second call found
    nothing. "[]" alone does not say so: a tool that asks a table gives this as well.

    Args:
        root: The outermost call. What is noted already stays as it is.
    """
    tools = [call for call in root.walk() if call.kind == "tool"]
    for tool in tools:
        if tool.query is None and tool.arguments is not None:
            tool.query = query_of_tool(tool.arguments)
        if tool.text is None and tool.result:
            tool.text = compact(tool.result)
    names = {tool.name for tool in tools if tool.documents}
    for tool in tools:
        if tool.text is None:  # where none was recorded, what it returned says so
            is_empty = tool.result == () or tool.result == []
        else:
            is_empty = tool.text.strip() in _EMPTY_LISTS
        is_search = tool.name in names and tool.documents is None
        if is_search and is_empty and tool.ended is not None and not tool.error:
            tool.documents = ()


class Turns(Generic[Run]):
    """Makes samples of runs as they end, and joins runs that belong to one question.

    Everybody calls ``add`` for each run. What then waits becomes samples as follows::

        samples_that_wait   capture, when samples are read; the runs stay
        samples_due         watch, from time to time: what has waited long enough
        finish              watch at each flush, report and stop; traces; samples_from
        finish_trace        traces, behind each trace: loose runs join no other trace

    Args:
        trees: Makes the trees of a recorded run.
        overrides: Where the user says that question, contexts and answer are.
        problems: Where internal errors are counted.
        hint: What the user should do if there were runs and no sample, in words; it is
            counted as a problem then. Empty to count nothing.
    """

    def __init__(
        self,
        trees: Callable[[Run], Iterable[Tree]],
        overrides: Overrides,
        problems: Problems | None = None,
        hint: str = "",
    ) -> None:
        """Begin without any run."""
        self._trees_of = trees
        self._overrides = overrides
        self.problems = Problems() if problems is None else problems
        self._hint = hint
        self._n_runs = 0
        self._n_samples = 0
        # whether context_tools= names one of the tools called; None before any call
        self._is_tool_named: bool | None = None
        self._previous: Tree | None = None  # the last run that searched
        # the latest runs of models that searched nothing, and were shown no finds
        self._unanswered: list[Tree] = []
        self._runs_of_block: list[Tree] = []  # under capture(question=…)
        self._open_turns: list[_OpenTurn] = []  # the one that began first stands first
        # runs that stopped, by the key that the resuming run has as well
        self._interrupted: OrderedDict[str, list[Tree]] = OrderedDict()
        self.conversations = Conversations()
        self._lock = Lock()

    def share_with_conversation(
        self, name: str | None = None, redact: object = None
    ) -> None:
        """Continue the conversations that other ``capture()`` blocks recorded.

        Args:
            name: The conversation's name; None if the user gave none.
            redact: The function that hides texts in this block. Only blocks with the
                same function share turns.
        """
        # a function that cannot be compared is shared with no other block
        comparable = redact if isinstance(redact, Hashable) else object()
        self.conversations = Conversations(name, conversations_named(comparable))

    def add(self, run: Run) -> list[Sample]:
        """Take in a recorded run, and return the samples that are complete now.

        A run that must wait for another run is kept. The samples may be of runs that
        were taken in before.
        """
        with self._lock:
            self._n_runs += 1
            samples = self.samples_due()
            trees = self._trees_of(run)
            if isinstance(trees, Tree):
                raise SettingError("trees() of an adapter returned a Tree: yield it")
            for tree in trees:
                check_tree(tree)  # before anything reads it
                _complete_tools(tree.root)
                # a name in context_tools= may be misspelt
                names = self._overrides.context_tools or ()
                for node in tree.root.walk() if names else ():
                    if node.kind == "tool" and not self._is_tool_named:
                        self._is_tool_named = node.name in names
                is_single_call = tree.only_searches or tree.root.kind == "model"
                if self._overrides.question is not None:
                    self._runs_of_block.append(tree)
                elif tree.resumption_key is not None and not is_single_call:
                    samples += self._take_in_of_thread(tree, tree.resumption_key)
                else:
                    samples += self._take_in_single(tree)
            return samples

    def samples_due(self) -> list[Sample]:
        """Return the samples of what has waited long enough for a further run."""
        with self._lock:
            latest_end = time.monotonic() - _LONGEST_WAIT_SECONDS
            return self._close(
                [turn for turn in self._open_turns if turn.last_added <= latest_end]
            )

    def samples_that_wait(self) -> list[Sample]:
        """Make the samples of runs that still wait for a further run, and keep the runs."""
        with self._lock:
            conversations = self.conversations
            # a further run may change these samples: they are remembered in a copy
            self.conversations = conversations.copy()
            try:
                return self._samples_of_waiting_runs()
            finally:
                self.conversations = conversations

    def finish(self) -> list[Sample]:
        """Make the samples of all runs that wait, and forget these runs.

        Runs that wait for a person are kept.
        """
        with self._lock:
            samples = self._samples_of_waiting_runs()
            self._open_turns = []
            self._runs_of_block = []
            for key, runs in list(self._interrupted.items()):
                if not runs[-1].is_paused:
                    del self._interrupted[key]
            return samples

    def finish_trace(self) -> list[Sample]:
        """Make the samples of loose runs, and forget them: no run of another trace joins."""
        with self._lock:
            return self._close(self._open_turns)

    def _samples_of_waiting_runs(self) -> list[Sample]:
        """Make the samples of all that waits, and note why there are none."""
        samples = self._samples_of_open_turns(self._open_turns)
        if self._runs_of_block:
            tree = join_trees(self._runs_of_block, FLOW, is_question_named=True)
            if _several_answered(self._runs_of_block):
                tree = _doubtful(tree, _SEVERAL_ANSWERS_IN_BLOCK)
            samples += self._samples_of(tree)
        for runs in self._interrupted.values():
            if runs[-1].is_paused:
                self._tell(_PAUSED)
            else:
                samples += self._samples_of(join_trees(runs, THREAD))
        if self._is_tool_named is False:
            self._tell(_OTHER_TOOLS)
        is_without_samples = self._n_runs > 0 and not self._n_samples
        if is_without_samples and self._hint and not self.problems:
            self._tell(self._hint)
        return samples

    def _take_in_of_thread(self, tree: Tree, key: str) -> list[Sample]:
        """Take in a run that others may resume, or that resumes another one.

        If a new question comes instead, what stopped without a person gives its samples
        as it is.
        """
        earlier_runs = self._interrupted.pop(key, [])
        samples: list[Sample] = []
        is_paused = bool(earlier_runs) and earlier_runs[-1].is_paused
        # a new question would begin with the same calls once more
        names = {call.name for run in earlier_runs for call in run.root.children}
        is_new = names.isdisjoint(call.name for call in tree.root.children)
        goes_on = is_paused and is_new
        if earlier_runs and not (tree.continues or goes_on):
            if not is_paused:
                samples = self._samples_of(join_trees(earlier_runs, THREAD))
            earlier_runs = []
        runs = [*earlier_runs, tree]
        has_ended = bool(tree.answers)
        if tree.is_paused or not has_ended:
            self._interrupted[key] = runs
            if len(self._interrupted) > _MOST_WAITING:
                _, oldest_runs = self._interrupted.popitem(last=False)
                samples += self._samples_of(join_trees(oldest_runs, THREAD))
            return samples
        return samples + self._take_in_single(join_trees(runs, THREAD))

    def _take_in_single(self, tree: Tree) -> list[Sample]:
        """Take in a run that waits for no resumption.

        A search by itself joins the turn whose model asked for it, or waits; a reranker
        joins the searches whose documents it was given. A model by itself joins the
        searches that its prompts show. Anything else is a turn, or no turn at all.
        """
        # the turn whose model wrote what it was asked: of its own task, and the latest
        latest = self._open_turns[-_MOST_OF_OTHER_TASKS:]
        nearest_first = reversed([*latest, *self._turns_of(tree.task_or_thread)])
        turn = next((each for each in nearest_first if each.asked_for(tree)), None)
        if turn is not None and turn.rests_on_earlier:
            run = turn.runs[-1]
            if not _may_be_one_turn(run, tree):
                turn = None
            elif not takes_words(tree.question or "", run.question or ""):
                # the user may have asked what was suggested
                turn.runs[0] = _doubtful(turn.runs[0], _OF_A_MODEL)
        if turn is None and self._may_ask_what_was_written(tree):
            tree = _doubtful(tree, _OF_A_MODEL)
        samples = self._end_answers_from_earlier(tree, turn)
        samples += self._join_or_open(tree, turn, self._previous)
        is_read = any(each.forms and each.runs[-1] is tree for each in self._open_turns)
        if _has_searched(tree):
            self._previous = tree
        if tree.only_searches:
            return samples
        if _has_searched(tree) or is_read:  # what was written before is answered
            self._unanswered = [
                run
                for run in self._unanswered
                if not _share_a_task(run.task_or_thread, tree.task_or_thread)
            ]
        elif _model_calls(tree) and not (
            # who may ask what a helper suggests is the user
            self._previous is not None and _is_helper(tree, self._previous)
        ):
            self._unanswered = [*self._unanswered, tree][-_MOST_OF_OTHER_TASKS:]
        return samples

    def _may_ask_what_was_written(self, tree: Tree) -> bool:
        """Whether a run searches for what a model wrote in its task, with words left out or put in.

        Nothing was answered in between, and the model had not been shown these words.
        """
        if not _has_searched(tree):
            return False
        for run in self._unanswered:
            prompts = [m.text for call in _model_calls(run) for m in call.prompt]
            if _share_a_task(run.task_or_thread, tree.task_or_thread):
                for text in filter(_last_reply(run).is_made_into, _texts_asked(tree)):
                    if not shows([*prompts, run.question or ""], text):
                        return True
        return False

    def _end_answers_from_earlier(
        self, tree: Tree, asking_turn: _OpenTurn | None
    ) -> list[Sample]:
        """Make the samples of runs without a search, now that the next run is known.

        A helper of that run, which is asked what it wrote or the same question, has none.
        """
        said = {as_one_line(message.content) for message in tree.history}
        of_task = {*self._turns_of(tree.task_or_thread)}
        ended: list[_OpenTurn] = []
        for turn in [each for each in self._open_turns if not each.forms]:
            is_of_interest = turn.rests_on_earlier or turn in of_task
            if turn is asking_turn or not is_of_interest:
                continue
            run = turn.runs[-1]
            is_earlier = turn in of_task or as_one_line(_last_reply(run).text) in said
            conversation = run.conversation_id
            is_earlier |= conversation is not None and (
                conversation == tree.conversation_id
            )
            if is_earlier and _is_helper(run, tree):
                self._open_turns.remove(turn)
            elif is_earlier and turn.rests_on_earlier:
                ended.append(turn)
        return self._close(ended)

    def _join_or_open(
        self, tree: Tree, turn: _OpenTurn | None, previous: Tree | None
    ) -> list[Sample]:
        """Add a run to the turn that it belongs to, else begin one, or make its samples.

        Args:
            tree: The run.
            turn: The turn whose model wrote what it was asked.
            previous: The last run before it that searched.
        """
        if tree.error or tree.root.error:
            return self._samples_of(tree)
        of_task = self._turns_of(tree.task_or_thread)
        is_asked_for = turn is not None
        if turn is not None and tree.only_searches and turn.ends_with_talk():
            # the last line of a talk was rewritten, and a new turn of it begins
            rewriting = turn.runs.pop()
            turn.replies.pop()
            samples = self._close([turn])
            turn = _OpenTurn()
            turn.add_model_run(rewriting)
            turn.add_search(tree)
            return samples + self._open(turn)
        if turn is None:
            turn = self._turn_read_by(tree)
        if tree.only_searches:
            if turn is not None:
                turn.add_search(tree)
                return []
            # what the task answered before a new search is over
            samples = self._close([each for each in of_task if each.reply])
            turn = _OpenTurn()
            turn.is_found_beside = previous is not None and _finds_all_of(
                previous, tree
            )
            turn.add_search(tree)
            return samples + self._open(turn)
        if turn is not None:
            samples = []
            suggested = turn.searches_of_suggestion(tree)
            if suggested:
                turn.runs = turn.runs[: -len(suggested)]
                samples += self._close([turn])
                turn = _OpenTurn()
                for search in suggested:
                    turn.add_search(search)
                samples += self._open(turn)
            turn.add_model_run(tree)
            # a run that searched itself, too, and answered the user waits for nothing
            is_answered = _has_searched(tree) and bool(tree.answers)
            is_over = is_answered and not is_asked_for
            return samples + (self._close([turn]) if is_over else [])
        for open_turn in self._open_turns:
            if open_turn.runs[-1] is previous and _finds_all_of(tree, previous):
                open_turn.is_found_beside = True
        if self._may_rest_on_earlier(tree):
            if previous is not None and _is_helper(tree, previous):
                return []
            turn = _OpenTurn(rests_on_earlier=True)
            turn.add_model_run(tree)
            return self._open(turn)
        samples = self._samples_of(tree)
        if samples or _has_searched(tree) or not _model_calls(tree):
            return samples
        # asked the same without what was found, it may answer in the place of a grader
        shown = [message.text for call in _model_calls(tree) for message in call.prompt]
        letters = letters_of("\n".join(shown))
        for each in of_task:
            asked = [text for run in each.runs for text in _texts_asked(run)]
            is_asked_again = any(shows(shown, text) for text in asked)
            is_answer = each.reply and not _last_reply(tree).is_verdict
            if is_answer and is_asked_again and each.reply not in letters:
                each.runs[0] = _doubtful(each.runs[0], _SEVERAL_ANSWERS)
        # it may write what a later run is asked
        turn = _OpenTurn()
        turn.add_model_run(tree)
        return self._open(turn)

    def _turns_of(self, task_or_thread: str) -> list[_OpenTurn]:
        """Return the open turns whose last run ran in a task or thread, around or inside it."""
        return [
            turn
            for turn in self._open_turns
            if _share_a_task(turn.runs[-1].task_or_thread, task_or_thread)
        ]

    def _turn_read_by(self, tree: Tree) -> _OpenTurn | None:
        """Return the turn whose findings a run was given or shown; None without one.

        Several such turns become one. Those of another task are in doubt.
        """
        of_task = self._turns_of(tree.task_or_thread)
        turns = [turn for turn in of_task if turn.is_read_by(tree)]
        is_of_another_task = not turns
        if not turns:
            latest = self._open_turns[-_MOST_OF_OTHER_TASKS:]
            turns = [turn for turn in latest if turn.is_read_by(tree)]
        if not turns:
            return None
        # what was handed in as a whole, such as to a reranker, is of the latest such search
        given = {letters_of(each.text) for each in tree.root.input_documents}
        found_all = [turn for turn in turns if given and given <= {*turn.forms}]
        turns = found_all[-1:] or turns
        if len(turns) > 1:
            found = {form for turn in turns for form in turn.forms}
            turns = [
                turn
                for turn in turns
                if turn.is_read_by(tree, found.difference(turn.forms))
            ] or turns
        for turn in turns:
            others = [other for other in turns if other is not turn]
            found = {form for other in others for form in other.forms}
            asked = {text for other in others for text in _texts_asked(other.runs[0])}
            # others found all that is shown of it, when they were asked something else
            is_asked_alike = not asked.isdisjoint(_texts_asked(turn.runs[0]))
            if others and not is_asked_alike and not turn.is_read_by(tree, found):
                turn.runs[0] = _doubtful(turn.runs[0], _SEVERAL_QUESTIONS)
        if is_of_another_task:
            # but for a search of its own thread, for the words that the model is shown last
            said_last = {
                as_one_line(last_words_of_user(call.prompt))
                for call in _model_calls(tree)
            }
            is_of_another_task = any(
                said_last.isdisjoint(map(as_one_line, _texts_asked(turn.runs[0])))
                for turn in turns
            )
        first_turn, *further_turns = turns
        for turn in further_turns:
            runs = [*first_turn.runs, *turn.runs]
            first_turn.runs = sorted(runs, key=lambda run: run.root.began)
            first_turn.forms += turn.forms
            first_turn.replies += turn.replies
            self._open_turns.remove(turn)
        if is_of_another_task:
            first_turn.runs[0] = _doubtful(first_turn.runs[0], _OF_ANOTHER_TASK)
        return first_turn

    def _open(self, turn: _OpenTurn) -> list[Sample]:
        """Let a turn wait for further runs; close the oldest of too many."""
        self._open_turns.append(turn)
        n_too_many = max(0, len(self._open_turns) - _MOST_WAITING)
        return self._close(self._open_turns[:n_too_many])

    def _close(self, turns: Sequence[_OpenTurn]) -> list[Sample]:
        """Make the samples of open turns, which then wait no longer."""
        self._open_turns = [turn for turn in self._open_turns if turn not in turns]
        return self._samples_of_open_turns(turns)

    def _samples_of_open_turns(self, turns: Iterable[_OpenTurn]) -> list[Sample]:
        """Make the samples of open turns as they are now, and remember these turns."""
        samples: list[Sample] = []
        for turn in turns:
            if turn.is_found_beside and len(turn.runs) == 1:
                continue
            tree = join_trees(turn.runs, FLOW)
            for place, run in enumerate(turn.runs):
                # of several questions that a model wrote one may be the user's own
                reply = _last_reply(run)
                asked: set[str] = set()
                for later_run in turn.runs[place + 1 :]:
                    asked |= _asked_of([reply], later_run)
                if 0 < len(asked) < len(reply.text.strip().splitlines()):
                    tree = _doubtful(tree, _OF_A_MODEL)
            if _several_answered(turn.runs):
                tree = _doubtful(tree, _SEVERAL_ANSWERS)
            if tree.is_by_hand:
                self._tell(_UNREAD)
            made = self._samples_of(tree)
            samples += made
            # a chain, and no bare model, or one that chose to call no tool; that it is
            # mere talk is known where the user said which tools search
            is_unsearched = (
                self._overrides.context_tools is None
                and any(run.root.kind != "model" for run in turn.runs)
                and not any(call.offered_tools for call in _model_calls(tree))
            )
            if is_unsearched and not made and self._hint:
                self._tell(self._hint)
        return samples

    def _may_rest_on_earlier(self, tree: Tree) -> bool:
        """Whether a chain searched nothing, and its conversation found something before."""
        nodes = list(tree.root.walk())
        is_chain = tree.root.kind not in ("agent", "model") and bool(_model_calls(tree))
        is_without_search = not _has_searched(tree) and not any(
            node.kind == "tool" for node in nodes
        )
        return is_chain and is_without_search and bool(self._placed(tree).earlier_calls)

    def _placed(self, tree: Tree) -> Tree:
        """Return a run with its history, as the next turn of its conversation."""
        history, is_of_prompt = tree.history, tree.is_history_of_prompt
        if not history:
            history = history_of_prompts(tree.root, tree.question, tree.instructions)
            is_of_prompt = bool(history)
        history = history or self.conversations.talk_shown(tree)
        # a memory that was read after the run holds this turn as well
        answer = tree.answers[-1].text if tree.answers else None
        question = tree.question or ""
        history = before_this_turn(history, [question], answer or "", is_captured=True)
        # the tree of the adapter stays as it is
        tree = replace(tree, history=history, is_history_of_prompt=is_of_prompt)
        repeated = self.conversations.turn_repeated_by(tree)
        if repeated is not None:
            history = repeated.history
            tree = replace(tree, history=history, is_history_of_prompt=False)
        return self.conversations.place_turn(tree)

    def _samples_of(self, tree: Tree) -> list[Sample]:
        """Make the samples of one turn, and remember it for later turns."""
        placed_tree = self._placed(tree)
        if placed_tree.is_history_of_prompt:
            placed_tree = _doubtful(placed_tree, _MAY_BE_EXAMPLES)
        if not placed_tree.earlier_calls and _shows_earlier_results(placed_tree):
            placed_tree = _doubtful(placed_tree, _EARLIER_RESULTS)
        if not placed_tree.earlier_calls:
            placed_tree = self.conversations.with_finds_shown(placed_tree)
        samples = samples_of(placed_tree, self._overrides)
        doubts = self.conversations.doubts_of_repeated(placed_tree, samples)
        if doubts:
            for doubt in doubts:
                placed_tree = _doubtful(placed_tree, doubt)
            samples = samples_of(placed_tree, self._overrides)
        for sample in samples:
            # a place of the user that leads nowhere is a problem
            for warning in sample.capture.warnings if sample.capture else ():
                if warning.startswith(self._overrides.places):
                    self._tell(warning)
        self.conversations.add(placed_tree, samples)
        self._n_samples += len(samples)
        return samples

    def _tell(self, problem: str) -> None:
        """Note a problem once, though what waits is made into samples at each reading."""
        if problem not in self.problems.counts:
            self.problems.note(problem)
