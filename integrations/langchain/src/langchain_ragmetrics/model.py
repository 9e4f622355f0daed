"""placeholder"""

from typing import Any


class LangChainModel:
    def __init__(self, model: Any) -> None: ...
