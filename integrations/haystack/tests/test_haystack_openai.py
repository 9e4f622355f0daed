"""Haystack's generator for OpenAI: the contract of all chat models."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.utils import Secret
from haystack_integrations.components.evaluators.ragmetrics import HaystackModel

from ragmetrics_core.testing.chat_model_contract import ChatModelContract


class TestOpenAIChatGenerator(ChatModelContract):
    lacks = frozenset({"refusals", "bodies"})
    adds = frozenset({"n"})

    def model(self, base_url: str, key: str, timeout: float) -> HaystackModel:
        generator = OpenAIChatGenerator(
            Secret.from_token(key), "test", api_base_url=base_url, timeout=timeout, max_retries=0
        )
        self.made.append(HaystackModel(generator))
        return self.made[-1]

    @pytest.fixture(autouse=True)
    def _closed(self) -> Iterator[None]:
        self.made: list[HaystackModel] = []
        yield
        for model in self.made:
            model.close()
