"""What to do where a provider names sources and returns no texts, in words."""

_OWN_TOOL = "or let a tool of the application search, which returns its texts"

OPENAI_FILES = (
    "OpenAI returns the texts that file_search found with"
    ' include=["file_search_call.results"]'
)
OPENAI_WEB = (
    "OpenAI tells at most the addresses that web_search found; ask for its results by"
    f' include=["web_search_call.results"], {_OWN_TOOL}'
)
OPENAI_CODE = (
    "OpenAI returns what code_interpreter printed with"
    ' include=["code_interpreter_call.outputs"]'
)
ANTHROPIC_WEB = (
    "Anthropic returns the texts that web_search found encrypted, under any setting;"
    f" allow its tool web_fetch, whose texts are readable, {_OWN_TOOL}"
)
ANTHROPIC_FETCH = (
    "Anthropic's web_fetch returns a PDF as its bytes, without the text that the model"
    " was shown; let a tool of the application read it, and return its text"
)
UNKNOWN_DOCUMENT = (
    "the answer cites a document whose text does not stand in the prompt, such as a"
    " PDF; hand it in as text"
)
QUOTES = (
    "the provider returns the words that the answer cites, and not the whole texts in"
    f" which they stand; {_OWN_TOOL.removeprefix('or ')}"
)
SNIPPETS = (
    "the provider returns snippets of the pages that it found, and the model may have"
    f" been shown more of them; {_OWN_TOOL.removeprefix('or ')}"
)
UNREAD_FORM = (
    "the reply tells of sources in a form that is not read; let a tool of the"
    " application search, which returns its texts, or say where the contexts are by"
    " contexts_from"
)
CITED_PAGES = (
    "the reply tells the pages that the answer cites, and no others; the model may have"
    " been shown more of them"
)
GEMINI_WEB = (
    "Gemini returns at most the addresses that its search found, under any setting;"
    f" {_OWN_TOOL.removeprefix('or ')}"
)
PAGES = (
    "Gemini names the addresses that url_context read, and returns no texts; let a tool"
    " of the application read them, which returns its texts"
)
ANY_PROVIDER = (
    "the provider names sources without their texts; see whether one of its settings"
    f" returns them, {_OWN_TOOL}"
)
NO_RESULT = (
    "the reply does not hold what the provider's tool returned; see whether a setting of"
    " the provider returns it, or the reply without streaming holds it, or let a tool of"
    " the application do it, which returns its texts"
)

_HANDS_ON_NOTHING = "the framework hands on nothing of what it found"
_HANDED_ON_NOTHING = (
    f"the model could use {{}} of its provider, and {_HANDS_ON_NOTHING};"
    " let a tool of the application do it, or say where the contexts are by"
    " contexts_from"
)
_SEARCHES_BY_ITSELF = (
    "the model {} searches by itself, and its reply tells nothing of what it found;"
    " let a tool of the application search, or say where the contexts are by"
    " contexts_from"
)


def handed_on_nothing(tools: str) -> str:
    """Say that tools may have been run, though the reply says nothing of it."""
    return _HANDED_ON_NOTHING.format(tools)


def searches_by_itself(model: str) -> str:
    """Say that a model searches by itself, and that its reply tells nothing of it."""
    return _SEARCHES_BY_ITSELF.format(model)


def remedy_of_tool(name: str, block_kind: str) -> str:
    """Say what makes a provider return the texts that one of its tools found.

    Args:
        name: The name of the tool.
        block_kind: The type of the block that tells of it; only Anthropic has blocks of
            the type ``server_tool_use``.
    """
    if name == "file_search":
        return OPENAI_FILES
    # Anthropic encrypts what web_search found; its other tools return texts
    is_of_anthropic = block_kind in ("server_tool_use", "web_search_tool_result")
    return ANTHROPIC_WEB if is_of_anthropic and name == "web_search" else ANY_PROVIDER
