"""An endpoint's address, read once.

What is shown of it and where requests go come from the same parts.

An address that two readers may take for two hosts is refused, because keys and texts
would go to one of them.
"""

import re
from dataclasses import dataclass
from ipaddress import ip_address
from socket import inet_aton
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from ragmetrics_core.data import SettingError

UNREADABLE = "an address that cannot be read"
# A name, an IPv4 address or an IPv6 address in brackets, and a port.
_HOST = re.compile(
    r"([\w.-]+|\[[\da-f.]*:[\da-f.:]*(%[\w.-]+)?\])(:\d*)?", re.ASCII | re.IGNORECASE
)


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
