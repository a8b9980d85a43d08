"""Requests that are meant for something else than they seem: another method, another path, another server."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.raw_upstream import RawUpstream, whole
from support.running import TOKEN, exchange, post, running

DISGUISES = [
    "OPTIONS {chat}|X-HTTP-Method-Override: POST",
    "GET /v1/models|X-HTTP-Method-Override: POST",
    "GET /v1/models|X-HTTP-Method: POST",
    "HEAD /v1/models|X-Method-Override: POST",
    "OPTIONS {chat}|X_HTTP_Method_Override: POST",
    "OPTIONS {chat}?_method=POST|X: y",
    "POST /v1/embeddings|X-Original-URL: /v1/chat/completions",
    "POST /v1/embeddings|X-Rewrite-URL: /v1/chat/completions",
    "OPTIONS {chat}|X: y|body",
    "GET /v1/models|X: y|body",
    "DELETE /v1/files/f|X: y|body",
    "GET /v1/responses/r|X: y|body",
    "OPTIONS {chat}|Transfer-Encoding: chunked|chunks",
]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses", "/v1/messages"])
async def test_h17_no_request_passes_a_mode_in_the_disguise_of_another(
    tmp_path: Path, path: str
) -> None:
    """By method or by path; whatever the disguise, it passes in default mode."""
    raws = [disguised(disguise.format(chat=path)) for disguise in DISGUISES]
    async with RawUpstream(whole(b"")) as up, running(tmp_path, up.base_url) as proxy:
        for raw in raws:
            assert b" 200 " in (await exchange(proxy.port, raw)).split(b"\r\n")[0]
        passed = len(up.requests)
        await proxy.set_mode("plan")
        for raw in raws:
            answer = await exchange(proxy.port, raw)
            assert b" 400 " in answer.split(b"\r\n")[0], raw
    assert len(up.requests) == passed == len(DISGUISES)


def disguised(disguise: str) -> bytes:
    """Return a request as `METHOD PATH|LINE|BODY`, the body in one of two framings or none."""
    first, line, *rest = disguise.split("|")
    method, path = first.split(" ")
    frame = {
        "": "\r\n\r\n",
        "body": "\r\nContent-Length: 2\r\n\r\n{}",
        "chunks": "\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    }[rest[0] if rest else ""]
    if method == "POST":
        frame = "\r\nContent-Length: 0\r\n\r\n"
    return f"{method} /s/s{path} HTTP/1.1\r\nHost: p\r\nConnection: close\r\n{line}{frame}".encode()


CONTROL = [
    ("Authorization", f"Bearer {TOKEN}"), ("x-api-key", TOKEN), ("api-key", TOKEN),
]  # fmt: skip


@pytest.mark.parametrize("mode", ["default", "plan"])
async def test_h18_the_control_token_goes_to_no_upstream(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: str
) -> None:
    """By no path, no line and no parameter; the log says that it came, without it."""
    paths = ["/s/s/control/v1/sessions", "/CONTROL/v1/sessions", "/./control/v1", "/s/s//control/v1",
             "/%2563ontrol/v1", "/v1/control/v1/sessions", "/s/s/v1/messages", "/v1/models"]  # fmt: skip
    async with RawUpstream(whole()) as up, running(tmp_path, up.base_url) as proxy:
        await proxy.set_mode(mode)
        for path in paths:
            for name, value in CONTROL:
                answer = await exchange(proxy.port, post(path, b"{}", f"{name}: {value}"))
                assert answer.split(b" ")[1] in (b"400", b"404"), path
        answer = await exchange(proxy.port, post(f"/s/s/v1/files?key={TOKEN}", b"{}"))
    assert b"control_token_sent" in answer
    assert up.requests == []
    told = [
        one.getMessage() for one in caplog.records if "carries control token" in one.getMessage()
    ]
    assert told
    assert TOKEN not in caplog.text
