"""Adherence claim by claim, where the contexts are too long for the judge.

The weakest claim decides, as with an encoder.
"""

from collections.abc import Generator, Sequence
from dataclasses import replace

from ragmetrics_core.data import Asked, NotAnswered
from ragmetrics_core.data.asking import Batch, Instructions, Replies, ask
from ragmetrics_core.data.one_half import is_yes
from ragmetrics_core.data.replies import Mode, Weight
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
    adherence_reply,
)


def _poll_of_claims(
    by_claim: Sequence[ClaimSupport], mode: Mode
) -> Asked[AdherenceReply]:
    """Make a poll on the answer from the probabilities of its claims.

    Args:
        by_claim: The claims, each with the probability that the contexts support it.
        mode: How the probabilities were obtained.
    """
    unsupported = [it.text for it in by_claim if not is_yes(it.probability or 0.0)]
    weakest = min(by_claim, key=lambda claim: claim.probability or 0.0)
    probability = weakest.probability or 0.0
    n_supported = len(by_claim) - len(unsupported)
    poll = adherence_reply(
        verdict="no" if unsupported else "yes",
        reason=(
            f"{n_supported} of {len(by_claim)} claims rest on the contexts; the weakest"
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
    poll = _poll_of_claims(by_claim, supports[0].mode)
    return replace(poll, windows=(n_windows,))
