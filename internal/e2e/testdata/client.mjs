// Drives an MCP server with the official TypeScript SDK. It reads {"sdk", "url", "token"} or {"sdk", "command",
// "args", "env"} together with "steps" ([{"tool", "arguments"}]) from standard input and writes what each step
// answered. An argument "$3.task_id" is a member of what step 3 answered. The SDK checks every answer against the
// output schema that the server declares.
import { pathToFileURL } from "node:url";
import { join } from "node:path";

let text = "";
for await (const chunk of process.stdin) text += chunk;
const given = JSON.parse(text);
const load = (file) => import(pathToFileURL(join(given.sdk, "dist", "esm", "client", file)));
const { Client } = await load("index.js");

let transport;
if (given.url) {
  const { StreamableHTTPClientTransport } = await load("streamableHttp.js");
  transport = new StreamableHTTPClientTransport(new URL(given.url), { requestInit: { headers: { Authorization: `Bearer ${given.token}` } } });
} else {
  const { StdioClientTransport } = await load("stdio.js");
  transport = new StdioClientTransport({ command: given.command, args: given.args, env: given.env, stderr: "inherit" });
}

const client = new Client({ name: "typescript", version: "1" });
await client.connect(transport);
const { tools } = await client.listTools();
const answers = [];
for (const step of given.steps) {
  const args = {};
  for (const [name, value] of Object.entries(step.arguments ?? {})) {
    const ref = typeof value === "string" && /^\$(\d+)\.(\w+)$/.exec(value);
    args[name] = ref ? answers[ref[1]].structured[ref[2]] : value;
  }
  let progress = 0;
  try {
    const r = await client.callTool({ name: step.tool, arguments: args }, undefined, { onprogress: () => progress++ });
    answers.push({ text: r.content.map((c) => c.text).join("\n"), error: r.isError === true, structured: r.structuredContent ?? {}, progress });
  } catch (e) {
    answers.push({ text: String(e), error: true, structured: {}, progress, thrown: true });
  }
}
const resources = await client.listResourceTemplates();
const prompts = await client.listPrompts();
await client.close();
process.stdout.write(JSON.stringify({ server: client.getServerVersion(), tools: tools.map((t) => t.name), answers,
  resources: resources.resourceTemplates.length, prompts: prompts.prompts.length }));
process.exit(0);
