"""Turns of one conversation: what earlier ones found and said goes on with the next, in bounded memory."""

import hashlib
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

from ragmetrics_core.capture.letters import Text
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
class Said:
    """A turn that was captured.

    Attributes:
        question: What was asked; empty if that is unknown.
        answer: What was answered; empty if nothing was.
        ledger: Its ledger, with the calls of earlier turns.
        history: What was said before it.
        words: Question and answer in one line each, as they are compared.
    """

    question: str
    answer: str
    ledger: Ledger
    history: tuple[Turn, ...]
    words: tuple[str, ...]  # question and answer as they are compared

    @property
    def so_far(self) -> tuple[Turn, ...]:
        """What user and assistant had said when it was over."""
        sides = (("user", self.question), ("assistant", self.answer))
        return (
            *self.history,
            *(Turn(role=role, content=text) for role, text in sides if text),
        )[-2 * _MOST_CALLS :]


@dataclass(frozen=True)
class Quoted:
    """An earlier turn of which question and answer stand in a prompt.

    Attributes:
        turn: The turn.
        is_said: Whether it stands there as an earlier turn of the talk. Who is named
            before and behind it tells.
    """

    turn: Said
    is_said: bool  # as an earlier turn, by who is named before and behind it


class Conversations:
    """The turns that were captured last, and with which of them a further run goes on.

    Args:
        named: The conversation that runs belong to where the framework has no id of its
            own, or only that of a memory.
        before: Turns of other blocks. One counts where the framework's id is the same
            and its words stand in the history: two applications may use one id.
    """

    def __init__(
        self, named: str | None = None, before: "Conversations | None" = None
    ) -> None:
        self._named, self._before = named, before
        self.turns: deque[Said] = deque(maxlen=_MOST_TURNS)

    def place_turn(self, tree: Tree, quoted: Said | None = None) -> Tree:
        """Return a run as a turn of its conversation.

        The conversation is that of its id or name, else that of an earlier turn with
        which the words of the run go on, else a new one.

        Args:
            tree: The run.
            quoted: The last earlier turn that its prompts quote as such; None if none
                is.
        """
        name = self._name_of(tree)
        last_turn, way = self._last_and_way(tree, name, quoted)
        if last_turn is None:
            return replace(tree, conversation=name or _new(tree))
        history = tree.history
        if _lacks_words_of(last_turn, tree, is_quoted=quoted is not None):
            history = last_turn.so_far
        return replace(
            tree,
            conversation=last_turn.ledger.conversation,
            turn=1 + max(last_turn.ledger.turn, _n_questions(history)),
            earlier=last_turn.ledger.calls,
            history=history,
            conversation_at=way,
        )

    def _name_of(self, tree: Tree) -> str | None:
        """The name of a run's conversation; None if it has none.

        It is the framework's id, else the user's name. The user's name goes first where
        the framework's id is only the identity of a memory.
        """
        # an application may fill another memory for each message
        if tree.kept and self._named is not None:
            return self._named
        return tree.conversation or self._named

    def _last_and_way(
        self, tree: Tree, name: str | None, quoted: Said | None
    ) -> tuple[Said | None, str]:
        """Return the turn that a run goes on with, and how it was found.

        The turn is None where the run begins a conversation. The way is empty where a
        name tells.
        """
        if tree.turn == 1:  # the framework says that nothing was said before
            return None, ""
        if name is not None:
            last_turn = self._last_of(name, tree)
            if last_turn is not None or not tree.kept or name != tree.conversation:
                return last_turn, ""
            # an application may fill another memory for each message
            quoted = None
        by_words = self._last_by_words(tree)
        if by_words is None:
            return quoted, _IN_THE_PROMPT
        is_at_the_end = by_words.words == _last_words(tree) or _is_rendered_as(
            by_words, _last_words(tree)
        )
        return by_words, _AT_THE_END if is_at_the_end else _IN_THE_HISTORY

    def _last_by_words(self, tree: Tree) -> Said | None:
        """Return the earlier turn that ends the history of a run, told by its words.

        The turn's question and answer are the last two messages. The question may also
        stand inside a whole prompt that was kept as the user's message. Where no turn
        ends the history, the last turn that stands anywhere in it counts.

        Returns:
            The turn; None if none fits, or if several end the history alike.
        """
        words = _last_words(tree)
        ended = [turn for turn in self.turns if turn.words == words]
        if not ended and [message.role for message in tree.history[-2:]] == list(
            _SIDES
        ):
            ended = [turn for turn in self.turns if _is_rendered_as(turn, words)]
        if ended:
            # turns of the same words cannot be told apart
            return ended[0] if len(ended) == 1 else None
        return self._last_before_others(tree)

    def _last_before_others(self, tree: Tree) -> Said | None:
        """Return the last captured turn that stands anywhere in the history of a run.

        Behind it stand turns that gave no sample, or whose words have another form.

        Returns:
            The turn; None if there is none, or if such turns belong to several
            conversations.
        """
        lines = [as_one_line(said_turn.content) for said_turn in tree.history]
        pairs = set(pairwise(lines))
        standing = [
            turn for turn in self.turns if all(turn.words) and turn.words in pairs
        ]
        names = {turn.ledger.conversation for turn in standing}
        # turns of several conversations cannot all go on here
        return standing[-1] if len(names) == 1 else None

    def _last_of(self, name: str, tree: Tree) -> Said | None:
        """Return the turn of a named conversation that a run goes on with.

        That is the turn whose words end the history, else the last turn of this name. A
        turn of another block counts only if its words stand in the history.
        """
        spoken = {as_one_line(said_turn.content) for said_turn in tree.history}
        of_other_blocks = list(self._before.turns) if self._before is not None else []
        turns = [turn for turn in of_other_blocks if spoken.issuperset(turn.words)]
        of_this_name = [
            turn for turn in (*turns, *self.turns) if turn.ledger.conversation == name
        ]
        words = _last_words(tree)
        same_words = (turn for turn in reversed(of_this_name) if turn.words == words)
        return next(same_words, of_this_name[-1] if of_this_name else None)

    def add(self, tree: Tree, samples: Sequence[Sample]) -> None:
        """Remember a turn that was placed, by its samples.

        Other blocks may go on with it, unless its conversation is new or was told by
        words.
        """
        for sample in samples:
            if sample.ledger is not None:
                of_this_turn = (
                    call
                    for call in sample.ledger.calls
                    if call.turn == sample.ledger.turn
                )
                ledger = sample.ledger.model_copy(
                    update={"calls": (*tree.earlier, *of_this_turn)[-_MOST_CALLS:]}
                )
                question_and_answer = sample.question or "", sample.answer or ""
                self.turns.append(
                    Said(
                        *question_and_answer,
                        ledger,
                        sample.history,
                        tuple(map(as_one_line, question_and_answer)),
                    )
                )
        if (
            self._before is not None
            and tree.conversation_at not in BY_WORDS
            and tree.conversation != _new(tree)
        ):
            self._before.add(tree, samples)

    def find_quoted_turns(
        self, prompts: Sequence[str], said_now: Collection[str]
    ) -> Iterator[Quoted]:
        """The latest turns whose question and answer both stand in a prompt.

        Args:
            prompts: The prompts of one run.
            said_now: What is asked in that run and what models said in it, each in one
                line. An earlier question or answer that is among it stands there for
                that reason, unless the assistant is named before the answer.
        """
        for turn in list(self.turns)[-_NEAR:]:
            hosts = [
                prompt
                for prompt in prompts
                if turn.question in prompt and turn.answer in prompt
            ]
            if not all(turn.words) or not hosts:
                continue
            is_of_now = not set(turn.words).isdisjoint(said_now)
            questions = () if is_of_now else (turn.question,)
            is_said = any(
                quotation(turn.answer, questions, Text(host)) == "said"
                for host in hosts
            )
            if is_said or not is_of_now:
                yield Quoted(turn, is_said)


@lru_cache(_MOST_NAMED)
def of_blocks(named: str | None = None, redact: object = None) -> Conversations:
    """What blocks of one name and one ``redact=`` share.

    Texts that one block hides reach no block that hides others.
    """
    return Conversations(named, None if named is None else of_blocks(None, redact))


def _last_words(tree: Tree) -> tuple[str, ...]:
    """The last two messages of a history, as they are compared."""
    return tuple(as_one_line(message.content) for message in tree.history[-2:])


def _lacks_words_of(last_turn: Said, tree: Tree, *, is_quoted: bool) -> bool:
    """Whether the history of a run must be filled in from its last turn.

    That is so if the history has fewer questions than were asked, or has a whole prompt
    in the place of the question. A run that keeps no history may be meant to have none:
    then nothing is filled in. A summary or a quoted turn in a prompt counts as kept.
    """
    prompts = (message for node in tree.root.walk() for message in node.prompt)
    is_kept = (
        tree.history
        or is_quoted
        or any(message.role == "summary" for message in prompts)
    )
    if not is_kept:
        return False
    missing = _n_questions(last_turn.so_far) - _n_questions(tree.history)
    words = _last_words(tree)
    is_rendered = last_turn.words != words and _is_rendered_as(last_turn, words)
    return missing > 0 or (missing == 0 and is_rendered)


def _is_rendered_as(turn: Said, words: Sequence[str]) -> bool:
    """Whether a history ends with a turn whose question was kept inside a whole prompt.

    Args:
        turn: The earlier turn.
        words: The last two messages of the history: the prompt, and the reply.
    """
    if len(words) < len(_SIDES):
        return False
    question, answer = turn.words
    prompt, reply = words
    return answer == reply and len(question) >= _SHORTEST and question in prompt


def _n_questions(history: Sequence[Turn]) -> int:
    return sum(said_turn.role == "user" for said_turn in history)


def _new(tree: Tree) -> str:
    """A name for a conversation that has none.

    It is the same each time for one run, and another for each run.
    """
    identity = repr((tree.root.name, tree.root.began, tree.root.ended, tree.question))
    return hashlib.blake2b(
        identity.encode("utf-8", "replace"), digest_size=8
    ).hexdigest()
