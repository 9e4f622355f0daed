"""Asks the model again, without each passage, and tells what became of the answer.

A passage is taken out of the prompt of the answer. Example: of "[1] It opened in 1874.
[2] It is red." it is passage 1. Its number stays, so that no other passage gets a new
one: "[1] [2] It is red."
"""

from __future__ import annotations

import asyncio
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from importlib.resources import files
from itertools import combinations, pairwise
from typing import Literal

from ragmetrics_core.capture.forms import letters_of
from ragmetrics_core.capture.shown import PromptText, shows_some, spans_shown
from ragmetrics_core.data import (
    Instructions,
    JudgeError,
    MeasuredUse,
    NotAnswered,
    Part,
    PassageUse,
    PromptMessage,
    Question,
    Sample,
    SettingError,
    SilentData,
    UnusableReply,
    Usage,
    UseVerdict,
)
from ragmetrics_core.data.frozen import check_number
from ragmetrics_core.data.replies import Bit, Comment
from ragmetrics_core.engine.dry_run import tokens_of
from ragmetrics_core.engine.loop import wait_for
from ragmetrics_core.engine.reasoning import leave_out_reasoning, without_reasoning
from ragmetrics_core.engine.resolve import JudgeLike, resolve_judge
from ragmetrics_core.engine.sample_judging import refuse_unknown_prices
from ragmetrics_core.engine.scoring import RunJudge
from ragmetrics_core.judging.llm import LLMJudge
from ragmetrics_core.lexical.text import canonical_words
from ragmetrics_core.models.chat import ChatRequest, Message
from ragmetrics_core.models.features import gather_all
from ragmetrics_core.models.judge_work import JudgedRow, judged_row
from ragmetrics_core.models.limits import Budget, Limits
from ragmetrics_core.models.openai_form import priced
from ragmetrics_core.models.reply_store import StoreLike, resolve_store
from ragmetrics_core.models.session import Session
from ragmetrics_core.models.threads import await_users_code, compute_beside_loop

_VARIES = "the answer varies as much by itself"
_OTHERWISE = "the run's answer reads otherwise than what the model answers now"
_ELSEWHERE = "its words stand elsewhere in the prompt, too"
_WHY_NO_ANSWER = {
    "refused": "the model declined to answer",
    "length": "the model's reply was cut off at its limit of tokens",
    "tool_calls": "the model calls a tool and does not answer",
}
_VERDICTS: dict[Change, UseVerdict] = {"other": "used", "same": "not used"}
# Of two answers, chosen by chance, four are alike in one row of eight: for seven rows
# that waver one more seems not to. That is at most 5 % of the rows told, if these are
# three times as many.
_TOLD_FOR_EACH_THAT_WAVERS = 3
_ROLES: dict[str, Literal["system", "assistant"]] = {
    "system": "system",
    "assistant": "assistant",
}


def measure_use(
    samples: Iterable[Sample],
    *,
    model: JudgeLike,
    judge: JudgeLike = None,
    repeats: int = 3,
    temperature: float | None = None,
    concurrency: int = 8,
    store: StoreLike = None,
    limits: Limits | None = None,
    on_measured: Callable[[Sample], None] | None = None,
) -> list[Sample]:
    """Measure what each passage did to the answer, by asking the model without it.

    A sample of k passages takes k + 1 + ``repeats`` calls: without each passage, without
    any, and the whole prompt again. What changes the answer is asked once more. One call
    looks whether the passages that are not used are so together, and up to three a pair
    find those that hold the same. Where words leave a doubt, the judge is asked.

    Where repeats differ, nothing is told as not used. Where one prompt gives now the
    answer and now another, the sample wavers: nothing is told of it. If more than one
    wavers for three that are told, nothing is told of any, as answers may be alike by
    chance: of five samples of a model that says Yes or No at random something is told
    in 1 of 1,000 runs. A sample of which only its own answer is another counts as one
    that wavers if some other wavers; else the answer may be an earlier model's. Of one
    sample chance stays: a passage that the model does not read is told as used by words
    in at most 1 of 15 cases, whatever the model, and in 1 of 32 if it says Yes or No at
    random.

    Args:
        samples: Samples whose prompts were kept, as by ``capture(keep_prompts=True)``.
        model: The model that answered: a chat model, or a model's name. Its own
            temperature stays; at 0 more can be told.
        judge: Who is asked whether two answers say the same; None for the model itself,
            "lexical" to ask nobody.
        repeats: How often the whole prompt is asked, at least 2, beside the sample's own
            answer.
        temperature: For a model that is given by its name, the temperature that the
            application asked with; None leaves it to the model.
        concurrency: Most calls in flight.
        store: Where replies are kept; see ``evaluate``.
        limits: What measuring may spend; see ``evaluate``.
        on_measured: Called with each sample, in order, as soon as it is measured, before
            samples are looked at together.

    Returns:
        The samples with ``use``. Where nothing could be measured, ``use.why_not`` says
        why; the others go on.

    Raises:
        SettingError: If a setting is invalid, or the model is no chat model.

    Source:
        Ablations of the context, as in ContextCite (arXiv 2409.00729), one passage at a
        time and compared with repeats; groups are told for pairs alone.
    """
    check_number("measure_use(repeats=)", repeats, least=2)
    check_number("measure_use(concurrency=)", concurrency, least=1)
    if temperature is not None:
        check_number("measure_use(temperature=)", temperature, least=0, whole=False)
    asked = _asked(model)
    budget = Budget(limits)
    if budget.limits.max_cost is not None:
        refuse_unknown_prices([asked.model])
    replies = resolve_store(store)
    session = Session(asked.model, attempts=asked.attempts, timeout=asked.timeout)
    run_judge = RunJudge(
        asked if judge is None else resolve_judge(judge),
        budget=budget,
        store=replies,
        concurrency=concurrency,
    )
    measuring = _Run(
        session.during(store=replies, concurrency=concurrency, budget=budget),
        run_judge,
        repeats,
        temperature,
    )
    return wait_for(measuring.measure_all(list(samples), concurrency, on_measured))


def calls_needed(
    samples: Iterable[Sample], *, model: JudgeLike, repeats: int = 3
) -> Usage:
    """Return the least that measuring takes, without a call.

    Not counted are the second call for each passage that is used, calls without several
    passages, and questions to the judge. Arguments are those of ``measure_use``.
    """
    asked = _asked(model).model
    usage = Usage()
    for sample in samples:
        try:
            prompt = kept_prompt(sample)
        except NotMeasurable:
            continue
        n_passages = len(prompt.texts)
        # without the only passage is without any
        n_calls = repeats + 1 + (n_passages if n_passages > 1 else 0)
        n_characters = sum(len(message.content) for message in prompt.messages)
        usage += Usage(
            calls=n_calls,
            prompt_tokens=n_calls * tokens_of(n_characters),
            completion_tokens=n_calls * tokens_of(len(sample.answer or "")),
        )
    wait_for(await_users_code(asked, asked.prepare))
    return priced(usage, asked.prices())


def _asked(model: JudgeLike) -> LLMJudge:
    """Return the judge around a chat model, which holds its settings of calls."""
    judge = resolve_judge(model) if model is not None else None
    if not isinstance(judge, LLMJudge):
        raise SettingError(
            "model= is the model that wrote the answers: a chat model, the framework's"
            " own model object, or a name such as 'openai/gpt-4o-mini'; got"
            f" {type(model).__name__}"
        )
    return judge


@dataclass
class _Run:
    """One run: the model's session, the judge of doubts, and how the model wavers."""

    session: Session
    judge: RunJudge
    repeats: int
    temperature: float | None
    n_wavering: int = 0
    n_otherwise: int = 0

    async def measure_all(
        self,
        samples: Sequence[Sample],
        concurrency: int,
        on_measured: Callable[[Sample], None] | None,
    ) -> list[Sample]:
        """Measure samples in order, some at a time, so that a cap leaves whole ones."""
        slots = asyncio.Semaphore(max(concurrency // 4, 1))

        async def measure_in_slot(sample: Sample) -> Sample:
            judged_row.set(JudgedRow())
            async with slots:
                return sample.model_copy(update={"use": await self.measure(sample)})

        tasks = [asyncio.ensure_future(measure_in_slot(sample)) for sample in samples]
        measured = []
        try:
            for task in tasks:
                measured.append(await task)
                if on_measured is not None:
                    on_measured(measured[-1])
        finally:
            for task in tasks:
                task.cancel()

        uses = [sample.use for sample in measured if sample.use is not None]
        # An answer unlike those of now is an old one, unless some row surely wavers.
        n_wavering = self.n_wavering and self.n_wavering + self.n_otherwise
        n_told = sum(
            any(each.verdict != "cannot tell" for each in use.passages) for use in uses
        )
        if n_told >= _TOLD_FOR_EACH_THAT_WAVERS * n_wavering:
            return measured
        why = f"{_VARIES} on {n_wavering} of {n_told + n_wavering} rows"
        return [
            sample.model_copy(update={"use": _untold(use, why)})
            for sample, use in zip(measured, uses, strict=True)
        ]

    async def measure(self, sample: Sample) -> MeasuredUse:
        """Measure one sample; what goes wrong is said in ``why_not``."""
        name = self.session.model.name
        n_characters = sum(len(text) for text in sample.context_texts)
        try:
            prompt = await compute_beside_loop(
                partial(kept_prompt, sample), size=n_characters
            )
        except NotMeasurable as error:
            return MeasuredUse(model=name, why_not=str(error))
        calls = _SampleCalls(self, sample, prompt)
        try:
            return await calls.use()
        except JudgeError as error:
            return MeasuredUse(model=name, why_not=str(error), usage=calls.usage)


def _untold(use: MeasuredUse, why: str) -> MeasuredUse:
    """Return what was measured without what it tells of passages."""
    update = {"verdict": "cannot tell", "why": why}
    passages = [
        each if each.verdict == "cannot tell" else each.model_copy(update=update)
        for each in use.passages
    ]
    return use.model_copy(update={"passages": tuple(passages), "redundant": ()})


@dataclass
class _SampleCalls:
    """The calls for one sample, and what they cost so far."""

    run: _Run
    sample: Sample
    prompt: KeptPrompt
    usage: Usage = field(default_factory=Usage)
    repeats: Repeats = field(init=False)
    why_varying: str = _VARIES
    # whether one and the same prompt gave now the answer, now another
    wavers: bool = False
    has_asked_judge: bool = False

    async def use(self) -> MeasuredUse:
        """Ask the whole prompt again, and without each passage; compare the answers.

        Raises:
            JudgeError: If the whole prompt, or the one without any passage, was not
                answered.
        """
        places = range(len(self.prompt.texts))
        polls = range(self.run.repeats)
        *repeated, answer_without_any = await gather_all(
            [*(self._answer((), poll) for poll in polls), self._answer(places)]
        )
        answer = leave_out_reasoning(self.sample).answer or ""
        repeats = self.repeats = Repeats((answer, *repeated))
        by_model_now = Repeats(tuple(repeated))
        is_otherwise = by_model_now.distance_to_nearest(answer) > by_model_now.spread
        if is_otherwise:
            self.why_varying = _OTHERWISE
        # what reads otherwise may be of an earlier model
        now = by_model_now if is_otherwise else repeats
        self.wavers = now.are_by_turns
        self.run.n_otherwise += repeats.are_by_turns and not self.wavers

        passages = await gather_all(self._use_of({place}) for place in places)
        groups = await self._look_together(passages)
        session = self.run.session
        use = MeasuredUse(
            model=session.model.name,
            judge=self.run.judge.session.name if self.has_asked_judge else None,
            answers=repeats.answers,
            spread=repeats.spread,
            answer_without_any=answer_without_any,
            effect_of_all=repeats.distance_to_nearest(answer_without_any),
            passages=tuple(passages),
            redundant=tuple(groups),
            usage=self.usage,
        )
        if self.wavers:
            self.run.n_wavering += 1
            use = _untold(use, self.why_varying)
        return use

    async def _look_together(self, passages: list[PassageUse]) -> list[tuple[int, int]]:
        """Look whether the passages that are not used are so all together.

        If the answer without all of them is another, two of them hold the same: the
        likeliest pair is tried. Of a pair that is found one passage stays in, and the
        rest is looked at again. ``passages`` gets the new verdicts.

        Returns:
            The pairs that hold the same.
        """
        removed = [
            place for place, each in enumerate(passages) if each.verdict == "not used"
        ]
        groups: list[tuple[int, int]] = []
        while len(removed) > 1:
            together = await self._use_of(removed)
            if together.verdict == "not used":
                break
            candidates = [
                place for place in removed if passages[place].verdict == "not used"
            ]
            why = together.why
            if together.verdict == "used":
                why = "without several passages at once the answer is another"
            if together.verdict == "used" and len(candidates) > 1:
                texts = self.sample.context_texts
                answer, answer_without = self.repeats.answers[0], together.answer or ""
                pair = likeliest_pair(candidates, texts, answer, answer_without)
                if (await self._use_of(pair)).verdict == "used":
                    groups.append(pair)
                    removed.remove(pair[0])
                    for place, other in (pair, pair[::-1]):
                        why = f"passage {other + 1} holds the same"
                        update = {"verdict": "redundant", "why": why}
                        passages[place] = passages[place].model_copy(update=update)
                    continue
            for place in candidates:
                update = {"verdict": "cannot tell", "why": why}
                passages[place] = passages[place].model_copy(update=update)
            break
        return groups

    async def _use_of(self, removed: Collection[int]) -> PassageUse:
        """Tell what passages do: ask without them, and again if the answer is another."""
        answer = None
        try:
            answer = await self._answer(removed)
            change, why = await self._change(answer)
            if change == "other":
                change, why = await self._change(await self._answer(removed, poll=1))
                self.wavers |= change != "other"
        except JudgeError as error:
            change, why = "unknown", str(error)
        if change == "same" and self.prompt.shown_elsewhere.intersection(removed):
            change, why = "unknown", _ELSEWHERE
        return PassageUse(
            verdict=_VERDICTS.get(change, "cannot tell"),
            effect=None if answer is None else self.repeats.distance_to_nearest(answer),
            answer=answer,
            why=why,
        )

    async def _change(self, answer: str) -> tuple[Change, str]:
        """Tell whether an answer says another thing, and by what that is told.

        Raises:
            UnusableReply: If words leave a doubt, and the judge gave no verdict.
        """
        change = self.repeats.change(answer)
        if change != "in doubt":
            return change, self.why_varying if change == "varies" else ""
        judge = self.run.judge.session
        question = self.sample.standalone_question or self.sample.question
        asked = await judge.answer(
            same_answer(question, self.repeats.answers[0], answer)
        )
        self.usage += asked.usage
        if isinstance(asked.reply, NotAnswered):
            raise UnusableReply(
                f"in doubt, and {judge.name} gave no verdict"
                f" ({type(asked.reply.error).__name__}):"
                " name a judge that compares answers, judge="
            )
        self.has_asked_judge = True
        if not asked.reply.reply.same:
            return "other", f"by {judge.name}"
        # an answer may say the same by chance where the repeats themselves differ
        if not self.repeats.are_alike:
            return "varies", self.why_varying
        return "same", f"by {judge.name}"

    async def _answer(self, removed: Collection[int], poll: int = 0) -> str:
        """Ask the prompt without some passages.

        Raises:
            JudgeError: If there is no answer; it says why.
        """
        request = ChatRequest(
            tuple(
                # what tools returned stands as the user's
                Message(_ROLES.get(message.role, "user"), message.content)
                for message in self.prompt.without(removed)
            ),
            # None: as the model's own object has it
            temperature=self.run.temperature,
        )
        answers = await self.run.session.ask(
            request,
            lambda choice: replace(choice, text=without_reasoning(choice.text)),
            first_poll=poll,
        )
        self.usage += answers.usage
        (outcome,) = answers.outcomes
        if isinstance(outcome, JudgeError):
            raise outcome
        if outcome.finish in _WHY_NO_ANSWER:
            raise UnusableReply(_WHY_NO_ANSWER[outcome.finish], raw=outcome.text)
        if not outcome.text.strip():
            raise UnusableReply("the model's reply has no text")
        return outcome.text


Change = Literal["same", "other", "in doubt", "varies", "unknown"]
"""Whether an answer says the same as those to the whole prompt.

``in doubt`` is for a judge to decide, and ``unknown`` if there is no answer or verdict;
``varies``: the answer varies as much by itself.
"""

_SURELY_ANOTHER = 0.5
_TEMPLATE = (
    files("ragmetrics_core.measured_use")
    .joinpath("same_answer.txt")
    .read_text(encoding="utf-8")
)


def effect(answer: str, other: str) -> float:
    """Return 1 - word F1 of two answers: 0 for the same words, 1 for none in common.

    Words are counted with their repetitions, whatever their order (SQuAD's F1).

    Examples:
        >>> effect("It opened in 1874.", "it opened in 1874"), effect("Yes.", "No.")
        (0.0, 1.0)
    """
    words = Counter(canonical_words(answer))
    other_words = Counter(canonical_words(other))
    n_words = words.total() + other_words.total()
    if n_words == 0:
        return 0.0 if answer.strip() == other.strip() else 1.0
    return 1 - 2 * (words & other_words).total() / n_words


@dataclass(frozen=True)
class Repeats:
    """The answers to the whole prompt, with which others are compared.

    What a passage that the model does not read does to them is bounded, whatever the
    model: of n + 2 answers to one prompt at most one choice of two lies farther from
    the others than these from each other. So two answers without such a passage are
    both ``other`` in at most 1 of (n + 2)(n + 1) / 2 cases.

    Attributes:
        answers: At least two answers to one prompt.
    """

    answers: tuple[str, ...]

    @cached_property
    def spread(self) -> float:
        """How far they are from each other at most."""
        return max(effect(*pair) for pair in combinations(self.answers, 2))

    @cached_property
    def are_alike(self) -> bool:
        """Whether all have the same words and signs."""
        first = self.answers[0]
        return all(_read_alike(first, answer) for answer in self.answers)

    @cached_property
    def are_by_turns(self) -> bool:
        """Whether some have the same words, and another is surely another answer.

        The model then chooses among few answers, and may by chance choose one again.
        """
        effects = [effect(*pair) for pair in combinations(self.answers, 2)]
        return min(effects) == 0 and max(effects) >= _SURELY_ANOTHER

    def distance_to_nearest(self, answer: str) -> float:
        """Return how far an answer is from the nearest of them."""
        return min(effect(answer, whole) for whole in self.answers)

    def change(self, answer: str) -> Change:
        """Tell by words whether an answer says the same as they do.

        Example: they are equal. The same words and signs again are the same, an answer
        that shares fewer than half is another, and all between is in doubt. So is one
        whose words all stand in the other: it may only be longer.
        """
        distance = self.distance_to_nearest(answer)
        if self.spread >= _SURELY_ANOTHER or (self.spread and distance <= self.spread):
            return "varies"
        if self.are_alike and _read_alike(answer, self.answers[0]):
            return "same"
        words = set(canonical_words(answer))
        words_of_whole = [set(canonical_words(whole)) for whole in self.answers]
        is_within = any(words <= each or each <= words for each in words_of_whole)
        return "other" if distance >= _SURELY_ANOTHER and not is_within else "in doubt"


def _read_alike(answer: str, other: str) -> bool:
    """Whether two answers have the same words in one order, and the same signs.

    Those that say something: of sums, currencies and pictures, %, # and -. "A beat B"
    and "B beat A" have the same words, "x > 3" and "x < 3", too.
    """

    def signs(text: str) -> list[str]:
        return [
            sign
            for sign in text
            if sign in "%#-" or unicodedata.category(sign)[0] == "S"
        ]

    are_same_words = canonical_words(answer) == canonical_words(other)
    return are_same_words and signs(answer) == signs(other)


class SameReply(SilentData, extra="ignore"):
    """Whether two answers say the same, behind the reason."""

    reason: Comment = ""
    same: Bit


class SameAnswer(Question[SameReply]):
    """Do two answers say the same, as to the question? Parts: question, answer, other."""


def same_answer(question: str | None, answer: str, other: str) -> SameAnswer:
    """Ask a judge whether two answers to a question say the same."""
    return SameAnswer(
        parts={
            "question": Part("Question", question),
            "answer": Part("First answer", answer),
            "other": Part("Second answer", other),
        },
        instructions=Instructions(_TEMPLATE),
        Reply=SameReply,
        example=SameReply(reason="Both name the year 1874.", same=True),
    )


def likeliest_pair(
    among: Collection[int], passages: Sequence[str], answer: str, other: str
) -> tuple[int, int]:
    """Return the two passages that most likely hold the same, which an answer rests on.

    They share most of the words that the answer loses without all of them.

    Args:
        among: The places of at least two passages to choose from.
        passages: The texts of all passages.
        answer: The answer to the whole prompt.
        other: The answer without all passages in ``among``.
    """
    lost = Counter(canonical_words(answer)) - Counter(canonical_words(other))
    words_of = {place: Counter(canonical_words(passages[place])) for place in among}

    def likelihood(pair: tuple[int, int]) -> tuple[int, float]:
        first, second = pair
        shared = words_of[first] & words_of[second]
        n_words = words_of[first].total() + words_of[second].total()
        # by the words lost that both hold, then by how alike they are
        return (shared & lost).total(), shared.total() / max(n_words, 1)

    return max(combinations(sorted(among), 2), key=likelihood)


class NotMeasurable(Exception):
    """Why nothing can be taken out of the prompt of a sample, in words."""


@dataclass(frozen=True)
class KeptPrompt:
    """A prompt, and where passages stand in it.

    Attributes:
        messages: The messages, in order.
        spans: By the number of a message, where its passages stand: from where, to
            where, and the number of the passage. They are in order.
        texts: The passages.
    """

    messages: tuple[PromptMessage, ...]
    spans: dict[int, list[tuple[int, int, int]]]
    texts: tuple[str, ...]

    @cached_property
    def shown_elsewhere(self) -> frozenset[int]:
        """The passages of which words stay in the prompt that is without all of them.

        Example: an earlier reply of the model quotes the beginning of passage 0.
        """
        all_passages = range(len(self.texts))
        rest = [letters_of(each.content) for each in self.without(all_passages)]
        return frozenset(
            passage
            for passage, letters in enumerate(map(letters_of, self.texts))
            if any(shows_some(message, letters) for message in rest)
        )

    def without(self, removed: Collection[int]) -> tuple[PromptMessage, ...]:
        """Return the messages without the texts of some passages, by their numbers.

        Where equal separators stand between the passages of a message, one goes with
        each passage. Else, as in a numbered list, only the text itself goes.
        """
        messages = []
        for number, message in enumerate(self.messages):
            content = message.content
            spans = self.spans.get(number, [])
            separator = _separator(content, spans)
            if separator is not None:
                kept = [
                    content[start:end]
                    for start, end, passage in spans
                    if passage not in removed
                ]
                before, behind = content[: spans[0][0]], content[spans[-1][1] :]
                content = before + separator.join(kept) + behind
            else:
                for start, end, passage in reversed(spans):
                    if passage in removed:
                        content = content[:start] + content[end:]
            messages.append(message.model_copy(update={"content": content}))
        return tuple(messages)


def kept_prompt(sample: Sample) -> KeptPrompt:
    """Find the passages of a sample in the prompt that was kept of its answer.

    Raises:
        NotMeasurable: If no prompt was kept, the sample is not exact, has no answer or
            no context, or a context does not stand in the prompt whole or as one part:
            it has no letters, for example, or the text of an earlier one.
    """
    notes = sample.capture
    if notes is None or notes.prompt is None:
        raise NotMeasurable(
            "the prompt of its answer was not kept: capture(keep_prompts=True)"
        )
    if notes.grade != "exact":
        doubts = "; ".join(notes.doubts.values()) or "what was captured is not sure"
        raise NotMeasurable(f"its passages are not known exactly: {doubts}")
    if sample.answer is None:
        raise NotMeasurable("it has no answer")
    if not sample.contexts:
        raise NotMeasurable("it has no passage")
    texts = [context.text for context in sample.contexts]
    letters = [letters_of(text) for text in texts]
    # what models wrote is no evidence: nothing is sought in it
    numbers = [
        number
        for number, message in enumerate(notes.prompt)
        if message.role != "assistant"
    ]
    known = [sample.question or "", *(turn.content for turn in sample.history)]
    messages = [PromptText(notes.prompt[number].content, known) for number in numbers]
    spans: dict[int, list[tuple[int, int, int]]] = {}
    for passage, spans_of_passage in enumerate(spans_shown(texts, messages)):
        if not spans_of_passage:
            why = "does not stand in the answering prompt whole or as one part"
            if not letters[passage]:
                why = "has no letters, by which it could be found in the prompt"
            elif letters[passage] in letters[:passage]:
                twin = letters.index(letters[passage])
                why = f"has the same text as passage {twin + 1}"
            raise NotMeasurable(f"passage {passage + 1} {why}")
        for number, start, end in spans_of_passage:
            content = messages[number].text
            start, end = _with_signs(content, start, end, texts[passage])
            spans.setdefault(numbers[number], []).append((start, end, passage))
    for spans_of_message in spans.values():
        spans_of_message.sort()
    return KeptPrompt(notes.prompt, spans, tuple(texts))


def _with_signs(content: str, start: int, end: int, text: str) -> tuple[int, int]:
    """Widen the place of a text's letters by its own signs before and behind them.

    Example: the place of "It opened" in '"It opened."' is widened by the full stop that
    the text has, and not by the quotation mark.
    """
    is_letter = [sign.isalnum() for sign in text]
    before = text[: is_letter.index(True)]
    behind = text[len(text) - is_letter[::-1].index(True) :]
    for sign in reversed(before):
        if start and content[start - 1] == sign:
            start -= 1
    for sign in behind:
        if content[end : end + 1] == sign:
            end += 1
    return start, end


def _separator(content: str, spans: list[tuple[int, int, int]]) -> str | None:
    """Return what stands between all passages of a message; None where that differs.

    None also where it numbers or names them: what would be left around the others must
    read as it does around each of them now. Example: "</doc><doc>" between passages is a
    separator if "<doc>" stands before the first and "</doc>" behind the last.
    """
    gaps = {content[end:start] for (_, end, _), (start, _, _) in pairwise(spans)}
    are_shown_once = len({passage for _, _, passage in spans}) == len(spans)
    if len(gaps) != 1 or not are_shown_once:
        return None
    gap = gaps.pop()
    if not any(sign.isalnum() for sign in gap):
        return gap
    before, behind = content[: spans[0][0]], content[spans[-1][1] :]
    for cut in range(len(gap) + 1):
        if behind.startswith(gap[:cut]) and before.endswith(gap[cut:]):
            return gap
    return None
