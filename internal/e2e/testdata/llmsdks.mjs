// Drives the official clients of model providers against servers that behave as the providers do. Standard input has
// where the clients and the servers are; standard output gets what came of each call, by name.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const given = JSON.parse(readFileSync(0, "utf8"));
const require = createRequire(join(given.folder, "index.js"));
const OpenAI = require("openai");
const Anthropic = require("@anthropic-ai/sdk");
const { Ollama } = require("ollama");

const results = {};

// take notes what a call returns, or as what it fails.
async function take(name, call) {
  try {
    results[name] = (await call()) ?? null;
  } catch (e) {
    results[name] = { class: e.constructor.name, status: e.status ?? null, code: e.code ?? null, type: e.type ?? null, message: String(e.message).slice(0, 300) };
  }
}

async function all(stream) {
  const list = [];
  for await (const chunk of stream) list.push(chunk);
  return list;
}

const user = (content) => [{ role: "user", content }];
const schema = { type: "object", additionalProperties: false, required: ["risks"], properties: { risks: { type: "array", items: { type: "string" } } } };

async function fault(url, body) {
  const res = await fetch(url + "/devllm/faults", { method: "POST", body: JSON.stringify(body) });
  if (!res.ok) throw new Error(await res.text());
}

async function openai() {
  const url = given.openai;
  const client = new OpenAI({ baseURL: url + "/v1", apiKey: "sk-made-up", maxRetries: 0 });
  const model = "gpt-dev";
  const tools = ["weather", "clock"].map((name) => ({ type: "function", function: { name, parameters: { type: "object", properties: {} } } }));
  await take("chat", async () => {
    const { data, response } = await client.chat.completions.create({ model, messages: user("Hello") }).withResponse();
    return { text: data.choices[0].message.content, usage: data.usage, left: response.headers.get("x-ratelimit-remaining-requests") };
  });
  await take("chat stream", async () => {
    const chunks = await all(await client.chat.completions.create({ model, messages: user("Hello"), stream: true, stream_options: { include_usage: true } }));
    return { text: chunks.map((c) => c.choices[0]?.delta?.content ?? "").join(""), usage: chunks.at(-1).usage, choices: chunks.at(-1).choices.length };
  });
  await take("chat three calls", async () => {
    const done = await client.chat.completions.stream({ model, messages: user("three"), tools }).finalChatCompletion();
    return done.choices[0].message.tool_calls.map((c) => [c.function.name, JSON.parse(c.function.arguments)]);
  });
  await take("chat tool loop", async () => {
    const messages = user("three");
    const first = await client.chat.completions.create({ model, messages, tools });
    messages.push(first.choices[0].message);
    for (const c of first.choices[0].message.tool_calls) messages.push({ role: "tool", tool_call_id: c.id, content: "7 degrees" });
    return (await client.chat.completions.create({ model, messages, tools })).choices[0].message.content;
  });
  await take("chat structured", async () => {
    const made = await client.chat.completions.parse({ model, messages: user("risks"), response_format: { type: "json_schema", json_schema: { name: "risks", strict: true, schema } } });
    return JSON.parse(made.choices[0].message.content);
  });
  await take("responses", async () => (await client.responses.create({ model, input: "Hello" })).output_text);
  await take("responses stream", async () => {
    const stream = client.responses.stream({ model, input: "three", tools: tools.map((t) => ({ type: "function", name: t.function.name, parameters: schema, strict: true })) });
    const done = await stream.finalResponse();
    return { status: done.status, calls: done.output.filter((i) => i.type === "function_call").map((c) => [c.name, JSON.parse(c.arguments)]), text: done.output_text, usage: done.usage };
  });
  await take("responses count", async () => {
    const counted = await client.responses.inputTokens.count({ model, input: "Hello there" });
    const made = await client.responses.create({ model, input: "Hello there" });
    return [counted.input_tokens, made.usage.input_tokens];
  });
  await take("embeddings", async () => {
    const made = await client.embeddings.create({ model: "text-embedding-dev", input: ["a", "a", "b"] });
    const [x, y, z] = made.data.map((d) => Array.from(d.embedding));
    return { dims: x.length, same: x.every((v, i) => v === y[i]), other: x.every((v, i) => v === z[i]) };
  });
  await take("models", async () => (await all(await client.models.list())).map((m) => m.id));

  await take("wrong key", () => new OpenAI({ baseURL: url + "/v1", apiKey: "sk-wrong", maxRetries: 0 }).chat.completions.create({ model, messages: user("x") }));
  await take("unknown model", () => client.chat.completions.create({ model: "gpt-none", messages: user("x") }));
  await take("too long", () => client.chat.completions.create({ model, messages: user("word ".repeat(130000)) }));
  for (const kind of ["500", "503", "529", "429", "quota", "html"]) {
    await fault(url, { kind });
    await take("fault " + kind, () => client.chat.completions.create({ model, messages: user("x") }));
  }
  for (const kind of ["cut", "malformed", "error-event"]) {
    await fault(url, { kind, after_events: 3 });
    await take("stream " + kind, async () => all(await client.chat.completions.create({ model, messages: user("x"), stream: true })));
    await fault(url, { kind, after_events: 3 });
    await take("responses " + kind, async () => all(await client.responses.create({ model, input: "x", stream: true })));
  }
  await fault(url, { kind: "429", count: 2, retry_after: "1s" });
  await take("retries", async () => (await client.chat.completions.create({ model, messages: user("retried") }, { maxRetries: 2 })).choices[0].finish_reason);
}

async function azure() {
  const url = given.azure;
  const client = new OpenAI.AzureOpenAI({ endpoint: url, apiKey: "made-up", apiVersion: "2026-01-01", deployment: "gpt-dev", maxRetries: 0 });
  await take("azure stream", async () => {
    const chunks = await all(await client.chat.completions.create({ model: "", messages: user("Hello"), stream: true }));
    return chunks.map((c) => c.choices[0]?.delta?.content ?? "").join("");
  });
  await fault(url, { kind: "429", retry_after: "300ms" });
  await take("azure retries", async () => (await client.chat.completions.create({ model: "", messages: user("retried") }, { maxRetries: 1 })).choices[0].finish_reason);
}

async function anthropic() {
  const url = given.anthropic;
  const client = new Anthropic({ baseURL: url, apiKey: "sk-made-up", maxRetries: 0 });
  const model = "claude-dev";
  const base = { model, max_tokens: 2000 };
  const tools = ["weather", "clock"].map((name) => ({ name, input_schema: { type: "object", properties: {} } }));
  await take("messages", async () => {
    const { data, response } = await client.messages.create({ ...base, messages: user("Hello") }).withResponse();
    return { text: data.content[0].text, stop: data.stop_reason, usage: data.usage, left: response.headers.get("anthropic-ratelimit-requests-remaining") };
  });
  await take("messages stream", async () => {
    const done = await client.messages.stream({ ...base, messages: user("Hello"), thinking: { type: "enabled", budget_tokens: 1024 } }).finalMessage();
    const again = await client.messages.create({ ...base, messages: [...user("Hello"), { role: "assistant", content: done.content }, ...user("more")] });
    return { kinds: done.content.map((b) => b.type), stop: done.stop_reason, output: done.usage.output_tokens, again: again.stop_reason };
  });
  await take("messages three calls", async () => {
    const done = await client.messages.stream({ ...base, messages: user("three"), tools }).finalMessage();
    return done.content.filter((b) => b.type === "tool_use").map((b) => [b.name, b.input]);
  });
  await take("messages tool loop", async () => {
    const first = await client.messages.create({ ...base, messages: user("three"), tools });
    const results = first.content.filter((b) => b.type === "tool_use").map((b) => ({ type: "tool_result", tool_use_id: b.id, content: "7 degrees" }));
    const next = await client.messages.create({ ...base, messages: [...user("three"), { role: "assistant", content: first.content }, { role: "user", content: results }], tools });
    return next.content[0].text;
  });
  await take("messages structured", async () => {
    const made = await client.messages.create({ ...base, messages: user("risks"), output_config: { format: { type: "json_schema", schema } } });
    return JSON.parse(made.content[0].text);
  });
  await take("messages count", async () => {
    const counted = await client.messages.countTokens({ model, messages: user("Hello there") });
    const made = await client.messages.create({ ...base, messages: user("Hello there") });
    return [counted.input_tokens, made.usage.input_tokens];
  });
  await take("messages cache", async () => {
    const system = [{ type: "text", text: "word ".repeat(1500), cache_control: { type: "ephemeral" } }];
    const first = await client.messages.create({ ...base, system, messages: user("Hello") });
    const second = await client.messages.create({ ...base, system, messages: user("Hello") });
    return [first.usage.cache_creation_input_tokens > 1000, second.usage.cache_read_input_tokens === first.usage.cache_creation_input_tokens];
  });
  await take("messages models", async () => (await all(await client.models.list())).map((m) => m.id));
  await take("messages wrong key", () => new Anthropic({ baseURL: url, apiKey: "sk-wrong", maxRetries: 0 }).messages.create({ ...base, messages: user("x") }));
  await take("messages unknown model", () => client.messages.create({ ...base, model: "claude-none", messages: user("x") }));
  await take("messages too long", () => client.messages.create({ ...base, messages: user("word ".repeat(210000)) }));
  for (const kind of ["500", "529", "429", "quota"]) {
    await fault(url, { kind });
    await take("messages fault " + kind, () => client.messages.create({ ...base, messages: user("x") }));
  }
  for (const kind of ["cut", "malformed", "error-event"]) {
    await fault(url, { kind, after_events: 4 });
    await take("messages stream " + kind, async () => all(await client.messages.create({ ...base, messages: user("x"), stream: true })));
  }
  await fault(url, { kind: "429", count: 2, retry_after: "1s" });
  await take("messages retries", async () => (await client.messages.create({ ...base, messages: user("retried") }, { maxRetries: 2 })).stop_reason);
}

async function ollama() {
  const client = new Ollama({ host: given.ollama });
  const model = "llama-dev:3b";
  await take("ollama stream", async () => {
    const chunks = await all(await client.chat({ model, messages: user("Hello"), stream: true }));
    return { text: chunks.map((c) => c.message.content).join(""), done: chunks.at(-1).done_reason, counts: [chunks.at(-1).prompt_eval_count, chunks.at(-1).eval_count] };
  });
  await take("ollama three calls", async () => (await client.chat({ model, messages: user("three") })).message.tool_calls.map((c) => [c.function.name, c.function.arguments]));
  await take("ollama structured", async () => JSON.parse((await client.chat({ model, messages: user("risks"), format: schema })).message.content));
  await take("ollama embed", async () => (await client.embed({ model: "nomic-embed-dev", input: ["a", "b"] })).embeddings.map((v) => v.length));
  await take("ollama models", async () => (await client.list()).models.map((m) => m.name));
  await take("ollama unknown model", () => client.chat({ model: "none", messages: user("x") }));
}

console.error = () => {}; // the clients say there what they throw as well
await openai();
await azure();
await anthropic();
await ollama();
console.log(JSON.stringify(results));
