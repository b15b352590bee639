// Values as they are written between kernel and programs (docs/values.md).
"use strict";

/** encode writes a value; undefined members are left out, as JSON.stringify does. */
function encode(v, above = []) {
  switch (typeof v) {
    case "string":
      return JSON.stringify(v.toWellFormed ? v.toWellFormed() : v.replace(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, "\ufffd"));
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
      break;
    default:
      throw new TypeError(`a ${typeof v} cannot be handed to the kernel`);
  }
  if (v === null) return "null";
  if (above.includes(v)) throw new TypeError("a value that holds itself cannot be handed to the kernel");
  const inside = [...above, v];
  const list = (items) => "[" + Array.from(items, (x) => encode(x, inside)).join(",") + "]";
  if (Array.isArray(v)) return list(v);
  if (v instanceof Uint8Array) return `{"$bytes":${JSON.stringify(Buffer.from(v.buffer, v.byteOffset, v.byteLength).toString("base64"))}}`;
  if (v instanceof Date) return encode(Number.isNaN(v.getTime()) ? null : v.toISOString());
  if (v instanceof Set) return `{"$set":${list(v)}}`;
  if (v instanceof Map) return `{"$dict":${list(v)}}`;
  if (typeof v.toJSON === "function") return encode(v.toJSON(), inside);
  const entries = Object.entries(v).filter(([, x]) => x !== undefined && typeof x !== "function" && typeof x !== "symbol");
  if (entries.some(([k]) => k.startsWith("$"))) return `{"$dict":${list(entries)}}`;
  return "{" + entries.map(([k, x]) => JSON.stringify(k) + ":" + encode(x, inside)).join(",") + "}";
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
