// Values as they are written between kernel and programs (docs/values.md).
"use strict";

const { types } = require("node:util");

const MAX_DEPTH = 200;
const half = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/;

/** refuse is the error of a value that cannot leave the program. */
function refuse(text) {
  return Object.assign(new TypeError("invalid_argument: " + text), { code: "invalid_argument" });
}

function text(s) {
  if (s.isWellFormed ? !s.isWellFormed() : half.test(s)) throw refuse("a text holds half of a surrogate pair and is not UTF-8");
  return JSON.stringify(s);
}

/** repr stands for a value that JSON cannot hold, as docs/values.md has it. */
const repr = (s) => `{"$repr":${text(s)}}`;

const bytes = (b) => `{"$bytes":"${b.toString("base64")}"}`;

/** encode writes a value; undefined members are left out, as JSON.stringify does. */
function encode(v, above = []) {
  switch (typeof v) {
    case "string":
      return text(v);
    case "boolean":
    case "bigint":
      return String(v);
    case "undefined":
      return "null";
    case "number":
      if (Number.isNaN(v)) return '{"$float":"nan"}';
      if (!Number.isFinite(v)) return v > 0 ? '{"$float":"inf"}' : '{"$float":"-inf"}';
      return Object.is(v, -0) ? "-0.0" : String(v);
    case "object":
      return v === null ? "null" : compound(v, above);
    case "function":
      return repr(`<function ${v.name || "(anonymous)"}>`);
    default:
      return repr(String(v)); // a symbol
  }
}

function compound(v, above) {
  if (above.includes(v)) throw refuse("a value that holds itself cannot be handed to the kernel");
  if (above.length >= MAX_DEPTH) throw refuse(`a value is nested deeper than ${MAX_DEPTH} levels`);
  const inside = [...above, v];
  const list = (items) => "[" + Array.from(items, (x) => encode(x, inside)).join(",") + "]";
  if (Array.isArray(v) || types.isArgumentsObject(v)) return list(v);
  if (v instanceof Uint8Array || types.isDataView(v)) return bytes(Buffer.from(v.buffer, v.byteOffset, v.byteLength));
  if (types.isAnyArrayBuffer(v)) return bytes(Buffer.from(v));
  if (ArrayBuffer.isView(v)) return list(v); // numbers of another kind
  if (types.isDate(v)) return Number.isNaN(v.getTime()) ? repr("Invalid Date") : encode(v.toISOString());
  if (v instanceof Set) return `{"$set":${list(v)}}`;
  if (v instanceof Map) return `{"$dict":${list(v)}}`;
  if (types.isBoxedPrimitive(v)) return encode(v.valueOf(), inside);
  if (typeof v.toJSON === "function") return encode(v.toJSON(), inside);
  if (v instanceof Error || types.isNativeError(v)) return `{"$exception":{"type":${text(String(v.name || "Error"))},"arg":${v.message ? text(String(v.message)) : "null"}}}`;
  if (types.isRegExp(v)) return repr(String(v));
  const tag = Object.prototype.toString.call(v);
  const entries = Object.entries(v).filter(([, x]) => x !== undefined);
  if (types.isModuleNamespaceObject(v) || (entries.length === 0 && tag !== "[object Object]")) return repr(tag); // what it has, a promise for one, is no member
  if (entries.some(([k]) => k.startsWith("$"))) return `{"$dict":${list(entries)}}`;
  return "{" + entries.map(([k, x]) => text(k) + ":" + encode(x, inside)).join(",") + "}";
}

const floats = { nan: NaN, inf: Infinity, "-inf": -Infinity };

const special = {
  $float: (x) => floats[x],
  $bytes: (x) => Buffer.from(x, "base64"),
  $tuple: (x) => x.map(decode),
  $set: (x) => new Set(x.map(decode)),
  $frozenset: (x) => new Set(x.map(decode)),
  $dict: (x) => {
    const pairs = x.map((p) => p.map(decode));
    return pairs.every(([k]) => typeof k === "string") ? Object.fromEntries(pairs) : new Map(pairs);
  },
  $repr: (x) => x,
  $object: (x) => decode(x.fields),
  $exception: (x) => Object.assign(new Error(x.arg ?? ""), { name: x.type }),
  $datetime: (x) => new Date(/[zZ]|[+-]\d\d:\d\d(:\d\d)?$/.test(x) ? x : x + "Z"),
};

/** decode turns what the kernel wrote into values of JavaScript; forms that have no equal stay as they are. */
function decode(v) {
  if (v === null || typeof v !== "object") return v;
  if (Array.isArray(v)) return v.map(decode);
  const keys = Object.keys(v);
  if (keys.length === 1 && Object.hasOwn(special, keys[0])) return special[keys[0]](v[keys[0]]);
  const out = {};
  for (const k of keys) Object.defineProperty(out, k, { value: decode(v[k]), enumerable: true, writable: true, configurable: true });
  return out;
}

module.exports = { encode, decode };
