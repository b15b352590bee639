// The kernel as programs in Node.js have it. It is loaded before the program (node --require) and is the same object
// for import and require. A call is sent when the function is called and gives a promise; results are handed over one
// at a turn of the event loop.
"use strict";
const fs = require("node:fs");
const net = require("node:net");
const path = require("node:path");
const { spawnSync } = require("node:child_process");
const values = require("./values.cjs");
const errors = require("./errors.cjs");

const FD = 4; // internal/sandbox/process: streamFD
const HEAD = 5; // length, 4 bytes, little endian; kind
const JSON_KIND = 0x7b;

const pending = new Map(); // number of a call -> {resolve, reject}
let last = 0;
let socket = null;
let buffered = [];
let size = 0;
const ready = []; // answers that were not handed over yet
let handing = false;

function frame(text) {
  const payload = Buffer.from(text, "utf8");
  const head = Buffer.alloc(HEAD);
  head.writeUInt32LE(payload.length, 0);
  head[4] = JSON_KIND;
  return Buffer.concat([head, payload]);
}

function connect() {
  if (socket) return socket;
  socket = new net.Socket({ fd: FD, readable: true, writable: true });
  socket.on("data", received);
  socket.on("error", lost);
  socket.on("close", () => lost(new Error("the kernel has hung up")));
  socket.unref();
  return socket;
}

function lost(cause) {
  for (const { reject } of pending.values()) reject(new errors.KernelError("unavailable", String(cause.message || cause)));
  pending.clear();
}

function received(chunk) {
  buffered.push(chunk);
  size += chunk.length;
  while (size >= HEAD) {
    if (buffered.length > 1 && buffered[0].length < HEAD) buffered = [Buffer.concat(buffered)];
    const length = buffered[0].readUInt32LE(0);
    if (size < HEAD + length) return;
    if (buffered.length > 1) buffered = [Buffer.concat(buffered)];
    const all = buffered[0];
    ready.push(all.subarray(HEAD, HEAD + length));
    buffered = [all.subarray(HEAD + length)];
    size -= HEAD + length;
  }
  handOver();
}

// handOver gives one answer to whoever waits for it; what follows from it runs before the next one.
function handOver() {
  if (handing || ready.length === 0) return;
  handing = true;
  const m = JSON.parse(ready.shift().toString("utf8"));
  const waiter = pending.get(m.id);
  pending.delete(m.id);
  if (pending.size === 0) socket.unref();
  if (waiter && m.error) waiter.reject(errors.make(m.error, waiter.from));
  else if (waiter) waiter.resolve(values.decode(m.result === undefined ? null : m.result));
  setImmediate(() => {
    handing = false;
    handOver();
  });
}

/** call makes a system call by its name: call("time.now", {}). */
function call(op, args) {
  const from = {};
  Error.captureStackTrace(from, call);
  let text;
  try {
    text = values.encode(args === undefined ? {} : args);
  } catch (e) {
    Error.captureStackTrace(e, call);
    return Promise.reject(e);
  }
  const id = ++last;
  connect().ref();
  const answer = new Promise((resolve, reject) => pending.set(id, { resolve, reject, from }));
  socket.write(frame(`{"type":"call","id":${id},"op":${JSON.stringify(String(op))},"args":${text},"async":true}`));
  return answer;
}

// named makes arguments of what was given in order. With options a last object has the others by name.
function named(params, given, what, options) {
  const more = given[given.length - 1];
  const find = (name) => params.findIndex((p) => p === name || camel(p) === name);
  const byName = options && given.length > 1 && plain(more) && Object.keys(more).every((name) => find(name) >= given.length - 1);
  if (byName) given = given.slice(0, -1);
  if (given.length > params.length) throw new TypeError(`${what}(${params.join(", ")}) was called with ${given.length} arguments`);
  const args = {};
  given.forEach((v, i) => {
    if (v !== undefined) args[params[i]] = v;
  });
  if (byName) for (const [name, v] of Object.entries(more)) args[params[find(name)]] = v;
  return args;
}

const camel = (name) => name.replace(/_+([a-z0-9])/g, (_, c) => c.toUpperCase());

/** Stream is an answer that comes bit by bit: for await (const piece of llm.stream("...")). Who leaves the loop closes it. */
class Stream {
  #open = true;
  constructor(handle) {
    this.handle = handle;
  }
  async *[Symbol.asyncIterator]() {
    try {
      for (;;) {
        const items = await call("stream.next", { handle: this.handle });
        if (items.length === 0) break;
        yield* items;
      }
      this.#open = false;
    } finally {
      await this.close();
    }
  }
  /** close ends the answer; nothing happens if it has ended. */
  async close() {
    if (!this.#open) return;
    this.#open = false;
    await call("stream.close", { handle: this.handle });
  }
}

// streamed makes a stream of what a call answers. It can be iterated over at once, or awaited first.
function streamed(answer) {
  const stream = answer.then((handle) => new Stream(handle));
  stream[Symbol.asyncIterator] = async function* () {
    yield* await stream;
  };
  return stream;
}

const shapes = { "llm.stream": streamed };

// syscalls makes the functions of the module "kernel" of the table of system calls: {name, guest, params, bare}; with
// bare the name of its family alone makes the call, too, and those of the family take options.
function syscalls(table) {
  const kernel = { call, result, ...errors };
  const taking = new Set(table.filter((c) => c.bare).map((c) => c.guest.split(".")[0]));
  for (const { name, guest, params, bare } of table) {
    const words = guest.split(".");
    const verb = words.pop();
    const shape = shapes[name] ?? ((answer) => answer);
    const fn = (...given) => {
      try {
        return shape(call(name, named(params, given, guest, taking.has(words[0]))));
      } catch (e) {
        return shape(Promise.reject(e));
      }
    };
    Object.defineProperty(fn, "name", { value: verb });
    let at = kernel;
    for (const w of words) at = at[w] || (at[w] = bare ? (...given) => fn(...given) : {});
    at[verb] = at[camel(verb)] = fn;
  }
  return kernel;
}

const plain = (v) => v !== null && typeof v === "object" && [Object.prototype, null].includes(Object.getPrototypeOf(v));

/** tool makes the function of a tool: it takes one object of arguments, or arguments in their order. */
function tool(server, name, params) {
  return (...given) => {
    try {
      const args = given.length === 1 && plain(given[0]) ? given[0] : named(params, given, name);
      return call("tool.call", { server, tool: name, arguments: args });
    } catch (e) {
      return Promise.reject(e);
    }
  };
}

let outcome; // what result() was told

/** result sets the result of the process: what `run --json` and a parent that waits are given. */
function result(value) {
  values.encode(value); // here, and not at the end, it can be said what is wrong
  outcome = value;
}

function sendNow(text) {
  let rest = frame(text);
  for (let tries = 0; rest.length > 0 && tries < 10000; tries++) {
    try {
      rest = rest.subarray(fs.writeSync(FD, rest));
    } catch (e) {
      if (e.code !== "EAGAIN") return;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
    }
  }
}

const ROOT = "/program/app/";
const tidy = (text) =>
  text
    .split("\n")
    .filter((l) => !/^\s+at .*(node:internal|\/agentkernel\/node\/)/.test(l))
    .join("\n")
    .replaceAll("file://" + ROOT, "")
    .replaceAll(ROOT, "");

// whereSyntax gives what Node says of the first of the program's files that does not parse; "" if all do.
function whereSyntax() {
  const sources = fs.readdirSync(ROOT, { recursive: true }).filter((f) => /\.[cm]?js$/.test(f) && !f.startsWith("node_modules/"));
  for (const f of sources) {
    const { status, stderr } = spawnSync(process.execPath, ["--check", ROOT + f], { encoding: "utf8", timeout: 10000 });
    if (status) return tidy(stderr).replace(/\n\nNode\.js v[^\n]*\s*$/, "");
  }
  return "";
}

const STRUCK = { EMFILE: "open_files", EFBIG: "file_size", ENOSPC: "tmp" };

// struck is the limit of the walls that the system answered with an error; "" if it is none.
function struck(error) {
  const { code, syscall, message } = error ?? {};
  if (code === "EAGAIN" && /^(spawn|fork)/.test(String(syscall))) return "pids";
  if (code === "ERR_WORKER_INIT_FAILED" && String(message).includes("EAGAIN")) return "pids";
  return STRUCK[code] ?? "";
}

function uncaught(error) {
  if (process.listenerCount("uncaughtException") > 1) return; // the program looks after it
  const isError = error !== null && typeof error === "object" && typeof error.stack === "string";
  const exception = isError ? String(error.name || "Error") : "Error";
  const message = isError ? String(error.message) : `uncaught: ${typeof error === "object" ? JSON.stringify(error) : String(error)}`;
  let traceback = isError ? tidy(error.stack) : message;
  const where = error instanceof SyntaxError && !traceback.includes("\n    at ") ? whereSyntax() : "";
  if (where) traceback = where;
  sendNow(JSON.stringify({ type: "fail", exception, message: `${exception}: ${tidy(message)}`, traceback, limit: struck(error), syntax: where !== "" }));
  process.reallyExit(1);
}

function start() {
  process.on("uncaughtException", uncaught);
  process.on("exit", (code) => {
    if (outcome !== undefined && code === 0) sendNow(`{"type":"exit","code":0,"result":${values.encode(outcome)}}`);
  });
}

if (require.main !== module) start();
module.exports = { call, tool, syscalls, directory: path.dirname(__filename) };
