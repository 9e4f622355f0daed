"""Which key goes to which address.

A provider's usual key, from its usual variable, goes to the provider's own address
only. Any other address gets the key that is named beside it, in the same place: two
options, two environment variables of ours, or two arguments.

An address is read once: what is shown of it and where requests go come from the same
parts. One that two readers may take for two hosts is refused, because keys and texts
would go to one of them.
"""

import logging
import os
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address
from socket import inet_aton
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import urlsplit

from ragmetrics_core.data import SettingError

ADDRESS_VARIABLE = "RAGMETRICS_API_BASE"
KEY_VARIABLE = "RAGMETRICS_API_KEY"
"""The key of the address that the environment names."""
NAME_A_KEY = (
    "a provider's usual key goes to the provider's own address only: set"
    f" {KEY_VARIABLE} to the key of this one (beside --api-base: --api-key-env NAME;"
    " in Python api_key_env=)"
)
"""What to do where another address than the provider's own wants a key."""

UNREADABLE = "an address that cannot be read"
# A name, an IPv4 address or an IPv6 address in brackets, and a port.
_HOST = re.compile(
    r"([\w.-]+|\[[\da-f.]*:[\da-f.:]*(%[\w.-]+)?\])(:\d*)?", re.ASCII | re.IGNORECASE
)
_logger = logging.getLogger("ragmetrics_core")
_VARIABLE = re.compile(r"[A-Za-z_]\w*", re.ASCII)
# Headers that say who asks, such as a key or an organisation. A client may fill them
# from the environment.
_SAYS_WHO = re.compile(
    r"auth|key|token|secret|cookie|credential|organi[sz]ation|project", re.IGNORECASE
)
_PROXY = re.compile(r"_proxy$", re.IGNORECASE)
# Hosts of providers; those that begin with a dot give every customer a host of their
# own.
_PROVIDERS = (
    "api.openai.com",
    "api.anthropic.com",
    "api.mistral.ai",
    "codestral.mistral.ai",
    "api.groq.com",
    "api.x.ai",
    "api.typesafe.ai",
    "api.cohere.ai",
    "api.cohere.com",
    "api.deepseek.com",
    "openrouter.ai",
    "api.together.ai",
    "api.together.xyz",
    "api.perplexity.ai",
    "api.fireworks.ai",
    "api.cerebras.ai",
    "integrate.api.nvidia.com",
    "router.huggingface.co",
    "api.replicate.com",
    ".googleapis.com",
    ".amazonaws.com",
    ".azure.com",
    ".azure.us",
    ".azure.cn",
    ".databricks.com",
    ".azuredatabricks.net",
    ".snowflakecomputing.com",
    ".cloud.ibm.com",
    ".huggingface.cloud",
)


class Provider(NamedTuple):
    """A provider whose models our own client reaches.

    Args:
        address: The provider's own address. One that begins with "https://." stands for
            all hosts that end so: every customer has one, which a variable names.
        key_variable: The variable of the environment that usually holds its key; None
            for a server that takes none.
        own_variable: A variable that may name another address; "" for two called like
            the key's.
    """

    address: str
    key_variable: str | None
    own_variable: str = ""

    def owns(self, address: str) -> bool:
        """Whether an address is the provider's own, to which its usual key may go."""
        own_host = host_of(self.address)
        host = host_of(address)
        if own_host is None or host is None:
            return False
        if own_host[1].startswith("."):
            return host[0] == "https" and host[1].endswith(own_host[1])
        return host == own_host

    def whole(self, address: str) -> str:
        """Return an address with the provider's path, if it has none."""
        if host_of(address) is None:
            return address
        parts = urlsplit(address)
        if parts.path.strip("/"):
            return address
        return parts._replace(path=urlsplit(self.address).path).geturl()


OPENAI = Provider("https://api.openai.com/v1", "OPENAI_API_KEY")
AZURE = Provider(
    "https://.openai.azure.com/openai/v1",
    "AZURE_OPENAI_API_KEY",
    "AZURE_OPENAI_ENDPOINT",
)
PROVIDERS: Mapping[str, Provider] = MappingProxyType(
    {
        "openai": OPENAI,
        "azure": AZURE,
        "deepseek": Provider("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
        "gemini": Provider(
            "https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"
        ),
        "groq": Provider("https://api.groq.com/openai/v1", "GROQ_API_KEY"),
        "hosted_vllm": Provider(
            "http://localhost:8000/v1", None, "HOSTED_VLLM_API_BASE"
        ),
        "mistral": Provider("https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
        "ollama": Provider("http://localhost:11434/v1", None, "OLLAMA_API_BASE"),
        "openrouter": Provider("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
        "together_ai": Provider("https://api.together.ai/v1", "TOGETHER_API_KEY"),
    }
)
"""The providers that document an endpoint of OpenAI's chat form, by LiteLLM's names.

Source: their own pages on compatibility with OpenAI's clients.
"""
TYPESAFE = Provider("https://api.typesafe.ai/v1", "TYPESAFE_API_KEY")


class Endpoint(NamedTuple):
    """An address, the environment variable that holds the key for it, and the time.

    The address is None for the provider's own. The variable is None if none was named.
    The time is the seconds that a call may take; None for the client's own.
    """

    address: str | None
    key_variable: str | None
    timeout: float | None = None


def refuse_empty(value: str | None, place: str) -> None:
    """Raise ``SettingError`` for an empty value, as an unset variable of CI leaves it.

    Args:
        value: The value; None, for no value, is allowed.
        place: The name of the argument or variable, for the message.
    """
    if value is not None and not value.strip():
        raise SettingError(
            f"{place} is empty, perhaps a variable that is not set; give a value, or"
            " leave it out"
        )


def endpoint_of_arguments(api_base: str | None, api_key_env: str | None) -> Endpoint:
    """Return the address and the variable of its key.

    Both are from the caller, or both are from the environment.

    Raises:
        SettingError: If the caller names a key while the environment names the address;
            if the variable of the key is not set; or if an address is empty, which must
            not count as the provider's own.
    """
    if api_key_env is not None:
        # the message does not repeat the name: by mistake it may be the key itself
        if not _VARIABLE.fullmatch(api_key_env):
            raise SettingError(
                "--api-key-env (api_key_env=) takes the name of an environment variable,"
                " never the key"
            )
        if not os.environ.get(api_key_env, "").strip():
            raise SettingError(
                "the environment variable that --api-key-env (api_key_env=) names is"
                " not set"
            )
    refuse_empty(api_base, "api_base (--api-base)")
    if api_base is not None:
        has_lone_key = KEY_VARIABLE in os.environ and ADDRESS_VARIABLE not in os.environ
        if has_lone_key and api_key_env is None:
            _logger.warning(
                "the key in %s is not sent to the address of --api-base (api_base=):"
                " name it beside it, --api-key-env %s, or the address in %s",
                KEY_VARIABLE,
                KEY_VARIABLE,
                ADDRESS_VARIABLE,
            )
        return Endpoint(api_base.strip(), api_key_env)
    refuse_empty(os.environ.get(ADDRESS_VARIABLE), ADDRESS_VARIABLE)
    address = _address_in(ADDRESS_VARIABLE)
    if address and api_key_env:
        raise SettingError(_advice_on_key_and_address(ADDRESS_VARIABLE))
    if address:
        return Endpoint(address, KEY_VARIABLE if os.environ.get(KEY_VARIABLE) else None)
    return Endpoint(None, api_key_env)


def provider_endpoint(
    provider: Provider, api_base: str | None, *, has_key: bool
) -> Endpoint:
    """Return the address of a provider's model and the variable of its key.

    The address is ``api_base``, else the one in a variable of the provider, such as
    ``OPENAI_BASE_URL``, else the provider's own. The provider's usual key may go only
    to the provider's own host. Examples for OpenAI:

    - without ``api_base``: ``OPENAI_API_KEY``
    - with ``api_base="https://gateway.example/v1"``: None
    - with this address in ``OPENAI_BASE_URL``: ``RAGMETRICS_API_KEY``, if it is set

    Args:
        provider: The provider.
        api_base: The address that the caller gives; None if the caller gives none.
        has_key: Whether the caller also gives a key, or names its variable.

    Raises:
        SettingError: If the caller gives a key while a variable of the provider names
            an address at another host.
    """
    if api_base is not None:
        is_own = provider.owns(api_base)
        return Endpoint(api_base.strip(), provider.key_variable if is_own else None)
    # such as MISTRAL_BASE_URL, which OpenAI's SDK reads, then MISTRAL_API_BASE, which
    # LiteLLM and frameworks do
    name = (provider.key_variable or "").removesuffix("_API_KEY")
    variables = [f"{name}_BASE_URL", f"{name}_API_BASE"]
    if provider.own_variable:
        variables = [provider.own_variable]
    address_variable = next(filter(_address_in, variables), None)
    if address_variable is None:
        if provider is AZURE:
            raise SettingError(
                "a model of Azure needs the address of your resource: set"
                " AZURE_OPENAI_ENDPOINT, e.g. https://NAME.openai.azure.com"
            )
        return Endpoint(provider.address, provider.key_variable)
    address = _address_in(address_variable)
    if provider.owns(address):
        return Endpoint(address, provider.key_variable)
    if has_key:  # the key given may not be meant for the address in the variable
        raise SettingError(_advice_on_key_and_address(address_variable))
    # our key is for the address that our variable names; without it for this one
    is_ours = (_address_in(ADDRESS_VARIABLE) or address) == address
    has_our_key = bool(os.environ.get(KEY_VARIABLE))
    return Endpoint(address, KEY_VARIABLE if is_ours and has_our_key else None)


def headers_that_say_who(
    headers: Mapping[str, str], given_values: Collection[str], key: str
) -> list[str]:
    """Return the names of the headers that say who asks, and that the caller did not give.

    Args:
        headers: The headers of a request.
        given_values: The values of headers that the caller gave.
        key: The key that the caller gave; "" for none. A header that holds it was
            given, too.
    """
    names: list[str] = []
    for name, value in headers.items():
        if not _SAYS_WHO.search(name) or value in given_values:
            continue
        if not key or key not in value:
            names.append(name)
    return names


def variable_naming(url: str, variables: Iterable[tuple[str, str]]) -> str:
    """Return the name of the variable whose address has the host of a URL.

    "" if there is none, or if the host is that of a known provider.

    Args:
        url: The URL.
        variables: The names and values of environment variables; variables of proxies
            do not count.
    """
    host = host_of(url)
    if host is None:
        return ""
    for provider in _PROVIDERS:
        is_within = provider.startswith(".") and host[1].endswith(provider)
        if is_within or host[1] == provider:
            return ""
    for name, value in variables:
        if not _PROXY.search(name) and host_of(value) == host:
            return name
    return ""


def _advice_on_key_and_address(variable: str) -> str:
    return (
        f"a key was named here, but the address comes from {variable}: name both in one"
        f" place, --api-base and --api-key-env, or {ADDRESS_VARIABLE} and"
        f" {KEY_VARIABLE}, or api_base= and api_key= in Python"
    )


def _address_in(variable: str) -> str:
    """Return the address that an environment variable names; "" if it is not set."""
    return os.environ.get(variable, "").strip()


def host_of(address: str) -> tuple[str, str, int] | None:
    """Return scheme, host and port of an address; None if the text is no address."""
    if "://" not in address:
        return None  # most variables, which each request is held against
    try:
        parts = read_address(address.strip())
    except SettingError:
        return None
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return parts.scheme, parts.host.rstrip("."), port


@dataclass(frozen=True, slots=True, repr=False)
class Address:
    """The parts of an address that are shown: neither user, password nor query."""

    scheme: str
    host: str  # an IPv6 address has no brackets here
    port: int | None
    path: str

    @property
    def shown(self) -> str:
        """Scheme, host, port and path.

        A path with an @ may be the rest of a password, and is left out.
        """
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port is None else f":{self.port}"
        path = "" if "@" in self.path else self.path
        return f"{self.scheme}://{host}{port}{path}"


def endpoint_address(text: str) -> Address:
    """Return the parts of an address that requests may be sent to.

    Raises:
        SettingError: If it is none, one that can be read in two ways, or one that holds
            more than a path. The sentence does not repeat the address.
    """
    address = read_address(text)
    if "@" in text or "?" in text or "#" in text:
        raise _refusal(
            "holds a user, a password or a query: give the key by --api-key-env"
            " (in Python api_key_env= or api_key=)"
        )
    return address


@lru_cache(maxsize=256)  # each request is held against the providers' own
def read_address(text: str) -> Address:
    """Return the parts of the address of an endpoint.

    Example: ``https://me:pw@host.example:8080/v1`` has the port 8080 and the path
    ``/v1``. ``ftp://host`` is refused.

    Raises:
        SettingError: If it does not begin with http:// or https:// and a host, or holds
            a sign that different clients read differently. The message says which, and
            never repeats the address: it may hold a password.
    """
    if not text.isprintable() or " " in text or "\\" in text:
        raise _refusal("holds whitespace, a control character or a backslash")
    try:
        parts = urlsplit(text)
    except ValueError:
        raise _refusal("has a host that cannot be read") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise _refusal("does not begin with http:// or https:// and a host")
    try:
        port = parts.port
    except ValueError:
        port = 0
    if port == 0:
        raise _refusal("has a port that is no number from 1 to 65535")
    _, _, host_and_port = parts.netloc.rpartition("@")
    if not _HOST.fullmatch(host_and_port):
        raise _refusal(
            "has a host with other signs than ASCII letters, digits, '.', '-' and '_'"
        )
    return Address(parts.scheme, parts.hostname, port, parts.path)


def public_address(text: str) -> str:
    """Return an address without the user, password and query that it may hold.

    A text that is no address is not repeated.
    """
    try:
        return read_address(text).shown
    except SettingError:
        return UNREADABLE


def is_on_this_machine(address: str) -> bool:
    """Whether an address is one of this machine's own; not if unreadable.

    That is a loopback name or number, in every form in which clients read a number, such
    as ``127.1``, and one that stands for all of the machine, such as ``0.0.0.0``.
    """
    try:
        host = read_address(address).host.rstrip(".").lower()
        number = ip_address(host) if ":" in host else ip_address(inet_aton(host))
    except SettingError:
        return False
    except (ValueError, OSError):  # a name
        name = host.removesuffix(".localdomain")
        return name == "localhost" or name.endswith(".localhost")
    number = getattr(number, "ipv4_mapped", None) or number
    return number.is_loopback or number.is_unspecified


def proxy_for(address: str, *, spares_this_machine: bool = True) -> str | None:
    """Return the proxy that the environment names for an address; None for none.

    ``HTTP_PROXY`` or ``HTTPS_PROXY`` names it, else ``ALL_PROXY``. What ``NO_PROXY``
    lists, and what is sent to this machine, goes through none.

    Args:
        address: The address; "" for one that is not known.
        spares_this_machine: False for a client that sends what is for this machine
            through a proxy, too.

    Raises:
        SettingError: If the proxy is none that speaks HTTP.
    """
    if not address:
        return None
    # it imports clients of HTTP and email, which nothing else here needs
    from urllib.request import getproxies, proxy_bypass

    parts = read_address(address)
    host = f"[{parts.host}]" if ":" in parts.host else parts.host
    port = parts.port or (443 if parts.scheme == "https" else 80)
    is_spared = spares_this_machine and is_on_this_machine(address)
    if is_spared or proxy_bypass(f"{host}:{port}"):
        return None
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy:
        return None
    if "://" not in proxy:
        proxy = f"http://{proxy}"
    if public_address(proxy) == UNREADABLE:
        raise SettingError(
            f"the proxy for {host} ({parts.scheme.upper()}_PROXY, ALL_PROXY) must be an"
            f" address such as http://proxy.example:3128; with NO_PROXY={host} none is"
            " used"
        )
    return proxy


def _refusal(reason: str) -> SettingError:
    return SettingError(
        "an endpoint's address is one such as http://127.0.0.1:8000/v1; the one given"
        f" {reason}"
    )
