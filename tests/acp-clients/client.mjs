// The TypeScript SDK as clients of the endpoint, driven line by line by tests/support/acp_clients.py.
//
// node client.mjs SOCKET   listens there; each connection is one client, whose first line is {"transport", "url"}:
//                          http, ws, or stdio, where it starts `modegate acp` with the Python of ACP_PYTHON. The
//                          token is in ACP_TOKEN. It ends with its standard input.
//
// in:  {"n", "call", "params"}   {"notify", "params"}   {"answer": K, "outcome"}
// out: {"n", "result"|"error"}   {"update"}   {"ask": K, "params"}   {"withdrawn": K}   {"closed": true}
// What is told is what the SDK gave to its handlers, so what it drops is not told.

import { spawn } from "node:child_process";
import { createServer } from "node:net";
import { createInterface } from "node:readline";
import { Readable, Writable } from "node:stream";
import { client, methods, ndJsonStream } from "@agentclientprotocol/sdk";
import { createHttpStream } from "@agentclientprotocol/sdk/experimental/http-client";
import { createWebSocketStream } from "@agentclientprotocol/sdk/experimental/ws-client";

const headers = { authorization: `Bearer ${process.env.ACP_TOKEN}` };

// Node's own WebSocket takes headers beside the protocols, where the SDK gives them to `ws` as a third argument.
class HeadedWebSocket extends WebSocket {
  constructor(address, protocols, options) {
    super(address, { protocols, headers: options?.headers });
  }
}

function start(url) {
  const env = { ...process.env, MODEGATE_CONTROL_TOKEN: process.env.ACP_TOKEN };
  const command = ["-m", "modegate", "acp", "--url", url];
  return spawn(process.env.ACP_PYTHON, command, { env, stdio: ["pipe", "pipe", "inherit"] });
}

function connect({ transport, url }, say) {
  const agent = transport === "stdio" ? start(url) : null;
  const streams = {
    http: () => createHttpStream(url, { headers }),
    ws: () => createWebSocketStream(url, { headers, WebSocket: HeadedWebSocket }),
    stdio: () => ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout)),
  };
  const stream = streams[transport]();
  const answers = new Map();
  let asked = 0;
  const app = client({ name: "modegate-tests" })
    .onNotification(methods.client.session.update, ({ params }) => say({ update: params }))
    .onRequest(methods.client.session.requestPermission, ({ params, signal }) => {
      const ask = ++asked;
      say({ ask, params });
      return new Promise((resolve, reject) => {
        answers.set(ask, (outcome) => resolve({ outcome }));
        signal.addEventListener("abort", () => {
          say({ withdrawn: ask });
          reject(signal.reason);
        });
      });
    });
  const connection = app.connect(stream);
  const closed = () => say({ closed: true });
  connection.closed.then(closed, closed);

  function obey({ n, call, params, notify, answer, outcome }) {
    if (call) {
      connection.agent.request(call, params).then(
        (result) => say({ n, result }),
        ({ code, message, data }) => say({ n, error: { code, message, data } }),
      );
    } else if (notify) {
      connection.agent.notify(notify, params);
    } else {
      answers.get(answer)(outcome);
    }
  }
  function close() {
    connection.close();
    agent?.kill();
  }
  return { obey, close };
}

const server = createServer((socket) => {
  let one;
  const say = (message) => socket.writable && socket.write(JSON.stringify(message) + "\n");
  socket.on("error", () => {});
  createInterface({ input: socket })
    .on("line", (line) => {
      const command = JSON.parse(line);
      if (one) one.obey(command);
      else one = connect(command, say);
    })
    .on("close", () => {
      one?.close();
      socket.end();
    });
});
server.listen(process.argv[2], () => console.log("ready"));
process.stdin.on("end", () => process.exit(0)).resume();
