"""The Python SDK as clients of the endpoint, in a process of its own; see tests/acp-clients/client.mjs.

python -m support.acp_sdk_client SOCKET

Its transports are http, ws, and stdio: then it starts `modegate acp --url URL` and speaks to that.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import acp
from acp import schema
from acp.exceptions import RequestError
from acp.http.client import create_http_stream
from acp.ws.client import create_websocket_stream

REQUESTS: dict[str, tuple[type[Any], str]] = {
    "initialize": (schema.InitializeRequest, "initialize"),
    "session/new": (schema.NewSessionRequest, "new_session"),
    "session/load": (schema.LoadSessionRequest, "load_session"),
    "session/resume": (schema.ResumeSessionRequest, "resume_session"),
    "session/list": (schema.ListSessionsRequest, "list_sessions"),
    "session/close": (schema.CloseSessionRequest, "close_session"),
    "session/set_mode": (schema.SetSessionModeRequest, "set_session_mode"),
    "session/set_config_option": (schema.SetSessionConfigOptionSelectRequest, "set_config_option"),
    "session/prompt": (schema.PromptRequest, "prompt"),
}


def dumped(model: Any) -> Any:
    """Return what the SDK read, as JSON."""
    return model.model_dump(mode="json", by_alias=True, exclude_none=True) if model else model


class Client:
    """What an editor does with the SDK."""

    def __init__(self, say: Callable[..., None]) -> None:
        self.answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._say = say

    async def session_update(self, session_id: str, update: Any, **meta: Any) -> None:
        self._say(update={"sessionId": session_id, "update": dumped(update), "_meta": meta})

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **_meta: Any
    ) -> schema.RequestPermissionResponse:
        ask = len(self.answers) + 1
        answer = self.answers[ask] = asyncio.get_running_loop().create_future()
        shown = {"toolCall": dumped(tool_call), "options": [dumped(one) for one in options]}
        self._say(ask=ask, params={"sessionId": session_id, **shown})
        return schema.RequestPermissionResponse.model_validate({"outcome": await answer})

    def on_connect(self, conn: Any) -> None:
        """Nothing is done then."""


@asynccontextmanager
async def connected(client: Any, transport: str, url: str) -> AsyncIterator[Any]:
    """Connect as people are told to."""
    headers = {"authorization": f"Bearer {os.environ['ACP_TOKEN']}"}
    if transport == "stdio":
        environ = {"MODEGATE_CONTROL_TOKEN": os.environ["ACP_TOKEN"], **os.environ}
        command = (sys.executable, "-m", "modegate", "acp", "--url", url)
        async with acp.spawn_agent_process(client, *command, env=environ) as (connection, _):
            yield connection
        return
    if transport == "ws":
        stream = await create_websocket_stream(url, headers=headers)
    else:
        stream = create_http_stream(url, headers=headers)
    connection = acp.connect_to_agent(client, stream)
    try:
        yield connection
    finally:
        await connection.close()


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Be one client."""

    def say(**message: Any) -> None:
        writer.write(json.dumps(message).encode() + b"\n")

    async def call(command: dict[str, Any]) -> None:
        model, name = REQUESTS[command["call"]]
        params = model.model_validate(command["params"])
        given = {field: getattr(params, field) for field in params.model_fields_set}
        try:
            say(n=command["n"], result=dumped(await getattr(connection, name)(**given)))
        except RequestError as error:
            told = {"code": error.code, "message": str(error), "data": error.data}
            say(n=command["n"], error=told)

    client = Client(say)
    calls: list[asyncio.Task[None]] = []
    async with connected(client, **json.loads(await reader.readline())) as connection:
        while line := await reader.readline():
            command = json.loads(line)
            if "call" in command:
                calls.append(asyncio.ensure_future(call(command)))
            elif "notify" in command:
                await connection.cancel(command["params"]["sessionId"])
            else:
                client.answers[command["answer"]].set_result(command["outcome"])
        for one in calls:
            one.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
    writer.close()


async def main(path: str) -> None:
    """Listen until the standard input ends."""
    async with await asyncio.start_unix_server(serve, path, limit=2**24):
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
