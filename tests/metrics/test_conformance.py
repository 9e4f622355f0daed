"""Every case of ``conformance/`` holds, and its values follow from the definitions."""

import json
import re
from fractions import Fraction
from itertools import permutations, product
from math import prod
from pathlib import Path

import pytest
from judge_replies import chunks, covered, facts, poll, polls, rating, useful_list

from ragmetrics_core import Sample, ScriptedJudge
from ragmetrics_core.data import errors
from ragmetrics_core.data.errors import JudgeError
from ragmetrics_core.data.replies import Asked, Weight
from ragmetrics_core.metrics.answer_relevance import Addresses, RelevanceGrade
from ragmetrics_core.metrics.citation_support import MakesClaim, Supports
from ragmetrics_core.metrics.context_recall import RateRecall
from ragmetrics_core.metrics.context_sufficiency import (
    SufficientContexts,
    SufficientReply,
)
from ragmetrics_core.metrics.context_utilization import Useful
from ragmetrics_core.metrics.declined import Declined, DeclinedJudgement
from ragmetrics_core.metrics.fact_matrix import ExtractFacts, FactInContext
from ragmetrics_core.metrics.polls import Adherent, RestsOn
from ragmetrics_core.metrics.registry import NAMED_METRICS

FOLDER = Path(__file__).parents[2] / "conformance"
CASES = [
    (path.stem, case)
    for path in sorted(FOLDER.glob("*.json"))
    for case in json.loads(path.read_text("utf-8"))
]
all_cases = pytest.mark.parametrize(
    ("metric", "case"), CASES, ids=[f"{metric}: {c['name']}" for metric, c in CASES]
)


def useful(question, reply):
    by_chunk = dict(zip(reply["about"]["chunks"], reply["says"], strict=True))
    said = [by_chunk[chunk] for chunk in chunks(question)]
    weights = tuple(Weight(one["probability"]) for one in said if "probability" in one)
    reply = (
        useful_list(question, said)
        if "chunks" in question.parts
        else question.Reply(**said[0])
    )
    return Asked((reply,), weights=weights)


def adherent(question, reply):
    said = [
        one if isinstance(one, dict) else {"verdict": one}
        for one in reply["says"]
        if one is not None
    ]
    failures = (errors.TransientJudgeError("no reply"),) * (
        len(reply["says"]) - len(said)
    )
    p = said[0].get("probability") if said else None
    return polls(
        [
            poll(one["verdict"], one.get("reason", ""), one.get("unsupported", ()))
            for one in said
        ],
        failures,
        p=p,
        together=reply.get("batched", False),
    )


def rests_on(question, reply):
    return [
        question.read({"claims": [{"claim": it, "needs": it} for it in poll]})
        for poll in reply["says"]
    ]


def sufficient_contexts(question, reply):
    weights = [
        Weight(one["probability"]) for one in reply["says"] if "probability" in one
    ]
    replies = [SufficientReply(missing=one["missing"]) for one in reply["says"]]
    return Asked(tuple(replies), weights=tuple(weights))


def supports(question, reply):
    said = [
        {name: poll[name] for name in poll if name != "probability"}
        for poll in reply["says"]
    ]
    weights = [
        Weight(poll["probability"]) for poll in reply["says"] if "probability" in poll
    ]
    return Asked(tuple(map(question.read, said)), weights=tuple(weights))


def makes_claim(question, reply):
    labels = question.parts["sentences"].labels
    verdicts = [
        {"label": label, "claims": claims}
        for label, claims in zip(labels, reply["says"], strict=True)
    ]
    return question.read({"sentences": verdicts})


def addresses(question, reply):
    return RelevanceGrade(**reply["says"])


READERS = {
    SufficientContexts: sufficient_contexts,
    Declined: lambda question, reply: DeclinedJudgement(**reply["says"]),
    Addresses: addresses,
    Supports: supports,
    MakesClaim: makes_claim,
    Useful: useful,
    Adherent: adherent,
    RestsOn: rests_on,
    RateRecall: lambda question, reply: rating(**reply["says"]),
    ExtractFacts: lambda question, reply: facts(*reply["says"]),
    FactInContext: lambda question, reply: covered(
        *reply["says"], mode=reply.get("mode", "verdict")
    ),
}


def judge_of(case):
    """A judge that gives the replies of a case in their order."""
    replies = iter(case["replies"])
    asks_whether_declined = any(it["asked"] == "declined" for it in case["replies"])

    def script(read):
        def answer(question):
            reply = next(replies, None)
            if reply is None:
                raise JudgeError("the case has no further reply")
            if "error" in reply:
                raise getattr(errors, reply["error"])("as the case says")
            return read(question, reply)

        return answer

    readers = dict(READERS)
    if not asks_whether_declined:  # then the answer does not decline
        del readers[Declined]
    return ScriptedJudge({question: script(read) for question, read in readers.items()})


def assert_equal(found, expected, place, *, exactly):
    """Compare what the case names: fractions and numbers as numbers, everything else as it stands."""
    if isinstance(expected, dict):
        for key, value in expected.items():
            assert_equal(found[key], value, f"{place}.{key}", exactly=exactly)
    elif isinstance(expected, list):
        assert len(found) == len(expected), place
        for index, (one, other) in enumerate(zip(found, expected, strict=True)):
            assert_equal(one, other, f"{place}[{index}]", exactly=exactly)
    elif isinstance(found, float):
        number = float(Fraction(expected))
        assert found == (
            number if exactly else pytest.approx(number, rel=0, abs=1e-12)
        ), place
    else:
        assert found == expected, place


def shown(question, name):
    """What a question shows: of a group a list, also where one of the group is asked about by itself."""
    if name in question.parts:
        text = question[name]
        return list(text) if isinstance(text, tuple) else text
    if name in ("listwise", "together"):
        return bool({"chunks", "facts"} & question.parts.keys())
    return (
        [question[name[:-1]]]
        if name[:-1] in question.parts
        else getattr(question, name) or 0
    )


def exact(case):
    """True where only whole numbers are counted: nothing is rounded before the last division."""
    return case["settings"].get("relevance", "binary") == "binary"


@all_cases
def test_the_metric_gives_what_the_case_expects(metric, case):
    judge, expected = judge_of(case), dict(case["expected"])
    result = NAMED_METRICS[metric](**case["settings"]).score(
        Sample(**case["sample"]), judge=judge
    )
    assert len(judge.asked) == len(case["replies"])
    for question, reply in zip(judge.asked, case["replies"], strict=True):
        assert (
            re.sub(r"(?<!^)(?=[A-Z])", "_", type(question).__name__).lower()
            == reply["asked"]
        )
        for name, value in reply["about"].items():
            asked = shown(question, name)
            if name in ("chunks", "passages"):  # their order means nothing
                asked, value = sorted(asked), sorted(value)
            assert asked == value
    assert result.status == expected["status"]
    if expected["status"] == "scored":
        assert_equal(result.value, expected["value"], "value", exactly=exact(case))
        bounds = expected.get("bounds")
        assert (result.bounds is None) == (bounds is None)
        if bounds is not None:
            assert_equal(list(result.bounds), bounds, "bounds", exactly=True)
    elif expected["status"] == "undefined":
        assert (result.code, result.reason) == (expected["code"], expected["reason"])
    else:
        assert result.error.type == expected["error"]
    if "evidence" in expected:
        assert_equal(
            result.evidence.model_dump(mode="json"),
            expected["evidence"],
            "evidence",
            exactly=False,
        )
    for entry in expected.get("combine", ()):
        assert_equal(
            result.evidence.combine(entry["subset"]),
            entry["value"],
            str(entry["subset"]),
            exactly=False,
        )


def decimal(number):
    return Fraction(str(number))


def said(case, asked):
    return [reply for reply in case["replies"] if reply["asked"] == asked]


def average_precision(verdicts):
    ranks = [rank for rank, verdict in enumerate(verdicts, start=1) if verdict]
    return sum(
        (Fraction(number, rank) for number, rank in enumerate(ranks, start=1)),
        Fraction(0),
    ) / max(1, len(ranks))


def over_ranks(case, field, replies):
    """What the judge said of the chunk at each rank; 0 for blank chunks."""
    by_text = {
        chunk: verdict[field]
        for reply in replies
        for chunk, verdict in zip(reply["about"]["chunks"], reply["says"], strict=True)
    }
    contexts = case["sample"].get("contexts", [])[: case["settings"].get("k")]
    return [decimal(by_text.get(text, 0) + 0) for text in dict.fromkeys(contexts)]


def utilization(case):
    relevance, replies = case["settings"].get("relevance", "binary"), case["replies"]
    # the mean over all outcomes, each with its probability
    if relevance == "probability":
        p = over_ranks(case, "probability", replies)
        return sum(
            average_precision(outcome)
            * prod(q if hit else 1 - q for q, hit in zip(p, outcome, strict=True))
            for outcome in product((0, 1), repeat=len(p))
        )
    return average_precision(over_ranks(case, "useful", replies))


def labelled(needs):
    """What a poll says whose claims have these labels."""
    if {"own", "none"} & set(needs):
        return "no"
    return "yes" if {"evidence", "earlier"} & set(needs) else "abstains"


def adherence(case):
    by_label = [
        {**reply, "says": [*map(labelled, reply["says"])]}
        for reply in said(case, "rests_on")
    ]
    replies = said(case, "adherent") + by_label
    polls = [poll for reply in replies for poll in reply["says"] if poll is not None]
    if not polls:  # nothing was found that an answer could rest on
        return Fraction(0)
    if isinstance(polls[0], dict) and "probability" in polls[0]:
        return decimal(polls[0]["probability"])
    verdicts = [poll["verdict"] if isinstance(poll, dict) else poll for poll in polls]
    yes, no = verdicts.count("yes"), verdicts.count("no")
    decided = max(yes, no) > case["settings"].get("polls", 5) // 2
    if (
        case["settings"].get("early_stop")
        and decided
        and not any(reply.get("batched") for reply in replies)
    ):
        # Rao–Blackwell: of all ways to stop at these counts by this last poll, the
        # share that begins with a yes.
        paths = [(*path, verdicts[-1]) for path in set(permutations(verdicts[:-1]))]
        return Fraction(sum(path[0] == "yes" for path in paths), len(paths))
    return Fraction(yes, yes + no)


def recall(case):
    return max(decimal(reply["says"]["score"]) for reply in case["replies"])


def accuracy(case, subset=None):
    """By hand for several references; else the weighted mean over the facts."""
    sample = case["sample"]
    shown = sample.get("contexts", [])
    texts = sample.get("retrieved", shown)
    texts = [*texts, *(text for text in shown if text not in texts)]
    if not any(text.strip() for text in texts):
        return Fraction(0)
    given = {
        fact["text"].casefold().rstrip("."): fact
        for fact in reversed(sample.get("facts", ()))
    }
    facts = [given[key] for key in sorted(given)] or [
        {"text": text} for text in said(case, "extract_facts")[0]["says"]
    ]
    weights = [decimal(fact.get("weight", 1)) for fact in facts]
    texts = {
        text for index, text in enumerate(texts) if subset is None or index in subset
    }
    cells = {fact["text"]: [] for fact in facts}
    for reply in said(case, "fact_in_context"):
        for fact, p in zip(
            reply["about"].get("facts", cells), reply["says"], strict=True
        ):
            cells[fact] += [decimal(p)] if reply["about"]["context"] in texts else []
    found = [any(p > Fraction(1, 2) for p in row) for row in cells.values()]
    if "facts" not in sample and any(
        reply.get("mode") == "lexical" for reply in case["replies"]
    ):
        found = [max(row, default=Fraction(0)) for row in cells.values()]
    return sum(
        weight * share for weight, share in zip(weights, found, strict=True)
    ) / sum(weights)


def sufficiency(case):
    polls = [
        poll for reply in said(case, "sufficient_contexts") for poll in reply["says"]
    ]
    if not polls:
        return Fraction(0)
    if "probability" in polls[0]:
        return decimal(polls[0]["probability"])
    return Fraction(sum(not poll["missing"] for poll in polls), len(polls))


def relevance(case):
    [reply] = said(case, "addresses")
    return Fraction(reply["says"]["grade"], 3)


def citations(case):
    """By the definition, over sets of contexts; where nobody was asked, support is monotone."""
    contexts = case["sample"]["contexts"]
    known = {}
    for reply in said(case, "supports"):
        polls = reply["says"]
        p = polls[0].get("probability")
        share = Fraction(sum(poll["supported"] for poll in polls), len(polls))
        key = (reply["about"]["statement"], frozenset(reply["about"]["passages"]))
        known[key] = (share if p is None else decimal(p)) > Fraction(1, 2)

    def phi(texts, statement):
        return any(
            verdict and key[0] == statement["text"] and key[1] <= set(texts)
            for key, verdict in known.items()
        )

    claiming = [
        one for one in case["expected"]["evidence"]["statements"] if one["claims"]
    ]
    n_supported = n_precise = n_cited = 0
    for statement in claiming:
        cited = [contexts[one["rank"] - 1] for one in statement["citations"]]
        is_supported = phi(cited, statement)
        n_supported += is_supported
        n_cited += len(cited) + len(statement["dangling"])
        for place, text in enumerate(cited):
            others = cited[:place] + cited[place + 1 :]
            irrelevant = not phi([text], statement) and phi(others, statement)
            n_precise += is_supported and not irrelevant
    recall = Fraction(n_supported, len(claiming))
    precision = Fraction(n_precise, n_cited or 1)
    return 2 * recall * precision / ((recall + precision) or 1)


def ranking(case):
    """By the definitions; nDCG only where all that is expected stands first, or nothing does."""
    sample, settings = case["sample"], case["settings"]
    retrieved = list(
        dict.fromkeys(
            passage["id"] if "expected_ids" in sample else " ".join(passage.split())
            for passage in sample["retrieved"]
        )
    )
    expected = set(sample.get("expected_ids") or sample["expected_contexts"])
    measure, k = settings.get("measure", "ndcg"), settings.get("k", len(retrieved))
    hits = [passage in expected for passage in retrieved[:k]]
    if measure == "recall":
        return Fraction(sum(hits), len(expected))
    if measure == "precision":
        return Fraction(sum(hits), k)
    if measure == "mrr":
        return Fraction(1, hits.index(True) + 1) if any(hits) else Fraction(0)
    if measure == "ndcg":
        assert not any(hits) or all(hits[: len(expected)])
    return Fraction(any(hits))


DEFINITIONS = {
    "citation_quality": citations,
    "context_sufficiency": sufficiency,
    "answer_relevance": relevance,
    "context_utilization": utilization,
    "context_adherence": adherence,
    "context_recall": recall,
    "retrieval_accuracy": accuracy,
    "retrieval_ranking": ranking,
}


@all_cases
def test_values_follow_from_the_definitions(metric, case):
    expected = case["expected"]
    if expected["status"] != "scored":
        assert expected["value"] is None
        return
    value = Fraction(expected["value"])
    assert (float(value), str(value)) == (expected["float"], expected["value"])
    if len(said(case, "extract_facts")) <= 1:
        assert DEFINITIONS[metric](case) == value
        for entry in expected.get("combine", ()):
            assert accuracy(case, entry["subset"]) == Fraction(entry["value"])


BINARY = [
    c
    for metric, c in CASES
    if metric == "context_utilization"
    and "random_order" in c["expected"].get("evidence", ())
]


@pytest.mark.parametrize("case", BINARY, ids=lambda case: case["name"])
def test_average_precision_and_random_order_agree_with_scikit_learn(case):
    verdicts = [int(verdict) for verdict in over_ranks(case, "useful", case["replies"])]
    if not any(verdicts):  # scikit-learn warns that it is not defined; here it is 0
        return
    # two seconds that no other test needs
    from sklearn.metrics import average_precision_score

    ranking = [-rank for rank in range(len(verdicts))]
    value, evidence = case["expected"]["float"], case["expected"]["evidence"]
    assert average_precision_score(verdicts, ranking) == pytest.approx(value)
    orders = [
        average_precision_score(order, ranking) for order in set(permutations(verdicts))
    ]
    assert sum(orders) / len(orders) == pytest.approx(
        float(Fraction(evidence["random_order"]))
    )
    assert Fraction(evidence["lift"]) == Fraction(case["expected"]["value"]) - Fraction(
        evidence["random_order"]
    )


def test_every_metric_has_a_file_and_every_case_a_name_of_its_own():
    assert {path.stem for path in FOLDER.glob("*.json")} == set(NAMED_METRICS)
    assert len({(metric, case["name"]) for metric, case in CASES}) == len(CASES)
