"""What leads to this machine, and never through a proxy of the environment."""

from __future__ import annotations

import pytest

from modegate.server.upstream.loopback import is_loopback

HERE = [
    "localhost",
    "LocalHost",
    "localhost.",
    "ollama.localhost",
    "127.0.0.1",
    "127.8.9.10",
    "127.1",
    "2130706433",
    "0x7f.0.0.1",
    "::1",
    "[::1]",
    "0:0:0:0:0:0:0:1",
    "::ffff:127.0.0.1",
    "0.0.0.0",
    "::",
]
ELSEWHERE = [
    "127.0.0.1 example.com",
    "",
    "model.example",
    "localhost.example",
    "notlocalhost",
    "127.0.0.1.example",
    "128.0.0.1",
    "10.0.0.1",
    "192.168.0.1",
    "169.254.169.254",
    "fe80::1",
    "::ffff:10.0.0.1",
    "host.docker.internal",
]


@pytest.mark.parametrize("host", HERE)
def test_this_machine_in_every_spelling(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ELSEWHERE)
def test_what_a_proxy_may_lead_to(host: str) -> None:
    assert not is_loopback(host)
