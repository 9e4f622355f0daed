"""Adherence claim by claim: where contexts are too long, and as typed questions.

The weakest claim decides, as with an encoder. Typed questions take each sentence for a
claim, and name it by its label in the state, so that no text of a sample stands among
the instructions.
"""

from collections.abc import Generator, Iterable, Sequence
from dataclasses import replace
from typing import Any

from ragmetrics_core.data import Asked, Claim, Needs, NotAnswered, Question
from ragmetrics_core.data.asking import Batch, Instructions, Replies, ask
from ragmetrics_core.data.higher_rooms import import_deferred
from ragmetrics_core.data.one_half import is_yes
from ragmetrics_core.data.replies import Mode, Weight
from ragmetrics_core.data.sentences import split_sentences
from ragmetrics_core.data.typed import (
    Chances,
    Option,
    State,
    TypedForm,
    TypedQuestion,
    most_likely,
)
from ragmetrics_core.metrics.citation_support import (
    question_on_claim,
    support_in_replies,
)
from ragmetrics_core.metrics.fact_matrix import question_for_facts
from ragmetrics_core.metrics.metric import error_of_unanswered
from ragmetrics_core.metrics.polls import (
    AdherenceReply,
    Adherent,
    ClaimSupport,
    LabelledPoll,
    RestsOn,
    adherence_reply,
)
from ragmetrics_core.metrics.typed_states import (
    number_texts,
    opening,
    order_of_digest,
    sentences,
    state_of_answer,
)

_CLAIMS_SOMETHING = TypedQuestion(
    "predicate",
    "`answer` makes a claim or gives advice; a greeting, an offer, whom to ask, or that"
    " the sources or the assistant do not know, is neither; that nobody knows is a claim.",
)

_DECLINES = "The answer only declines to answer; it makes no claim."
_NO_WORD = "The answer has no word; it makes no claim."


def _why_nothing_is_claimed(question: Question[Any]) -> str:
    """Say why an answer claims nothing, as far as its words alone tell.

    Returns "" for nothing.
    """
    if not any(character.isalnum() for character in question["answer"]):
        return _NO_WORD
    return _DECLINES if import_deferred("only_declines")(question) else ""


def _poll_that_abstains(question: Adherent) -> Asked[AdherenceReply] | None:
    """Return the reply to a question about an answer whose words claim nothing."""
    reason = _why_nothing_is_claimed(question)
    return (
        Asked((adherence_reply(verdict="abstains", reason=reason),)) if reason else None
    )


def _state_of_adherence(question: Adherent) -> State:
    """What a judge of typed questions sees: the question, the chunks and the answer."""
    return state_of_answer(question, question["contexts"])


def _typed_questions_on_support(question: Adherent) -> list[TypedQuestion]:
    """Whether the answer claims anything, then of each sentence whether it is held."""
    supported = [
        TypedQuestion(
            "predicate",
            f"`answer.{label}` makes no claim and gives no advice, or `chunks`, with what"
            " the user says of their own case, say or imply all of it; that it is true"
            " elsewhere is not enough. That the sources do not tell something holds unless"
            " `chunks` tell it.",
        )
        for label in sentences(question["answer"])
    ]
    return [_CLAIMS_SOMETHING, *supported]


def _poll_of_probabilities(
    question: Adherent, answers: Sequence[Chances]
) -> Asked[AdherenceReply]:
    """Make a poll on the answer from the probabilities of its sentences.

    The answer is as well supported as its weakest sentence: sentences with .9 and .3
    give "no". The weight is the probability of "yes", here .3. The poll abstains if the
    answer claims nothing.

    Args:
        question: The question about the whole answer.
        answers: The probability that anything is claimed, then for each sentence the
            probability that the contexts support it; each alone in a tuple.
    """
    (chance_of_claim,), *chances_of_support = answers
    texts = split_sentences(question["answer"])
    by_sentence = tuple(
        ClaimSupport(text=text, probability=chance)
        for text, (chance,) in zip(texts, chances_of_support, strict=True)
    )
    if not is_yes(chance_of_claim) or not by_sentence:
        poll = adherence_reply(
            verdict="abstains",
            reason=f"The answer makes no claim, p = {1 - chance_of_claim:.2f}.",
            encoder_claims=by_sentence,
        )
        return Asked((poll,))
    return _poll_of_claims(by_sentence, "sentences", "decision")


def _poll_of_claims(
    by_claim: Sequence[ClaimSupport], called: str, mode: Mode
) -> Asked[AdherenceReply]:
    """Make a poll on the answer from the probabilities of its claims.

    Args:
        by_claim: The claims, each with the probability that the contexts support it.
        called: What they are called, such as "sentences".
        mode: How the probabilities were obtained.
    """
    unsupported = [it.text for it in by_claim if not is_yes(it.probability or 0.0)]
    weakest = min(by_claim, key=lambda claim: claim.probability or 0.0)
    probability = weakest.probability or 0.0
    n_supported = len(by_claim) - len(unsupported)
    poll = adherence_reply(
        verdict="no" if unsupported else "yes",
        reason=(
            f"{n_supported} of {len(by_claim)} {called} rest on the contexts; the weakest"
            f' has p = {probability:.2f}: "{weakest.text}"'
        ),
        unsupported=unsupported,
        encoder_claims=by_claim,
    )
    return Asked((poll,), weights=(Weight(probability, mode=mode),))


def poll_by_claims(
    question_about_answer: Adherent, on_claims: Instructions, on_support: Instructions
) -> Generator[Batch, Replies, Asked[AdherenceReply] | NotAnswered]:
    """Judge an answer claim by claim, where the contexts are too long for the judge.

    The answer is split into claims once. A claim is supported if some window of the
    contexts supports it, the answer if all of its claims are.

    Args:
        question_about_answer: The question that was too long.
        on_claims: The instructions for the judge to list the claims of the answer.
        on_support: The instructions whether texts support a claim.

    Returns:
        One poll on the answer, with the probability of its weakest claim.
        ``NotAnswered`` if the judge did not answer one of the questions.
    """
    question = question_about_answer.parts["question"]
    listing = question_for_facts(
        question_about_answer["answer"], on_claims, {"question": question}
    )
    (listed,) = yield from ask([listing])
    if isinstance(listed, NotAnswered):
        return listed
    claims: tuple[str, ...] = listed.reply.facts
    if not claims:
        return Asked((adherence_reply("abstains", "The answer makes no claim."),))
    replies = yield from ask(
        [
            question_on_claim(
                claim,
                question_about_answer["contexts"],
                question,
                on_support,
                question_about_answer.polls,
            )
            for claim in claims
        ]
    )
    if error := error_of_unanswered(replies):
        return NotAnswered(error)
    supports = [
        support_in_replies(reply) for reply in replies if isinstance(reply, Asked)
    ]
    by_claim = [
        ClaimSupport(text=claim, probability=support.p)
        for claim, support in zip(claims, supports, strict=True)
    ]
    n_windows = max(support.windows or 1 for support in supports)
    poll = _poll_of_claims(by_claim, "claims", supports[0].mode)
    return replace(poll, windows=(n_windows,))


SENTENCES: TypedForm[AdherenceReply] = TypedForm(
    _state_of_adherence,
    _typed_questions_on_support,
    _poll_of_probabilities,
    _poll_that_abstains,
)
"""Whether the contexts hold each sentence of an answer."""


# What a sentence may rest on, in the order of the options.
_LABELS: tuple[tuple[Needs | None, str], ...] = (
    ("evidence", "`contexts`; what `user` says may be the premise"),
    (
        "earlier",
        "`earlier`, alone or with `contexts`; what `user` says may be the premise",
    ),
    ("user", "`user` alone"),
    ("own", "`own`, which the assistant said before, and no context"),
    (
        None,
        "nothing: it neither claims nor advises, nor calls unknown what a context tells",
    ),
    ("none", "none of these, or `contexts` only contradict it"),
)
_OPTIONS = tuple(
    Option(letter, meaning)
    for letter, (_, meaning) in zip("ABCDEF", _LABELS, strict=True)
)
_NONE = _OPTIONS[-1]
# Indices in _LABELS.
_NO_CLAIM = 4
_SUPPORTING = (0, 1, 2)
_NOT_SUPPORTING = (3, 5)


def _state_with_groups(question: RestsOn) -> State:
    """Return all groups of texts, and the answer.

    Contexts are in an order that does not tell their ranks.
    """
    answer = question["answer"]
    return {
        **opening(question),
        "contexts": number_texts("C", order_of_digest(answer, question["contexts"])),
        "earlier": number_texts("E", order_of_digest(answer, question["earlier"])),
        "user": number_texts("U", question["user"]),
        "own": number_texts("A", question["own"]),
        "answer": sentences(answer),
    }


def _typed_questions_on_labels(question: RestsOn) -> list[TypedQuestion]:
    """Return a question for each sentence: which of six labels says what holds it?"""
    return [
        TypedQuestion(
            "choice",
            f"What is needed to hold all that `answer.{label}` claims? {_NONE.label} if"
            " `contexts` only contradict it; else the first of these that is enough; to be"
            " true in the world is not.",
            _OPTIONS,
        )
        for label in sentences(question["answer"])
    ]


def _labelled_poll_of_probabilities(
    question: RestsOn, answers: Sequence[Chances]
) -> Asked[LabelledPoll]:
    """Label each sentence of an answer with what it rests on, from probabilities.

    Sentences that probably claim nothing are left out. The weight of the poll is the
    probability that its weakest sentence is supported: .3 of .9 and .3.

    Args:
        question: The question about the whole answer.
        answers: For each sentence the probabilities of the labels, in their order.
    """
    claims: list[Claim] = []
    chances_of_support: list[float] = []
    for text, chances in zip(split_sentences(question["answer"]), answers, strict=True):
        if is_yes(_probability_of_any(chances, (_NO_CLAIM,))):  # "I hope this helps."
            continue
        what_it_rests_on = _likeliest_label(chances)  # such as "evidence" or "none"
        claims.append(Claim.model_validate({"claim": text, "needs": what_it_rests_on}))
        # the probability of all labels that support the sentence, added up
        chances_of_support.append(_probability_of_any(chances, _SUPPORTING))
    if not claims:
        return Asked((LabelledPoll(reason="The answer makes no claim.", claims=()),))
    weakest = min(chances_of_support)
    reason = (
        f"The weakest of {len(claims)} sentences with a claim has p = {weakest:.2f}."
    )
    poll = LabelledPoll(reason=reason, claims=tuple(claims))
    # "decision": the model itself gave the probabilities, as the answer it was asked for
    probability_of_yes = Weight(weakest, mode="decision")
    return Asked((poll,), weights=(probability_of_yes,))


def _likeliest_label(chances: Chances) -> Needs | None:
    """Return the likeliest label of a sentence that claims something.

    It means support if all labels that do are together more probable than not.
    """
    is_supported = is_yes(_probability_of_any(chances, _SUPPORTING))
    label_indices = _SUPPORTING if is_supported else _NOT_SUPPORTING
    chances_of_side = tuple(chances[index] for index in label_indices)
    label, _ = _LABELS[label_indices[most_likely(chances_of_side)]]
    return label


def _probability_of_any(chances: Chances, indices: Iterable[int]) -> float:
    """Return the probability of some options together, in [0, 1].

    Services round to two digits, so that all options may sum to a little more than one:
    six of .17 sum to 1.02. Divided by their sum, three of them are a half again.
    """
    share = sum(chances[index] for index in indices) / sum(chances)
    return min(round(share, 9), 1.0)


def _labelled_poll_without_claims(question: RestsOn) -> Asked[LabelledPoll] | None:
    """Return the reply to a question about an answer whose words claim nothing."""
    reason = _why_nothing_is_claimed(question)
    return Asked((LabelledPoll(reason=reason, claims=()),)) if reason else None


LABELS: TypedForm[Any] = TypedForm(
    _state_with_groups,
    _typed_questions_on_labels,
    _labelled_poll_of_probabilities,
    _labelled_poll_without_claims,
)
"""What each sentence of an answer rests on."""
