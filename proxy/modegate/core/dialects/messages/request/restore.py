"""Withheld exchanges put back into a Messages history.

A client holds what it got of several hops as one message. It is split again at the recorded segments, and
each block keeps its bytes: behind the blocks of a hop of which every call was refused follow our answers
as a message of their own; calls withheld beside released ones stand among the blocks, and our answers in
front of the agent's in the message that follows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from modegate.core.dialects.common.texts import grow
from modegate.core.dialects.messages.answer.answer_items import CALL, CUT, TEXT, THINKING, mark
from modegate.core.dialects.messages.request.parsing import MessagesRequest
from modegate.core.log.events import Segment
from modegate.core.step.answer.calls import digest
from modegate.core.step.dialect import Found, Notices
from modegate.core.step.request.request_form import Thoughts
from modegate.core.wire.json_spans import Edit, Span, apply, members, quote
from modegate.core.wire.surrogates import without_lone_surrogates

_encode = msgspec.json.encode

RESULT = "tool_result"

_NOTHING: dict[str, Any] = {"turn": False, "calls": (), "answers": ()}


def restore(
    request: MessagesRequest, found: Found, notices: Notices, thoughts: Thoughts = None
) -> bytes:
    edits = [edit for index, texts in notices.items() for edit in _notice(request, index, texts)]
    for index, (hops, stored) in found.items():
        blobs = [msgspec.json.decode(blob) for blob in stored]
        if thoughts is not True:
            blobs = [{**blob, "thoughts": ()} for blob in blobs]
        edits += _restore_one(request, index, hops, blobs)
    return apply(request.body, edits)


def _notice(request: MessagesRequest, index: int, texts: Sequence[str]) -> list[Edit]:
    """Put sentences at the end of a user message: into its last result, where nothing stands behind it.

    Results must come first (B083). A text behind them becomes a message of the user where a server translates
    to another API, and many templates take none there (N007).
    """
    while index and request.role(request.messages[index]) == "system":
        index -= 1
    span, text = request.messages[index], "\n\n".join(texts)
    if request.role(span) != "user":
        return []
    grown = _in_result(request, span, text) or grow(request, span, text)
    return [grown] if grown is not None else []


def _in_result(request: MessagesRequest, span: Span, text: str) -> Edit | None:
    content = request.member_of(span, "content")
    if content is None or request.text(content)[:1] != b"[":
        return None
    last = request.elements_of(content)[-1:]
    block = request.decode(last[0]) if last else None
    if not isinstance(block, dict) or block.get("type") != RESULT:
        return None
    inner = block.get("content")
    known = isinstance(inner, str) or (
        isinstance(inner, list)
        and {one.get("type") for one in inner if isinstance(one, dict)} <= {TEXT, "image"}
    )
    return grow(request, last[0], text) if known else None


@dataclass(frozen=True, slots=True)
class _Piece:
    """One block of the client's message, or a part of a text that was one block of two hops."""

    value: dict[str, Any]
    raw: bytes

    @property
    def kind(self) -> Any:
        return self.value.get("type")

    @property
    def text(self) -> str:
        text = self.value.get("text")
        return text if self.kind == TEXT and isinstance(text, str) else ""

    @property
    def blank(self) -> bool:
        return self.kind == TEXT and not self.text.strip()


def _restore_one(
    request: MessagesRequest,
    index: int,
    hops: Sequence[Sequence[Segment]],
    blobs: list[dict[str, Any]],
) -> list[Edit]:
    span = request.messages[index]
    content = request.member_of(span, "content")
    if content is None:
        return []
    left = deque(_pieces(request, content))
    shows = any(piece.kind == THINKING for piece in left)
    turns: list[tuple[list[bytes], list[Any]]] = []
    last: list[bytes] = []
    answers: list[Any] = []
    for at, hop in enumerate(hops):
        # Behind those of which something was withheld stands at most the closing text.
        blob = blobs[at] if at < len(blobs) else _NOTHING
        blocks = _hop(left, hop, blob["calls"])
        if blob["turn"] and not blob["answers"]:
            continue  # words of our own: the model is not to find them
        if blob["turn"]:
            thoughts = () if shows else map(_encode, blob.get("thoughts", ()))
            turns.append(([*thoughts, *blocks], blob["answers"]))
        else:
            last += blocks
            answers += blob["answers"]
    last += [piece.raw for piece in left]
    if not last:
        # Nothing was said in the end: the last turn is the client's message, and its next one the answer.
        last, answers = turns.pop()
    front: list[bytes] = []
    for blocks, results in turns:
        front += (_message("assistant", blocks), _message("user", list(map(_encode, results))))
    mine = _with_content(request, span, content, last)
    edits = [Edit(span.start, span.end, b",".join([*front, mine]))]
    return edits + _answer_edits(request, index, answers)


def _pieces(request: MessagesRequest, content: Span) -> list[_Piece]:
    value = request.decode(content)
    if isinstance(value, str):
        block = {"type": TEXT, "text": value}
        return [_Piece(block, _encode(block))]
    if not isinstance(value, list):
        return []
    blocks = [block if isinstance(block, dict) else {} for block in value]
    places = request.elements_of(content)
    return [_Piece(*one) for one in zip(blocks, map(request.text, places), strict=True)]


def _hop(
    left: deque[_Piece], hop: Sequence[Segment], calls: Sequence[tuple[int, dict[str, Any]]]
) -> list[bytes]:
    """Take one hop's blocks from what is left of the client's, and put its withheld calls among them."""
    blocks: list[bytes] = []
    for at in range(len(hop) + 1):
        blocks += [_encode(call) for place, call in calls if place == at]
        if at < len(hop):
            blocks += [piece.raw for piece in _take(left, hop[at])]
    return blocks


def _take(left: deque[_Piece], segment: Segment) -> list[_Piece]:
    """Take what a segment has become; nothing where the client left it out."""
    blank: list[_Piece] = []
    while left and left[0].blank and segment.kind != TEXT:
        blank.append(left.popleft())
    if segment.kind == TEXT:
        return _take_text(left, segment)
    head = left[0] if left else None
    if head is None:
        return blank
    if segment.kind == CUT:
        # No provider takes thinking back that it has not signed.
        if head.kind == THINKING and not head.value.get("signature"):
            left.popleft()
        return blank
    if segment.kind == CALL:
        same = head.kind == CALL and head.value.get("id") in segment.calls
    else:
        same = head.kind == segment.kind and mark(head.value) == segment.hash
    return [*blank, left.popleft()] if same else blank


def _take_text(left: deque[_Piece], segment: Segment) -> list[_Piece]:
    """Take a text, which the client may have split, merged with the next hop's, or trimmed."""
    run: list[_Piece] = []
    for piece in left:
        if piece.kind != TEXT:
            break
        run.append(piece)
    text = "".join(piece.text for piece in run)
    begin = len(text) - len(text.lstrip())
    end = begin + segment.length
    if digest(text[begin:end]) != segment.hash:
        # Not as it was given: one block is taken for the other.
        return [left.popleft()] if run else []
    taken: list[_Piece] = []
    at = 0
    while at < end:
        piece = left.popleft()
        if at + len(piece.text) > end and piece.text[end - at :].strip():
            piece, rest = _split(piece, end - at)
            left.appendleft(rest)
        taken.append(piece)
        at += len(piece.text)
    return taken


def _split(piece: _Piece, at: int) -> tuple[_Piece, _Piece]:
    """Cut a text block in two; everything but the text stays with the second."""
    first = {"type": TEXT, "text": piece.text[:at]}
    rest = piece.text[at:].lstrip()
    found = members(without_lone_surrogates(piece.raw))
    place = next(m.value for m in reversed(found) if m.key == "text")
    raw = apply(piece.raw, [Edit(*place, quote(rest))])
    second = replace(piece, value={**piece.value, "text": rest}, raw=raw)
    return _Piece(first, _encode(first)), second


def _message(role: str, blocks: Sequence[bytes]) -> bytes:
    return _encode({"role": role, "content": [msgspec.Raw(block) for block in blocks]})


def _with_content(
    request: MessagesRequest, span: Span, content: Span, blocks: Sequence[bytes]
) -> bytes:
    body = request.body
    new = b"[" + b",".join(blocks) + b"]"
    return body[span.start : content.start] + new + body[content.end : span.end]


def _answer_edits(
    request: MessagesRequest, index: int, answers: Sequence[dict[str, Any]]
) -> list[Edit]:
    """Put our answers in front of what follows the calls: results must stand there, and first."""
    if not answers:
        return []
    new = b",".join(map(_encode, answers))
    following = request.messages[index + 1 : index + 2]
    content = request.member_of(following[0], "content") if following else None
    if content is None or request.role(following[0]) != "user":
        end = request.messages[index].end
        return [Edit(end, end, b"," + _message("user", list(map(_encode, answers))))]
    if request.text(content)[:1] == b'"':
        # A string becomes the block that it stands for.
        return [
            Edit(content.start, content.start, b"[" + new + b',{"type":"text","text":'),
            Edit(content.end, content.end, b"}]"),
        ]
    comma = b"," if request.elements_of(content) else b""
    return [Edit(content.start + 1, content.start + 1, new + comma)]
