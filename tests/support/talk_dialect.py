"""A dialect that modegate does not have: the whole of one, in one module.

`POST /talk/MODEL:speak` takes `{"rules", "turns", "tools": [names]}` and answers
`{"words", "calls": [{"id", "name", "arguments"}], "stop": "done" | "calls"}`, never streamed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from modegate.core.endpoints import Api, Credential, History, Operation
from modegate.core.errors import AnswerUnreadable, BadRequest
from modegate.core.ids import ToolName
from modegate.core.policy.in_force import ModesInForce
from modegate.core.step.answer.calls import Gathered, digest
from modegate.core.step.answer.parts import ChoiceRead, Refused, Spoken
from modegate.core.step.dialect import Assembled, Dialect, Found, Item, Notices, erased
from modegate.core.step.request.request_form import Manner
from modegate.core.wire.request_body import RequestBody

Json = dict[str, Any]


class TalkRequest:
    """One request."""

    def __init__(self, body: RequestBody) -> None:
        """Read it.

        Raises:
            BadRequest: it has no turns.
        """
        self.body = body.decoded
        try:
            self.fields: Json = dict(json.loads(body.decoded))
            self.messages: list[Json] = list(self.fields["turns"])
        except (KeyError, TypeError, ValueError) as error:
            raise BadRequest("the request has no turns") from error
        self.declared = frozenset(self.fields.get("tools", ()))
        self.declares_tools = bool(self.declared)
        self.first_user_text = next(
            (one["words"] for one in self.messages if one["role"] == "user"), ""
        )
        self.call_ids = frozenset(
            call["id"] for one in self.messages for call in one.get("calls", ())
        )

    def value(self, key: str) -> Any:
        """Return a member."""
        return self.fields.get(key)

    def changed(self, **fields: Any) -> bytes:
        """Return the body with other members."""
        return json.dumps(self.fields | fields).encode()


class TalkWhole:
    """One answer."""

    failed = False
    usage: Mapping[str, Any] | None = None

    def __init__(self, body: bytes) -> None:
        """Read it.

        Raises:
            AnswerUnreadable: it is no JSON object.
        """
        try:
            self._value: Json = dict(json.loads(body))
        except (TypeError, ValueError) as error:
            raise AnswerUnreadable("the answer is no JSON object") from error
        read = ChoiceRead(finish=self._value["stop"])
        read.say("text", self._value["words"])
        for call in self._value.get("calls", ()):
            arguments = json.dumps(call["arguments"])
            read.calls.append(Gathered(0, "function", call["id"], [call["name"]], [arguments]))
        self.choices = {0: read}

    def write(
        self,
        *,
        before: Sequence[ChoiceRead],
        closing: Mapping[int, str],
        stop: frozenset[int],
        usage: Sequence[Mapping[str, Any]],
    ) -> bytes:
        """Return it with what was said before, and without what was not released."""
        del usage
        own = self.choices[0]
        words = "".join([*(one.text() for one in before), own.text(), closing.get(0, "")])
        calls = [_call_json(one, one.id) for one in own.released()]
        said = self._value | {"words": words, "calls": calls}
        return json.dumps(said | ({"stop": "done"} if stop else {})).encode()


def _call_json(call: Gathered, name: str) -> Json:
    return {"id": name, "name": call.name, "arguments": json.loads(call.arguments)}


def _results(refused: Sequence[Refused]) -> list[Json]:
    return [{"role": "result", "call_id": one.id, "words": one.answer} for one in refused]


def _turn(choice: ChoiceRead, refused: Sequence[Refused]) -> list[Json]:
    calls = [_call_json(one.call, one.id) for one in refused]
    return [{"role": "model", "words": choice.text(), "calls": calls}, *_results(refused)]


def _assemble(request: TalkRequest, in_force: ModesInForce, section: str) -> Assembled:
    kept = [ToolName(one) for one in request.fields["tools"] if in_force.may_offer(one)]
    rules = "\n".join(filter(None, (request.fields.get("rules"), section)))
    return Assembled(request.changed(tools=kept, rules=rules), tuple(kept))


def _extend(
    request: TalkRequest, choice: ChoiceRead, refused: Sequence[Refused], _manner: Manner
) -> bytes:
    return request.changed(turns=[*request.messages, *_turn(choice, refused)])


def _restore(request: TalkRequest, found: Found, notices: Notices, _manner: Manner) -> bytes:
    turns: list[Json] = []
    for index, turn in enumerate(request.messages):
        blobs = [json.loads(blob) for blob in found[index][1]] if index in found else []
        turns += [one for blob in blobs for one in blob["turn"]]
        words = "\n".join([turn.get("words", ""), *notices.get(index, ())])
        withheld = [call for blob in blobs for call in blob["calls"]]
        turns.append(turn | {"words": words})
        if withheld:
            turns[-1]["calls"] = [*turn.get("calls", ()), *withheld]
        turns += [one for blob in blobs for one in blob["answers"]]
    return request.changed(turns=turns)


def _turn_blob(choice: ChoiceRead, refused: Sequence[Refused]) -> bytes:
    return json.dumps({"turn": _turn(choice, refused), "calls": [], "answers": []}).encode()


def _partial_blob(_choice: ChoiceRead, refused: Sequence[Refused]) -> bytes:
    calls = [_call_json(one.call, one.id) for one in refused]
    return json.dumps({"turn": [], "calls": calls, "answers": _results(refused)}).encode()


def _key(role: str, words: str, ids: Sequence[str]) -> str:
    return f"{role}:{ids[0] if ids else digest(words)}"


def _keys(request: TalkRequest) -> list[str]:
    return [
        _key(one["role"], one.get("words", ""), [call["id"] for call in one.get("calls", ())])
        for one in request.messages
    ]


def _answer_key(said: Sequence[ChoiceRead]) -> str:
    words = "".join(one.text() for one in said)
    return _key("model", words, [call.id for call in said[-1].released()])


def _last_said(out: ChoiceRead | None, closing: str) -> ChoiceRead:
    return ChoiceRead({"text": [(out.text() if out else "") + closing]})


def _spoken(data: bytes, *, streamed: bool) -> tuple[list[Spoken], frozenset[int]]:
    return [Spoken(TalkWhole(data).choices[0].text())], frozenset({0})


TALK = erased(
    Dialect(
        api=Api(
            name="talk",
            home="https://talk.invalid",
            operations=(Operation("talk", "/talk/{model}:speak"),),
            paths=re.compile(rb"(?:/v1)?/talk/"),
            history=History("turns", "words"),
            credential=Credential(b"x-talk-key", b""),
            error=lambda message, _status, code: json.dumps({"fault": [code, message]}).encode(),
        ),
        read=TalkRequest,
        assemble=_assemble,
        extend=_extend,
        system_text=lambda request: str(request.fields.get("rules", "")),
        items=lambda request: [
            Item(key, one["role"] == "model")
            for key, one in zip(_keys(request), request.messages, strict=True)
        ],
        last_key=lambda request: _keys(request)[-1] if request.messages else "",
        newest_is_user=lambda request: request.messages[-1]["role"] == "user",
        answer_key=_answer_key,
        restore=_restore,
        turn_blob=_turn_blob,
        partial_blob=_partial_blob,
        aside_blob=b'{"turn":[],"calls":[],"answers":[]}',
        blob_ids=("turn.*.calls.*.id", "turn.*.call_id", "calls.*.id", "answers.*.call_id"),
        read_whole=TalkWhole,
        spoken=_spoken,
        last_said=_last_said,
        may_go_on=lambda finish: finish in ("done", "calls"),
    )
)
