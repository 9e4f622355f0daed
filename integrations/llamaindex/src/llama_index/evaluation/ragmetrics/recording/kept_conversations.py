"""Which messages a memory keeps, and the name of the conversation that it keeps."""

from uuid import uuid4

from llama_index.core.chat_engine import CondenseQuestionChatEngine
from llama_index.core.chat_engine.types import BaseChatEngine
from llama_index.core.llms import ChatMessage
from llama_index.core.memory import Memory, SimpleComposableMemory
from llama_index.core.memory.types import BaseChatStoreMemory
from llama_index.core.storage.chat_store import SimpleChatStore
from llama_index.evaluation.ragmetrics.recording.run import call_when_gone

_conversations: dict[tuple[int, str], str] = {}  # names, by what keeps the messages


def empties_memory(instance: object) -> bool:
    """Whether an instance begins a conversation when its ``chat_history`` is empty.

    Chat engines do, all but one, which reads its memory then. Workflows do not.
    """
    is_chat_engine = isinstance(instance, BaseChatEngine)
    return is_chat_engine and not isinstance(instance, CondenseQuestionChatEngine)


def messages_kept_by(memory: object) -> list[ChatMessage] | None:
    """The messages of a memory that keeps them in this process.

    None for other memories: their messages are read from the prompts.
    """
    if isinstance(memory, SimpleComposableMemory):
        memory = memory.primary_memory
    if isinstance(memory, BaseChatStoreMemory) and isinstance(
        memory.chat_store, SimpleChatStore
    ):
        return memory.chat_store.get_messages(memory.chat_store_key)
    return None


def name_of_conversation(keeper: object) -> str:
    """The name of the conversation that a memory or a chat engine keeps.

    A conversation gets a new name when it is started over.

    Args:
        keeper: The memory, or the chat engine that keeps the messages itself.
    """
    store, key = _store(keeper)
    if not isinstance(keeper, Memory) and (
        key not in _conversations or messages_kept_by(keeper) == []
    ):
        _give_new_name(store, key)
    return _conversations.get(key, key[1])


def start_over(engine: object) -> None:
    """Give the conversation of a chat engine a new name.

    The engine was reset, or was handed an empty history: what its memory keeps from now
    on is another conversation.
    """
    _give_new_name(*_store(vars(engine).get("_memory") or engine))


def _store(keeper: object) -> tuple[object, tuple[int, str]]:
    """The object that keeps the messages, and the key of their conversation's name."""
    if isinstance(keeper, Memory):
        return keeper.sql_store, (id(keeper.sql_store), keeper.session_id)
    store = vars(keeper).get("chat_store", keeper)
    return store, (id(store), vars(keeper).get("chat_store_key", ""))


def _give_new_name(store: object, key: tuple[int, str]) -> None:
    """Give a conversation a new name, which is forgotten with the store of its messages."""
    if key not in _conversations:
        call_when_gone(store, _conversations.pop, key, None)
    _conversations[key] = uuid4().hex
