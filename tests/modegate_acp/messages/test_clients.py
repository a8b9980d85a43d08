"""Clients by the names that they give."""

from __future__ import annotations

import pytest

from modegate_acp.messages.clients import client_named


@pytest.mark.parametrize(
    ("name", "version", "options"),
    [
        ("JetBrains.IntelliJ IDEA", "2026.1", False),
        ("JetBrains PyCharm", "2026.1.2", False),
        ("jetbrains", "2026.1-EAP", False),
        ("JetBrains.IntelliJ IDEA", "2026.2", True),
        ("JetBrains.IntelliJ IDEA", "2026.10", True),
        ("JetBrains.IntelliJ IDEA", "2025.3", True),
        ("JetBrains.IntelliJ IDEA", "", True),
        ("zed", "2026.1", True),
        ("", "", True),
    ],
)
def test_who_bears_options(name: str, version: str, options: bool) -> None:
    assert client_named(name, version).options is options


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("zed", "zed"),
        ("My Editor (beta)\n", "My-Editor-beta"),
        ("", "client"),
        ("\x1b[31m", "31m"),
        ("‮", "client"),
        ("x" * 500, "x" * 64),
    ],
)
def test_names_are_fit_for_logs(name: str, label: str) -> None:
    assert client_named(name, "1").label == label


@pytest.mark.parametrize(
    ("name", "any_time"),
    [
        ("acpx", False),
        ("ACPX", False),
        ("CodeCompanion.nvim", False),
        ("codecompanion", False),
        ("acpx-ui", True),
        ("zed", True),
        ("agent-shell", True),
        ("JetBrains.IntelliJ IDEA", True),
        ("my-script", True),
        ("", True),
    ],
)
def test_a1_a2_who_is_asked_at_any_time(name: str, any_time: bool) -> None:
    client = client_named(name, "1")
    assert (client.any_time, client.one_way) == (any_time, not any_time)
    assert client.title_only is (not any_time or name == "agent-shell")
