"""Turns of one conversation: what earlier ones found and said goes on with the next, in bounded memory.

A **turn** is a question of a user and its answer. The **ledger** of a turn lists the
calls that brought evidence in it and before it. Turns are compared by their **words**:
question and answer, each in one line.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

from ragmetrics_core.capture.letters import Text
from ragmetrics_core.capture.locating import DISTINCTIVE_LENGTH
from ragmetrics_core.capture.plain_values import as_one_line
from ragmetrics_core.capture.transcripts import quotation
from ragmetrics_core.capture.tree import Tree
from ragmetrics_core.data import Ledger, Sample, Turn

# how a conversation is found that has no name: nothing is exact then
BY_WORDS = (
    "the words of an earlier turn end the messages handed in",
    "the words of an earlier turn stand in the prompt as such",
    "the words of an earlier turn stand in the messages handed in",
)
_AT_THE_END, _IN_THE_PROMPT, _IN_THE_HISTORY = BY_WORDS
_MOST_NAMED = _MOST_TURNS = 500
_MOST_CALLS = 200
_NEAR = 32
_SIDES = ("user", "assistant")
# a question of fewer letters stands in a prompt by chance
_SHORTEST = 8


@dataclass(frozen=True)
class CapturedTurn:
    """A turn that was captured.

    Attributes:
        question: What was asked; empty if that is unknown.
        answer: What was answered; empty if nothing was.
        ledger: Its ledger, with the calls of earlier turns.
        history: What was said before it.
        words: Question and answer in one line each, as they are compared.
        is_quoting: Whether its own prompts held the answer: it is a sentence of the
            instructions, or of what was found.
    """

    question: str
    answer: str
    ledger: Ledger
    history: tuple[Turn, ...]
    words: tuple[str, ...]
    is_quoting: bool = False

    @property
    def so_far(self) -> tuple[Turn, ...]:
        """What user and assistant had said when it was over."""
        turns = list(self.history)
        if self.question:
            turns.append(Turn(role="user", content=self.question))
        if self.answer:
            turns.append(Turn(role="assistant", content=self.answer))
        return tuple(turns[-2 * _MOST_CALLS :])


@dataclass(frozen=True)
class QuotedTurn:
    """An earlier turn of which question and answer stand in a prompt.

    Attributes:
        turn: The turn.
        is_said: Whether it stands there as an earlier turn of the talk. Who is named
            before and behind it tells.
    """

    turn: CapturedTurn
    is_said: bool


class Conversations:
    """The turns that were captured last, and with which of them a further run goes on.

    Args:
        named: The conversation that runs belong to where the framework has no id of its
            own, or only that of a memory.
        before: Turns of other blocks. One counts where the framework's id is the same
            and its words stand in the history: two applications may use one id.
    """

    def __init__(
        self, named: str | None = None, before: Conversations | None = None
    ) -> None:
        self._named = named
        self._other_blocks = before
        # whether other blocks go on with the turns of this one
        self._shares = before is not None
        self.turns: deque[CapturedTurn] = deque(maxlen=_MOST_TURNS)

    def place_turn(self, tree: Tree, quoted: CapturedTurn | None = None) -> Tree:
        """Return a run as a turn of its conversation.

        The conversation is that of its id or name, else that of an earlier turn with
        which the words of the run go on, else a new one.

        Args:
            tree: The run.
            quoted: The last earlier turn that its prompts quote as such; None if none
                is.
        """
        name = self._name_of(tree)
        last_turn, way = self._last_turn_and_way(tree, name, quoted)
        if last_turn is None:
            return replace(tree, conversation_id=name or _name_of_new(tree))
        history = tree.history
        if _lacks_words_of(last_turn, tree, is_quoted=quoted is not None):
            history = last_turn.so_far
        return replace(
            tree,
            conversation_id=last_turn.ledger.conversation,
            turn_number=1 + max(last_turn.ledger.turn, _n_questions(history)),
            earlier_calls=last_turn.ledger.calls,
            history=history,
            conversation_place=way,
        )

    def _name_of(self, tree: Tree) -> str | None:
        """The name of a run's conversation; None if it has none.

        It is the framework's id, else the user's name. The user's name goes first where
        the framework's id is only the identity of a memory.
        """
        # an application may fill another memory for each message
        if tree.is_id_of_memory and self._named is not None:
            return self._named
        return tree.conversation_id or self._named

    def _last_turn_and_way(
        self, tree: Tree, name: str | None, quoted: CapturedTurn | None
    ) -> tuple[CapturedTurn | None, str]:
        """Return the turn that a run goes on with, and how it was found.

        The turn is None where the run begins a conversation. The way is empty where a
        name tells.
        """
        if tree.turn_number == 1:  # the framework says that nothing was said before
            return None, ""
        if name is not None:
            last_turn = self._last_turn_of(name, tree)
            if (
                last_turn is not None
                or not tree.is_id_of_memory
                or name != tree.conversation_id
            ):
                return last_turn, ""
            # an application may fill another memory for each message
            quoted = None
        turn_by_words = self._turn_at_end_of_history(tree)
        if turn_by_words is None:
            return quoted, _IN_THE_PROMPT
        last_words = _last_words(tree)
        if turn_by_words.words == last_words:
            return turn_by_words, _AT_THE_END
        if _is_kept_as_whole_prompt(turn_by_words, last_words):
            return turn_by_words, _AT_THE_END
        return turn_by_words, _IN_THE_HISTORY

    def _turn_at_end_of_history(self, tree: Tree) -> CapturedTurn | None:
        """Return the earlier turn that ends the history of a run, told by its words.

        The turn's question and answer are the last two messages. The question may also
        stand inside a whole prompt that was kept as the user's message. Where no turn
        ends the history, the last turn that stands anywhere in it counts.

        Returns:
            The turn; None if none fits, or if several end the history alike.
        """
        last_words = _last_words(tree)
        last_roles = tuple(message.role for message in tree.history[-2:])
        fitting = [turn for turn in self.turns if turn.words == last_words]
        if not fitting and last_roles == _SIDES:
            for turn in self.turns:
                if _is_kept_as_whole_prompt(turn, last_words):
                    fitting.append(turn)
        if not fitting:
            return self._last_turn_in_history(tree)
        # turns of the same words cannot be told apart
        return fitting[0] if len(fitting) == 1 else None

    def _last_turn_in_history(self, tree: Tree) -> CapturedTurn | None:
        """Return the last captured turn that stands anywhere in the history of a run.

        Behind it stand turns that gave no sample, or whose words have another form.

        Returns:
            The turn; None if there is none, or if such turns belong to several
            conversations.
        """
        lines = [as_one_line(message.content) for message in tree.history]
        pairs = set(pairwise(lines))
        turns_in_history = []
        for turn in self.turns:
            is_answered = all(turn.words)
            if is_answered and turn.words in pairs:
                turns_in_history.append(turn)
        names = {turn.ledger.conversation for turn in turns_in_history}
        # turns of several conversations cannot all go on here
        return turns_in_history[-1] if len(names) == 1 else None

    def _last_turn_of(self, name: str, tree: Tree) -> CapturedTurn | None:
        """Return the turn of a named conversation after which a run comes.

        That is the turn whose question and answer end the run's history. If there is
        none, it is the last turn of the conversation. A turn that another ``capture()``
        block recorded counts only if the history holds its question and its answer.

        Args:
            name: The name of the conversation.
            tree: The run.

        Returns:
            The turn; None if no turn of the conversation is known.
        """
        lines = {as_one_line(message.content) for message in tree.history}
        turns: list[CapturedTurn] = []
        if self._other_blocks is not None:
            for turn in list(self._other_blocks.turns):
                # ``words`` are the question and the answer, in one line each
                if lines.issuperset(turn.words):
                    turns.append(turn)
        turns += self.turns
        turns = [turn for turn in turns if turn.ledger.conversation == name]
        last_words = _last_words(tree)
        for turn in reversed(turns):
            if turn.words == last_words:
                return turn
        return turns[-1] if turns else None

    def holds_turn_of(self, history: Sequence[Turn]) -> bool:
        """Whether question and answer of a captured turn follow each other in a history.

        The question may stand inside a whole prompt that was kept as the user's
        message.
        """
        lines = [as_one_line(message.content) for message in history]
        for pair in pairwise(lines):
            for turn in self.turns:
                is_answered = all(turn.words)
                if is_answered and (
                    turn.words == pair or _is_kept_as_whole_prompt(turn, pair)
                ):
                    return True
        return False

    def copy_for_trial(self) -> Conversations:
        """A copy that shares with no other block: what it remembers stays in it."""
        trial = Conversations(self._named, self._other_blocks)
        trial._shares = False
        trial.turns.extend(self.turns)
        return trial

    def add(self, tree: Tree, samples: Sequence[Sample]) -> None:
        """Remember a turn that was placed, by its samples.

        Other blocks may go on with it, unless its conversation is new or was told by
        words.
        """
        for sample in samples:
            if sample.ledger is not None:
                self.turns.append(_captured_turn(sample, sample.ledger, tree))
        is_found_by_words = tree.conversation_place in BY_WORDS
        is_new = tree.conversation_id == _name_of_new(tree)
        if not (is_found_by_words or is_new) and self._shares and self._other_blocks:
            self._other_blocks.add(tree, samples)

    def find_quoted_turns(
        self, prompts: Sequence[str], said_now: Collection[str]
    ) -> Iterator[QuotedTurn]:
        """The latest turns whose question and answer both stand in a prompt.

        Args:
            prompts: The prompts of one run.
            said_now: What is asked in that run and what models said in it, each in one
                line. An earlier question or answer that is among it stands there for
                that reason, unless the assistant is named before the answer.
        """
        for turn in list(self.turns)[-_NEAR:]:
            if not all(turn.words):
                continue
            quoting_prompts = []
            for prompt in prompts:
                if turn.question in prompt and turn.answer in prompt:
                    quoting_prompts.append(prompt)
            if not quoting_prompts:
                continue
            is_of_now = not set(turn.words).isdisjoint(said_now)
            questions = () if is_of_now else (turn.question,)
            is_said = any(
                quotation(turn.answer, questions, Text(prompt)) == "said"
                for prompt in quoting_prompts
            )
            if is_said or not is_of_now:
                yield QuotedTurn(turn, is_said)

    def find_answers_alone(
        self, prompts: Sequence[str], said_now: Collection[str]
    ) -> list[str]:
        """The answers of earlier turns that a prompt holds without their questions.

        A memory may keep what the assistant said and nothing else. Short answers, and
        answers that their own prompts held, stand in a prompt for other reasons.

        Args:
            prompts: The prompts of one run.
            said_now: What is asked in that run, what models said in it and what was
                found, each in one line.
        """
        prompt_lines = [as_one_line(prompt) for prompt in prompts]
        answers = []
        for turn in list(self.turns)[-_NEAR:]:
            answer = as_one_line(turn.answer)
            if len(answer) < DISTINCTIVE_LENGTH or turn.is_quoting:
                continue
            if any(answer in line for line in said_now):
                continue
            if any(answer in line for line in prompt_lines):
                answers.append(turn.answer)
        return answers


def _captured_turn(sample: Sample, ledger: Ledger, tree: Tree) -> CapturedTurn:
    """A sample as a turn that others may go on with.

    Args:
        sample: The sample.
        ledger: Its ledger.
        tree: Its run, placed in the conversation.
    """
    prompt_texts = [
        message.text for node in tree.root.walk() for message in node.prompt
    ]
    calls_of_turn = [call for call in ledger.calls if call.turn == ledger.turn]
    calls = (*tree.earlier_calls, *calls_of_turn)
    question = sample.question or ""
    answer = sample.answer or ""
    return CapturedTurn(
        question=question,
        answer=answer,
        ledger=ledger.model_copy(update={"calls": calls[-_MOST_CALLS:]}),
        history=sample.history,
        words=(as_one_line(question), as_one_line(answer)),
        is_quoting=any(answer in text for text in prompt_texts),
    )


@lru_cache(_MOST_NAMED)
def conversations_of_blocks(
    named: str | None = None, redact: object = None
) -> Conversations:
    """The conversations that blocks of one name and one ``redact=`` share.

    Texts that one block hides reach no block that hides others.

    Args:
        named: The name; None for blocks that gave none.
        redact: What hides texts in the blocks.
    """
    if named is None:
        return Conversations()
    return Conversations(named, before=conversations_of_blocks(None, redact))


def _last_words(tree: Tree) -> tuple[str, ...]:
    """The last two messages of a history, as they are compared."""
    return tuple(as_one_line(message.content) for message in tree.history[-2:])


def _lacks_words_of(last_turn: CapturedTurn, tree: Tree, *, is_quoted: bool) -> bool:
    """Whether the history of a run must be filled in from its last turn.

    That is so if the history has fewer questions than were asked, or has a whole prompt
    in the place of the question. A run that keeps no history may be meant to have none:
    then nothing is filled in. A summary or a quoted turn in a prompt counts as kept.
    """
    has_history = bool(tree.history) or is_quoted or _has_summary(tree)
    if not has_history:
        return False
    n_missing = _n_questions(last_turn.so_far) - _n_questions(tree.history)
    last_words = _last_words(tree)
    is_whole_prompt = last_turn.words != last_words and _is_kept_as_whole_prompt(
        last_turn, last_words
    )
    return n_missing > 0 or (n_missing == 0 and is_whole_prompt)


def _has_summary(tree: Tree) -> bool:
    """Whether a prompt of a run holds a summary of earlier messages."""
    roles: set[str] = set()
    for node in tree.root.walk():
        roles.update(message.role for message in node.prompt)
    return "summary" in roles


def _is_kept_as_whole_prompt(turn: CapturedTurn, last_words: Sequence[str]) -> bool:
    """Whether a history ends with a turn whose question was kept inside a whole prompt.

    Args:
        turn: The earlier turn.
        last_words: The last two messages of the history: the prompt, and the reply.
    """
    if len(last_words) < len(_SIDES):
        return False
    question, answer = turn.words
    prompt, reply = last_words
    if answer != reply or len(question) < _SHORTEST:
        return False
    return question in prompt


def _n_questions(history: Sequence[Turn]) -> int:
    """How many messages of a history are the user's."""
    return sum(message.role == "user" for message in history)


def _name_of_new(tree: Tree) -> str:
    """A name for a conversation that has none.

    It is the same each time for one run, and another for each run.
    """
    identity = repr((tree.root.name, tree.root.began, tree.root.ended, tree.question))
    return hashlib.blake2b(
        identity.encode("utf-8", "replace"), digest_size=8
    ).hexdigest()
