// Runs programs that call tools, a line each, and tells a line each which calls they made.
// Twice: as a module, as Codex does, and as the body of an async function, as others do.
import { createInterface } from "node:readline";
import vm from "node:vm";

const BODY = "(async () => {\n";

async function run(source, asModule) {
  const calls = [];
  const traps = [];
  const result = (name) => {
    const one = { output: name, exit_code: 0, 0: { name: "n" } };
    return Object.assign([one, one], one);
  };
  const tools = new Proxy(
    {},
    {
      get: (_, name) => async (...given) => {
        calls.push([String(name), JSON.parse(JSON.stringify(given))]);
        return result(String(name));
      },
    },
  );
  const trap = (name) => () => void traps.push(name);
  const sandbox = { tools, text: () => {}, console: { log: () => {} } };
  for (const name of ["fetch", "require", "exit", "store", "load", "notify", "setTimeout", "print"]) {
    sandbox[name] = trap(name);
  }
  const context = vm.createContext(sandbox);
  const before = JSON.stringify(Object.getOwnPropertyNames(context).sort());
  let error = null;
  try {
    if (asModule) {
      const module = new vm.SourceTextModule(source, { context });
      await module.link(() => {
        throw new Error("no modules");
      });
      await module.evaluate({ timeout: 1000 });
    } else {
      await vm.runInContext(`${BODY}${source}\n})()`, context, { timeout: 1000 });
    }
  } catch (thrown) {
    error = String(thrown);
  }
  await new Promise((resolve) => setImmediate(resolve));
  if (JSON.stringify(Object.getOwnPropertyNames(context).sort()) !== before) traps.push("a global");
  return { calls, traps, error };
}

for await (const line of createInterface({ input: process.stdin })) {
  const source = JSON.parse(line);
  console.log(JSON.stringify([await run(source, true), await run(source, false)]));
}
