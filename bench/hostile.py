"""A model that gives the worst answers within the limits: `hostile.py PORT`.

Which one is told by the request's `x-worst` header; without it the answer is a small one.
"""

from __future__ import annotations

import asyncio
import sys

from worst import ANSWERS, Answer

SMALL = Answer(
    "application/json",
    lambda: (
        b'{"id":"x","object":"chat.completion","choices":[{"index":0,"finish_reason":"stop",'
        b'"message":{"role":"assistant","content":"ok"}}]}'
    ),
)


SLICE = 256 * 1024

_ANSWERS = {name.lower(): answer for name, answer in ANSWERS.items()}
_made: dict[str, bytes] = {}


def body_of(name: str) -> tuple[str, bytes]:
    """Return an answer's type and its body, which is made once."""
    answer = _ANSWERS.get(name, SMALL)
    if name not in _made:
        _made[name] = answer.make()
    return answer.kind, _made[name]


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the requests of one connection."""
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            lines = dict(line.split(": ", 1) for line in head.split("\r\n")[1:-2])
            if "content-length" in lines:
                await reader.readexactly(int(lines["content-length"]))
            kind, body = body_of(lines.get("x-worst", ""))
            if head.startswith("get "):
                body = b"made"
            top = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
            writer.write(top.encode() + body[:SLICE])
            for at in range(SLICE, len(body), SLICE):
                await writer.drain()
                writer.write(body[at : at + SLICE])
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main(port: int) -> None:
    """Serve until ended."""
    server = await asyncio.start_server(serve, "127.0.0.1", port)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
