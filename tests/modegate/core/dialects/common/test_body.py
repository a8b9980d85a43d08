"""A request's body as spans, whichever API it is of: one reading, or none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from modegate.core.dialects.common.body import Body
from modegate.core.errors import BadRequest
from modegate.core.wire.json_spans import Span
from modegate.core.wire.request_body import RequestBody


class Some(Body):
    """An API of which two keys count."""

    TOOLS = frozenset({"tools"})
    GATED = frozenset({"tools", "tool_choice"})

    def read(self) -> None:
        self.tools = self.declarations(self.objects("tools"))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"[]", "not a JSON object"),
        (b'{"a":1', "not a JSON object"),
        (b'{"a":"\xff"}', "utf-8"),
        (b'{"tools":[],"tools":[]}', "'tools' stands twice"),
        (b'{"tools":null,"\\u0074ools":[]}', "'tools' stands twice"),
        (b'{"toolChoice":1}', "did you mean 'tool_choice'"),
        (b'{"TOOL-CHOICE":1}', "did you mean 'tool_choice'"),
        (b'{"tools":{}}', "'tools' is not a list"),
        (b'{"tools":[1]}', "'tools' holds something that is not an object"),
    ],
)
def test_what_leaves_a_doubt_is_refused(body: bytes, message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        Some(RequestBody(body))


BODY = Some(
    RequestBody(
        b'{"a":{"x":[ 1,"y"],"x":2,"z":null},"tools":null,"b":"\\ud83d","b":3,"c":{"role":"user"}}'
    )
)


def test_parts_are_given_as_they_stand_there_or_decoded() -> None:
    assert BODY.text(BODY.top["c"]) == b'{"role":"user"}'
    assert BODY.value("c") == {"role": "user"}
    # The last of an ungated key that stands there twice; `members` has both.
    assert BODY.value("b") == 3
    assert [member.key for member in BODY.members] == ["a", "tools", "b", "b", "c"]
    assert BODY.decode(BODY.members[2].value) == "\ufffd"
    assert BODY.value("none") is None
    assert BODY.objects("tools") == BODY.objects("none") == []
    assert BODY.tools == []
    assert BODY.role(BODY.top["c"]) == "user"
    assert BODY.role(BODY.top["a"]) == BODY.role(BODY.top["b"]) == ""


def test_parts_of_parts() -> None:
    inside = BODY.top["a"]
    first, second, last = BODY.members_of(inside)
    assert [BODY.text(span) for span in BODY.elements_of(first.value)] == [b"1", b'"y"']
    assert BODY.member_of(inside, "z") == last.value
    assert BODY.member_of(inside, "none") is None
    assert BODY.text(second.value) == b"2"


@pytest.mark.parametrize(
    "ask",
    [
        lambda: BODY.member_of(BODY.top["a"], "x"),
        lambda: BODY.members_of(BODY.top["b"]),
        lambda: BODY.elements_of(BODY.top["c"]),
        lambda: BODY.objects("none", required=True),
        lambda: BODY.decode(Span(0, 3)),
    ],
    ids=["twice", "no-object", "no-list", "required", "no-json"],
)
def test_a_part_of_another_kind_is_refused(ask: Callable[[], Any]) -> None:
    with pytest.raises(BadRequest):
        ask()
