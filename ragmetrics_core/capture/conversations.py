"""Turns of conversations: which captured turn a run continues. In bounded memory.

A **turn** is a question of a user and its answer. The **ledger** of a turn lists the
calls that brought evidence, in that turn and in earlier ones. A run that continues a
turn gets its conversation's id, the next turn number and the ledger's calls::

    turn 1   "When did it open?"   "In 1874."     captured before
    run      "And the ferry?", with the messages  "When did it open?", "In 1874."

The framework may name the conversation of the run. If not, its last two messages are
compared with the question and answer of captured turns, each in one line: the run is
turn 2 of that conversation.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

from ragmetrics_core.capture.locating import DISTINCTIVE_LENGTH
from ragmetrics_core.capture.normalized_text import Text
from ragmetrics_core.capture.plain_values import as_one_line
from ragmetrics_core.capture.transcripts import quotation
from ragmetrics_core.capture.tree import Tree
from ragmetrics_core.data import Ledger, Sample, Turn

# how a conversation is found that has no name: nothing is exact then
CONVERSATION_FOUND_BY_WORDS = (
    "the words of an earlier turn end the messages handed in",
    "the words of an earlier turn stand in the prompt as such",
    "the words of an earlier turn stand in the messages handed in",
)
_AT_THE_END, _IN_THE_PROMPT, _IN_THE_HISTORY = CONVERSATION_FOUND_BY_WORDS
_MOST_NAMED = _MOST_TURNS = 500
_MOST_CALLS = 200
_N_LATEST = 32  # turns that are looked for in prompts
_SPEAKERS = ("user", "assistant")
# a question of fewer letters stands in a prompt by chance
_SHORTEST = 8


@dataclass(frozen=True)
class CapturedTurn:
    """A turn that was captured, with what later turns need of it.

    Attributes:
        question: The question; empty if it is unknown.
        answer: The answer; empty if there was none.
        ledger: Its ledger, with the calls of earlier turns.
        history: What user and assistant said before it.
        lines: Question and answer, each in one line; turns are compared by these.
        was_answer_in_prompt: Whether its own prompts held the answer already, as a
            sentence of the instructions or of a document.
    """

    question: str
    answer: str
    ledger: Ledger
    history: tuple[Turn, ...]
    lines: tuple[str, ...]
    was_answer_in_prompt: bool = False

    @property
    def history_after(self) -> tuple[Turn, ...]:
        """What user and assistant had said when it was over."""
        turns = list(self.history)
        if self.question:
            turns.append(Turn(role="user", content=self.question))
        if self.answer:
            turns.append(Turn(role="assistant", content=self.answer))
        return tuple(turns[-2 * _MOST_CALLS :])


@dataclass(frozen=True)
class QuotedTurn:
    """An earlier turn whose question and answer stand in a prompt.

    Attributes:
        turn: The turn.
        names_speakers: Whether they stand there under the names of the speakers, such as
            "User:" and "Assistant:". If not, the answer may be a draft.
    """

    turn: CapturedTurn
    names_speakers: bool


@dataclass(frozen=True)
class _ContinuedTurn:
    """The captured turn that a run continues.

    Attributes:
        turn: The turn.
        how_found: In words, where the run repeats the turn's words, such as
            ``_IN_THE_PROMPT``; empty if the name of the conversation told the turn.
    """

    turn: CapturedTurn
    how_found: str = ""


class Conversations:
    """The turns that were captured last, and which of them a further run continues.

    Args:
        user_name: The name that the user gave the conversation of all runs; None if
            they gave none. It counts where the framework has no id of its own, or only
            the identity of a memory.
        other_blocks: The turns of other ``capture()`` blocks; None to share with no
            block. Such a turn counts only if the framework's id is the same and its
            words stand in the history: two applications may use one id.
    """

    def __init__(
        self, user_name: str | None = None, other_blocks: Conversations | None = None
    ) -> None:
        """Begin without any turn of its own."""
        self._user_name = user_name
        self._other_blocks = other_blocks
        # whether the turns of this block are added to those of other blocks
        self._shares = other_blocks is not None
        self.turns: deque[CapturedTurn] = deque(maxlen=_MOST_TURNS)

    def place_turn(self, tree: Tree, quoted: CapturedTurn | None = None) -> Tree:
        """Return a copy of a run, marked as the next turn of its conversation.

        Example: the turn "When did it open?" was captured as turn 1. A run that begins
        with its messages becomes turn 2, and gets the searches of turn 1 as
        ``earlier_calls``. A run that continues no captured turn begins a conversation.

        Args:
            tree: The run.
            quoted: The latest captured turn that a prompt of the run quotes as text;
                None without one.
        """
        name = self._conversation_name(tree)
        continued = self._continued_turn(tree, name, quoted)
        if continued is None:
            return replace(tree, conversation_id=name or _name_of_new(tree))
        last_turn = continued.turn
        history = _history_of_next(last_turn, tree, is_quoted=quoted is not None)
        last_turn_number = last_turn.ledger.turn
        # 1 turn was captured, but the history has 3 questions: 3 turns came before
        n_turns_before = max(last_turn_number, _n_questions(history))
        return replace(
            tree,
            conversation_id=last_turn.ledger.conversation,
            turn_number=n_turns_before + 1,
            earlier_calls=last_turn.ledger.calls,
            history=history,
            # "the words of an earlier turn stand in the prompt as such"; empty if the
            # name of the conversation told the turn
            how_conversation_was_found=continued.how_found,
        )

    def _conversation_name(self, tree: Tree) -> str | None:
        """Return the name of a run's conversation; None if it has none.

        It is the framework's id, else the user's name. The user's name goes first where
        the framework's id is only the identity of a memory: an application may fill
        another memory for each message.
        """
        if tree.is_id_of_memory and self._user_name is not None:
            return self._user_name
        return tree.conversation_id or self._user_name

    def _continued_turn(
        self, tree: Tree, name: str | None, quoted: CapturedTurn | None
    ) -> _ContinuedTurn | None:
        """Find the captured turn that a run continues; None if it continues none.

        Example: a run has the name "thread-7", so the last turn of "thread-7" is found.
        For a run without a name the words of its history and of its prompts decide.

        Args:
            tree: The run.
            name: The name of its conversation; None if it has none.
            quoted: The captured turn that its prompts quote as text; None without one.
        """
        if tree.turn_number == 1:  # the framework counts turns, and this is the first
            return None
        if name is None:
            return self._turn_found_by_words(tree, quoted)
        last_turn = self._last_turn_of(name, tree)
        if last_turn is not None:
            return _ContinuedTurn(last_turn)
        is_name_of_memory = tree.is_id_of_memory and name == tree.conversation_id
        if is_name_of_memory:
            # an application may fill another memory, with a new id, for each message
            return self._turn_found_by_words(tree, quoted)
        return None  # the first run of "thread-7": it begins a conversation

    def _turn_found_by_words(
        self, tree: Tree, quoted: CapturedTurn | None
    ) -> _ContinuedTurn | None:
        """Find the captured turn whose words a run repeats; None if it repeats none.

        Example: a run's history ends with "When did it open?", "In 1874.": the captured
        turn with these words. Only if the history holds no captured turn, it is the
        turn that a prompt of the run quotes.

        Args:
            tree: The run.
            quoted: The captured turn that its prompts quote as text; None without one.
        """
        turn_in_history = self._turn_at_end_of_history(tree)
        if turn_in_history is not None:
            how_found = _place_in_history(turn_in_history, tree)
            return _ContinuedTurn(turn_in_history, how_found)
        if quoted is not None:
            return _ContinuedTurn(quoted, _IN_THE_PROMPT)
        return None

    def _turn_at_end_of_history(self, tree: Tree) -> CapturedTurn | None:
        """Return the captured turn that the last two messages of a run's history repeat.

        Example: a history that ends with "When did it open?" and "In 1874." gives the
        turn with this question and this answer. None if two such turns were captured.
        If the history ends otherwise, the last captured turn inside it is returned.
        """
        last_lines = _last_lines(tree)
        last_roles = tuple(message.role for message in tree.history[-2:])
        fitting = [turn for turn in self.turns if turn.lines == last_lines]
        # a memory may keep "Context: … Question: When did it open?" as the user's message
        if not fitting and last_roles == _SPEAKERS:
            for turn in self.turns:
                if _is_kept_as_whole_prompt(turn, last_lines):
                    fitting.append(turn)
        if not fitting:
            return self._last_turn_in_history(tree)
        return fitting[0] if len(fitting) == 1 else None

    def _last_turn_in_history(self, tree: Tree) -> CapturedTurn | None:
        """Return the last captured turn that stands anywhere in the history of a run.

        Example: after "When did it open?", "In 1874." stands "Thanks!", "Welcome.", a
        turn without a sample: the turn of 1874. None if there is none, or if such turns
        belong to several conversations.
        """
        lines = [as_one_line(message.content) for message in tree.history]
        pairs = set(pairwise(lines))
        turns_in_history = []
        for turn in self.turns:
            is_answered = all(turn.lines)
            if is_answered and turn.lines in pairs:
                turns_in_history.append(turn)
        names = {turn.ledger.conversation for turn in turns_in_history}
        return turns_in_history[-1] if len(names) == 1 else None

    def _last_turn_of(self, name: str, tree: Tree) -> CapturedTurn | None:
        """Return the turn of a named conversation that directly precedes a run.

        It is the turn whose words are the last two messages of the run's history, else
        the last turn of the conversation. None if no turn of it is known.
        """
        turns = [*self._turns_of_other_blocks(tree), *self.turns]
        turns = [turn for turn in turns if turn.ledger.conversation == name]
        last_lines = _last_lines(tree)
        for turn in reversed(turns):
            if turn.lines == last_lines:
                return turn
        return turns[-1] if turns else None

    def _turns_of_other_blocks(self, tree: Tree) -> list[CapturedTurn]:
        """Return the turns of other ``capture()`` blocks that a run's history holds.

        It must hold the question and the answer of such a turn.
        """
        if self._other_blocks is None:
            return []
        history_lines = {as_one_line(message.content) for message in tree.history}
        turns: list[CapturedTurn] = []
        for turn in list(self._other_blocks.turns):
            question_line, answer_line = turn.lines
            if question_line in history_lines and answer_line in history_lines:
                turns.append(turn)
        return turns

    def holds_turn_of(self, history: Sequence[Turn]) -> bool:
        """Return whether a history holds a captured turn, its answer after its question.

        The question may stand inside a whole prompt that was kept as the user's
        message.
        """
        lines = [as_one_line(message.content) for message in history]
        for pair in pairwise(lines):
            for turn in self.turns:
                is_answered = all(turn.lines)
                if is_answered and (
                    turn.lines == pair or _is_kept_as_whole_prompt(turn, pair)
                ):
                    return True
        return False

    def copy_for_trial(self) -> Conversations:
        """Return a copy that keeps the turns added to it from all other blocks."""
        trial = Conversations(self._user_name, self._other_blocks)
        trial._shares = False
        trial.turns.extend(self.turns)
        return trial

    def add(self, tree: Tree, samples: Sequence[Sample]) -> None:
        """Remember the samples of a run as turns that later runs may continue.

        Other blocks share them, unless the conversation of the run is new, or was found
        by words alone.

        Args:
            tree: The run, as ``place_turn`` returned it.
            samples: Its samples.
        """
        for sample in samples:
            if sample.ledger is not None:
                self.turns.append(_captured_turn(sample, sample.ledger, tree))
        is_found_by_words = (
            tree.how_conversation_was_found in CONVERSATION_FOUND_BY_WORDS
        )
        is_new = tree.conversation_id == _name_of_new(tree)
        if not (is_found_by_words or is_new) and self._shares and self._other_blocks:
            self._other_blocks.add(tree, samples)

    def find_quoted_turns(
        self, prompts: Sequence[str], lines_of_run: Collection[str]
    ) -> Iterator[QuotedTurn]:
        """Yield the latest captured turns that a prompt quotes: question and answer.

        Example: a prompt with the lines "User: When did it open?" and "Assistant: In
        1874." quotes the turn with this question and this answer.

        Args:
            prompts: The prompts of the run.
            lines_of_run: The question and queries of the run, each in one line.
        """
        for turn in list(self.turns)[-_N_LATEST:]:
            quoting_prompts = _prompts_that_quote(turn, prompts)
            if not quoting_prompts:
                continue
            # The run asks "When did it open?" again, so this question in a prompt is
            # its own. Only "Assistant: In 1874." is a sign of the earlier turn.
            is_repeated_by_run = not set(turn.lines).isdisjoint(lines_of_run)
            questions = [] if is_repeated_by_run else [turn.question]
            names_speakers = any(
                quotation(turn.answer, questions, Text(prompt)) == "earlier turn"
                for prompt in quoting_prompts
            )
            # If the run does not repeat the turn's words itself, the prompt has them from
            # the turn, at least as material: "Draft: In 1874."
            if names_speakers or not is_repeated_by_run:
                yield QuotedTurn(turn, names_speakers)

    def find_answers(
        self, prompts: Sequence[str], lines_of_run: Collection[str]
    ) -> list[str]:
        """Return the answers of earlier turns that the prompts of a run repeat.

        Example: an assistant's memory keeps "You said: The bridge was opened in 1874 by
        the mayor." without the question; this sentence was the answer of turn 1.

        Args:
            prompts: The prompts of one run.
            lines_of_run: The queries, replies and documents of that run, each in one
                line.
        """
        prompt_lines = [as_one_line(prompt) for prompt in prompts]
        answers = []
        for turn in list(self.turns)[-_N_LATEST:]:
            answer = as_one_line(turn.answer)
            # an answer such as "In 1874." stands in a prompt by chance
            is_short = len(answer) < DISTINCTIVE_LENGTH
            # the earlier model copied its answer from a document or an instruction
            if is_short or turn.was_answer_in_prompt:
                continue
            # a call or a document of this run brought the words into the prompt
            if any(answer in line for line in lines_of_run):
                continue
            if any(answer in line for line in prompt_lines):
                answers.append(turn.answer)
        return answers


def _prompts_that_quote(turn: CapturedTurn, prompts: Iterable[str]) -> list[str]:
    """Return the prompts that hold the question and the answer of a turn with both."""
    if not all(turn.lines):
        return []
    return [
        prompt
        for prompt in prompts
        if turn.question in prompt and turn.answer in prompt
    ]


def _place_in_history(turn: CapturedTurn, tree: Tree) -> str:
    """Say in words where a turn stands in the history of a run: at its end, or before."""
    last_lines = _last_lines(tree)
    is_at_end = turn.lines == last_lines
    if is_at_end or _is_kept_as_whole_prompt(turn, last_lines):
        return _AT_THE_END
    return _IN_THE_HISTORY


def _captured_turn(sample: Sample, ledger: Ledger, tree: Tree) -> CapturedTurn:
    """Make the record of a turn with which later runs are compared.

    Example: the record holds "When did it open?", "In 1874.", and the searches of this
    turn and of the turns before it.

    Args:
        sample: The sample.
        ledger: The sample's list of searches and tool calls.
        tree: The run of the sample, as ``place_turn`` returned it.
    """
    question = sample.question or ""
    answer = sample.answer or ""
    return CapturedTurn(
        question=question,
        answer=answer,
        ledger=ledger.model_copy(update={"calls": ledger.calls[-_MOST_CALLS:]}),
        history=sample.history,
        lines=(as_one_line(question), as_one_line(answer)),
        was_answer_in_prompt=_is_in_prompt(answer, tree),
    )


def _is_in_prompt(answer: str, tree: Tree) -> bool:
    """Return whether a prompt of a run holds an answer; False for an empty one."""
    if not answer:
        return False
    prompts = [node.prompt for node in tree.root.walk()]
    return any(answer in message.text for prompt in prompts for message in prompt)


@lru_cache(_MOST_NAMED)
def conversations_of_blocks(
    name: str | None = None, redact: object = None
) -> Conversations:
    """Return the conversations that blocks with one name and one ``redact=`` share.

    Each call with the same arguments returns the same object. Blocks that hide other
    texts have another one: no text that one block hides reaches the other.

    Args:
        name: The name; None for blocks that gave none.
        redact: The function that hides texts in the blocks.
    """
    if name is None:
        return Conversations()
    return Conversations(name, other_blocks=conversations_of_blocks(None, redact))


def _last_lines(tree: Tree) -> tuple[str, ...]:
    """Return the last two messages of a run's history, each in one line."""
    return tuple(as_one_line(message.content) for message in tree.history[-2:])


def _history_of_next(
    last_turn: CapturedTurn, tree: Tree, *, is_quoted: bool
) -> tuple[Turn, ...]:
    """Return what user and assistant said before a run, which continues a captured turn.

    Usually these are the run's own messages. The captured turns replace them where a
    memory has cut or summed them up, so that 2 questions are left of 3, or has kept a
    whole prompt, "Context: … Question: When?", in the place of the last question.

    Empty if the run was shown nothing of earlier turns: it may be meant to have none.

    Args:
        last_turn: The turn that the run continues.
        tree: The run.
        is_quoted: Whether its prompts quote an earlier turn as text.
    """
    if not (tree.history or is_quoted or _has_summary(tree)):
        return ()
    captured_history = last_turn.history_after
    n_missing = _n_questions(captured_history) - _n_questions(tree.history)
    if n_missing > 0:
        return captured_history
    last_lines = _last_lines(tree)
    is_whole_prompt = last_turn.lines != last_lines and _is_kept_as_whole_prompt(
        last_turn, last_lines
    )
    return captured_history if n_missing == 0 and is_whole_prompt else tree.history


def _has_summary(tree: Tree) -> bool:
    """Return whether a prompt of a run holds a summary of earlier messages."""
    roles: set[str] = set()
    for node in tree.root.walk():
        roles.update(message.role for message in node.prompt)
    return "summary" in roles


def _is_kept_as_whole_prompt(turn: CapturedTurn, last_lines: Sequence[str]) -> bool:
    """Return whether two messages are a turn whose question stands inside a prompt.

    A chat memory may keep the whole prompt, documents included, as the user's message.

    Args:
        turn: The earlier turn.
        last_lines: Two messages that follow each other, each in one line; fewer at the
            beginning of a conversation.
    """
    if len(last_lines) < len(_SPEAKERS):
        return False
    question, answer = turn.lines
    prompt, reply = last_lines
    if answer != reply or len(question) < _SHORTEST:
        return False
    return question in prompt


def _n_questions(history: Sequence[Turn]) -> int:
    """Count the messages of the user in a history."""
    return sum(message.role == "user" for message in history)


def _name_of_new(tree: Tree) -> str:
    """Make a name for a conversation that begins with a run and has no name.

    The same run gives the same name each time; other runs give other names.
    """
    identity = repr((tree.root.name, tree.root.began, tree.root.ended, tree.question))
    return hashlib.blake2b(
        identity.encode("utf-8", "replace"), digest_size=8
    ).hexdigest()
