"""Measured use, held by planted truth: models that read exactly some passages of a prompt."""

import itertools
import json
import random
from collections import Counter
from collections.abc import Callable, Collection, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lanes import crossed
from measured_runs import ANSWERS, PASSAGES, RENDERINGS, WORDS, verdicts_of

from ragmetrics_core import LLMJudge, ScriptedJudge
from ragmetrics_core.data import (
    CaptureNotes,
    PromptMessage,
    Sample,
    SettingError,
    Usage,
)
from ragmetrics_core.data.errors import NoReplyInTime, RequestRejected
from ragmetrics_core.lexical.text import canonical_words
from ragmetrics_core.measured_use import (
    SameAnswer,
    calls_needed,
    kept_prompt,
    measure_use,
)
from ragmetrics_core.measured_use.measuring import Repeats, effect, likeliest_pair
from ragmetrics_core.models.chat import ChatModel, ChatReply, ChatRequest, Choice
from ragmetrics_core.models.limits import Limits


class Scripted(ChatModel):
    """Answers by the words of the facts that its prompt holds."""

    name = "scripted"

    def __init__(
        self, answer: Callable[[frozenset[str]], str | Choice | Exception]
    ) -> None:
        self.answer = answer
        self.requests: list[ChatRequest] = []

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.requests.append(request)
        text = "\n".join(message.content for message in request.messages)
        answer = self.answer(frozenset(word for word in WORDS if word in text))
        if isinstance(answer, Exception):
            raise answer
        choice = answer if isinstance(answer, Choice) else Choice(answer)
        return ChatReply((choice,), Usage(calls=1, cost=0.0))


def sample_of(
    texts: list[str], messages: list[tuple[str, str]], answer: str = "This."
) -> Sample:
    prompt = tuple(PromptMessage(role=role, content=text) for role, text in messages)
    return Sample(
        question="What is known?",
        contexts=texts,
        answer=answer,
        capture=CaptureNotes(grade="exact", evidence_from="prompt", prompt=prompt),
    )


def rendered(
    k: int,
    rendering: str = "listed",
    answer: str = "This.",
    before: Sequence[tuple[str, str]] = (),
) -> Sample:
    """A sample of the first k passages, whose prompt shows them so, behind some messages."""
    texts = PASSAGES[:k]
    return sample_of(texts, [*before, *RENDERINGS[rendering](texts)], answer)


def answered(sample: Sample, model: Scripted) -> Sample:
    """The sample of a run in which the model answered."""
    texts = sample.context_texts
    answer = model.answer(frozenset(w for w in WORDS if any(w in t for t in texts)))
    return sample.model_copy(update={"answer": str(answer)})


def reader_of(read: Collection[str]) -> Scripted:
    """A model that reads some facts, and no other."""
    return Scripted(lambda present: ANSWERS[present & frozenset(read)])


@pytest.mark.parametrize(("rendering", "k"), crossed(list(RENDERINGS), [2, 3, 1, 4, 5]))
def test_the_passages_that_a_model_reads_are_used_and_no_other(rendering, k):
    sample = rendered(k, rendering)
    for size in range(k + 1):
        for read in itertools.combinations(WORDS[:k], size):
            model = reader_of(read)
            [measured] = measure_use([answered(sample, model)], model=model)
            assert measured.use is not None
            assert verdicts_of(measured.use) == read
            assert measured.use.redundant == ()
            assert measured.use.effect_of_all == (1.0 if read else 0.0)


@pytest.mark.parametrize(
    ("pair", "rendering"),
    crossed(list(itertools.combinations(range(4), 2)), list(RENDERINGS)),
)
def test_two_passages_that_hold_the_same_are_found_as_a_pair(pair, rendering):
    first, second = (WORDS[place] for place in pair)
    texts = [
        f"{text} The ferry takes 40 minutes." if place in pair else text
        for place, text in enumerate(PASSAGES)
    ]

    def answer(present: frozenset[str]) -> str:
        knows = first in present or second in present
        ember = "with embers" if "ember" in present else "cold"
        return f"{ember}, the ferry takes 40 minutes" if knows else f"{ember} alone"

    sample = sample_of(texts, RENDERINGS[rendering](texts))
    judge = ScriptedJudge(
        {SameAnswer: lambda question: {"same": question["answer"] == question["other"]}}
    )
    model = Scripted(answer)
    [measured] = measure_use([answered(sample, model)], model=model, judge=judge)
    assert measured.use.redundant == (pair,)
    verdicts = [each.verdict for each in measured.use.passages]
    assert [verdicts[place] for place in pair] == ["redundant"] * 2
    assert verdicts[4] == "used"
    assert {verdicts[place] for place in range(4) if place not in pair} == {"not used"}


def test_three_passages_of_which_one_is_enough_are_not_told_as_unused():
    model = Scripted(lambda present: "known" if len(present) > 1 else "unheard")
    [measured] = measure_use([rendered(4, answer="known")], model=model)
    assert {each.verdict for each in measured.use.passages} == {"cannot tell"}


WORDS_OF_ANSWERS = st.lists(st.sampled_from(["it", "is", "red", "1874", "not"])).map(
    " ".join
)

PARAPHRASES = [
    "Anna lit the lantern in 1874.",
    "The lantern was lit by Anna.",
    "It was Anna, in winter.",
    "In the winter of 1874 Anna lit it.",
    "The passages do not say who.",
]


NUMBERS = [
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
]
RANDOM_REPLIES = {
    "yes or no": ["Yes.", "No."],
    "one of three": NUMBERS[:3],
    "one of ten": NUMBERS,
    "mostly one": ["Anna Brandt."] * 9 + ["I do not know."],
}


def uses_by_a_random_model(replies, n_rows, k, seed):
    """What is measured of rows whose model reads nothing and replies by chance."""
    chance = random.Random(seed)
    model = Scripted(lambda _: chance.choice(replies))
    texts = PASSAGES[:k]
    [(role, prompt)] = RENDERINGS["listed"](texts)
    samples = [
        answered(sample_of(texts, [(role, f"Row {number}. {prompt}")]), model)
        for number in range(n_rows)
    ]
    # one call at a time, so that replies come in one order
    measured = measure_use(samples, model=model, judge="lexical", concurrency=1)
    return [each.use for each in measured]


@pytest.mark.nightly
@pytest.mark.parametrize("name", RANDOM_REPLIES)
def test_of_one_row_of_a_random_model_no_more_is_told_than_chance_allows(name):
    replies = RANDOM_REPLIES[name]
    verdicts: Counter[str] = Counter()
    for seed in range(50):
        [use] = uses_by_a_random_model(replies, 1, 4, seed)
        verdicts.update(each.verdict for each in use.passages)
    assert verdicts.total() == 200
    shares = [n / len(replies) for n in Counter(replies).values()]
    # four answers are alike, and two without the passage are others: at most 1 of 15
    used = sum(share**4 * (1 - share) ** 2 for share in shares)
    assert used <= 1 / 15
    # five are alike; and of so many passages chance gives up to four errors more
    unused = sum(share**5 for share in shares)
    for n_told, share in (
        (verdicts["used"] + verdicts["redundant"], used),
        (verdicts["not used"], unused),
    ):
        error = (200 * share * (1 - share)) ** 0.5
        assert n_told <= 200 * share + 4 * error


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("replies", "n_rows"),
    [
        (RANDOM_REPLIES["yes or no"], 5),
        (RANDOM_REPLIES["one of three"], 5),
        (RANDOM_REPLIES["one of ten"], 5),
        # nine of ten are alike: it takes more rows to see that it wavers
        (RANDOM_REPLIES["mostly one"], 20),
        (PARAPHRASES, 5),
        ([f"It is {number}." for number in range(10_000)], 5),
    ],
    ids=[*RANDOM_REPLIES, "paraphrases", "any number"],
)
def test_of_some_rows_of_a_random_model_nothing_is_told_at_all(replies, n_rows):
    for seed in range(40 // n_rows):
        for use in uses_by_a_random_model(replies, n_rows, 4, seed):
            assert {each.verdict for each in use.passages} == {"cannot tell"}
            assert use.redundant == ()


@pytest.mark.parametrize(
    ("n_wavering", "n_old", "is_told"),
    [
        (1, 0, True),
        (2, 0, False),
        # an answer unlike all of now is an earlier model's, if no row wavers
        (0, 2, True),
        (1, 1, False),
    ],
)
def test_where_many_rows_waver_what_is_alike_may_be_so_by_chance(
    n_wavering, n_old, is_told
):
    n_replies = itertools.count()

    class Wavers(Scripted):
        async def complete(self, request: ChatRequest) -> ChatReply:
            reply = await super().complete(request)
            if "waver" in request.messages[0].content:
                return ChatReply((Choice(f"{next(n_replies) % 2}"),), reply.usage)
            return reply

    model = Wavers(lambda present: ANSWERS[present & frozenset(["amber"])])
    rows = [
        *(f"Row {number}." for number in range(3)),
        *(f"Row {number}: waver." for number in range(n_wavering)),
        *(f"Row {number}: old." for number in range(n_old)),
    ]
    samples = [answered(rendered(2, before=[("user", row)]), model) for row in rows]
    update = {"answer": "Nothing of this kind was ever written."}
    n_now = len(samples) - n_old
    samples[n_now:] = [each.model_copy(update=update) for each in samples[n_now:]]
    uses = [each.use for each in measure_use(samples, model=model)]
    for use in uses[:3]:
        if is_told:
            assert verdicts_of(use) == ("amber",)
        else:
            for each in use.passages:
                assert each.verdict == "cannot tell"
                assert each.why == (
                    "the answer varies as much by itself on 2 of 5 rows"
                )
                assert each.effect is not None
    for use in uses[3:]:
        assert {each.verdict for each in use.passages} == {"cannot tell"}


@given(st.lists(WORDS_OF_ANSWERS, min_size=6, max_size=6))
def test_of_six_answers_to_one_prompt_chance_makes_at_most_one_pair_others(answers):
    """So two answers without an unread passage are others in at most 1 of 15 cases."""
    n_choices = 0
    for pair in itertools.combinations(range(6), 2):
        repeats = Repeats(tuple(answers[n] for n in range(6) if n not in pair))
        n_choices += all(repeats.change(answers[n]) == "other" for n in pair)
    assert n_choices <= 1


def test_an_answer_unlike_the_runs_own_tells_nothing_and_says_so():
    sample = rendered(3, answer="Anna Brandt lit it.")
    [measured] = measure_use([sample], model=Scripted(lambda _: "I cannot help."))
    assert measured.use is not None
    for each in measured.use.passages:
        assert each.verdict == "cannot tell"
        assert "the run's answer reads otherwise" in each.why


def test_of_a_model_that_wavers_without_one_passage_nothing_is_told():
    n_without_amber = itertools.count()

    def answer(present: frozenset[str]) -> str:
        if present == {"birch", "cedar"} and next(n_without_amber) == 0:
            return "Something else."
        return "Anna lit it." if "birch" in present else "Nobody knows."

    sample = rendered(3, answer="Anna lit it.")
    model = Scripted(answer)
    [measured] = measure_use([sample], model=model)
    assert measured.use is not None
    for each in measured.use.passages:
        assert each.verdict == "cannot tell"
        assert each.why == "the answer varies as much by itself"


def test_where_repeats_differ_a_passage_is_used_but_none_is_not():
    texts = PASSAGES[:3]
    n_repeats = itertools.count()

    def answer(present: frozenset[str]) -> str:
        if "amber" not in present:
            return "Nobody knows it."
        if len(present) == len(texts):
            return f"Anna lit it in 1874, in winter {next(n_repeats) % 2}."
        return "Anna lit it in 1874: it was winter."

    model = Scripted(answer)
    judge = ScriptedJudge({SameAnswer: {"same": True}})
    sample = answered(rendered(3), model)
    [measured] = measure_use([sample], model=model, judge=judge)
    assert measured.use is not None
    assert judge.asked
    verdicts = [each.verdict for each in measured.use.passages]
    assert verdicts == ["used", "cannot tell", "cannot tell"]


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (Choice(""), "no text"),
        (Choice("<think>Who was it?</think>"), "no text"),
        (Choice("Anna lit", "length"), "cut off"),
        (Choice("Sorry.", "refused"), "declined"),
    ],
    ids=["empty", "thoughts alone", "cut off", "refused"],
)
def test_a_reply_without_an_answer_is_no_answer(reply, why):
    sample = rendered(3, answer="Anna lit it.")
    model = Scripted(lambda present: "Anna lit it." if "amber" in present else reply)
    [measured] = measure_use([sample], model=model)
    assert why in (measured.use.why_not or "")
    # asked once, and not for JSON; without each, nothing could be told
    assert len(model.requests) == 3 + 1
    model = Scripted(
        lambda present: reply if present == {"birch", "cedar"} else "Anna."
    )
    [measured] = measure_use([answered(sample, model)], model=model)
    failed, *others = measured.use.passages
    assert (failed.verdict, failed.answer) == ("cannot tell", None)
    assert why in failed.why
    assert {each.verdict for each in others} == {"not used"}


@pytest.mark.parametrize("place", ["earlier reply", "summary", "question"])
def test_a_passage_of_which_words_stand_elsewhere_is_not_told_as_unused(place):
    texts = PASSAGES[:3]
    [(_, prompt)] = RENDERINGS["listed"](texts)
    messages = {
        "earlier reply": [
            ("user", "Hello?"),
            ("assistant", f"I found: {texts[0]}"),
            ("user", prompt),
        ],
        "summary": [
            ("user", f"In short: the amber lantern was lit by Anna.\n{prompt}")
        ],
        "question": [("user", f"{prompt}\nIs it true: {texts[0]}")],
    }[place]
    model = Scripted(
        lambda present: "Anna did." if "amber" in present else "Nobody knows it."
    )
    sample = answered(sample_of(texts, messages), model)
    if place == "question":
        sample = sample.model_copy(update={"question": f"Is it true: {texts[0]}"})
    [measured] = measure_use([sample], model=model)
    first, *others = measured.use.passages
    assert first.verdict == "cannot tell"
    assert "stand elsewhere in the prompt" in first.why
    assert {each.verdict for each in others} == {"not used"}


def test_what_a_model_thinks_before_it_answers_is_no_answer():
    thoughts = itertools.count()
    model = Scripted(
        lambda present: (
            f"<think>{next(thoughts)} {next(thoughts)}?</think>"
            + ANSWERS[present & frozenset(["birch"])]
        )
    )
    sample = answered(rendered(3), model)
    [measured] = measure_use([sample], model=model)
    assert measured.use is not None
    assert verdicts_of(measured.use) == ("birch",)


def test_where_words_leave_a_doubt_the_judge_decides():
    sample = rendered(2, "numbered")
    model = Scripted(
        lambda present: (
            "The gate opened in 1874."
            if "amber" in present
            else "In 1874 the gate opened."
        )
    )
    sample = answered(sample, model)
    for same, verdict in ((1, "not used"), (0, "used")):
        judge = ScriptedJudge({SameAnswer: {"same": same}}, name="panel")
        [measured] = measure_use([sample], model=model, judge=judge)
        assert measured.use.passages[0].verdict == verdict
        assert measured.use.passages[0].effect == 0.0
        assert measured.use.judge == "panel"
        assert measured.use.passages[1].verdict == "not used"
    [measured] = measure_use([sample], model=model, judge="lexical")
    assert measured.use.passages[0].verdict == "cannot tell"


def test_the_whole_prompt_is_sent_as_it_was_and_at_the_models_own_temperature():
    texts = PASSAGES[:2]
    sample = rendered(2, "system")
    model = reader_of(["amber"])
    measure_use([sample], model=model)
    first = model.requests[0]
    assert [(each.role, each.content) for each in first.messages] == RENDERINGS[
        "system"
    ](texts)
    assert (first.temperature, first.max_tokens, first.schema) == (None, None, None)


@pytest.mark.parametrize(
    ("rendering", "without_second"),
    [
        ("listed", [f"Context:\n{PASSAGES[0]}\n\n{PASSAGES[2]}\n\nWhat is known?"]),
        ("numbered", [f"[1] {PASSAGES[0]}\n[2] \n[3] {PASSAGES[2]}\nWhat is known?"]),
        (
            "json",
            [
                json.dumps(
                    [
                        {"id": 0, "text": PASSAGES[0]},
                        {"id": 1, "text": ""},
                        {"id": 2, "text": PASSAGES[2]},
                    ]
                )
                + "\nWhat is known?"
            ],
        ),
        (
            "tags",
            [
                f"<doc>\n{PASSAGES[0]}\n</doc>\n<doc>\n{PASSAGES[2]}\n</doc>\n"
                "What is known?"
            ],
        ),
        (
            "system",
            [f"Answer by:\n- {PASSAGES[0]}\n- {PASSAGES[2]}\n", "What is known?"],
        ),
    ],
)
def test_a_passage_goes_with_its_separator_and_leaves_its_number(
    rendering, without_second
):
    prompt = kept_prompt(rendered(3, rendering))
    assert [each.content for each in prompt.without({1})] == without_second


def test_a_number_stays_where_two_passages_are_numbered():
    texts = PASSAGES[:2]
    prompt = kept_prompt(rendered(2, "numbered"))
    [message] = prompt.without({0})
    assert message.content == f"[1] \n[2] {texts[1]}\nWhat is known?"


@given(rendering=st.sampled_from(list(RENDERINGS)), k=st.integers(1, 5), data=st.data())
def test_what_stays_is_read_as_before_and_what_goes_is_gone(rendering, k, data):
    removed = data.draw(st.sets(st.integers(0, k - 1)))
    prompt = kept_prompt(rendered(k, rendering))
    content = "\n".join(each.content for each in prompt.without(removed))
    for place, word in enumerate(WORDS[:k]):
        assert (word in content) == (place not in removed)
    if not removed:
        assert prompt.without(removed) == prompt.messages


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"capture": None}, "keep_prompts=True"),
        ({"answer": None}, "no answer"),
        ({"contexts": ()}, "no passage"),
        ({"contexts": [*PASSAGES[:2], "What is nowhere shown."]}, "passage 3 does not"),
        ({"contexts": [*PASSAGES[:2], PASSAGES[0]]}, "the same text as passage 1"),
        ({"contexts": [*PASSAGES[:2], ""]}, "passage 3 has no letters"),
        ({"contexts": [*PASSAGES[:2], "---"]}, "passage 3 has no letters"),
    ],
)
def test_what_cannot_be_measured_says_why_and_costs_no_call(change, why):
    good = rendered(2)
    bad = Sample(**{**dict(good), **change})
    model = reader_of(["amber"])
    first, second = measure_use([bad, answered(good, model)], model=model)
    assert why in (first.use.why_not or "")
    assert first.use.passages == ()
    assert second.use.why_not is None
    assert len(model.requests) == second.use.usage.calls


def test_a_doubtful_sample_is_not_measured():
    sample = rendered(2)
    notes = sample.capture.model_copy(
        update={"grade": "inferred", "doubts": {"short_text": "short"}}
    )
    doubtful = sample.model_copy(update={"capture": notes})
    [measured] = measure_use([doubtful], model=reader_of(["amber"]))
    assert "short" in (measured.use.why_not or "")


@pytest.mark.parametrize("error", [RequestRejected("too long"), NoReplyInTime("late")])
def test_a_failing_call_is_said_and_the_others_go_on(error):
    sample = rendered(3)
    # it fails where the cedar is left out, and nowhere else
    model = Scripted(
        lambda present: (
            error
            if present == {"amber", "birch"}
            else ANSWERS[present & frozenset(["amber"])]
        )
    )
    model_without_whole = Scripted(
        lambda present: error if len(present) == 3 else "never"
    )
    sample = answered(sample, model)
    [measured] = measure_use([sample], model=LLMJudge(model, attempts=1))
    used, unused, failed = measured.use.passages
    assert (used.verdict, unused.verdict) == ("used", "not used")
    assert (failed.verdict, failed.answer) == ("cannot tell", None)
    assert str(error) in failed.why
    first, second = measure_use(
        [sample, sample], model=LLMJudge(model_without_whole, attempts=1)
    )
    for each in (first, second):
        assert str(error) in (each.use.why_not or "")


def test_a_refusal_repeats_no_word_of_a_passage_in_the_system_message():
    error = RequestRejected("m rejected the request (HTTP 400)")
    error.raw = "blocked: amber is red"
    texts = PASSAGES[:2]
    sample = sample_of(
        texts, [("system", "\n".join(texts)), ("user", "What is known?")]
    )
    model = Scripted(lambda _: error)
    [measured] = measure_use([sample], model=LLMJudge(model, attempts=1))
    assert "it says: " in (measured.use.why_not or "")
    assert "amber" not in (measured.use.why_not or "")


def test_a_cap_on_calls_leaves_whole_samples():
    samples = [rendered(2, before=[("user", f"Row {number}.")]) for number in range(4)]
    model = reader_of(["amber"])
    # without amber twice, without birch, without both, and the whole prompt thrice
    measured = measure_use(
        [answered(sample, model) for sample in samples],
        model=model,
        concurrency=1,
        limits=Limits(max_calls=14),
    )
    whys = [each.use.why_not for each in measured if each.use is not None]
    assert whys[:2] == [None, None]
    assert all("max_calls=14 was reached" in (why or "") for why in whys[2:])
    assert len(model.requests) == 14


def test_what_is_asked_later_of_a_row_goes_before_the_next_rows():
    samples = [rendered(3, before=[("user", f"Row {number}.")]) for number in range(4)]
    # seven calls a row, one again, and one without both passages that are not used
    model = reader_of(["amber"])
    measured = measure_use(
        [answered(sample, model) for sample in samples],
        model=model,
        concurrency=4,
        limits=Limits(max_calls=18),
    )
    uses = [each.use for each in measured if each.use is not None]
    assert [verdicts_of(use) for use in uses[:2]] == [("amber",)] * 2
    assert all("max_calls=18" in (use.why_not or "") for use in uses[2:])


def test_what_an_earlier_reply_quotes_stays_in_the_prompt():
    texts = PASSAGES[:2]
    earlier = ("assistant", f"As I said: {texts[0]}")
    prompt = kept_prompt(rendered(2, before=[("user", "Hello?"), earlier]))
    contents = [each.content for each in prompt.without({0, 1})]
    assert contents[:2] == ["Hello?", earlier[1]]
    assert not any(text in contents[2] for text in texts)


def test_the_calls_are_known_beforehand():
    samples = [rendered(k) for k in (1, 3)]
    model = reader_of([])
    assert calls_needed(samples, model=model).calls == 4 + 7
    assert not model.requests


def test_a_judge_that_writes_nothing_is_no_model():
    with pytest.raises(SettingError, match="the model that wrote the answers"):
        measure_use([], model="lexical")
    with pytest.raises(SettingError, match="repeats"):
        measure_use([], model=reader_of([]), repeats=1)


def test_no_text_stands_in_a_repr():
    texts = PASSAGES[:2]
    model = reader_of(["amber"])
    sample = answered(rendered(2), model)
    [measured] = measure_use([sample], model=model)
    assert measured.use is not None
    shown = f"{measured!r} {measured.use!r} {measured.use}"
    for text in (*texts, *ANSWERS.values()):
        assert text not in shown.split()
    assert "not used" in str(measured.use)


@given(WORDS_OF_ANSWERS, WORDS_OF_ANSWERS)
def test_the_effect_is_a_distance(first, second):
    assert 0 <= effect(first, second) <= 1
    assert effect(first, second) == effect(second, first)
    assert effect(first, first) == 0
    assert (effect(first, second) == 0) == (
        sorted(canonical_words(first)) == sorted(canonical_words(second))
    )


@pytest.mark.parametrize(
    ("answer", "change"),
    [
        ("It opened in 1874.", "same"),
        ("it opened in 1,874 [2]", "same"),
        ("It opened in 1875.", "in doubt"),
        ("It did not open in 1874.", "in doubt"),
        ("In 1874 it opened.", "in doubt"),
        ("I do not know.", "other"),
        # all words of one within the other: it may only be longer
        ("1874", "in doubt"),
        ("It opened in 1874, as all who lived there at that time know.", "in doubt"),
        ("✓", "in doubt"),
    ],
)
def test_what_words_alone_tell(answer: str, change: str) -> None:
    repeats = Repeats(("It opened in 1874.", "It opened in 1874."))
    assert repeats.change(answer) == change


@pytest.mark.parametrize(
    ("answer", "other"),
    [
        ("return x > 3", "return x < 3"),
        ("C++", "C#"),
        ("It is -5 degrees.", "It is 5 degrees."),
        ("Open on Sunday: ✓", "Open on Sunday: ✗"),
        ("It is 5 %.", "It is 5."),
        ("It costs $5.", "It costs €5."),
    ],
)
def test_answers_that_differ_in_signs_alone_are_in_doubt(
    answer: str, other: str
) -> None:
    repeats = Repeats((answer, answer))
    assert repeats.change(answer) == "same"
    assert repeats.change(other) == "in doubt"


@pytest.mark.parametrize("whole", [["Yes.", "No."], ["A B C.", "A B C D E F G H I."]])
def test_where_answers_to_the_same_prompt_are_others_nothing_is_told(whole):
    for answer in (*whole, "Something else."):
        assert Repeats(tuple(whole)).change(answer) == "varies"


def test_the_pair_of_which_the_answer_lost_the_words_is_the_likeliest():
    texts = [
        "the red sail",
        "tall green trees",
        "a ferry of 40 minutes",
        "ferry: 40 minutes",
    ]
    pair = likeliest_pair(range(4), texts, "the ferry takes 40 minutes", "no idea")
    assert pair == (2, 3)
