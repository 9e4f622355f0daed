"""What a sample is made of: contexts, facts, earlier turns, calls, and what was noted.

Documents of the frameworks are contexts, too. No framework is imported: an object counts
as a document if it has what a document of LangChain, Haystack or LlamaIndex has.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal
from unicodedata import normalize

from pydantic import AfterValidator, BeforeValidator, Field

from ragmetrics_core.data.citations import without_reasoning
from ragmetrics_core.data.frozen import Frozen, OptionalText, Share, Text
from ragmetrics_core.data.messages import known_role, names_media
from ragmetrics_core.data.replies import Usage
from ragmetrics_core.data.scalars import composed_text, is_blank


class Context(Frozen):
    """One retrieved chunk.

    Attributes:
        text: The text as the generator saw it.
        id: The store's own id; None if it gave none. Never invented.
        score: Its retriever's or reranker's; None if it gave none; in no prompt.
        metadata: The chunk's metadata, untouched.
        shown_metadata: The names of those that the prompt showed beside the text; None
            if it showed none, or that is unknown.
    """

    text: Text = Field(repr=False)
    id: Text | None = None
    score: float | None = None
    metadata: dict[str, Any] = Field(default_factory=dict, repr=False)
    shown_metadata: tuple[str, ...] | None = Field(default=None, repr=False)

    @property
    def text_with_metadata(self) -> str:
        """The text below the metadata that were shown with it: "price: 120"."""
        shown = [name for name in self.shown_metadata or () if name in self.metadata]
        lines = [f"{name}: {self.metadata[name]}" for name in shown]
        return "\n".join([*lines, self.text])

    @property
    def blank(self) -> bool:
        """True if the text shows nothing.

        It is then empty, or only white space and signs without a shape.
        """
        return is_blank(self.text)


def distinct_texts(contexts: Sequence[Context]) -> tuple[str, ...]:
    """Return the texts of the contexts that show something, each once, in order."""
    texts = [context.text for context in contexts if not context.blank]
    return tuple(dict.fromkeys(texts))


def texts_as_shown(contexts: Sequence[Context]) -> tuple[str, ...]:
    """Return these texts, each with the metadata that were shown beside it."""
    shown = [each.text_with_metadata for each in contexts if not each.blank]
    return tuple(dict.fromkeys(shown))


class Fact(Frozen):
    """One atomic, self-contained statement of a golden response.

    Attributes:
        text: The statement.
        weight: Its weight in the mean over facts, > 0.
    """

    text: Annotated[Text, Field(pattern=r"\S")] = Field(repr=False)
    weight: float = Field(default=1.0, gt=0, allow_inf_nan=False)


class Turn(Frozen):
    """An earlier turn of the conversation.

    Attributes:
        role: Who spoke, e.g. ``user`` or ``assistant``.
        content: What was said.
    """

    role: str
    content: Text = Field(repr=False)


Grade = Literal["exact", "inferred", "incomplete"]
EvidenceFrom = Literal["prompt", "flow", "named"]

# words of older results files
_OLDER_WORDS = {
    "located": "exact",
    "resolved": "prompt",
    "undivided": None,
    "ids_only": None,
    "listed": "flow",
    "retrieved_only": "flow",
    "none_found": "flow",
}


def _word_of_now(value: object) -> object:
    """Read a word of an older results file as the word that is written now."""
    return _OLDER_WORDS.get(value, value) if isinstance(value, str) else value


class PassageNote(Frozen):
    """What became of one retrieved passage, as far as the run recorded it.

    Attributes:
        retriever: The call that found it first.
        rank: Its rank there, from 1; None: unknown.
        kept: Whether rerankers and filters handed it on; None: none is known that was
            given it.
        rank_kept: Its rank behind the last of them; None: unknown.
        dropped_by: The name of the one that did not.
        context: Place of the context that shows it, from 0.
        share: Share of its letters that the model was shown; 0: none; None: unknown.
        why_unknown: Why it is not known whether the model was shown it; None: it is
            known, or another field says why not.
    """

    retriever: str | None = Field(default=None, repr=False)
    rank: int | None = Field(default=None, ge=1)
    kept: bool | None = None
    rank_kept: int | None = Field(default=None, ge=1)
    dropped_by: str | None = Field(default=None, repr=False)
    context: int | None = Field(default=None, ge=0)
    share: Share | None = None
    why_unknown: str | None = Field(default=None, repr=False)


class PromptMessage(Frozen):
    """One message of the prompt that an answer was written from.

    Attributes:
        role: ``system``, ``user``, ``assistant`` or ``tool``.
        content: Its text; of calls of tools the calls in words.
    """

    role: str
    content: Text = Field(repr=False)


class CaptureNotes(Frozen):
    """What capturing knows about a sample, beyond the sample itself.

    Attributes:
        grade: How sure the sample is: ``exact``; ``inferred``, something is uncertain;
            ``incomplete``, there is no answer or no evidence, or the run broke. None
            for samples that no rules made.
        evidence_from: How the contexts are known: from the ``prompt``; from the
            ``flow`` of documents; ``named`` by the user. None: they are not known.
        doubts: What is uncertain: by code what it is and what to do, in words.
        warnings: What was ambiguous, in words; they hold no texts.
        intermediate: Answers of intermediate steps: no retrieved evidence.
        other: Nodes of the run that are neither contexts nor retrieved.
        complete: False if the run was abandoned, interrupted or still going on.
        passages: One for each retrieved passage; None if nothing was recorded.
        citations_unknown: Why it is not known what the answer cites; None if it is.
        unread_texts: Why the run may have found texts that the sample lacks, and what
            returns them, in words; (): no such texts are known; None: nobody noted it.
        prompt: The prompt of the answer, where ``keep_prompts=True`` asked for it.
    """

    grade: Annotated[Grade | None, BeforeValidator(_word_of_now)] = None
    evidence_from: Annotated[EvidenceFrom | None, BeforeValidator(_word_of_now)] = None
    doubts: dict[str, str] = Field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    intermediate: tuple[Context, ...] = ()
    other: tuple[Context, ...] = ()
    complete: bool = True
    passages: tuple[PassageNote, ...] | None = Field(default=None, repr=False)
    citations_unknown: str | None = Field(default=None, repr=False)
    unread_texts: tuple[str, ...] | None = Field(default=None, repr=False)
    prompt: tuple[PromptMessage, ...] | None = Field(default=None, repr=False)


def _with_texts(value: object) -> object:
    """Accept plain strings and documents of frameworks as objects with a text."""
    if isinstance(value, (str, Context)) or fields_of_document(value) is not None:
        value = [value]
    if isinstance(value, (list, tuple)):
        elements: list[object] = []
        for element in value:
            if isinstance(element, str):
                elements.append({"text": element})
            elif isinstance(element, (Context, Mapping)):
                elements.append(element)
            else:
                elements.append(fields_of_document(element) or element)
        return tuple(elements)
    return value


Facts = Annotated[
    tuple[Fact, ...] | None,
    BeforeValidator(_with_texts),
    AfterValidator(lambda facts: facts or None),
]
OptionalContexts = Annotated[tuple[Context, ...] | None, BeforeValidator(_with_texts)]
Contexts = Annotated[
    tuple[Context, ...],
    BeforeValidator(lambda value: () if value is None else _with_texts(value)),
]


class EvidenceCall(Frozen):
    """One time that evidence arrived.

    It is a retrieval, a tool's result, documents handed in or made of others, or a model's
    own text.

    Attributes:
        kind: ``written``: by a model of the application, never evidence; ``tool``: any
            other result without documents.
        turn: The turn of the conversation, from 1.
        step: Calls of models of the turn that began before it; plain RAG: 0.
        name: The tool's name; None without a tool.
        query: Its one text argument, else all as JSON.
        items: What it brought, in its own order; () for nothing.
        shown: Places of the items that the calls behind the answer were shown; None if
            that is unknown.
        agent: The agent that made the call; None for the only one.
        error: What it failed with; it has no items then.
    """

    kind: Literal["retrieval", "tool", "given", "written"]
    turn: int = Field(default=1, ge=1)
    step: int = Field(default=0, ge=0)
    name: str | None = None
    query: OptionalText = Field(default=None, repr=False)
    items: Contexts = ()
    shown: tuple[int, ...] | None = None
    agent: str | None = None
    error: str | None = Field(default=None, repr=False)


class Ledger(Frozen):
    """Every call that brought evidence, of this turn and of the turns before it.

    The calls are ordered by turn, step and call.

    Attributes:
        conversation: Id that the turns of one conversation share.
        turn: The turn of this sample, from 1.
    """

    conversation: str | None = None
    turn: int = Field(default=1, ge=1)
    calls: tuple[EvidenceCall, ...] = ()


UseVerdict = Literal["used", "redundant", "not used", "cannot tell"]


class PassageUse(Frozen):
    """What became of the answer when one passage was taken out of its prompt.

    Attributes:
        verdict: ``used``: without it the answer is another; ``redundant``: it is
            another only without a further passage as well, which holds the same; ``not
            used``: the answer stays, also without all others that are not used;
            ``cannot tell``: the answer varies as much by itself, or ``why`` says why.
        effect: 1 - word F1 of the answers with and without it; None: unknown.
        answer: The answer without it.
        why: What the verdict rests on, in words.
    """

    verdict: UseVerdict
    effect: Share | None = None
    answer: Text | None = Field(default=None, repr=False)
    why: str = ""


class MeasuredUse(Frozen):
    """What each passage did to the answer, by asking the model again without it.

    Attributes:
        model: The model that was asked.
        judge: Who was asked whether two answers say the same; None: nobody.
        why_not: Why nothing was measured, in words; None: it was.
        answers: The answers to the whole prompt: the run's own, and the repeats.
        spread: How far these are from each other at most.
        answer_without_any: The answer without any passage.
        effect_of_all: How far that is from the answer with all.
        passages: One for each context, in order.
        redundant: Places, from 0, of contexts that hold the same, group by group.
        usage: What measuring cost.
    """

    model: str
    judge: str | None = None
    why_not: str | None = None
    answers: tuple[Text, ...] = Field(default=(), repr=False)
    spread: Share | None = None
    answer_without_any: Text | None = Field(default=None, repr=False)
    effect_of_all: Share | None = None
    passages: tuple[PassageUse, ...] = ()
    redundant: tuple[tuple[int, ...], ...] = ()
    usage: Usage = Field(default_factory=Usage)

    def __str__(self) -> str:
        """A line for each passage; no text of it."""
        if self.why_not is not None:
            return f"not measured: {self.why_not}"
        lines = [f"answers of {self.model} without each passage:"]
        for number, passage in enumerate(self.passages, start=1):
            effect = "  ? " if passage.effect is None else f"{passage.effect:4.2f}"
            why = f"  ({passage.why})" if passage.why else ""
            lines.append(f"{number:3}  {effect}  {passage.verdict}{why}")
        return "\n".join(lines)


def fields_of_document(document: object) -> dict[str, Any] | None:
    """Return text, id, score and metadata of a framework's document.

    Example: LangChain's ``Document(page_content="Blue.", id="a")`` gives the text
    "Blue." and the id "a".

    Args:
        document: LangChain's or Haystack's ``Document``, LlamaIndex's ``NodeWithScore``
            or a node of it, or anything else.

    Returns:
        The fields of a context; the text is None for a document without one, such as an
        image. None if it is no such document.
    """
    node = getattr(document, "node", None)
    if node is not None and hasattr(document, "score"):  # LlamaIndex's NodeWithScore
        fields = fields_of_document(node)
        return None if fields is None else fields | {"score": document.score}
    if hasattr(document, "page_content"):  # LangChain
        text = document.page_content
        metadata = getattr(document, "metadata", None)
    elif hasattr(document, "content") and hasattr(document, "meta"):  # Haystack
        text = document.content
        metadata = document.meta
    elif hasattr(document, "get_content") and hasattr(document, "node_id"):
        text = document.get_content()  # a node of LlamaIndex
        if not is_blank(text) or not names_media(document):
            # what models see, its metadata first; that of an image is not what it shows
            text = document.get_content(metadata_mode="llm")
        metadata = getattr(document, "metadata", None)
    else:
        return None
    named_id = getattr(document, "id", None)
    return {
        "text": text if isinstance(text, str) else None,
        "id": getattr(document, "node_id", None) if named_id is None else named_id,
        "score": getattr(document, "score", None),
        "metadata": dict(metadata) if isinstance(metadata, Mapping) else {},
    }


# A turn that says so many letters and digits of the answer gives it away, also where it
# says more. A shorter answer, such as "In 1903", may stand in any earlier turn.
_FEWEST_LETTERS = 20
_FEWEST_LETTERS_OF_LAST = 4  # of the same in the last reply
_FEWEST_LETTERS_OF_QUESTION = 15
_MARK = re.compile(r"\[[^\[\]\n]{1,60}\]|【[^【】\n]{1,60}】")
_SPEAKER = re.compile(r"\A\s*\w{1,12}[ \t]*:")  # as in "AI: It was in May."


def before_this_turn(
    history: Sequence[Turn], questions: Sequence[str], answer: str, *, is_captured: bool
) -> tuple[Turn, ...]:
    """Return the turns of a history that come before this question and its answer.

    They end where the question is followed by the answer, word for word and before the
    user goes on: a whole conversation may stand beside each of its rows. They also end
    before the question as the last turn. Of several such places the first counts, as
    nobody knows which is meant.

    Args:
        history: The turns, oldest first.
        questions: The question of this turn in all its wordings.
        answer: The answer; "" for none.
        is_captured: Whether it is known that only the last two turns may be this one,
            which a memory holds that was read after the run.
    """
    first_place = max(0, len(history) - 2) if is_captured else 0
    answer = without_reasoning(answer)
    for place, turn in enumerate(history):
        is_question = any(_same_words(turn.content, words) for words in questions)
        is_asked = is_question and known_role(turn.role) != "assistant"
        if place < first_place or not is_asked:
            continue
        if place == len(history) - 1:
            return tuple(history[:place])
        for later_turn in history[place + 1 :]:  # a tool may say something in between
            if _same_words(without_reasoning(later_turn.content), answer):
                return tuple(history[:place])
            if known_role(later_turn.role) == "user":
                break
    return tuple(history)


def turns_without_answer(
    history: Sequence[Turn], question: str, answer: str
) -> tuple[Turn, ...]:
    """Return the turns of a conversation that do not give the answer away.

    They are for a judge that must not see the answer. Left out are this question, if it
    is the user's last, with the replies after it, and every turn that says the answer.

    Args:
        history: The turns, oldest first.
        question: The question that the answer belongs to.
        answer: The answer; "" for none.
    """
    turns_of_user = [
        number
        for number, turn in enumerate(history, start=1)
        if known_role(turn.role) == "user"
    ]
    last_replies_start = max(turns_of_user, default=0)
    if last_replies_start > 0:
        text = history[last_replies_start - 1].content
        if _letters(question) and _says(text, question, _FEWEST_LETTERS_OF_QUESTION):
            history = history[: last_replies_start - 1]
    earlier_turns = []
    for index, turn in enumerate(history):
        # the last replies may be this answer with words added
        is_last_reply = index >= last_replies_start
        fewest = _FEWEST_LETTERS_OF_LAST if is_last_reply else _FEWEST_LETTERS
        if not _says(turn.content, answer, fewest):
            earlier_turns.append(turn)
    return tuple(earlier_turns)


def _same_words(text: str, other: str) -> bool:
    """Tell whether two texts hold the same words; texts without a word never do."""
    composed = composed_text(text)
    return bool(composed) and composed == composed_text(other)


def _says(text: str, wording: str, fewest: int) -> bool:
    """Tell whether a turn says a question or an answer.

    Citation marks, punctuation and letter case do not matter. A short wording such as
    "In 1903" may stand in any longer turn by chance: there it counts from ``fewest``
    letters on.
    """
    letters_of_wording = _letters(wording)
    if not letters_of_wording:
        return _same_words(text, wording)
    letters = _letters(text)
    without_speaker = _letters(_SPEAKER.sub("", text, count=1))
    if letters_of_wording in (letters, without_speaker):
        return True
    return len(letters_of_wording) >= fewest and letters_of_wording in letters


def _letters(text: str) -> str:
    """Return the letters and digits of a text without the marks of its citations."""
    without_marks = _MARK.sub("", normalize("NFKC", text))
    return "".join(filter(str.isalnum, without_marks.casefold()))
