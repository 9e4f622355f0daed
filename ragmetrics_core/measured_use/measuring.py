"""Asks the model again, without each passage, and tells what became of the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial

from ragmetrics_core.data import (
    JudgeError,
    JudgeUnavailable,
    MeasuredUse,
    NotAnswered,
    PassageUse,
    PromptMessage,
    Sample,
    SettingError,
    UnusableReply,
    Usage,
)
from ragmetrics_core.data.frozen import check_number
from ragmetrics_core.engine.loop import run
from ragmetrics_core.engine.reasoning import leave_out_reasoning
from ragmetrics_core.engine.resolve import JudgeLike, resolve_judge
from ragmetrics_core.engine.sample_judging import refuse_unknown_prices
from ragmetrics_core.engine.scoring import RunJudge
from ragmetrics_core.judging.llm import LLMJudge
from ragmetrics_core.measured_use.effects import (
    Change,
    change_of,
    effect_on,
    likeliest_pair,
    spread_of,
)
from ragmetrics_core.measured_use.prompts import (
    KeptPrompt,
    NotMeasurable,
    kept_prompt,
)
from ragmetrics_core.measured_use.same_answer import same_answer
from ragmetrics_core.models.chat import ChatRequest, Choice, Message
from ragmetrics_core.models.features import gather_all
from ragmetrics_core.models.limits import Budget, Limits
from ragmetrics_core.models.openai_form import priced
from ragmetrics_core.models.reply_store import StoreLike, resolve_store
from ragmetrics_core.models.session import Session
from ragmetrics_core.models.threads import await_users_code, compute_beside_loop

_VARIES = "the answer varies as much by itself"
_OTHERWISE = "the run's answer reads otherwise than what the model answers now"
_ELSEWHERE = "its words stand elsewhere in the prompt, too"
_TOGETHER = "without several passages at once the answer is another"
_WHY_NO_ANSWER = {
    "refused": "the model declined to answer",
    "length": "the model's reply was cut off at its limit of tokens",
    "tool_calls": "the model calls a tool and does not answer",
}
_CHARACTERS_OF_TOKEN = 3.5


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
    answer and now another, nothing is told of the sample. Chance stays: of a model that
    reads nothing and says Yes or No at random, 2 of 100 passages are told as used (3
    where it is the only one), and 2 as not used.

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
        on_measured: Called with each sample, in order, as soon as it is measured.

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
    return run(measuring.measure_all(list(samples), concurrency, on_measured))


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
        n_calls = repeats + 1 + (prompt.n_passages if prompt.n_passages > 1 else 0)
        n_characters = sum(len(message.content) for message in prompt.messages)
        usage += Usage(
            calls=n_calls,
            prompt_tokens=round(n_calls * n_characters / _CHARACTERS_OF_TOKEN),
            completion_tokens=round(
                n_calls * len(sample.answer or "") / _CHARACTERS_OF_TOKEN
            ),
        )
    run(await_users_code(asked, asked.prepare))
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


class _Run:
    """One run: the model's session, and the judge of doubts."""

    def __init__(
        self,
        session: Session,
        judge: RunJudge,
        repeats: int,
        temperature: float | None,
    ) -> None:
        self.session = session
        self.judge = judge
        self.repeats = repeats
        self.temperature = temperature
        self.unavailable: JudgeUnavailable | None = None

    async def measure_all(
        self,
        samples: Sequence[Sample],
        concurrency: int,
        on_measured: Callable[[Sample], None] | None,
    ) -> list[Sample]:
        """Measure samples in order, some at a time, so that a cap leaves whole ones."""
        slots = asyncio.Semaphore(max(concurrency // 4, 1))

        async def measure_in_slot(sample: Sample) -> Sample:
            async with slots:
                return sample.model_copy(update={"use": await self.measure(sample)})

        tasks = [asyncio.ensure_future(measure_in_slot(sample)) for sample in samples]
        try:
            measured = []
            for task in tasks:
                measured.append(await task)
                if on_measured is not None:
                    on_measured(measured[-1])
            return measured
        finally:
            for task in tasks:
                task.cancel()

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
        if self.unavailable is not None:  # no further call can succeed
            return MeasuredUse(model=name, why_not=str(self.unavailable))
        calls = _SampleCalls(self, sample, prompt)
        try:
            return await calls.use()
        except JudgeError as error:
            if isinstance(error, JudgeUnavailable) and not error.single:
                self.unavailable = error
            return MeasuredUse(model=name, why_not=str(error), usage=calls.usage)


class _SampleCalls:
    """The calls for one sample, and what they cost so far."""

    def __init__(self, run: _Run, sample: Sample, prompt: KeptPrompt):
        self.usage = Usage()
        self._run = run
        self._sample = sample
        self._prompt = prompt
        self._whole_answers: list[str] = []
        self._spread = 0.0
        self._why_varying = _VARIES
        # whether one and the same prompt gave now the answer, now another
        self._wavers = False
        self._has_asked_judge = False

    async def use(self) -> MeasuredUse:
        """Ask the whole prompt again, and without each passage; compare the answers.

        Raises:
            JudgeError: If the whole prompt, or the one without any passage, was not
                answered.
        """
        places = range(self._prompt.n_passages)
        removals: list[tuple[Collection[int], int]] = [
            ((), poll) for poll in range(self._run.repeats)
        ]
        removals += [(places, 0), *(({place}, 0) for place in places)]
        outcomes = await gather_all(
            self._try(removed, poll) for removed, poll in removals
        )
        answers = [each for each in outcomes if isinstance(each, str)]
        n_needed = self._run.repeats + 1
        for outcome in outcomes[:n_needed]:
            if isinstance(outcome, JudgeError):
                raise outcome
        *repeated, answer_without_any = answers[:n_needed]
        answer = leave_out_reasoning(self._sample).answer or ""
        self._whole_answers = [answer, *repeated]
        self._spread = spread_of(self._whole_answers)
        if effect_on(answer, repeated) > spread_of(repeated):
            self._why_varying = _OTHERWISE

        passages = await gather_all(map(self._passage_use, places, outcomes[n_needed:]))
        groups = await self._look_together(passages)
        if self._wavers:
            groups = []
            told = {"verdict": "cannot tell", "why": self._why_varying}
            passages = [
                each if each.verdict == "cannot tell" else each.model_copy(update=told)
                for each in passages
            ]
        session = self._run.session
        return MeasuredUse(
            model=session.model.name,
            judge=self._run.judge.session.name if self._has_asked_judge else None,
            answers=tuple(self._whole_answers),
            spread=self._spread,
            answer_without_any=answer_without_any,
            effect_of_all=effect_on(answer_without_any, self._whole_answers),
            passages=tuple(passages),
            redundant=tuple(groups),
            usage=self.usage,
        )

    async def _passage_use(self, place: int, outcome: str | JudgeError) -> PassageUse:
        """Tell what became of the answer without one passage."""
        change, why = await self._change_without({place}, outcome)
        if isinstance(outcome, JudgeError):
            return PassageUse(verdict="cannot tell", why=why)
        if change == "same" and place in self._prompt.shown_elsewhere:
            change, why = "unknown", _ELSEWHERE
        verdicts = {"other": "used", "same": "not used"}
        return PassageUse(
            verdict=verdicts.get(change, "cannot tell"),
            effect=effect_on(outcome, self._whole_answers),
            answer=outcome,
            why=why,
        )

    async def _look_together(self, passages: list[PassageUse]) -> list[tuple[int, int]]:
        """Look whether the passages that are not used are so all together.

        If the answer without all of them is another, two of them hold the same: the
        likeliest pair is tried. Of a pair that is found one passage stays in, and the
        rest is looked at again. ``passages`` gets the new verdicts.

        Returns:
            The pairs that hold the same.
        """
        texts = self._sample.context_texts
        unused = [
            place for place, each in enumerate(passages) if each.verdict == "not used"
        ]
        groups: list[tuple[int, int]] = []
        grouped: set[int] = set()
        while True:
            removed = [
                place for place in unused if place not in {pair[0] for pair in groups}
            ]
            if len(removed) < 2:
                return groups
            answer = await self._try(removed)
            change, why = await self._change_without(removed, answer)
            if change == "same":
                return groups
            candidates = [place for place in removed if place not in grouped]
            if isinstance(answer, str) and change == "other" and len(candidates) > 1:
                why = _TOGETHER
                pair = likeliest_pair(candidates, texts, self._whole_answers[0], answer)
                outcome = await self._try(pair)
                change_by_pair, _ = await self._change_without(pair, outcome)
                if change_by_pair == "other":
                    groups.append(pair)
                    grouped.update(pair)
                    for place, other in (pair, pair[::-1]):
                        passages[place] = passages[place].model_copy(
                            update={
                                "verdict": "redundant",
                                "why": f"passage {other + 1} holds the same",
                            }
                        )
                    continue
            for place in candidates:
                passages[place] = passages[place].model_copy(
                    update={"verdict": "cannot tell", "why": why or _TOGETHER}
                )
            return groups

    async def _change_without(
        self, removed: Collection[int], outcome: str | JudgeError
    ) -> tuple[Change, str]:
        """Tell whether the answer without passages is another, asked twice if it is."""
        if isinstance(outcome, JudgeError):
            return "unknown", str(outcome)
        change, why = await self._change(outcome)
        if change != "other":
            return change, why
        again = await self._try(removed, poll=1)
        if isinstance(again, JudgeError):
            return "unknown", str(again)
        change, why = await self._change(again)
        if change not in ("same", "varies"):
            return change, why
        self._wavers = True
        return "varies", self._why_varying

    async def _change(self, answer: str) -> tuple[Change, str]:
        """Tell whether an answer says another thing, and by what that is told."""
        change = change_of(answer, self._whole_answers, self._spread)
        if change == "varies":
            return change, self._why_varying
        if change != "in doubt":
            return change, ""
        judge = self._run.judge.session
        question = self._sample.standalone_question or self._sample.question
        asked = await judge.answer(
            same_answer(question, self._whole_answers[0], answer)
        )
        self.usage += asked.usage
        if isinstance(asked.reply, NotAnswered):
            kind = type(asked.reply.error).__name__
            why = f"in doubt, and {judge.name} gave no verdict ({kind})"
            return "unknown", f"{why}: name a judge that compares answers, judge="
        self._has_asked_judge = True
        if not asked.reply.reply.same:
            return "other", f"by {judge.name}"
        # an answer may say the same by chance where the repeats themselves differ
        first = self._whole_answers[0]
        are_repeats_alike = (
            change_of(first, self._whole_answers, self._spread) == "same"
        )
        if not are_repeats_alike:
            return "varies", self._why_varying
        return "same", f"by {judge.name}"

    async def _try(self, removed: Collection[int], poll: int = 0) -> str | JudgeError:
        """Ask the prompt without some passages; return the answer, or why there is none."""
        messages = self._prompt.without(removed)
        request = ChatRequest(
            tuple(map(_as_sent, messages)),
            # None: as the model's own object has it
            temperature=self._run.temperature,
        )
        answers = await self._run.session.ask(
            request, _without_reasoning, first_poll=poll
        )
        self.usage += answers.usage
        (outcome,) = answers.outcomes
        if isinstance(outcome, JudgeError):
            return outcome
        if outcome.finish in _WHY_NO_ANSWER:
            return UnusableReply(_WHY_NO_ANSWER[outcome.finish], raw=outcome.text)
        if not outcome.text.strip():
            return UnusableReply("the model's reply has no text")
        return outcome.text


def _as_sent(message: PromptMessage) -> Message:
    """Return a message as the model is sent it; what tools returned stands as the user's."""
    if message.role == "system":
        return Message("system", message.content)
    if message.role == "assistant":
        return Message("assistant", message.content)
    return Message("user", message.content)


def _without_reasoning(choice: Choice) -> Choice:
    answer = leave_out_reasoning(Sample(answer=choice.text)).answer
    return replace(choice, text=answer or "")
