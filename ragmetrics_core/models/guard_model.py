"""Guards behind a chat endpoint: models that give one word about one text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ragmetrics_core.data import SettingError, did_you_mean
from ragmetrics_core.models.chat import Capabilities, ChatReply, ChatRequest
from ragmetrics_core.models.compatible_model import OpenAICompatibleModel
from ragmetrics_core.models.guard_forms import FORMS, GuardRequest
from ragmetrics_core.models.openai_form import parameters


class GuardModel(OpenAICompatibleModel):
    """A guard behind an endpoint of OpenAI's chat protocol; ``GuardJudge`` asks it.

    It is a chat model to the session, whose message says what is asked. What is sent is
    made of that by the guard's form. The endpoint has to apply the chat template that
    comes with the model, as vLLM does.

    Args:
        base_url: Address of the endpoint, up to and with ``/v1``.
        model: Its name there.
        form: How its family is asked: ``granite-3.2`` (Granite Guardian 3.0 to 3.2),
            ``granite-3.3``, or ``minicheck`` (Bespoke-MiniCheck).
        api_key: This and all others are as in ``OpenAICompatibleModel``.
        name: Name in results; by default ``guard/``, the form and the model.

    Raises:
        SettingError: If there is no such form.

    Examples:
        >>> GuardModel("http://127.0.0.1:8000/v1", "bespoke", form="minicheck").name
        'guard/minicheck/bespoke'
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        form: str,
        api_key: str | None = None,
        api_key_env: str | None = None,
        timeout: float = 60.0,
        capabilities: Capabilities | None = None,
        prices: tuple[float, float] | None = None,
        extra: Mapping[str, Any] | None = None,
        name: str | None = None,
        batch_share: float = 1.0,
    ) -> None:
        """Check the form, and keep the settings; nothing is sent.

        A guard is a model trained to judge a text by one word. The form is that of its
        family's prompts and replies. Example: the form "minicheck" and the model "m"
        have the name "guard/minicheck/m".

        Raises:
            SettingError: If no family of guards has that form, or as for
                ``OpenAICompatibleModel``.
        """
        if form not in FORMS:
            raise SettingError(
                f"no guard has the form {form!r}{did_you_mean(str(form), FORMS)}; there"
                f" are: {', '.join(FORMS)}"
            )
        super().__init__(
            base_url,
            model,
            api_key=api_key,
            api_key_env=api_key_env,
            timeout=timeout,
            capabilities=capabilities,
            prices=prices,
            extra=extra,
            name=name or f"guard/{form}/{model}",
            batch_share=batch_share,
        )
        self.form = FORMS[form]
        self.cache_key = f"guard|{form}|{self.cache_key}"

    def __repr__(self) -> str:
        return f"GuardModel({self.base_url!r}, {self.model!r}, form={self.form.name!r})"

    def reply(self, body: Any, prices: tuple[float, float] | None) -> ChatReply:
        """Read a reply, without log-probabilities where the guard has reasoned.

        Behind a reasoning the probability of the word tells nothing. Servers give the
        reasoning beside the text, and its tokens or none of them.
        """
        chat_reply = super().reply(body, prices)
        choices = []
        for choice, choice_in_body in zip(
            chat_reply.choices, body["choices"], strict=True
        ):
            if _has_reasoned(choice_in_body):
                choice = replace(choice, tokens=())
            choices.append(choice)
        return replace(chat_reply, choices=tuple(choices))

    def body(self, request: ChatRequest) -> dict[str, Any]:
        """Return the body of a request, in the form of the guard.

        Of several messages only the first counts. Repairs add further messages, but a
        guard is asked again with the same words.
        """
        guard_request = GuardRequest.from_json(request.messages[0].content)
        return {
            "model": self.model,
            **self.form.fields(guard_request),
            **parameters(request),
            **self._extra,
        }


# Where servers put a reasoning that they take out of the text.
_REASONING = ("reasoning_content", "reasoning")


def _has_reasoned(choice: Mapping[str, Any]) -> bool:
    """Whether a choice of a reply's body has a reasoning beside its text."""
    return any(bool(choice["message"].get(name)) for name in _REASONING)
