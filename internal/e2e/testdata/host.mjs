// Hosts a process of AgentKernel in plain JavaScript: a whole implementation of docs/hosted.md, without packages. host() runs an
// async function as a process. When the connection breaks or the kernel dies, it attaches again, and the function notices nothing;
// when this program dies, run it again: calls that were made are answered from the journal.
//
// Started by itself it is the program of a test: node host.mjs '{"socket": ..., "spec": ..., "lanes": 3, "rounds": 10, "path": ...}'
import http from "node:http";
import { fileURLToPath } from "node:url";

const API = "/api/v1";
const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const terminal = (p) => ["exited", "failed", "killed"].includes(p.state);

// KernelError is an error answer: {code, message, hint, ...}.
export class KernelError extends Error {
  constructor(answer) {
    super(answer.message);
    Object.assign(this, answer);
  }
}

// A lane is what runs one after the other. Its calls are numbered; what runs beside it gets a branch of its own.
class Lane {
  calls = 0;
  branches = 0;

  constructor(host, name) {
    this.host = host;
    this.name = name;
  }

  branch() {
    const k = ++this.branches;
    return new Lane(this.host, this.name ? `${this.name}.${k}` : `${k}`);
  }

  call(op, args = {}) {
    return this.host.issue({ lane: this.name, n: ++this.calls, op, args });
  }
}

class Host {
  unanswered = new Map(); // lines by their place, in the order in which they were made; the end has the place "end"
  epoch = 0; // of the last attachment
  socket = null; // the connection; null: there is none

  constructor(path, pid) {
    this.path = path;
    this.pid = pid;
    this.ended = new Promise((resolve, reject) => Object.assign(this, { resolve, reject }));
  }

  issue(call) {
    return new Promise((resolve, reject) => this.send(`${call.n}@${call.lane}`, call, { resolve, reject }));
  }

  send(place, message, waiting) {
    const line = JSON.stringify(message) + "\n";
    this.unanswered.set(place, { line, ...waiting });
    this.write(line);
  }

  write(line) {
    this.said = true;
    this.socket?.write(line);
  }

  // attach returns when this program is the host, or the process has ended. A first attachment may find the host before not gone yet.
  async attach() {
    for (let wait = 10; ; wait = Math.min(2 * wait, 1000)) {
      try {
        const now = await request(this.path, "GET", `/processes/${this.pid}`);
        if (terminal(now)) return this.resolve(now);
        return this.take(await upgrade(this.path, `/processes/${this.pid}/host${this.epoch ? `?epoch=${this.epoch}` : ""}`));
      } catch (e) {
        if (e instanceof KernelError && !["conflict", "unavailable"].includes(e.code)) return this.reject(e);
      }
      await pause(wait);
    }
  }

  // take reads the lines of a connection, and says something each beat. What has no answer yet is sent again.
  take(socket) {
    let text = "";
    let silent = 0; // beats without a word
    let beats;
    socket.setEncoding("utf8");
    socket.on("error", () => {}); // "close" follows
    socket.on("close", () => {
      clearInterval(beats);
      if (this.socket === socket) this.socket = null;
      if (!this.over) this.attach();
    });
    socket.on("data", (chunk) => {
      silent = 0;
      const lines = (text + chunk).split("\n");
      text = lines.pop();
      for (const line of lines) {
        const message = JSON.parse(line);
        if (message.attached) {
          this.epoch = message.attached.epoch;
          beats = setInterval(() => {
            if (++silent > 3) return socket.destroy();
            if (!this.said) this.write("{}\n");
            this.said = false;
          }, 1000 * message.attached.beat);
          this.socket = socket;
          for (const { line } of this.unanswered.values()) this.write(line);
        } else {
          this.hear(message);
        }
      }
    });
  }

  hear(message) {
    if (message.ended) {
      this.over = true;
      this.resolve(message.ended);
    } else if (message.failure && !["unavailable", "timeout"].includes(message.failure.code)) {
      this.over = true;
      this.reject(new KernelError(message.failure));
    } else if (message.n) {
      const place = `${message.n}@${message.lane}`;
      const call = this.unanswered.get(place);
      this.unanswered.delete(place);
      if (message.error) call?.reject(new KernelError(message.error));
      else call?.resolve(message.result);
    }
  }
}

// read reads an answer; an error answer is thrown.
async function read(res) {
  let text = "";
  for await (const chunk of res.setEncoding("utf8")) text += chunk;
  const answer = JSON.parse(text);
  if (res.statusCode < 300) return answer;
  throw new KernelError(answer);
}

// request makes an ordinary request.
function request(socketPath, method, path, body) {
  return new Promise((resolve, reject) => {
    const headers = { "Content-Type": "application/json" };
    const req = http.request({ socketPath, method, path: API + path, headers }, (res) => read(res).then(resolve, reject));
    req.on("error", reject);
    req.end(body && JSON.stringify(body));
  });
}

// upgrade makes a connection that is the host's.
function upgrade(socketPath, path) {
  return new Promise((resolve, reject) => {
    const req = http.request({ socketPath, path: API + path, headers: { Connection: "Upgrade", Upgrade: "agentkernel-host" } });
    req.on("upgrade", (res, socket, head) => {
      socket.unshift(head); // lines that came at once
      resolve(socket);
    });
    req.on("response", (res) => read(res).then(reject, reject));
    req.on("error", reject);
    req.end();
  });
}

// host runs an async function as the process of a Spec, which has an idempotency key. It returns the process as it ended.
export async function host(socketPath, spec, program) {
  let created;
  for (let wait = 10; !created; wait = Math.min(2 * wait, 1000)) {
    try {
      created = await request(socketPath, "POST", "/processes", { ...spec, backend: "hosted" }); // the same one if it is there
    } catch (e) {
      if (e instanceof KernelError && e.code !== "unavailable") throw e;
      await pause(wait);
    }
  }
  if (terminal(created)) return created;
  const h = new Host(socketPath, created.pid);
  await h.attach();
  program(new Lane(h, "")).then(
    (result) => h.send("end", { end: { result: result ?? null } }),
    (e) => h.send("end", { end: { error: { message: e.message, exception: e.name, traceback: e.stack } } }),
  );
  return h.ended;
}

// The program of a test: in each round it waits for a user signal, and writes a line in each of some lanes. It returns the lines of
// which nobody knows whether they were written.
async function writer(main, { lanes, rounds, path }) {
  const branches = Array.from({ length: lanes }, () => main.branch());
  const unknown = [];
  for (let round = 0; round < rounds; round++) {
    await main.call("signals.wait");
    await Promise.all(
      branches.map(async (lane, i) => {
        const text = `lane ${i} line ${round}`;
        try {
          await lane.call("tool.call", { server: "lines", tool: "append_line", arguments: { path, text } });
        } catch (e) {
          if (e.code !== "outcome_unknown") throw e;
          unknown.push(text);
        }
      }),
    );
  }
  return unknown;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const given = JSON.parse(process.argv[2]);
  const ended = await host(given.socket, given.spec, (main) => writer(main, given));
  console.log(JSON.stringify(ended));
}
