"""Which hosts are this machine: a proxy that the environment names is never used for them."""

from __future__ import annotations

from ipaddress import IPv4Address, ip_address
from socket import inet_aton


def is_loopback(host: str) -> bool:
    """Return whether a URL's host is this machine, whatever its resolver says.

    `localhost` and the names below it (RFC 6761, section 6.3); addresses of 127/8 in every spelling that a
    resolver takes, such as 127.1; `::1`; and the unspecified ones, which lead here when connected to.
    """
    name = host.strip("[]").lower()
    if (f".{name}".removesuffix(".")).endswith(".localhost"):
        return True
    if name.split() != [name]:
        return False  # `inet_aton` does not look at what stands behind a blank
    try:
        address = ip_address(name.partition("%")[0])
    except ValueError:
        try:
            address = IPv4Address(inet_aton(name))
        except (OSError, ValueError):
            return False
    address = getattr(address, "ipv4_mapped", None) or address
    return address.is_loopback or address.is_unspecified
