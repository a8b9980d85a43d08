"""A mode set in mid-conversation makes earlier thinking unfit: the API complains, and is asked once more."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from modegate.core.dialects.messages.request.thinking_prefix import BETA, drop_old_thinking
from modegate.core.step.effects import CallUpstream, Counted
from support.message_frames import said as says
from support.message_frames import session, stream, use
from support.messages import request
from support.playbook import JSON, Cut, Got, Reply, bytewise, whole

REFUSED_FOR = json.dumps({
    "type": "error",
    "error": {
        "type": "invalid_request_error",
        "message": "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a "
        "different conversation. Set `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\".",
    },
}).encode()  # fmt: skip
OTHER = (
    b'{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens is too large"}}'
)
DROPS = {"prefix_mismatch_behavior": "drop_block"}


def refusal(body: bytes = REFUSED_FOR, *lines: tuple[bytes, bytes]) -> Reply:
    return Reply(body, [*JSON, *lines], 400)


def said() -> bytes:
    return says("fine")


CUTS = pytest.mark.parametrize("cut", [whole, bytewise], ids=["whole", "bytewise"])
ASKED = request("read", "write", thinking={"type": "enabled", "budget_tokens": 1024})


def ask(*replies: Reply | bytes, cut: Cut = whole, beta: bytes = b"a-1,b-2") -> Got:
    return session().step(ASKED, list(replies), cut=cut, headers=[(b"anthropic-beta", beta)])


@CUTS
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_it_is_asked_once_more_and_the_client_sees_nothing_of_it(cut: Cut, packed: bool) -> None:
    """With the field and the beta that the complaint names; all else as it was sent at first."""
    lines = [(b"content-encoding", b"gzip")] if packed else []
    body = gzip.compress(REFUSED_FOR) if packed else REFUSED_FOR
    got = ask(refusal(body, *lines), said(), cut=cut)
    assert b"fine" in got.body
    assert b"bound to" not in got.body
    assert got.head is not None
    assert got.head.status == 200
    first, second = map(json.loads, got.requests)
    assert second["thinking"] == {**first["thinking"], "block_binding": DROPS}
    assert {**second, "thinking": first["thinking"]} == first
    assert dict(got.upstream_headers[1])[b"anthropic-beta"] == b"a-1,b-2," + BETA
    assert got.counts == [Counted.RESENT]


def test_the_hops_behind_it_are_asked_so_at_once() -> None:
    """No second complaint is waited for."""
    got = ask(refusal(), stream(use(0, "write", "{}")), said())
    assert [json.loads(one).get("thinking", {}).get("block_binding") for one in got.requests] == [
        None, DROPS, DROPS,
    ]  # fmt: skip
    assert b"fine" in got.body


@CUTS
@pytest.mark.parametrize("body", [OTHER, b"", b"<html>", b"x" * 100_000, REFUSED_FOR + b" " * 70_000],
                         ids=["other", "empty", "html", "long", "padded"])  # fmt: skip
def test_every_other_refusal_is_the_clients_to_see(cut: Cut, body: bytes) -> None:
    """As it came, and nothing is sent again."""
    if cut is bytewise and len(body) > 10_000:
        body = body[:66_000]
    got = ask(refusal(body, (b"x-request-id", b"r")), cut=cut)
    assert got.body == body
    assert got.head is not None
    assert (got.head.status, dict(got.head.headers)[b"x-request-id"]) == (400, b"r")
    assert len(got.requests) == 1


def test_a_second_complaint_is_shown() -> None:
    """Once is enough."""
    got = ask(refusal(), refusal())
    assert got.body == REFUSED_FOR
    assert len(got.requests) == 2


def test_in_default_mode_after_another_too() -> None:
    """What was thought in the mode no longer fits once its section and tools are gone."""
    one = session()
    one.step(ASKED, [said()])
    one.set_mode("default")
    got = one.step(ASKED, [refusal(), said()])
    assert b"fine" in got.body
    assert json.loads(got.requests[1])["thinking"]["block_binding"] == DROPS
    tools_less = {key: value for key, value in ASKED.items() if key != "tools"}
    got = one.step(tools_less, [refusal(), said()])
    assert b"fine" in got.body


@pytest.mark.parametrize(("thinking", "becomes"), [
    ('', ',"thinking":{"type":"adaptive","block_binding":{"prefix_mismatch_behavior":"drop_block"}}'),
    (',"thinking":{"type": "adaptive"}',
     '{"type": "adaptive","block_binding":{"prefix_mismatch_behavior":"drop_block"}}'),
    (',"thinking":{}', '"thinking":{"block_binding":{"prefix_mismatch_behavior":"drop_block"}}'),
    (',"thinking":{"type":"adaptive","block_binding":{"prefix_mismatch_behavior":"error","x":1}}',
     '"block_binding":{"prefix_mismatch_behavior":"drop_block","x":1}'),
    (',"thinking":{"block_binding":null}', '"block_binding":{"prefix_mismatch_behavior":"drop_block"}'),
    (',"thinking":{"type":"disabled"}', None),
    (',"thinking":7', None),
    (',"thinking":{"block_binding":{"prefix_mismatch_behavior":"drop_block"}}', None),
    (',"thinking":{"block_binding":{},"block_binding":{}}', None),
])  # fmt: skip
def test_how_the_body_says_it(thinking: str, becomes: str | None) -> None:
    """An edit of the one field; None where nothing can be said that was not."""
    body = b'{"model":"m", "messages":[]%b}' % thinking.encode()
    mended = drop_old_thinking(CallUpstream([], body), REFUSED_FOR)
    if becomes is None:
        assert mended is None
        return
    assert mended is not None
    assert becomes.encode() in mended.body
    assert mended.body.startswith(b'{"model":"m", "messages":[]')
    assert mended.headers == [(b"anthropic-beta", BETA)]
    json.loads(mended.body)


def test_what_cannot_be_read_is_not_mended() -> None:
    """Nor what the complaint is not about."""
    assert drop_old_thinking(CallUpstream([], b"{oops"), REFUSED_FOR) is None
    assert drop_old_thinking(CallUpstream([], b'{"messages":[]}'), OTHER) is None


def test_other_dialects_keep_no_refusal_back() -> None:
    """They have none of the kind."""
    from support.playbook import Session
    from support.playbook import request as chat

    body: Any = chat("read")
    assert Session().step(body, [refusal()]).body == REFUSED_FOR
