"""One reader for the replies to all questions: what counts, what is asked again, what fails."""

import json
import time
from typing import Any

import pytest
from chat_models import PolledModel
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import crossed, examples
from plausible import plausible_reply

from ragmetrics_core import (
    AnswerRelevance,
    CitationQuality,
    ContextAdherence,
    ContextRecall,
    ContextSufficiency,
    ContextUtilization,
    Criterion,
    LLMJudge,
    Metric,
    RetrievalAccuracy,
    Sample,
    evaluate,
)
from ragmetrics_core.data.replies import SAID_TWICE, Usage
from ragmetrics_core.models.chat import (
    Capabilities,
    ChatReply,
    ChatRequest,
    Choice,
)
from ragmetrics_core.reporting.screen import screen_lines

ROW = {
    "question": "Who lit it?",
    "contexts": ["Anna lit the lamp."],
    "answer": "Anna did [1].",
    "reference": "Anna lit the lamp.",
    "facts": ["Anna lit the lamp."],
}
# One verdict a request, also by a model without log-probabilities.
ONE_FACT = 'Reply with "reason" and "covered".\n---\n{context}\n{fact}\n'
# By metric: the field that decides, what it holds in a good reply, and the value then.
DECIDING: dict[str, tuple[Metric, str, Any, float]] = {
    "utilization": (ContextUtilization(), "useful", 1, 1.0),
    "adherence": (ContextAdherence(polls=1, cause=False), "claims", 1, 1.0),
    "recall": (ContextRecall(), "score", 1, 1.0),
    "accuracy": (RetrievalAccuracy(polls=1, template=ONE_FACT), "covered", 1, 1.0),
    "sufficiency": (ContextSufficiency(polls=1, declining=False), "missing", [], 1.0),
    "relevance": (AnswerRelevance(), "grade", 3, 1.0),
    "citations": (CitationQuality(numbered_from=1, polls=1), "supported", 1, 1.0),
}
# What a reply holds beside the field that decides.
BESIDE: dict[str, dict[str, Any]] = {
    "adherence": {"supported": 1, "unsupported": []},
    "sufficiency": {"sufficient": 1},
}
BITS = [1, 1.0, "1", "1.0", True, "true", "yes", "YES", "Yes.", '"1"', "**1**", "１"]


def good(name: str) -> dict[str, Any]:
    """The fields of a good reply to the metric's question."""
    _, field, value, _ = DECIDING[name]
    return {"reason": "It stands there.", **BESIDE.get(name, {}), field: value}


class Saying(PolledModel):
    """Replies with these texts, one after the other, then with the last."""

    name = "saying"
    cache_key = None

    def __init__(self, *texts: str, declines: bool = False) -> None:
        self.texts, self.requests = list(texts), list[ChatRequest]()
        self.declines = declines

    async def complete(self, request: ChatRequest) -> ChatReply:
        system = request.messages[0].content
        if '"declined"' in system:
            text = json.dumps({"declined": int(self.declines)})
        elif '"claims" is 1 if the sentence' in system:
            text = '{"sentences": [{"label": "S1", "claims": 1}]}'
        else:
            self.requests.append(request)
            texts = [self._next_text() for _ in range(request.n)]
            return ChatReply(tuple(map(Choice, texts)), Usage(calls=1))
        return ChatReply((Choice(text),) * request.n, Usage(calls=1))

    def _next_text(self) -> str:
        return self.texts.pop(0) if len(self.texts) > 1 else self.texts[0]


def score(name: str, *texts: str, declines: bool = False) -> tuple[Any, Saying]:
    model = Saying(*texts, declines=declines)
    result = DECIDING[name][0].score(**ROW, judge=LLMJudge(model))
    assert model.requests
    return result, model


# How each reply is read, for every metric: "good" at once, "bad" is asked again once, and
# so is what is "odd", which counts if its verdict is said again.
# {object} is a good reply, {worse} one with another verdict, {field}, {good} and {other}
# its deciding field with both values, {more} the fields that stand beside it.
REPLIES: dict[str, tuple[str, str]] = {
    # around the object
    "plain": ("good", "{object}"),
    "a byte order mark": ("good", "\ufeff{object}"),
    "spaces and lines": ("good", "\r\n\t {object} \u00a0\r\n"),
    "a fence of JSON": ("good", "```json\n{object}\n```"),
    "a bare fence": ("good", "```\n{object}\n```"),
    "an open fence": ("good", "```json\n{object}"),
    "a line before": ("good", "Here it is:\n{object}"),
    "a label before": ("good", "My verdict: {object}"),
    "a bold label before": ("good", "**Verdict:** {object}"),
    "a label in Chinese": ("good", "判断：{object}"),
    "prose before": ("good", "I thought.\n\nAnd thought again.\n\n{object}"),
    "prose behind": ("good", "{object}\n\nI hope this helps!"),
    "polite words around a fence": (
        "odd",
        "Here is the object:\n```json\n{object}\n```\nI hope this helps!",
    ),
    # or as of an example before a refusal
    "prose around": ("odd", "I thought.\n\n{object}\n\nI hope this helps!"),
    "a fence in prose": ("odd", "So: ```json\n{object}\n```\nI cannot rate this."),
    # words may take a verdict back, on the sample as much as on an example
    "a verdict of the sample in prose": (
        "odd",
        'My first thought was:\n{{"reason": "Anna lit the lamp.", {more}"{field}":'
        " {good}}}\nBut I take that back.",
    ),
    "a greeting before": ("good", "Sure! {object}"),
    "a sentence before": ("bad", "I cannot write anything like this. {object}"),
    "an abbreviation before": ("bad", "I cannot rate it, e.g. {object}"),
    "channels and prose": (
        "good",
        "<|channel|>analysis<|message|>Let me see.<|end|><|start|>assistant"
        "<|channel|>final<|message|>{object}\nThat is all.",
    ),
    "a tag around": ("good", "<answer>{object}</answer>"),
    "bold": ("good", "**{object}**"),
    "a mark of ChatML": ("good", "{object}<|im_end|>"),
    "a mark of Llama": ("good", "{object}<|eot_id|>"),
    "a mark of Gemma": ("good", "{object}<end_of_turn>"),
    "marks of DeepSeek": ("good", "<｜Assistant｜>{object}<｜end▁of▁sentence｜>"),
    "marks of Mistral": ("good", "[TOOL_CALLS] {object}[/INST]</s>"),
    "a turn of ChatML": ("good", "<|im_start|>assistant\n{object}<|im_end|>"),
    "a greeting and a mark": ("good", "Sure!\n{object}</s>"),
    "marks of GLM": ("good", "[gMASK]<sop>{object}"),
    "marks of Llama 2": ("good", "<<SYS>>{object}<</SYS>>"),
    "a word in brackets": ("bad", "{object} [wrong]"),
    "words in angle brackets": ("bad", "{object} <that is wrong>"),
    "channels": (
        "good",
        "<|channel|>analysis<|message|>Let me see.<|end|><|start|>assistant"
        "<|channel|>final<|message|>{object}<|return|>",
    ),
    "a channel that names its format": (
        "good",
        "<|channel|>final <|constrain|>json<|message|>{object}",
    ),
    "a channel of thoughts alone": ("bad", "<|channel|>analysis<|message|>{object}"),
    "words of a user": ("bad", "<|start|>user<|message|>{object}"),
    "a sign without a shape": ("good", "\u200b{object}\u2060"),
    "a list of one object": ("good", "[{object}]"),
    "braces before": ("good", "The set {{a, b}} is no object.\n{object}"),
    "over several lines": ("good", "{indented}"),
    # thinking
    "thinking before": ("good", "<think>Perhaps.</think>{object}"),
    "thinking in brackets": ("good", "[THINK]{worse}[/THINK]{object}"),
    "an object in its thinking": ("good", "<think>{worse}</think>{object}"),
    "thinking and a fence": ("good", "<thinking>h</thinking>\n```json\n{object}\n```"),
    "thinking that was begun elsewhere": ("good", "I weigh it. </think>\n{object}"),
    "nothing but thinking": ("bad", "<think>{object}"),
    "thinking that ends with it": ("bad", "<think>{object}</think>"),
    "an answer in tags behind it": (
        "good",
        "<think>h</think><answer>{object}</answer>",
    ),
    "other marks around": ("good", "<|begin_of_thought|>{object}<|end_of_thought|>"),
    "a channel around": ("good", "<|channel>thought\n{object}\n<channel|>"),
    "a draft and another verdict": ("bad", "<plan>\n{worse}\n</plan>\n{object}"),
    # several objects
    "another object before": ("good", '{{"note": "no verdict"}}\n{object}'),
    "another object behind": ("good", '{object}\n{{"note": "no verdict"}}'),
    "the same twice": ("good", "{object}\n{object}"),
    "the same in two fences": ("good", "```\n{object}\n```\n```\n{object}\n```"),
    "two verdicts": ("bad", "{object}\n{worse}"),
    "two verdicts in fences": ("bad", "```\n{worse}\n```\n```\n{object}\n```"),
    "a verdict and its change": ("bad", "{worse}\nNo, wait:\n{object}"),
    "a quotation": ("bad", "It says {object} and no more."),
    # keys
    "keys in capitals": ("good", "{capitals}"),
    "an unknown key": ("good", '{{"confidence": 3, {rest}'),
    "an unknown object": ("good", '{{"meta": {{"model": "m"}}, {rest}'),
    "the same key twice, equal": ("good", '{{"{field}": {good}, {rest}'),
    "the same key twice, another": ("bad", '{{"{field}": {other}, {rest}'),
    "the same key in capitals, another": ("bad", '{{"{Field}": {other}, {rest}'),
    "without the key": ("bad", '{{"reason": "It stands there."}}'),
    "another key": ("bad", '{{"text": 1}}'),
    "no key": ("bad", "{{}}"),
    # reasons
    "no reason": ("good", '{{{more}"{field}": {good}}}'),
    "a reason of null": ("good", '{{"reason": null, {more}"{field}": {good}}}'),
    "a long reason": ("good", '{{"reason": "{long}", {more}"{field}": {good}}}'),
    "a reason that holds an object": (
        "good",
        '{{"reason": "{{}}", {more}"{field}": {good}}}',
    ),
    "a reason behind": ("good", '{{{more}"{field}": {good}, "reason": "r"}}'),
    # values
    "an object for a value": ("bad", '{{{more}"{field}": {{"a": 1}}}}'),
    "a number of no use": ("bad", '{{{more}"{field}": 7}}'),
    "below nothing": ("bad", '{{{more}"{field}": -1}}'),
    "not a number": ("bad", '{{{more}"{field}": NaN}}'),
    "infinite": ("bad", '{{{more}"{field}": Infinity}}'),
    # no JSON
    "prose": ("bad", "yes"),
    "a number": ("bad", "1"),
    "null alone": ("bad", "null"),
    "a text in quotes": ("bad", '"yes"'),
    "an empty list": ("bad", "[]"),
    "cut off in a value": ("bad", '{{{more}"{field}": '),
    "cut off in a key": ("bad", '{{{more}"{field}'),
    "a missing bracket": ("bad", '{{{more}"{field}": {good}, "reason": "r"'),
    "single quotes": ("bad", "{{'{field}': {good}}}"),
    "curly quotes": ("bad", "{{“{field}”: {good}}}"),
    "a comment": ("bad", '{{{more}"{field}": {good} // sure\n}}'),
    "a comma too many": ("bad", '{{{more}"{field}": {good},}}'),
}


def written(reply: str, name: str) -> str:
    """A reply of the table, as a model would write it to the metric's question."""
    _, field, value, _ = DECIDING[name]
    other: Any = ["it"] if value == [] else 0
    fields = good(name)
    text = json.dumps(fields)
    return reply.format(
        object=text,
        worse=json.dumps({**fields, field: other}),
        rest=text.removeprefix("{"),
        indented=json.dumps(fields, indent=2),
        capitals=json.dumps({key.upper(): one for key, one in fields.items()}),
        field=field,
        Field=field.upper(),
        good=json.dumps(value),
        other=json.dumps(other),
        more="".join(
            f"{json.dumps(key)}: {json.dumps(beside)}, "
            for key, beside in BESIDE.get(name, {}).items()
        ),
        long="It stands there. " * 300,
    )


@pytest.mark.parametrize(("kind", "name"), crossed(list(REPLIES), list(DECIDING)))
def test_a_reply_is_read_alike_by_every_metric(name, kind):
    reading, reply = REPLIES[kind]
    text = written(reply, name)
    repaired, model = score(name, text, json.dumps(good(name)))
    assert (repaired.value, len(model.requests)) == (1.0, 1 + (reading != "good"))
    if reading == "good":
        return
    first, repair = model.requests
    assert repair.messages != first.messages
    assert repair.messages[-2].content == text
    assert "could not be used" in repair.messages[-1].content
    again, model = score(name, text)
    outcome = ("scored", 1.0) if reading == "odd" else ("failed", None)
    assert (again.status, again.value, len(model.requests)) == (*outcome, 2)
    assert (SAID_TWICE in again.usage.fallbacks) == (reading == "odd")


@pytest.mark.parametrize("name", [n for n, it in DECIDING.items() if it[2] != []])
def test_a_verdict_is_taken_back_by_its_field_beside_it(name):
    for line, reading in (
        ("{field}: 0", "bad"),
        ('"{field}": 0', "bad"),
        ("Wait. **{field}** = 0.", "bad"),
        ("{field}: {good}", "good"),
        ("confidence: 0", "good"),
    ):
        for reply in (f"{{object}}\n\n{line}", f"{line}\n\n{{object}}"):
            result, model = score(name, written(reply, name))
            assert (result.value, len(model.requests)) == (
                (1.0, 1) if reading == "good" else (None, 2)
            )


@pytest.mark.parametrize("name", ["adherence", "sufficiency"])
def test_what_is_odd_counts_by_the_same_verdict_alone(name):
    field, bit = {
        "adherence": ("unsupported", "supported"),
        "sufficiency": ("missing", "sufficient"),
    }[name]
    odd = {**good(name), field: ["das Jahr"], bit: 1}
    for other in (
        json.dumps({**odd, bit: 0}),
        written("{object}\n{worse}", name),
        "Yes.",
    ):
        result, model = score(name, json.dumps(odd), other)
        assert (result.status, len(model.requests)) == ("failed", 2)


@pytest.mark.parametrize("empty", [[], [""], ["?!"]])
def test_a_list_may_be_empty_in_any_form(empty):
    for name, field in (("adherence", "unsupported"), ("sufficiency", "missing")):
        result, model = score(name, json.dumps({**good(name), field: empty}))
        assert (result.value, len(model.requests)) == (1.0, 1)


@pytest.mark.parametrize("name", ["utilization", "adherence", "accuracy", "citations"])
@pytest.mark.parametrize("bit", BITS)
def test_a_bit_is_read_however_it_is_written(name, bit):
    text = json.dumps({**good(name), DECIDING[name][1]: bit})
    result, model = score(name, text)
    assert (result.value, len(model.requests)) == (1.0, 1)


@pytest.mark.parametrize("bit", ["1?", "yes?", "1 or 0", "perhaps"])
def test_a_bit_that_asks_back_is_none(bit):
    result, model = score("utilization", json.dumps({"useful": bit}))
    assert (result.status, len(model.requests)) == ("failed", 2)


@pytest.mark.parametrize("number", [1, 1.0, "1", "1.0", " 1.0. "])
def test_a_number_may_stand_in_quotes(number):
    assert score("recall", json.dumps({"score": number}))[0].value == 1.0
    assert score("relevance", json.dumps({"grade": 3}))[0].value == 1.0
    assert score("recall", json.dumps({"score": ".5"}))[0].value == 0.5


@pytest.mark.parametrize("left_out", [True, False])
def test_a_list_that_is_null_or_left_out_is_empty(left_out):
    for name, field, bit in (
        ("adherence", "unsupported", "supported"),
        ("sufficiency", "missing", "sufficient"),
    ):
        yes = {**good(name), field: None}
        if left_out:
            del yes[field]
        result, model = score(name, json.dumps(yes))
        assert (result.value, len(model.requests)) == (1.0, 1)
        # as beside [], a no counts
        result, model = score(name, json.dumps({**yes, bit: 0}))
        assert (result.value, len(model.requests)) == (0.0, 1)
        # no verdict, no yes
        result, model = score(name, json.dumps({**yes, bit: None}))
        assert (result.status, len(model.requests)) == ("failed", 2)


def test_a_text_in_place_of_a_list_is_its_only_item():
    for name, field, bit, item in (
        ("adherence", "unsupported", "supported", "Anna did."),
        ("sufficiency", "missing", "sufficient", "Who lit it"),
    ):
        for text in (item, "None", "N/A", "はい", ""):
            for verdict in (0, 1):
                alone = {**good(name), field: text, bit: verdict}
                listed = {**good(name), field: [text], bit: verdict}
                result, model = score(name, json.dumps(alone))
                same, model_of_same = score(name, json.dumps(listed))
                assert (result.status, result.value) == (same.status, same.value)
                assert len(model.requests) == len(model_of_same.requests)
        no = json.dumps({**good(name), field: item, bit: 0})
        result, model = score(name, no)
        assert (result.value, len(model.requests)) == (0.0, 1)
        yes = json.dumps({**good(name), field: item, bit: 1})
        assert score(name, yes)[0].value == 0.0


@pytest.mark.parametrize("name", [name for name in DECIDING if name != "sufficiency"])
def test_a_verdict_that_is_null_is_asked_again(name):
    null = json.dumps({**good(name), DECIDING[name][1]: None})
    result, model = score(name, null, json.dumps(good(name)))
    assert (result.value, len(model.requests)) == (1.0, 2)
    assert score(name, null)[0].status == "failed"


@pytest.mark.parametrize("value", [0, False, {}, [None], [{}]])
def test_what_is_neither_a_text_nor_a_list_of_texts_is_asked_about(value):
    for name, field in (("adherence", "unsupported"), ("sufficiency", "missing")):
        reply = {**good(name), field: value}
        result, model = score(name, json.dumps(reply), json.dumps(good(name)))
        assert (result.value, len(model.requests)) == (1.0, 2)
        repair = model.requests[1].messages[-1].content
        assert "it must be a list of texts, [] if there is none" in repair


def of_two_facts(labels: list[object]) -> tuple[Any, Saying]:
    """Retrieval Accuracy where the first verdict is a yes, each other one a no."""
    verdicts = [
        {"label": label, "covered": int(not place)}
        for place, label in enumerate(labels)
    ]
    model = Saying(json.dumps({"facts": verdicts}))
    row = {**ROW, "facts": ["Anna lit it.", "Bo lit it."]}
    return RetrievalAccuracy(calls="per_context").score(
        **row, judge=LLMJudge(model)
    ), model


@pytest.mark.parametrize(
    "labels",
    [["F1", "F2"], [1, 2], ["1", "2"], [1.0, 2.0], ["f1", 2], ["[1]", "2."]],
)
def test_a_label_may_be_its_number(labels):
    result, model = of_two_facts(labels)
    assert (result.value, len(model.requests)) == (0.5, 1)
    assert [row[0].probability for row in result.evidence.cells] == [1.0, 0.0]
    # and names its text in any order
    result, _ = of_two_facts(labels[::-1])
    assert [row[0].probability for row in result.evidence.cells] == [0.0, 1.0]


@pytest.mark.parametrize("label", ["", 2, None])
def test_a_letter_is_named_by_no_number_and_by_no_blank(label):
    verdicts = [{"label": name, "useful": 1} for name in ("A", label)]
    model = Saying(json.dumps({"chunks": verdicts}))
    row = {**ROW, "contexts": ["Anna lit the lamp.", "It rained."]}
    metric = ContextUtilization(judging="listwise")
    result = metric.score(**row, judge=LLMJudge(model))
    assert result.status == "failed"
    assert "A, B" in model.requests[1].messages[-1].content


@pytest.mark.parametrize(
    ("labels", "cause"),
    [
        ([1, 3], "each of these labels exactly once: F1, F2"),
        ([0, 1], "each of these labels exactly once: F1, F2"),
        ([1, 2, 3], "each of these labels exactly once: F1, F2"),
        ([1, "F1"], "two verdicts on 'F1' that differ"),
        ([None, None], "two verdicts on 'none' that differ"),
        (["", ""], "two verdicts on '' that differ"),
    ],
)
def test_labels_of_no_text_are_named(labels, cause):
    result, model = of_two_facts(labels)
    assert result.status == "failed"
    assert cause in model.requests[1].messages[-1].content


def test_a_number_may_have_a_decimal_comma():
    for number, value in (("0,8", 0.8), ("1,0", 1.0), (",5", None), ("8,0", None)):
        assert score("recall", json.dumps({"score": number}))[0].value == value
    assert score("recall", json.dumps({"score": "0,5,1"}))[0].status == "failed"


class Contradicting(Saying):
    """Says yes, says no, or both in one reply, also when asked again."""

    def capabilities(self) -> Capabilities:
        return Capabilities(n=False, logprobs=False, json_schema=True, temperature=True)

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.requests.append(request)
        is_asked_again = "could not be used" in request.messages[-1].content
        kind = "contradiction" if is_asked_again else self.texts.pop(0)
        objects = []
        for bit in {"yes": [1], "no": [0], "contradiction": [1, 0]}[kind]:
            fields = {"unsupported": [] if bit else ["Anna did"], "supported": bit}
            fields |= {"missing": [] if bit else ["Who lit it"], "sufficient": bit}
            objects.append({**fields, "claims": 1, "met": bit, "covered": bit})
        text = "\n".join(map(json.dumps, objects))
        return ChatReply((Choice(text),), Usage(calls=1))


@pytest.mark.parametrize(
    ("said", "bounds"),
    [
        ("yes yes yes contradiction contradiction", (0.6, 1.0)),
        ("yes yes yes no contradiction", (0.6, 0.8)),
        ("no no no contradiction yes", (0.2, 0.4)),
        ("yes yes no contradiction contradiction", None),
        ("yes yes no no contradiction", None),
        ("yes contradiction contradiction", (1 / 3, 1.0)),
        ("yes yes contradiction", (2 / 3, 1.0)),
        ("yes no contradiction", None),
    ],
)
@pytest.mark.parametrize("name", ["adherence", "sufficiency", "criterion", "accuracy"])
def test_polls_that_contradict_themselves_move_no_score_as_if_it_were_sure(
    name, said, bounds
):
    kinds = said.split()
    metrics: dict[str, Metric] = {
        "adherence": ContextAdherence(polls=len(kinds), cause=False),
        "sufficiency": ContextSufficiency(polls=len(kinds), declining=False),
        "criterion": Criterion("polite", "The answer is polite.", polls=len(kinds)),
        "accuracy": RetrievalAccuracy(polls=len(kinds), template=ONE_FACT),
    }
    result = metrics[name].score(**ROW, judge=LLMJudge(Contradicting(*kinds)))
    if bounds is None or bounds[0] <= 0.5 < bounds[1]:
        assert (result.status, result.value) == ("failed", None)
        assert "could turn the verdict" in result.reason
    elif name != "accuracy":  # whose score is of several probabilities
        n_yes, n_no = kinds.count("yes"), kinds.count("no")
        assert result.value == n_yes / (n_yes + n_no)
        assert result.bounds == pytest.approx(bounds)
        assert f"{bounds[0]:.2f} to {bounds[1]:.2f}" in result.reason
    else:
        assert result.status == "scored"


def test_sufficiency_is_uncertain_where_lost_polls_lead_into_its_band():
    for said, is_uncertain in (
        ("yes yes yes contradiction contradiction", True),
        ("yes yes yes yes contradiction", False),
    ):
        judge = LLMJudge(Contradicting(*said.split()))
        result = ContextSufficiency(declining=False).score(**ROW, judge=judge)
        assert result.evidence.model_dump()["uncertain"] == is_uncertain


def test_a_reply_that_contradicts_itself_is_never_scored():
    yes = json.dumps(good("adherence"))
    no = json.dumps({**good("adherence"), "supported": 0})
    result, model = score("adherence", f"{yes}\n{no}")
    assert (result.status, len(model.requests)) == ("failed", 2)
    # a field of another name is no verdict
    verdict = {"verdict": "yes", "unsupported": ["Anna"], "claims": 1}
    result, model = score("adherence", json.dumps(verdict))
    assert (result.status, len(model.requests)) == ("failed", 2)


def test_an_unsupported_claim_of_an_answer_that_claims_nothing_is_a_no():
    no = json.dumps({"supported": 0, "claims": 0, "unsupported": ["Anna"]})
    # unless the answer turns out to decline
    result, model = score("adherence", no)
    assert (result.value, len(model.requests)) == (0.0, 1)
    assert result.evidence.polls[0].unsupported == ("Anna",)
    result, _ = score("adherence", no, declines=True)
    assert (result.status, result.code) == ("undefined", "declined")
    yes = json.dumps({"supported": 1, "claims": 0, "unsupported": ["Anna"]})
    assert score("adherence", yes)[0].value == 0.0


def test_a_low_score_asks_whether_the_answer_declines_where_a_poll_says_so():
    none = json.dumps({"supported": 0, "claims": 0, "unsupported": []})
    no = json.dumps({"supported": 0, "claims": 1, "unsupported": ["Anna"]})
    adherence = ContextAdherence(polls=3, cause=False)
    for declines, value, status in ((False, 0.0, "scored"), (True, None, "undefined")):
        model = Saying(no, none, no, declines=declines)
        result = adherence.score(**ROW, judge=LLMJudge(model))
        assert (result.value, result.status) == (value, status)
    # where none says so, nobody asks
    judge = LLMJudge(Saying(no, declines=True))
    assert adherence.score(**ROW, judge=judge).value == 0.0


@pytest.mark.parametrize(
    "item",
    [
        "N/A",
        "None",
        "none.",
        "nothing",
        "keine",
        "無",
        "All claims are supported.",
        "Nothing is missing.",
        # a reproach in other words is one, and no judge says so but by saying it again
        "The year is not given in any context.",
        "No context gives the time",
        "das Jahr",
        "claim 2",
    ],
)
def test_a_list_that_names_nothing_of_the_answer_is_asked_about(item):
    for name, field, bit in (
        ("adherence", "unsupported", "supported"),
        ("sufficiency", "missing", "sufficient"),
    ):
        empty = json.dumps({**good(name), bit: 0})
        for verdict in (0, 1):
            reply = json.dumps({**good(name), field: [item], bit: verdict})
            result, model = score(name, reply)
            assert (result.value, len(model.requests)) == (verdict, 2)
            asked_again = model.requests[1].messages[-1].content
            assert f"its list '{field}' names nothing of the" in asked_again
            # what it lists is told
            assert "(Said twice: it" in result.reason
            assert f": {item})" in result.reason
            # another verdict counts where nothing is odd about it
            assert score(name, reply, json.dumps(good(name)))[0].value == 1.0
            assert score(name, reply, empty)[0].value == 0.0
    # an answer that claims nothing has none
    no_claim = {"supported": 1, "claims": 0, "unsupported": [item]}
    result, model = score("adherence", json.dumps(no_claim))
    assert (result.status, len(model.requests)) == ("undefined", 2)
    # beside a claim it is no second one
    no = {"supported": 0, "claims": 1, "unsupported": [item, "Anna did."]}
    result, model = score("adherence", json.dumps(no))
    assert (result.value, len(model.requests)) == (0.0, 1)
    assert result.evidence.polls[0].unsupported == ("Anna did.",)


def test_a_list_beside_a_yes_that_names_something_is_a_no():
    """Asked again, a model takes the yes back."""
    for name, field, bit, item in (
        ("adherence", "unsupported", "supported", "Anna lit it"),
        ("sufficiency", "missing", "sufficient", "Who lit it"),
    ):
        reply = json.dumps({**good(name), field: ["N/A", item], bit: 1})
        result, model = score(name, reply)
        assert (result.value, len(model.requests)) == (0.0, 1)


@pytest.mark.parametrize(
    ("answer", "claim"),
    [
        ("The mill in Orle is open to all and it is red.", "It is red."),
        ("Tháp Eiffel cao ba mét.", "cao ba mét"),
        ("Orle में चक्की है। वह लाल है।", "वह लाल है"),
        ("It is so.", "it is so"),
        ("It is red.", "it was red"),
        ("it is so", "so it is"),
        ("磨坊是红色的。", "是红色的"),
    ],
)
def test_a_claim_that_stands_in_the_answer_is_one(answer, claim):
    no = {"reason": "r", "supported": 0, "claims": 1, "unsupported": [claim]}
    model = Saying(json.dumps(no))
    result = ContextAdherence(polls=1, cause=False).score(
        contexts=["Bananas."], answer=answer, judge=LLMJudge(model)
    )
    assert (result.value, len(model.requests)) == (0.0, 1)


@pytest.mark.parametrize(
    ("answer", "claim"),
    [
        ("In 1900.", "1900."),
        ("Yes, she was.", "Anna Brod kept the lighthouse."),
        ("Er ist rot.", "It is red."),
        ("It is big.", "The lighthouse is big."),
        ("It was lit in 1856.", "The light began in eighteen fifty-six."),
    ],
)
def test_a_claim_that_is_labelled_may_be_told_in_any_words(answer, claim):
    """A pronoun is resolved from what was said before, or from a context."""
    model = Saying(json.dumps({"claims": [{"claim": claim, "needs": "evidence"}]}))
    row = {**LATER, "question": "And?", "contexts": ["It stands."], "answer": answer}
    adherence = ContextAdherence(polls=1, cause=False)
    result = adherence.score(Sample.model_validate(row), judge=LLMJudge(model))
    assert (result.value, len(model.requests)) == (1.0, 1)


def test_what_is_missing_may_be_told_in_short_words():
    no = {"reason": "r", "sufficient": 0, "missing": ["who he is"]}
    model = Saying(json.dumps(no))
    result = ContextSufficiency(polls=1, declining=False).score(
        question="Who is he?", contexts=["Bananas."], judge=LLMJudge(model)
    )
    assert (result.value, len(model.requests)) == (0.0, 1)


def test_a_no_counts_that_lists_nothing():
    """Asked again, a model says the same in the same words."""
    for name, bit in (("adherence", "supported"), ("sufficiency", "sufficient")):
        no = json.dumps({**good(name), bit: 0})
        result, model = score(name, no)
        assert (result.value, len(model.requests)) == (0.0, 1)
        assert score(name, "No.", no)[0].value == 0.0
        # where another verdict stands beside it, there is none
        yes = json.dumps(good(name))
        for reply in (f"{no}\n{yes}", f"{yes}\n{no}"):
            result, model = score(name, reply)
            assert (result.status, len(model.requests)) == ("failed", 2)
    # of an answer that claims nothing, nothing can be listed
    none = {"supported": 0, "claims": 0, "unsupported": []}
    assert score("adherence", json.dumps(none))[0].status == "undefined"


@pytest.mark.parametrize("verdict", ["left out", None, "null"])
def test_a_model_that_gives_no_verdict_says_no_yes_by_an_empty_list(verdict):
    for name, bit in (("adherence", "supported"), ("sufficiency", "sufficient")):
        fields = {**good(name), bit: verdict}
        if verdict == "left out":
            del fields[bit]
        reply = json.dumps(fields)
        result, model = score(name, reply)
        assert (result.status, len(model.requests)) == ("failed", 2)
        assert f"the field '{bit}'" in model.requests[1].messages[-1].content
        assert score(name, reply, json.dumps(good(name)))[0].value == 1.0


@pytest.mark.nightly
@pytest.mark.parametrize(
    "part", ['{"reason": "r", "useful": 1}</think>', '{"useful": 1}', "{'useful'", "{"]
)
def test_a_long_reply_takes_time_by_its_length(part):
    began_at = time.process_time()
    model = Saying(part * (200_000 // len(part)))
    ContextUtilization().score(**ROW, judge=LLMJudge(model))
    assert time.process_time() - began_at < 2


@pytest.mark.parametrize("key", [None, "mine"])
def test_a_store_that_keeps_no_reply_of_a_model_says_so(key, tmp_path, caplog):
    model = Saying(json.dumps(good("adherence")))
    model.cache_key = key
    for _ in range(2):
        evaluate([ROW], ["adherence"], judge=LLMJudge(model), store=tmp_path / "r.db")
    told = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert len(model.requests) == (1 if key else 2)
    assert told == ([] if key else [told[0]] * 2)
    assert key or "replies of saying are not stored" in told[0]
    caplog.clear()
    evaluate([ROW], ["adherence"], judge=LLMJudge(model))
    assert "not stored" not in caplog.text


def test_a_reply_longer_than_any_form_is_refused_and_not_sent_back_whole():
    model = Saying("word " * 200_000 + json.dumps(good("utilization")))
    result = ContextUtilization().score(**ROW, judge=LLMJudge(model))
    assert "it has 1,000,043 characters" in result.reason
    assert "does not keep to max_tokens" in result.reason
    asked_again = model.requests[-1].messages
    assert sum(len(message.content) for message in asked_again) < 30_000
    assert result.error is not None
    assert result.error.raw.endswith("… (the first 100,000 of 1,000,043 characters)")
    assert len(result.error.raw) < 101_000


def test_the_form_of_a_reply_is_no_verdict():
    copied = {"reason": "<what matches, what is missing or wrong>", "score": 0.5}
    result, model = score("recall", json.dumps(copied))
    assert (result.status, len(model.requests)) == ("failed", 2)


@pytest.mark.parametrize(
    "form",
    [
        '{"reason": "<what matches, what is missing or wrong>", "score": 0.5}',
        '{"reason": "<your reasoning>", "score": <number from 0 to 1>}',
        '{"reason": "what matches, what is missing or wrong", "score": 0.5}',
    ],
)
def test_a_form_that_is_copied_before_the_verdict_is_passed_over(form):
    result, model = score("recall", f"{form}\n{json.dumps(good('recall'))}")
    assert (result.value, len(model.requests)) == (1.0, 1)
    result, model = score("recall", form)
    assert (result.status, len(model.requests)) == ("failed", 2)


@settings(max_examples=examples(100))
@given(st.text(max_size=200))
def test_any_text_is_scored_or_failed_and_never_raises(text):
    result, model = score("utilization", text or "x")
    assert result.status in ("scored", "failed")
    assert len(model.requests) <= 2


# Replies of Qwen2.5-Coder-1.5B-Instruct at T = 0 and 1, shortened.
HAMLET = {
    "question": "Who wrote Hamlet?",
    "contexts": [
        "Hamlet is a tragedy by William Shakespeare.",
        "Bananas are rich in potassium.",
    ],
    "answer": "William Shakespeare wrote Hamlet.",
    "reference": "Shakespeare wrote it.",
}


def of_hamlet(metric: Metric, *replies: object) -> tuple[Any, int]:
    """The result, and how often the model was asked."""
    model = Saying(*map(json.dumps, replies))
    return metric.score(**HAMLET, judge=LLMJudge(model)), len(model.requests)


COPIED: dict[str, tuple[Metric, dict[str, Any], dict[str, Any]]] = {
    "the rating of an example": (
        ContextRecall(),
        {"reason": "Orle's time matches; the price is missing.", "score": 0.5},
        {"reason": "It names Shakespeare.", "score": 1.0},
    ),
    "the reason of an example": (
        ContextUtilization(relevance="binary"),
        {
            "reason": "It names the Marl bridge, a step on the way to the year.",
            "useful": 1,
        },
        {"reason": "It names the author.", "useful": 1},
    ),
    "the facts of an example": (
        RetrievalAccuracy(polls=1, template=ONE_FACT),
        {"facts": ["Anna Brod lit the Orle lighthouse."]},
        {"facts": ["Shakespeare wrote Hamlet."], "covered": 1},
    ),
}


@pytest.mark.parametrize(("metric", "copied", "own"), COPIED.values(), ids=COPIED)
def test_an_example_of_the_prompt_is_no_verdict(metric, copied, own):
    failed, asked = of_hamlet(metric, copied)
    assert (failed.status, asked >= 2) == ("failed", True)
    assert "repeats the form or an example" in failed.reason
    scored, _ = of_hamlet(metric, copied, own)
    assert scored.value == 1.0


TOWER = {
    "question": "When was the tower built, and how high is it?",
    "contexts": ["It was built in 1889.", "It is 330 m high.", "Cards cost 9 euros."],
    "answer": "Yes. It was built in 1889. It is 330 m high. It is open. Come. Go up.",
    "reference": "It was built in 1889, and is 330 m high.",
    "citations": [{"start": 5, "end": 26, "contexts": [0], "mark": [24, 25]}],
}
TWO_FACTS = {"facts": ["It was built in 1889.", "It is 330 m high."]}
LATER = {
    "history": [
        {"role": "user", "content": "What stands in Paris?"},
        {"role": "assistant", "content": "A tower."},
    ],
    "ledger": {"conversation": "c", "turn": 2, "calls": []},
}
# By the first words of a prompt: a metric that asks it, and what its row has, too.
PROMPTS_WITH_EXAMPLES: dict[str, tuple[Metric, dict[str, Any]]] = {
    "You judge whether a passage": (ContextUtilization(), {}),
    "You judge which passages": (ContextUtilization(judging="listwise"), {}),
    "You judge which": (
        ContextUtilization(judging="listwise", relevance="probability"),
        {},
    ),
    "You say what each claim": (ContextAdherence(polls=1, cause=False), LATER),
    "You rate how well": (ContextRecall(), {}),
    "You check whether a question": (ContextSufficiency(polls=1), {}),
    "You grade whether": (AnswerRelevance(), {}),
    "You list the distinct": (RetrievalAccuracy(), {}),
    "You list the": (RetrievalAccuracy(extraction="cot"), {}),
    "You check which facts": (RetrievalAccuracy(calls="per_context"), TWO_FACTS),
    "You check which sentences": (CitationQuality(), {}),
}


class Copying(Saying):
    """Copies an example of the prompts that begin with these words; else it is plausible."""

    def __init__(self, first_words: str, number: int) -> None:
        super().__init__("")
        self.first_words, self.number, self.n_examples = first_words, number, 0

    async def complete(self, request: ChatRequest) -> ChatReply:
        system = request.messages[0].content
        body = {"messages": [{"content": it.content} for it in request.messages]}
        schema = {"response_format": dict(request.schema or {})}
        text = plausible_reply({**body, **schema})
        if system.startswith(self.first_words):
            lines = system.partition("\nExample")[2].splitlines()
            examples = [line for line in lines if line.startswith("{")]
            self.n_examples, text = len(examples), examples[self.number]
        return ChatReply((Choice(text),) * request.n, Usage(calls=1))


@pytest.mark.parametrize("first_words", PROMPTS_WITH_EXAMPLES)
def test_no_example_of_a_prompt_of_ours_is_a_verdict(first_words):
    """But for those of bits alone, of which nothing tells whether they were copied."""
    metric, more = PROMPTS_WITH_EXAMPLES[first_words]
    number, n_examples = 0, 1
    while number < n_examples:
        model = Copying(first_words, number)
        row = Sample.model_validate({**TOWER, **more})
        result = metric.score(row, judge=LLMJudge(model))
        assert result.status == "failed", number
        number, n_examples = number + 1, model.n_examples
    assert n_examples


def test_words_of_an_example_may_be_the_judges_own():
    everything = {"reason": "All points are as expected.", "score": 1.0}
    examples = f"Expected: By Orle's lake.\nAnswer: There.\n{json.dumps(everything)}"
    result, asked = of_hamlet(ContextRecall(examples=examples), everything)
    assert (result.value, asked) == (1.0, 1)
    # about what the example is about
    judge = LLMJudge(
        Saying(
            '{"reason": "Orle\'s time matches; the price is missing.", "score": 0.5}'
        )
    )
    library = ContextRecall().score(
        question="When does Orle's pool open?",
        answer="It opens at nine.",
        reference="It opens at nine, and costs nothing.",
        judge=judge,
    )
    assert library.value == 0.5


def test_claims_of_the_contexts_are_no_claims_of_the_answer():
    bananas = ["Bananas are rich in potassium."]
    adherence = ContextAdherence(polls=1, cause=False)
    right = {"supported": 1, "claims": 1, "unsupported": []}
    no = {"supported": 0, "claims": 1, "unsupported": bananas}
    result, asked = of_hamlet(adherence, no, right)
    assert (result.value, asked) == (1.0, 2)
    for verdict in (0, 1):
        result, asked = of_hamlet(adherence, {**no, "supported": verdict})
        assert (result.value, asked) == (verdict, 2)
        assert bananas[0] in result.evidence.polls[0].reason


def facts_of(reference: str, *replies: object) -> tuple[Any, int]:
    """Retrieval Accuracy by facts of a reference, and how often the model was asked."""
    model = Saying(*(json.dumps(reply) for reply in replies))
    result = RetrievalAccuracy(polls=1, template=ONE_FACT).score(
        question="Is the mill in Orle open?",
        contexts=["It is."],
        reference=reference,
        judge=LLMJudge(model),
    )
    return result, len(model.requests)


@pytest.mark.parametrize(
    "item",
    [
        "N/A",
        "None",
        "<none>",
        "No facts",
        "Keine",
        "nothing",
        "null",
        "нет",
        "无",
        "The text states nothing.",
    ],
)
def test_a_list_that_names_nothing_of_a_reference_is_none_of_its_facts(item):
    unknown = "I could not find that."
    result, asked = facts_of(unknown, {"facts": [item]})
    assert (result.status, asked) == ("failed", 2)
    assert "its list 'facts' names nothing of the reference" in result.reason
    result, asked = facts_of(unknown, {"facts": [item]}, {"facts": []})
    assert (result.status, result.code, asked) == ("undefined", "no_facts", 2)
    own = {"facts": ["The mill is open."], "covered": 1}
    result, asked = facts_of("It is open.", {"facts": [item]}, own)
    assert (result.value, asked) == (1.0, 3)


@pytest.mark.parametrize(
    ("reference", "fact"),
    [
        ("磨坊", "A watchman lives there."),
        ("12", "Twelve lamps exist."),
        ("1,000", "The total is 1000."),
        ("50 %", "Half of it."),
    ],
)
def test_a_reference_told_in_other_words_is_not_one_without_facts(reference, fact):
    result, asked = facts_of(reference, {"facts": [fact]})
    assert (result.status, asked) == ("failed", 2)
    assert "its list 'facts' names nothing of the reference" in result.reason
    in_its_words = {"facts": [f"{fact} ({reference})"], "covered": 1}
    result, asked = facts_of(reference, {"facts": [fact]}, in_its_words)
    assert (result.value, asked) == (1.0, 3)


def test_a_fact_may_be_in_words_of_the_question():
    short = {"facts": ["The mill is open.", "Orle has a mill."], "covered": 1}
    result, asked = facts_of("Yes.", short)
    assert (result.value, len(result.evidence.facts), asked) == (1.0, 2, 3)


@pytest.mark.parametrize(
    "item",
    ["N/A", "Keine weiteren Fakten.", "Here are the facts:", "Bees sting.", "无"],
)
def test_a_fact_that_names_nothing_of_the_reference_is_asked_again(item):
    told = "Anna lit the lamp in 1903."
    beside = {"facts": [told, item]}
    result, asked = facts_of(told, beside, {"facts": [told], "covered": 1})
    assert (result.value, len(result.evidence.facts), asked) == (1.0, 1, 3)
    result, asked = facts_of(told, {**beside, "covered": 1})  # it insists
    assert (result.value, asked) == (1.0, 4)
    assert f"Not in words of the reference: {item}" in result.reason


def test_a_reason_that_denies_beside_an_empty_list_is_no_yes():
    denied = "The contexts do not say who wrote it. Not supported."
    adherence = ContextAdherence(polls=1, cause=False)
    no = {"reason": denied, "supported": 0, "claims": 1, "unsupported": []}
    result, asked = of_hamlet(adherence, no)
    assert (result.value, asked) == (0.0, 1)
    assert result.evidence.polls[0].unsupported == ()


def test_the_screen_says_in_how_many_rows_a_verdict_counts_as_it_was_said_twice():
    """Its list names words of no part: the judge may mean something that speaks against it."""
    odd = {**good("adherence"), "unsupported": ["das Jahr"], "supported": 1}
    rows = [ROW] * 3
    report = evaluate(rows, ["adherence"], judge=LLMJudge(Saying(json.dumps(odd))))
    assert report.scores("context_adherence") == [1.0] * 3
    screen = "\n".join(screen_lines(report.glance()))
    assert "In 3 of 3 rows a judge's verdict counts, said twice" in screen
