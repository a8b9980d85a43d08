"""A program is a list of calls with literal arguments, or is refused."""

from __future__ import annotations

from typing import Any

import pytest

from modegate.core.argument.javascript import MAX_CALLS, InnerCall, calls_of
from modegate.core.argument.javascript_syntax import MAX_PROGRAM
from modegate.core.argument.understanding import NotUnderstood

Calls = list[tuple[str, dict[str, Any]]]
LS: tuple[str, dict[str, Any]] = ("exec_command", {"cmd": "ls"})


@pytest.mark.parametrize(
    ("program", "calls"),
    [
        (
            'const r = await tools.exec_command({cmd: "ls"}); text(r.output ?? JSON.stringify(r));',
            [LS],
        ),
        ('// @exec: {"yield_time_ms": 500}\nawait tools.exec_command({cmd: "ls"})\n', [LS]),
        ('/* x */ await /* y */ tools.exec_command({cmd: "ls" /* z */}) // @x', [LS]),
        ("let r = await tools.exec_command({'cmd': 'ls'})\ntext(r.output)", [LS]),
        ("const r = await tools.exec_command({cmd: `ls`,}); console.log(`${r.output}`, r?.x);", [LS]),
        ('text((await tools.exec_command({cmd: "ls"})).output);', [LS]),
        ('text(JSON.stringify(await tools.exec_command({cmd: "ls"}), null, 2))', [LS]),
        ('const {output, exit: code} = await tools.exec_command({cmd: "ls"}); text(output + code)', [LS]),
        ('const cmd = "ls"; await tools.exec_command({cmd});', [LS]),
        ('const c = "ls", n = -5; await tools.exec_command({cmd: c, n});', [(LS[0], {"cmd": "ls", "n": -5})]),
        ('"use strict";\r\nawait tools.exec_command({cmd: "ls"});\r\n', [LS]),
        (
            'const [a, b] = await Promise.all([tools.exec_command({cmd: "ls"}), tools.list({}),]);\n'
            "text(a.output); text([b[0].name, {a: b}]);",
            [LS, ("list", {})],
        ),
        ("await Promise.all([])", []),
        ("await tools.list()", [("list", {})]),
        ("await tools.mcp__fs__read({path: 'a'})", [("mcp__fs__read", {"path": "a"})]),
        ('await tools.apply_patch("*** Begin Patch\\n")', [("apply_patch", {"input": "*** Begin Patch\n"})]),
        ("const p = `a\nb`; await tools.apply_patch(p)", [("apply_patch", {"input": "a\nb"})]),
        (
            'await tools.x({a: [1, -2, 0.5, 1.0, true, false, null, "s"], "b-c": {d: {}}, class: []})',
            [("x", {"a": [1, -2, 0.5, 1, True, False, None, "s"], "b-c": {"d": {}}, "class": []})],
        ),
        ('text("no call")', []),
        ("// nothing", []),
    ],
)  # fmt: skip
def test_calls(program: str, calls: Calls) -> None:
    assert calls_of(program) == tuple(InnerCall(name, arguments) for name, arguments in calls)


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        (r'"\x41\u0042\u{43}\u{000044}"', "ABCD"),
        (r'"\n\r\t\b\f\v"', "\n\r\t\b\f\v"),
        (r'"\q\ \-\"\'\\\$\`"', "q -\"'\\$`"),
        ('"a\\\nb\\\r\nc"', "abc"),
        (r'"\ud83d\ude00 \u{1F600}"', "\U0001f600 \U0001f600"),
        ("'it\"s'", 'it"s'),
        ('"ü😀"', "ü😀"),
        ("`a\r\nb\\\r\nc\\`$d$`", "a\nbc`$d$"),
        (r"`\${x}`", "${x}"),
        ('""', ""),
        ('"// no /* comment */"', "// no /* comment */"),
        ("999999999999999", 999_999_999_999_999),
        ("-0", 0),
        ("0.1", 0.1),
    ],
)
def test_literals(literal: str, value: object) -> None:
    (call,) = calls_of(f"await tools.x({{a: {literal}}})")
    assert call.arguments == {"a": value}
    assert type(call.arguments["a"]) is type(value)


CALL = 'await tools.x({a: "b"})'
REFUSED = {
    # what is called
    "another member": 'await tools["x"]({})',
    "chosen by a value": 'const n = "x"; await tools[n]({})',
    "optional member": "await tools?.x({})",
    "optional call": "await tools.x?.({})",
    "tagged template": "await tools.x`a`",
    "private": "await tools.#x({})",
    "inherited": "await tools.constructor({})",
    "inherited, old": "await tools.__defineGetter__({})",
    "deeper": "await tools.fs.read({})",
    "in brackets": "await (tools.x)({})",
    "not awaited": "tools.x({})",
    "promise kept": "const p = tools.x({})",
    "awaited elsewhere": "const p = await tools.x; await p({})",
    "then": "await tools.x({}).then(text)",
    "call": "await tools.x.call(null, {})",
    "new": "new tools.x({})",
    "tools handed on": "text(tools)",
    "member handed on": "text(tools.x)",
    "global": "await globalThis.tools.x({})",
    "this": "await this.tools.x({})",
    "eval": 'eval("1")',
    "function": 'Function("return 1")()',
    "import": 'import("fs")',
    "import declaration": 'import fs from "fs"',
    "require": 'require("fs")',
    "fetch": 'await fetch("http://x")',
    "exit": "exit()",
    "store": 'store("a", 1)',
    "method of a result": f"const r = {CALL}; text(r.output.trim())",
    "result called": f"const r = {CALL}; r()",
    "constructor of a result": f'const r = {CALL}; r.constructor.constructor("x")()',
    "any": "await Promise.any([tools.x({})])",
    "all of a call": "await Promise.all(tools.x({}))",
    "all with two arguments": "await Promise.all([tools.x({})], 1)",
    "all of values": "await Promise.all([1])",
    "all of spread": "await Promise.all([...[tools.x({})]])",
    "stringify with a function": "text(JSON.stringify({}, (k, v) => v))",
    "parse": 'text(JSON.parse("{}"))',
    "other console": 'console.error("x")',
    "await of a value": f"const r = {CALL}; await r",
    # arguments
    "two arguments": "await tools.x({}, {})",
    "a number": "await tools.x(1)",
    "an array": "await tools.x([])",
    "null": "await tools.x(null)",
    "undefined": "await tools.x({a: undefined})",
    "spread": "await tools.x({...{a: 1}})",
    "spread argument": "await tools.x(...[{}])",
    "computed key": 'await tools.x({["a"]: 1})',
    "number as key": "await tools.x({1: 1})",
    "getter": "await tools.x({get a() { return 1 }})",
    "method": "await tools.x({a() {}})",
    "function value": "await tools.x({a: () => 1})",
    "key twice": "await tools.x({a: 1, a: 2})",
    "key twice, quoted": "await tools.x({a: 1, 'a': 2})",
    "key twice but for case": "await tools.x({a: 1, A: 2})",
    "key twice, escaped": r"await tools.x({a: 1, '\x61': 2})",
    "prototype": "await tools.x({__proto__: {a: 1}})",
    "prototype, quoted": 'await tools.x({"__proto__": {a: 1}})',
    "prototype, deep": 'await tools.x({b: [{"__proto__": {a: 1}}]})',
    "escaped key": r"await tools.x({\u0061: 1})",
    "concatenated": 'await tools.x({a: "b" + "c"})',
    "substituted": "await tools.x({a: `b${1}`})",
    "a result": f"const r = {CALL}; await tools.y({{a: r.output}})",
    "a result, whole": f"const r = {CALL}; await tools.y(r)",
    "a nested call": f"await tools.y({{a: {CALL}}})",
    "chosen": "await tools.x({a: true ? 1 : 2})",
    "an object's name": 'const o = {a: 1}; await tools.x(o)',
    "an array's name": 'const o = [1]; await tools.x({a: o})',
    "a substituted name": f"const r = {CALL}; const s = `${{r}}`; await tools.x({{a: s}})",
    "undeclared": "await tools.x({a: b})",
    "undeclared shorthand": "await tools.x({a})",
    "declared later": 'await tools.x({a: b}); const b = "c"',
    "hole": "await tools.x({a: [1,,2]})",
    "hole in front": "await tools.x({a: [,1]})",
    "octal escape": r'await tools.x({a: "\101"})',
    "nul escape": r'await tools.x({a: "\0"})',
    "half of a character": r'await tools.x({a: "\ud83d"})',
    "beyond Unicode": r'await tools.x({a: "\u{110000}"})',
    "bad escape": r'await tools.x({a: "\u12"})',
    "bad hexadecimal escape": r'await tools.x({a: "\x4"})',
    "hexadecimal": "await tools.x({a: 0x10})",
    "old octal": "await tools.x({a: 010})",
    "exponent": "await tools.x({a: 1e3})",
    "separator": "await tools.x({a: 1_000})",
    "big": "await tools.x({a: 1n})",
    "bare point": "await tools.x({a: .5})",
    "point at the end": "await tools.x({a: 5.})",
    "too many digits": "await tools.x({a: 1234567890123456})",
    "plus": "await tools.x({a: +1})",
    "minus minus": "await tools.x({a: - -1})",
    "not": "await tools.x({a: !1})",
    "void": "await tools.x({a: void 0})",
    "regular expression": "await tools.x({a: /b/})",
    # names
    "tools declared": "const tools = 1",
    "text declared": "const text = 1",
    "tools by destructuring": f"const {{tools}} = {CALL}",
    "tools by another name": f"const {{a: tools}} = {CALL}",
    "Promise in an array": f"const [Promise] = {CALL}",
    "console declared": "let console = 1",
    "JSON declared": "let JSON = 1",
    "undefined declared": "let undefined = 1",
    "twice": "const a = 1; const a = 2",
    "twice at once": "const a = 1, a = 2",
    "twice in a pattern": f"const {{a, b: a}} = {CALL}",
    "escaped name": r"const t\u0065xt = 1",
    "name outside ASCII": "const ä = 1",
    "var": "var a = 1",
    "no value": "let a",
    "changed": 'let a = "b"; a = "c"',
    "counted": "let a = 1; a++",
    "default": f"const {{a = tools.y()}} = {CALL}",
    "rest": f"const {{...a}} = {CALL}",
    "nested pattern": f"const {{a: {{b}}}} = {CALL}",
    "hole in a pattern": f"const [, a] = {CALL}",
    "computed in a pattern": f"const {{[1]: a}} = {CALL}",
    "using": f"using a = {CALL}",
    "of itself": "const a = a",
    # statements
    "for": "for (const a of [1]) text(a)",
    "while": "while (1) text(1)",
    "if": "if (true) text(1)",
    "block": "{ text(1) }",
    "label": "a: text(1)",
    "function declaration": "function f() {}",
    "class": "class A {}",
    "return": "return 1",
    "throw": "throw 1",
    "try": "try { text(1) } catch {}",
    "export": "export const a = 1",
    "debugger": "debugger",
    "empty": ";",
    "sequence": "text(1), text(2)",
    "sequence in brackets": "text((1, 2))",
    "assignment in an argument": "const a = 1; text(a = 2)",
    "delete": "delete tools.x",
    "and": "text(true && 1)",
    "comparison": "text(1 < 2)",
    "typed": f"const r: string = {CALL}",
    "as": f"const r = {CALL} as string",
    # how it is written
    "call over a line": f"const r = {CALL}\n(text(1))",
    "index over a line": f"const r = {CALL}\n[0]",
    "template over a line": 'const r = "a"\n`b`',
    "bracket in front, no semicolon": "text(1)\n(text(2))",
    "semicolon in a comment": "text(1) // ;\n(text(2))",
    "two on a line": "text(1) text(2)",
    "HTML comment": "<!-- x\ntext(1)",
    "end of an HTML comment": "text(1)\n--> text(2)",
    "hashbang": "#!/bin/node\ntext(1)",
    "no end of a string": 'text("a',
    "line end in a string": 'text("a\nb")',
    "no end of a comment": "text(1) /* a",
    "no end of a template": "text(`a",
    "template in a template": "text(`${`a`}`)",
    "string in a template": 'text(`${"a"}`)',
    "line separator": "text(1)\u2028text(2)",
    "line separator in a comment": "// a\u2028text(2)",
    "line separator in a string": 'text("a\u2028")',
    "carriage return": "text(1)\rtext(2)",
    "carriage return in a comment": "// a\rtext(2)",
    "no-break space": "text(\u00a01)",
    "zero-width space": "text(\u200b1)",
    "byte order mark": "\ufefftext(1)",
    "vertical tab": "text(1)\v",
    "NUL": "text(1)\x00",
    "NUL in a string": 'text("\x00")',
    "control in a string": 'text("\x1b")',
    "half of a character, raw": 'text("\ud800")',
    "unknown settings": '// @exec: {"sandbox": "none"}\ntext(1)',
    "settings of another type": '// @exec: {"yield_time_ms": "1"}\ntext(1)',
    "settings that are no JSON": "// @exec: x\ntext(1)",
    "settings in another comment": '/* @exec: {"yield_time_ms": 1} */text(1)',
    "fence": "```js\ntext(1)\n```",
    "object or block": "{a: 1}",
    "JSON": '{"code": "text(1)"}',
    "nothing": "",
    "deep": "text(" + "(" * 70 + "1" + ")" * 70 + ")",
    "deep array": "await tools.x({a: " + "[" * 70 + "]" * 70 + "})",
    "too many calls": f"{CALL};" * (MAX_CALLS + 1),
    "too large": f'text("{"a" * MAX_PROGRAM}")',
    "too many tokens": "text(1);" * 1000,
}  # fmt: skip


@pytest.mark.parametrize("program", REFUSED.values(), ids=REFUSED)
def test_refused(program: str) -> None:
    with pytest.raises(NotUnderstood) as refusal:
        calls_of(program)
    assert "program" in str(refusal.value)
    assert len(str(refusal.value)) < 250


def test_the_model_is_told_what_a_program_may_do() -> None:
    with pytest.raises(
        NotUnderstood, match=r"line 2 .* `for .* may only call tools with literal arguments"
    ):
        calls_of('text("a")\nfor (const a of [1]) text(a)')


@pytest.mark.parametrize(
    "piece",
    ["(", "[", "{", "${", "`", '"', "'", "/*", "a=>", "<a ", "a?", "1+", "async ", "x\n", "/[/", "a(b=>{",
     "await ", "\\u0041", "'\\", "a.", "...", "//\n", "`${a}`", "text(1);"],
)  # fmt: skip
def test_hostile_programs_end(piece: str) -> None:
    """The grammar takes a second for 64 KB of some of them, so the tokens are counted first."""
    with pytest.raises(NotUnderstood):
        calls_of(piece * (MAX_PROGRAM // len(piece)))
