// The errors of system calls (docs/errors.md). code is the kernel's, message always "code: text".
"use strict";

class KernelError extends Error {
  constructor(code, text) {
    super(text);
    this.code = code;
  }
  get name() {
    return this.constructor.name;
  }
}
class ToolError extends KernelError {}
class PermissionError extends KernelError {}
class LimitError extends KernelError {}
class OutcomeUnknown extends KernelError {}
class SessionLost extends KernelError {}
class KernelInterrupt extends KernelError {}
class TimeoutError extends KernelError {}

const known = { ToolError, PermissionError, LimitError, OutcomeUnknown, SessionLost, KernelInterrupt, TimeoutError };

// make makes the error of a reply; from is where the call was made.
function make({ exception, code, text }, from) {
  const e = new (known[exception] || KernelError)(code, text);
  const at = String(from.stack).split("\n").slice(1);
  e.stack = [`${e.name}: ${text}`, ...at].join("\n");
  return e;
}

module.exports = { KernelError, ...known };
Object.defineProperty(module.exports, "make", { value: make, enumerable: false });
