"""Spans give a value's bytes and nothing else, whatever the JSON looks like; edits change only themselves."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modegate.core.wire import json_spans, surrogates
from modegate.core.wire.json_spans import Edit, Member, Span
from modegate.core.wire.surrogates import without_lone_surrogates

SPACE = st.sampled_from([b"", b"", b"", b" ", b"\n", b"\t\r\n  "])
KEYS = st.sampled_from([b'"a"', b'"b"', b'"\\u0061"', b'"a\\"b"', b'""', '"é"'.encode(), b'"\\\\"'])
SCALARS = st.sampled_from(
    [
        *(
            b"1E2",
            b"-0",
            b"1",
            b"12",
            b"12345678901234567890",
            b"0.10",
            b"-1e-7",
            b"18446744073709551615",
        ),
        *(
            b"true",
            b"false",
            b"null",
            b'""',
            b'"a"',
            b'"a\\"]}"',
            b'"\\\\"',
            b'"[{,:"',
            b'"\\/\\u00e9"',
        ),
        '"\u2028 é"'.encode(),
    ]
)


@dataclass(frozen=True)
class Text:
    """A JSON value, and what stands in it."""

    raw: bytes
    pairs: tuple[tuple[bytes, bytes], ...] = ()
    items: tuple[bytes, ...] = ()


@st.composite
def objects(draw: st.DrawFn, values: st.SearchStrategy[bytes]) -> Text:
    pairs = draw(st.lists(st.tuples(KEYS, values), max_size=5))
    parts = [
        draw(SPACE) + key + draw(SPACE) + b":" + draw(SPACE) + value + draw(SPACE)
        for key, value in pairs
    ]
    return Text(b"{" + (b",".join(parts) or draw(SPACE)) + b"}", pairs=tuple(pairs))


@st.composite
def arrays(draw: st.DrawFn, values: st.SearchStrategy[bytes]) -> Text:
    items = draw(st.lists(values, max_size=5))
    parts = [draw(SPACE) + value + draw(SPACE) for value in items]
    return Text(b"[" + (b",".join(parts) or draw(SPACE)) + b"]", items=tuple(items))


VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(objects(inner), arrays(inner)).map(lambda text: text.raw),
    max_leaves=12,
)
OBJECTS = objects(VALUES)
ARRAYS = arrays(VALUES)


def of(text: bytes, span: Span) -> bytes:
    return text[span.start : span.end]


def shape(text: bytes, found: list[Member]) -> list[tuple[str, bytes]]:
    return [(member.key, of(text, member.value)) for member in found]


@given(OBJECTS, SPACE, SPACE)
def test_members_are_the_values_bytes_in_order_with_duplicates(
    made: Text, before: bytes, after: bytes
) -> None:
    text = before + made.raw + after
    found = json_spans.members(text)
    assert shape(text, found) == [(json.loads(key), value) for key, value in made.pairs]
    assert [
        text[m.start : m.start + len(k)] for m, (k, _) in zip(found, made.pairs, strict=True)
    ] == [key for key, _ in made.pairs]


@given(OBJECTS, VALUES)
def test_members_of_a_value_inside_have_offsets_of_the_whole(made: Text, beside: bytes) -> None:
    text = b'{"x":' + beside + b' , "y": ' + made.raw + b"}"
    inner = json_spans.members(text)[1].value
    assert of(text, inner) == made.raw
    found = json_spans.members(text, inner)
    assert shape(text, found) == [(json.loads(key), value) for key, value in made.pairs]


@given(OBJECTS, VALUES)
def test_fields_are_the_members_unless_one_could_stand_there_twice(
    made: Text, beside: bytes
) -> None:
    text = b"[" + beside + b"," + made.raw + b"]"
    start = len(beside) + 2
    found = json_spans.fields(text, Span(start, start + len(made.raw)))
    keys = [key for key, _ in made.pairs]
    if len(set(map(json.loads, keys))) < len(keys) or b'"\\u0061"' in keys:
        assert found is None
    else:
        assert found is not None
        assert {key: bytes(value) for key, value in found.items()} == {
            json.loads(key): value for key, value in made.pairs
        }


@given(ARRAYS, SPACE)
def test_elements_are_the_values_bytes_in_order(made: Text, before: bytes) -> None:
    text = before + made.raw
    found = json_spans.elements(text, Span(len(before), len(text)))
    assert [of(text, span) for span in found] == list(made.items)


@given(OBJECTS, VALUES, st.sets(st.integers(0, 4)))
def test_a_replaced_value_leaves_all_other_bytes(made: Text, new: bytes, which: set[int]) -> None:
    found = json_spans.members(made.raw)
    edits = [Edit(*m.value, new) for i, m in enumerate(found) if i in which]
    changed = json_spans.apply(made.raw, reversed(edits))
    expected, at = b"", 0
    for index, member in enumerate(found):
        expected += made.raw[at : member.value.start]
        expected += new if index in which else of(made.raw, member.value)
        at = member.value.end
    assert changed == expected + made.raw[at:]


@given(ARRAYS, st.sets(st.integers(0, 4)))
def test_taking_elements_out_keeps_the_others_and_their_order(made: Text, which: set[int]) -> None:
    found = json_spans.elements(made.raw, Span(0, len(made.raw)))
    drop = {index for index in which if index < len(found)}
    left = json_spans.apply(made.raw, json_spans.without(found, drop))
    kept = [item for index, item in enumerate(made.items) if index not in drop]
    assert [of(left, span) for span in json_spans.elements(left, Span(0, len(left)))] == kept
    if not drop:
        assert left == made.raw


@given(OBJECTS, st.sets(st.sampled_from(["a", "b", "", "é", "\\"])))
def test_taking_members_out_takes_every_duplicate_and_no_other(made: Text, keys: set[str]) -> None:
    found = json_spans.members(made.raw)
    left = json_spans.apply(made.raw, json_spans.without_members(found, keys))
    kept = [one for one in shape(made.raw, found) if one[0] not in keys]
    assert shape(left, json_spans.members(left)) == kept


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (b'{"a":1,"a":12}', [b"1", b"12"]),
        (b'{"a":12,"a":1}', [b"12", b"1"]),
        (b'{"a":1.5,"a":1}', [b"1.5", b"1"]),
        (b'{"a":"x,","a":"x"}', [b'"x,"', b'"x"']),
        (b'{"a":"x\\",","a":"x\\""}', [b'"x\\","', b'"x\\""']),
        (b'{"a":[1,2],"a":[1]}', [b"[1,2]", b"[1]"]),
        (b'{"a":{"b":"}"},"a":{}}', [b'{"b":"}"}', b"{}"]),
        (b'{"a":-0,"a":-0 ,"a":-0.0}', [b"-0", b"-0", b"-0.0"]),
        (b'{"\\u0061":1E2,"a":1}', [b"1E2", b"1"]),
    ],
)
def test_duplicate_keys_of_which_one_value_begins_like_another(
    text: bytes, values: list[bytes]
) -> None:
    assert [of(text, member.value) for member in json_spans.members(text)] == values
    assert json_spans.fields(text, Span(0, len(text))) is None


@pytest.mark.parametrize(
    "text", [b"", b" ", b"[]", b'"a"', b"1", b"{", b'{"a":1', b'{"a" 1}', b"{} x"]
)
def test_what_is_not_an_object_has_no_members(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"object|malformed|truncated"):
        json_spans.members(text)
    with pytest.raises(ValueError, match=r"object|malformed|truncated|trailing"):
        json_spans.fields(text, Span(0, len(text)))


@pytest.mark.parametrize("text", [b"{}", b'"a"', b"[1", b"[1,]", b"[1 2]"])
def test_what_is_not_an_array_has_no_elements(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"array|malformed|truncated"):
        json_spans.elements(text, Span(0, len(text)))


DEEP = 100_000


@pytest.mark.parametrize(("opens", "closes"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_what_is_nested_deeply_is_a_value_error(opens: bytes, closes: bytes) -> None:
    deep = opens * DEEP + b"1" + closes * DEEP
    for text in (b'{"a":' + deep + b"}", b'{"a":1,"a":' + deep + b"}"):
        with pytest.raises(ValueError, match="deep"):
            json_spans.members(text)
        with pytest.raises(ValueError, match="deep"):
            json_spans.fields(text, Span(0, len(text)))
    with pytest.raises(ValueError, match="deep"):
        json_spans.elements(b"[" + deep + b"]", Span(0, len(deep) + 2))
    with pytest.raises(ValueError, match="deep"):
        json_spans.check(deep)


@pytest.mark.parametrize("text", [b"{", b'"\xff"', b"nul", b"[1,]"])
def test_check_refuses_what_is_not_json(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"malformed|truncated|UTF-8"):
        json_spans.check(text)


def test_check_gives_the_value() -> None:
    assert json_spans.check(b' {"a":[1,null]} ') == {"a": [1, None]}


@pytest.mark.parametrize("content", [b"x", b"\\n", b'\\"'])
def test_strings_of_24_mb_are_read_in_one_pass(content: bytes) -> None:
    """Also under a key that stands twice, where the decoder's help is not enough."""
    long = b'"' + content * (24_000_000 // len(content)) + b'"'
    text = b'{"a":' + long + b',"a":1,"b":[' + long + b"]}"
    first, second, third = json_spans.members(text)
    assert first.value == Span(5, 5 + len(long))
    assert of(text, second.value) == b"1"
    assert json_spans.elements(text, third.value) == [
        Span(third.value.start + 1, third.value.end - 1)
    ]


@pytest.mark.parametrize(("path", "wanted"), [
    ("a.*.id", [b"1", b"2", b"3"]), ("a.1.id", [b"3"]), ("a.*.*", [b"1", b"2", b"3"]), ("b", [b'{"a": []}']),
    ("*.a", [b"[]"]), ("a", [b'[{"id": 1, "id": 2}, {"id": 3}, 4]']), ("a.id", []), ("b.a.0", []), ("c", []),
    ("a.9", []), ("a.2.id", []),
])  # fmt: skip
def test_values_at_a_path(path: str, wanted: list[bytes]) -> None:
    text = b' {"a": [{"id": 1, "id": 2}, {"id": 3}, 4], "b": {"a": []}} '
    assert [of(text, span) for span in json_spans.values_at(text, [path])] == wanted
    assert len(list(json_spans.values_at(text, [path, path]))) == len(wanted)


def test_insertions_at_one_place_keep_their_order_and_touch_removals() -> None:
    edits = [
        Edit(2, 4, b""),
        Edit(4, 4, b"x"),
        Edit(4, 4, b"y"),
        Edit(2, 2, b"w"),
        Edit(0, 1, b"A"),
    ]
    assert json_spans.apply(b"abcdef", edits) == b"Abwxyef"


@pytest.mark.parametrize(
    "edits", [[Edit(0, 3, b""), Edit(2, 4, b"")], [Edit(0, 3, b""), Edit(1, 1, b"x")]]
)
def test_edits_that_overlap_are_refused(edits: list[Edit]) -> None:
    with pytest.raises(ValueError, match="overlap"):
        json_spans.apply(b"abcdef", edits)


def test_nothing_out_of_nothing() -> None:
    assert json_spans.without([], set()) == []
    assert json_spans.apply(b"{}", []) == b"{}"


@given(st.text())
def test_a_quoted_text_reads_back(text: str) -> None:
    assert json.loads(json_spans.quote(text)) == text


@pytest.mark.parametrize(("text", "wanted"), [
    (rb"\ud83d\ude00", None), (rb"\\ud83d\\ude00", None), (rb"\\ud83d", None),
    (rb"\ud83d", rb"\ufffd"), (rb"\ude00\ud83d", rb"\ufffd\ufffd"),
    (rb"\\\ud83d", rb"\\\ufffd"), (rb"\ud83d\\ude00", rb"\ufffd\\ude00"), (rb"\n\"\uDE00", rb"\n\"\ufffd"),
], ids=["pair", "pair-in-arguments", "half-in-arguments", "half", "wrong-order", "behind-a-backslash",
        "before-arguments", "behind-escapes"])  # fmt: skip
def test_lone_surrogates(text: bytes, wanted: bytes | None) -> None:
    """A half is replaced where it is one; an escaped backslash begins no escape."""
    assert without_lone_surrogates(b'"' + text + b'"') == b'"' + (wanted or text) + b'"'


_OLD = re.compile(
    rb"((?:\\\\)+|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)
PIECES = st.lists(
    st.sampled_from(
        [
            rb"\ud83d",
            rb"\ude00",
            rb"\\",
            rb"\uD83D\uDE00",
            rb"\n",
            rb"\u00e9",
            b"ud83d",
            b"x",
            b"xyz",
        ]
    )
)


@given(PIECES, st.integers(12, 30), st.binary(max_size=12))
def test_lone_surrogates_however_the_text_is_sliced(
    pieces: list[bytes], size: int, junk: bytes
) -> None:
    """It is looked at in slices; where these end changes nothing, and what is no JSON ends too."""
    text = b"".join(pieces)
    wanted = _OLD.sub(lambda match: match.group(1) or rb"\ufffd", text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(surrogates, "_SLICE", size)
        assert without_lone_surrogates(text) == wanted
        assert len(without_lone_surrogates(text + junk)) == len(text + junk)


def test_h23_lone_surrogates_have_a_limit() -> None:
    """Each costs as much as a kilobyte of text."""
    most = rb"\ud83d" * surrogates.MAX_HALVES
    assert without_lone_surrogates(most) == rb"\ufffd" * surrogates.MAX_HALVES
    with pytest.raises(ValueError, match="stand alone"):
        without_lone_surrogates(most + rb"\ud83d")


def test_h23_keys_have_a_limit() -> None:
    keys = [b'"k%d":1' % number for number in range(json_spans.MAX_MEMBERS)]
    assert len(json_spans.members(b"{" + b",".join(keys) + b"}")) == len(keys)
    for one in (b'"k0":1', b'"other":1'):
        with pytest.raises(ValueError, match="keys"):
            json_spans.members(b"{" + b",".join([*keys, one]) + b"}")
