"""The open seam between metrics and judges: what is asked, how, and of what length.

A judge answers any question from its fields alone; one of your own is a subclass of
``Question`` that adds nothing but its name.
"""

import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from itertools import accumulate, chain, islice, pairwise
from typing import Any, Generic, Literal, TypeVar, cast

from pydantic import BaseModel

from ragmetrics_core.data.errors import (
    JudgeError,
    NoReplyInTime,
    SettingError,
    TooFewPolls,
)
from ragmetrics_core.data.frozen import PrivateRepr, check_number
from ragmetrics_core.data.replies import (
    Asked,
    Mode,
    NotAnswered,
    R,
    Weight,
    form_of_verdict,
    list_field,
    verdicts_of,
)
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.data.sample_parts import Turn
from ragmetrics_core.data.scalars import is_yes

Label = int | str
T = TypeVar("T")
Texts = str | tuple[str, ...] | None
Bounds = tuple[float, float]
# Fewest characters of a text that is worth cutting, and characters that both its
# windows hold.
_SHORTEST_CUT_TEXT, _CHARACTERS_OF_OVERLAP = 1_000, 200
_FARTHEST_SPACE = 80  # characters from where a text is cut to a space

PLACEHOLDER = re.compile(
    r"^[ \t]*\{(?P<alone>[^\W\d]\w*)\}[ \t]*(?P<end>\n|\Z)|\{(?P<inside>[^\W\d]\w*)\}",
    re.M,
)
"""A name in braces, alone on its line or not; other braces, as in JSON, are literal."""


@dataclass(frozen=True, slots=True, repr=False)
class Part(PrivateRepr):
    """A text to show, or a group of texts.

    Args:
        label: What it is, in our words, e.g. ``"Answer"``.
        text: The text, or several; None and () show nothing.
        marks: How several are told apart: fenced one by one with ``numbers`` or neutral
            ``letters``, or as ``lines`` of one fence, so that none can pose as another.
        rewrite: The application's own rewrite of the text, shown in the same fence.
        history: Earlier turns, shown in the same fence.
    """

    label: str
    text: Texts
    marks: Literal["numbers", "letters", "lines"] = "numbers"
    rewrite: str | None = None
    history: tuple[Turn, ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts, in order; a single text is one of one, None is none."""
        if self.text is None:
            return ()
        if isinstance(self.text, tuple):
            return self.text
        return (self.text,)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of a group, in order.

        They are 1, 2 …; or A, B … Z, AA …; or, as lines of one fence, the first letter
        of the part's label with a number, e.g. F1, F2 … for "Facts".
        """
        numbers = range(1, len(self.texts) + 1)
        if self.marks == "letters":
            return tuple(_letter_label(number) for number in numbers)
        prefix = self.label[0] if self.marks == "lines" else ""
        return tuple(f"{prefix}{number}" for number in numbers)


def _letter_label(number: int) -> str:
    """Return the label for a number from 1: A … Z, AA …, as columns of a sheet."""
    n_full_alphabets, letter_index = divmod(number - 1, 26)
    first_letters = _letter_label(n_full_alphabets) if n_full_alphabets else ""
    return first_letters + chr(ord("A") + letter_index)


@dataclass(frozen=True, slots=True, repr=False)
class Instructions(PrivateRepr):
    """What the judge is told.

    Args:
        template: Fixed text with ``{names}`` of parts, each on a line of its own;
            ``{examples}`` and ``{language}`` may stand anywhere. What is above a line
            ``---`` is the system message.
        examples: Few-shot examples, already written out; "" for none.
        language: Language of explanations, e.g. ``"German"``; None leaves it to the
            model.
        optional: Names of parts that the template need not show.
    """

    template: str
    examples: str = ""
    language: str | None = None
    optional: tuple[str, ...] = ()


@lru_cache(maxsize=256)
def check_template(instructions: Instructions, parts: tuple[str, ...]) -> None:
    """Refuse a template that would show a judge something other than what is meant.

    Args:
        instructions: The template, and which parts it need not show.
        parts: The names of the question's parts.

    Raises:
        SettingError: If the template names something that is no part, if it names a
            part within a line, where its text cannot be fenced off, or if it never
            names a part that it has to show.
    """
    placeholders = list(PLACEHOLDER.finditer(instructions.template))
    on_own_line = {match["alone"] for match in placeholders if match["alone"]}
    within_line = {match["inside"] for match in placeholders if match["inside"]}
    names = on_own_line | within_line
    unknown = names - {*parts, "examples", "language"}
    parts_within_line = within_line.intersection(parts)
    never_shown = set(parts) - names - set(instructions.optional)
    if unknown:
        problem = (
            f"has {_names_in_braces(unknown)}, of which this question has no part; for"
            " braces that are meant write { name }"
        )
    elif parts_within_line:
        problem = (
            f"has {_names_in_braces(parts_within_line)} within a line, where it cannot be"
            " fenced; give it a line of its own"
        )
    elif never_shown:
        problem = (
            f"never shows {_names_in_braces(never_shown)}; give it a line, or name it"
            " in optional="
        )
    else:
        return
    raise SettingError(
        f"the template {problem}. The question's parts: {_names_in_braces(parts)}"
    )


def _names_in_braces(names: Iterable[str]) -> str:
    """Names as a template writes them, for a message: ``{answer}, {question}``."""
    return ", ".join(f"{{{name}}}" for name in sorted(names))


@dataclass(frozen=True, slots=True)
class LabelProbability:
    """Asks for the probability of a label instead of the bare verdict.

    Args:
        field: Field of the reply, or of each item of its list, that holds the label.
        positive: The label whose probability is wanted.
        labels: All labels; none begins with another, so that the first token tells them
            apart.
        item_id_field: Field with the id of the judged text, where the reply is a list
            of items, one for each text.
        fallback_polls: How many polls stand in where a judge has no usable
            log-probabilities.
        needs_tokens: Whether a model that gives no log-probabilities at all answers
            with ``QuestionNotSupported`` instead of polls, as there is another way.

    Raises:
        SettingError: If the labels cannot be told apart, or ``positive`` is none of
            them.
    """

    field: str
    positive: Label = 1
    labels: tuple[Label, ...] = (0, 1)
    item_id_field: str | None = None
    fallback_polls: int = 3
    needs_tokens: bool = False

    def __post_init__(self) -> None:
        """Raise ``SettingError`` for labels that cannot be told apart by their first token.

        There must be two or more labels, and ``positive`` must be one of them. No label
        may begin with another label: a model's first token "no" could be the label "no",
        or the beginning of "nothing".
        """
        check_number(
            f"LabelProbability({self.field!r}, fallback_polls=)",
            self.fallback_polls,
            least=1,
        )
        has_positive = self.positive in self.labels
        is_choice = has_positive and len(self.labels) >= 2
        names = sorted(str(label).casefold() for label in self.labels)
        begins_with_another = any(  # as "nothing" begins with "no"
            name.startswith(name_before) for name_before, name in pairwise(names)
        )
        if not is_choice or begins_with_another:
            raise SettingError(
                f"LabelProbability({self.field!r}) needs two or more labels of which none begins"
                f" with another, positive among them; got {self.labels!r} and"
                f" {self.positive!r}"
            )


@dataclass(frozen=True, slots=True)
class Windows:
    """Lets a text that is too long for a judge be judged in overlapping windows.

    Example: ``Windows("context", "covered")``. A long context is judged in two halves.
    If the first half covers a fact and the second does not, the context covers it.

    Args:
        part: Name of the part that may be cut; of several texts, which are first
            divided into shorter groups.
        deciding_field: Field of the reply that decides which window's verdict counts:
            the one where this field (or its weight) is highest.
    """

    part: str
    deciding_field: str


@dataclass(frozen=True, kw_only=True, repr=False)
class Question(PrivateRepr, Generic[R]):
    """A question to a judge, answered with replies of the type ``Reply``.

    Args:
        parts: The texts to show, by the name of their placeholder.
        instructions: What the judge is told; judges that do not read prompts ignore it.
        Reply: Form of the reply, a pydantic model: its validators read the reply, with
            the question as validation context. Its JSON schema is sent, unless the
            template names every field of it in quotes.
        polls: How many independent replies.
        first_poll: Index of the first of them where they are asked for in rounds, so
            that later rounds get fresh ones.
        temperature: Sampling temperature. By default 1.0 for several polls, which would
            all say the same at 0, and 0.0 for one. A chat model is asked for a
            probability, and for polls in its place, at 1.0 whatever stands here; for a
            single verdict in its place at this one.
        wanted_probability: Which label's probability is wanted; None for bare verdicts.
        if_too_long: Which text is judged in windows where all texts together are too
            long for the judge; None if they are needed as a whole.
        example: A usual reply, for dry runs; the fields of each of its verdicts; or a
            function of the question that returns it.
    """

    parts: Mapping[str, Part]
    instructions: Instructions
    Reply: type[R]
    polls: int = 1
    first_poll: int | None = None
    temperature: float | None = None
    wanted_probability: LabelProbability | None = None
    if_too_long: Windows | None = None
    example: R | Mapping[str, Any] | Callable[[Any], R] | None = field(
        default=None, compare=False
    )

    def __post_init__(self) -> None:
        """Refuse, by ``SettingError``, what no judge can ask with, e.g. ``polls=0``.

        Sets the usual temperature where none is given.
        """
        if not isinstance(self.parts, Mapping):
            raise _wrong_field(self, "parts", "a mapping of names to Part objects")
        for name, part in self.parts.items():
            if not isinstance(part, Part):
                raise SettingError(
                    f"{type(self).__name__}: parts must have a Part for {name!r}, e.g."
                    f" Part('Answer', text), got {type(part).__name__}"
                )
        for name, (kind, example) in _KIND_OF_FIELD.items():  # fields of a question
            value = getattr(self, name)
            may_be_none = name != "instructions"
            is_left_out = value is None and may_be_none
            if not isinstance(value, kind) and not is_left_out:
                raise _wrong_field(self, name, f"{kind.__name__}, e.g. {example}")
        # if the probability of a label is wanted, such as of "yes" in the field "useful",
        # the form of the reply must have this field
        problem = _problem_of_reply_form(self.Reply, self.wanted_probability)
        if problem:
            raise SettingError(f"{type(self).__name__}: {problem}")
        check_number(f"{type(self).__name__}(polls=)", self.polls, least=1)
        if self.temperature is None:
            # Several polls vary at 1.0. One reply is enough for a probability.
            are_several = self.polls > 1 and self.wanted_probability is None
            object.__setattr__(self, "temperature", 1.0 if are_several else 0.0)
        check_number(
            f"{type(self).__name__}(temperature=)",
            self.temperature,
            least=0,
            whole=False,
        )

    def __getitem__(self, name: str) -> Any:
        """The text of a part, or its texts if it is a group."""
        return self.parts[name].text

    @property
    def n_characters(self) -> int:
        """How long the texts of all parts are together."""
        return sum(len(text) for part in self.parts.values() for text in part.texts)

    @property
    def labels_of_verdicts(self) -> tuple[str, ...]:
        """The labels of the texts on each of which a reply has a verdict; () for one."""
        name = list_field(self.Reply)
        part = None if name is None else self.parts.get(name)
        return () if part is None else part.labels

    def read_verdicts(self, verdicts: Sequence[Mapping[str, Any]]) -> R:
        """Read a reply with these verdicts on its texts, or with the only verdict.

        Raises ``ValidationError`` if it has not the form that was asked for.
        """
        if not self.labels_of_verdicts:
            return self.read(verdicts[0])
        labelled = [
            {**verdict, "label": label}
            for label, verdict in zip(self.labels_of_verdicts, verdicts, strict=True)
        ]
        return self.read({list_field(self.Reply): labelled})

    def read(self, value: object) -> R:
        """Read a reply.

        Raises ``ValidationError`` if it has not the form that was asked for.
        """
        return self.Reply.model_validate(value, context=self)

    def example_reply(self) -> R | None:
        """Return a usual reply; None if the question names none."""
        if isinstance(self.example, Mapping):
            n_verdicts = len(self.labels_of_verdicts) or 1
            return self.read_verdicts([self.example] * n_verdicts)
        return self.example(self) if callable(self.example) else self.example


# What some fields of a question hold, with an example.
_KIND_OF_FIELD: Mapping[str, tuple[type, str]] = {
    "instructions": (Instructions, "Instructions(text)"),
    "wanted_probability": (LabelProbability, "LabelProbability('useful')"),
    "if_too_long": (Windows, "Windows('answer', 'useful')"),
}


def _wrong_field(question: Question[Any], name: str, wanted: str) -> SettingError:
    """Return the error for a question's field that holds another type."""
    kind = type(getattr(question, name)).__name__
    return SettingError(
        f"{type(question).__name__}: {name} must be {wanted}, got {kind}"
    )


@lru_cache(maxsize=256)
def _problem_of_reply_form(
    form: type[BaseModel], wanted_probability: LabelProbability | None
) -> str:
    """Say what is wrong with the form of a question's reply; "" for nothing.

    Example: ``wanted_probability`` names the field "useful", and ``form`` has only
    "reason" and "verdict": "Reply has no field 'useful', which wanted_probability
    names; …".

    Args:
        form: The pydantic class that reads a reply. The reply is one verdict, or it has
            a list of verdicts, which have a class of their own.
        wanted_probability: Names the verdict's field that holds the label ("useful"),
            and in a list of verdicts the field that tells them apart (its
            ``item_id_field``, such as "id"). None if no probability is wanted.
    """
    if not isinstance(form, type) or not issubclass(form, BaseModel):
        kind = form.__name__ if isinstance(form, type) else type(form).__name__
        return f"Reply must be a pydantic model, a class of BaseModel, got {kind}"
    if wanted_probability is None:
        return ""
    verdict_class = form_of_verdict(form)
    for name in (wanted_probability.field, wanted_probability.item_id_field):
        if name is not None and name not in verdict_class.model_fields:
            return (
                f"{verdict_class.__name__} has no field {name!r}, which"
                f" wanted_probability names; there are: {', '.join(verdict_class.model_fields)}"
            )
    return ""


def order_of_digest(question: str | None, texts: Iterable[str]) -> tuple[str, ...]:
    """Return the distinct texts in an order independent of rank.

    So a judge that favours places cannot favour early ranks.

    Args:
        question: The question of the sample, so that no text always comes first.
        texts: The texts.
    """

    def digest(text: str) -> bytes:
        return sha256(f"{question}\0{text}".encode()).digest()

    return tuple(sorted(dict.fromkeys(texts), key=digest))


def question_part(sample: Sample) -> dict[str, Part]:
    """Return the part ``question`` of a sample, by its name.

    It holds the application's rewrite and the earlier turns, too.
    """
    part = Part(
        "Question",
        sample.question,
        rewrite=sample.standalone_question,
        history=sample.history,
    )
    return {"question": part}


Batch = tuple[Question[Any], ...]
Replies = tuple[Any, ...]
Asking = Generator[Batch, Replies, T]
"""A plan, or a part of one: it yields batches of questions, gets the replies sent, and
returns a value; use it with ``yield from``."""


def ask(questions: Sequence[Question[R]]) -> Asking[tuple[Asked[R] | NotAnswered, ...]]:
    """Ask a batch of questions from within a metric's plan.

    They may be answered in any order, at the same time.

    Returns ``Asked`` or ``NotAnswered`` for each question, in order.

    Raises:
        SettingError: If what is given is no sequence of questions.
    """
    batch = check_batch(questions)
    replies = (yield batch) if batch else ()
    return cast("tuple[Asked[R] | NotAnswered, ...]", replies)


def ask_side_by_side(plans: Sequence[Asking[T]]) -> Asking[tuple[T, ...]]:
    """Carry out several plans at once: in each step all their questions are one batch.

    Example: two plans ask 2 and 3 questions first. They become one batch of 5, whose
    replies 1 and 2 go to the first plan and 3 to 5 to the second.

    Args:
        plans: The plans.

    Returns:
        What each plan returned, in order.
    """
    value_by_plan: dict[int, T] = {}
    # by the index of the plan; a plan that has not begun must be sent None
    replies_by_plan: dict[int, Replies | None] = dict.fromkeys(range(len(plans)))
    while replies_by_plan:  # until every plan has returned
        batch_by_plan: dict[int, Batch] = {}
        for index, replies in replies_by_plan.items():
            try:
                batch_by_plan[index] = plans[index].send(cast("Replies", replies))
            except StopIteration as end:
                value_by_plan[index] = end.value
        all_replies = yield from ask(list(chain.from_iterable(batch_by_plan.values())))
        remaining_replies = iter(all_replies)
        replies_by_plan = {
            index: tuple(islice(remaining_replies, len(batch)))
            for index, batch in batch_by_plan.items()
        }
    return tuple(value_by_plan[index] for index in range(len(plans)))


def check_batch(step: object) -> Batch:
    """Return the questions that a plan yields in one step, as a tuple.

    Anything else raises ``SettingError``, because no judge could answer it; the message
    names the type of the first thing that is no question.
    """
    if isinstance(step, (Question, str)) or not isinstance(step, Iterable):
        raise _no_batch(step)
    questions = tuple(step)
    for question in questions:
        if not isinstance(question, Question):
            raise _no_batch(question)
    return questions


def _no_batch(value: object) -> SettingError:
    """Return the error of a plan that yields something else than questions."""
    return SettingError(
        "a metric's plan asks questions: 'replies = yield from ask([question])', with"
        f" a list of Question objects; got {type(value).__name__}"
    )


def weights_by_share(
    replies: Sequence[BaseModel], wanted_probability: LabelProbability
) -> tuple[Weight, ...]:
    """Return for each judged text the share of the replies that label it positive.

    Example: three replies give the first text 1, 1 and 0: its weight is 2/3.

    Args:
        replies: The replies of the polls, at least one, with a verdict on each text.
        wanted_probability: In which field the label stands, and which label is the
            positive one.
    """
    mode: Mode = "verdict" if len(replies) == 1 else "polls"
    verdicts_by_poll = [verdicts_of(reply) for reply in replies]
    weights: list[Weight] = []
    for verdicts_on_text in zip(*verdicts_by_poll, strict=True):
        labels = [
            getattr(verdict, wanted_probability.field) for verdict in verdicts_on_text
        ]
        share = labels.count(wanted_probability.positive) / len(labels)
        weights.append(Weight(share, mode))
    return tuple(weights)


def error_of_lost_polls(polls: Asked[Any], n_yes: int, n_no: int) -> JudgeError | None:
    """Return the error where lost polls could turn the verdict; else None.

    A poll is lost that was not answered in time, or never in a form that can be read. It
    may have been lost for its verdict, as a "no" that contradicts itself. Example: of 5
    polls 2 say yes and 1 no. The two lost ones make it 2 or 4 of 5.

    Args:
        polls: The polls that were answered, and those that were lost.
        n_yes: How many of them say yes.
        n_no: How many say no; others find nothing to judge.
    """
    n_lost = len(polls.failures)
    n_neither = len(polls.replies) - n_yes - n_no
    verdicts = {
        _verdict_of_polls(n_yes + n_lost, n_no, n_neither),
        _verdict_of_polls(n_yes, n_no + n_lost, n_neither),
        _verdict_of_polls(n_yes, n_no, n_neither + n_lost),
    }
    if len(verdicts) == 1:
        return None
    failure = polls.failures[0]
    message = (
        f"only {len(polls.replies)} of {polls.asked} polls were answered, and the others"
        f" could turn the verdict; the first failed with {type(failure).__name__}:"
        f" {failure}"
    )
    is_late = isinstance(failure, NoReplyInTime)
    return NoReplyInTime(message) if is_late else TooFewPolls(message)


def _verdict_of_polls(n_yes: int, n_no: int, n_neither: int) -> bool | None:
    """Return the verdict of polls; None where most of them find nothing to judge."""
    n_decided = n_yes + n_no
    if n_neither > n_decided or not n_decided:
        return None
    return is_yes(n_yes / n_decided)


def bounds_of_share(polls: Asked[Any], n_yes: int, n_no: int) -> Bounds | None:
    """Return the shares of yes that lost polls could have led to; None if none is lost.

    Example: 3 yes, 1 no and a lost poll: .6 to .8.
    """
    n_lost = len(polls.failures)
    n_polls = n_yes + n_no + n_lost
    return (n_yes / n_polls, (n_yes + n_lost) / n_polls) if n_lost else None


def cut_in_halves(text: str) -> tuple[str, ...]:
    """Cut a text into two windows that overlap by about 200 characters.

    Of 5,000 characters the first window has 0 to 2,600, the second 2,400 to 5,000. Each
    is cut at a space, if one is near.

    Returns () for a text of fewer than 1,000 characters: such a text is not what makes
    a prompt too long.
    """
    if len(text) < _SHORTEST_CUT_TEXT:
        return ()
    overlap_start = (len(text) - _CHARACTERS_OF_OVERLAP) // 2
    overlap_end = (len(text) + _CHARACTERS_OF_OVERLAP) // 2
    space_after = text.find(" ", overlap_end, overlap_end + _FARTHEST_SPACE)
    space_before = text.rfind(" ", overlap_start - _FARTHEST_SPACE, overlap_start)
    first_end = space_after if space_after >= 0 else overlap_end
    second_start = space_before + 1 if space_before >= 0 else overlap_start
    return text[:first_end], text[second_start:]


def divide_texts(texts: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Divide texts into two groups of about the same length, in order.

    Texts of 50, 30 and 20 characters become (50) and (30, 20). A single text is cut in
    halves, one in each group. Returns () if nothing can be divided.
    """
    if len(texts) < 2:
        return tuple((half,) for text in texts for half in cut_in_halves(text))
    *lengths_of_first, length_of_all = accumulate(map(len, texts))
    differences = [abs(2 * length - length_of_all) for length in lengths_of_first]
    n_texts_of_first = 1 + differences.index(min(differences))
    return texts[:n_texts_of_first], texts[n_texts_of_first:]


Kind = Literal["predicate", "choice", "score"]
"""What is asked of a state.

- ``predicate``: whether a statement is true of it;
- ``choice``: which of several options fits;
- ``score``: which of several levels fits, from the lowest to the highest.
"""

Chances = tuple[float, ...]
"""The answer to a typed question.

Of a predicate it is the probability that the statement is true, of any other question
one probability for each option, in their order.
"""


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a choice, or one level of a score.

    Args:
        label: Its name in answers.
        meaning: What it stands for.
    """

    label: str
    meaning: str


@dataclass(frozen=True, slots=True, repr=False)
class TypedQuestion(PrivateRepr):
    """A typed question about a state.

    Args:
        kind: What is asked.
        wording: A literal statement or question that names texts of the state in
            backticks. It holds no text of a sample.
        options: What can be chosen; none for a predicate.
    """

    kind: Kind
    wording: str
    options: tuple[Option, ...] = ()
