// What the SDKs for Node make of an answer's bytes: one JSON line in for each answer, one out.
//
//   in:  {"api": "chat", "streamed": true, "body": "<base64>", "size": 0, "tools": ["read", ...]}
//   out: {"calls": {"openai": [["read", "{\"path\":1}"], ...]}, "errors": {"ai-openai": "..."}}
//
// A call is what an agent that uses the SDK could run: a name, and arguments as a text that the agent
// parses, or as an object in `{"value": ...}` where the SDK has parsed them.

import readline from "node:readline";

import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import Anthropic from "@anthropic-ai/sdk";
import { ChatOpenAI } from "@langchain/openai";
import { generateText, jsonSchema, streamText, tool } from "ai";
import OpenAI from "openai";

globalThis.AI_SDK_LOG_WARNINGS = false;
for (const name of ["log", "info", "warn", "error", "debug"]) console[name] = () => {};
// SDKs reject promises that nobody looks at once a stream fails.
process.on("unhandledRejection", () => {});

const USER = [{ role: "user", content: "hello" }];
const SECONDS = 20;

let answer; // The one that is looked at now.

function pieces(body, size) {
  const step = size || body.length || 1;
  let at = 0;
  return new ReadableStream({
    pull(controller) {
      if (at >= body.length) return controller.close();
      controller.enqueue(body.subarray(at, at + step));
      at += step;
    },
  });
}

const fetch = async () =>
  new Response(pieces(Buffer.from(answer.body, "base64"), answer.size), {
    headers: { "content-type": answer.streamed ? "text/event-stream" : "application/json" },
  });

const settings = { baseURL: "http://127.0.0.1/v1", apiKey: "k", fetch };
const openai = new OpenAI({ ...settings, maxRetries: 0 });
const anthropic = new Anthropic({ ...settings, baseURL: "http://127.0.0.1", maxRetries: 0 });
const chain = (useResponsesApi) =>
  new ChatOpenAI({
    model: "m", apiKey: "k", maxRetries: 0, streamUsage: false, useResponsesApi,
    configuration: { baseURL: settings.baseURL, fetch },
  });
const chains = { chat: chain(false), responses: chain(true) };
const models = {
  chat: {
    "ai-openai": createOpenAI(settings).chat("m"),
    "ai-compatible": createOpenAICompatible({ ...settings, name: "c" })("m"),
  },
  responses: { "ai-openai": createOpenAI(settings).responses("m") },
  messages: { "ai-anthropic": createAnthropic(settings)("m") },
};

// Reads that go to a prototype find what an SDK assigned there.
function parsed(name, value) {
  const seen = {};
  for (const key in value) Object.defineProperty(seen, key, { value: value[key], enumerable: true });
  const own = Object.keys(value ?? {}).length === Object.keys(seen).length;
  return own ? [[name, { value }]] : [[name, { value }], [name, { value: seen }]];
}

function chatCalls(message) {
  const calls = [];
  for (const call of message?.tool_calls ?? []) {
    if (!call) continue;
    const { name, arguments: given } = call.function ?? {};
    if (call.function) calls.push([name, typeof given === "object" ? { value: given } : given]);
    if (call.custom) calls.push([call.custom.name, { value: { input: call.custom.input } }]);
  }
  const legacy = message?.function_call;
  if (legacy) calls.push([legacy.name, legacy.arguments]);
  return calls;
}

const FREE = { shell_call: "action", local_shell_call: "action", computer_call: "action", apply_patch_call: "operation" };

function itemCalls(item) {
  if (item?.type === "function_call") return [[item.name, item.arguments]];
  if (item?.type === "custom_tool_call") return [[item.name, { value: { input: item.input } }]];
  if (FREE[item?.type]) return [[item.type, { value: item[FREE[item.type]] }]];
  return [];
}

const blockCalls = (block) => (block?.type === "tool_use" ? parsed(block.name, block.input) : []);

async function chat(calls) {
  const asked = { model: "m", messages: USER };
  if (!answer.streamed) {
    const done = await openai.chat.completions.create(asked);
    for (const choice of done.choices ?? []) calls.push(...chatCalls(choice?.message));
    return;
  }
  const stream = openai.chat.completions.stream(asked);
  stream.on("tool_calls.function.arguments.done", (call) => calls.push([call.name, call.arguments]));
  const done = await stream.finalChatCompletion();
  for (const choice of done.choices ?? []) calls.push(...chatCalls(choice?.message));
}

async function responses(calls) {
  const asked = { model: "m", input: "hello" };
  if (!answer.streamed) {
    const done = await openai.responses.create(asked);
    for (const item of done.output ?? []) calls.push(...itemCalls(item));
    return;
  }
  const stream = openai.responses.stream(asked);
  stream.on("response.output_item.done", (event) => calls.push(...itemCalls(event.item)));
  const done = await stream.finalResponse();
  for (const item of done.output ?? []) calls.push(...itemCalls(item));
}

async function messages(calls) {
  const asked = { model: "m", max_tokens: 9, messages: USER };
  if (!answer.streamed) {
    const done = await anthropic.messages.create(asked);
    for (const block of done.content ?? []) calls.push(...blockCalls(block));
    return;
  }
  const stream = anthropic.messages.stream(asked);
  stream.on("contentBlock", (block) => calls.push(...blockCalls(block)));
  const done = await stream.finalMessage();
  for (const block of done.content ?? []) calls.push(...blockCalls(block));
}

const native = { chat: ["openai", chat], responses: ["openai", responses], messages: ["anthropic", messages] };

async function ai(model, calls) {
  const inputSchema = jsonSchema({ type: "object" }, { validate: (value) => ({ success: true, value }) });
  const tools = {};
  for (const name of answer.tools) {
    const execute = (input) => void calls.push(...parsed(name, input));
    tools[name] = tool({ inputSchema, execute });
  }
  const asked = { model, tools, prompt: "hello", maxRetries: 0 };
  if (!answer.streamed) return void (await generateText(asked));
  let failed;
  await streamText({ ...asked, onError: ({ error }) => (failed = error) }).consumeStream();
  if (failed) throw failed;
}

async function langchain(model, calls) {
  let message;
  if (answer.streamed) {
    for await (const chunk of await model.stream("hello")) message = message ? message.concat(chunk) : chunk;
  } else {
    message = await model.invoke("hello");
  }
  for (const call of message?.tool_calls ?? []) calls.push(...parsed(call.name, call.args));
  for (const block of message?.contentBlocks ?? [])
    if (block?.type === "tool_call") calls.push(...parsed(block.name, block.args));
  const legacy = message?.additional_kwargs?.function_call;
  if (legacy) calls.push([legacy.name, legacy.arguments]);
}

async function look() {
  const { api } = answer;
  const [name, read] = native[api];
  const judges = { [name]: read };
  for (const [key, model] of Object.entries(models[api])) judges[key] = (calls) => ai(model, calls);
  if (chains[api]) judges.langchain = (calls) => langchain(chains[api], calls);
  const told = { calls: {}, errors: {} };
  for (const [key, judge] of Object.entries(judges)) {
    const calls = (told.calls[key] = []);
    let timer;
    const late = new Promise((_, no) => { timer = setTimeout(() => no(new Error("it never ends")), SECONDS * 1000); });
    try {
      await Promise.race([judge(calls), late]);
    } catch (error) {
      told.errors[key] = String(error?.message ?? error).slice(0, 300);
    } finally {
      clearTimeout(timer);
    }
  }
  return told;
}

for await (const line of readline.createInterface({ input: process.stdin })) {
  answer = JSON.parse(line);
  process.stdout.write(JSON.stringify(await look()) + "\n");
}
