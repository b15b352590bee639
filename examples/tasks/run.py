"""Tasks in plain language, from the sentence to the result: some alone, three in the background, a hundred at the same time. From the root of the
repository (after make demo):

    python3 examples/tasks/run.py

`agentkernel do` does each of the first kind, the tools dispatch_background_task and wait_for_background_task of `agentkernel mcp` the others. No model is
asked: `agentkernel devllm` answers by answers.yaml. So this proves plumbing, not intelligence. With a model of yours (docs/llm.md) the same commands, which
are printed, ask it. Beside the tools (mcp.json) there are fifty web pages, which this program serves, and files that it writes below examples/data/tasks:
sales_data.csv has 100,000 rows, and another one 10,000. With --full they have what the sentences say, 10 million (400 MB) and a million.
"""

import argparse
import http.server
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import xml.etree.ElementTree as ElementTree
from pathlib import Path

HERE = Path(os.path.relpath(Path(__file__).parent))
DATA = HERE.parent / "data" / "tasks"
TOOLS = str(HERE / "mcp.json")
sys.path.insert(0, str(HERE.parent / "mcp"))
from client import Client  # noqa: E402 (a client of agentkernel mcp in fifty lines)

COMMAND = os.environ.get("AGENTKERNEL_COMMAND", "./agentkernel")


def write_sales(path: Path, rows: int) -> None:
    """Writes orders of a year, more of them in the later months: whole months of equal lines, so that it takes no time to make ten million."""
    with path.open("w") as f:
        f.write("date,order,region,product,quantity,unit_price\n")
        parts = sum(range(20, 32))
        for month in range(1, 13):
            n = rows * (19 + month) // parts if month < 12 else rows - sum(rows * (19 + m) // parts for m in range(1, 12))
            lines = [f"2025-{month:02d}-{day:02d},{day:07d},north,dock,{day % 5 + 1},{100 + day}.50\n" for day in range(1, 26)]
            f.write("".join(lines) * (n // 25) + "".join(lines[:n % 25]))


def write_data(full: bool) -> None:
    shutil.rmtree(DATA, ignore_errors=True)
    for name in ("sales", "background", "files", "charts"):
        (DATA / name).mkdir(parents=True)
    write_sales(DATA / "sales" / "sales_data.csv", 10_000_000 if full else 100_000)
    with (DATA / "background" / "rows.csv").open("w") as f:
        f.write("id,reading\n")
        f.writelines(f"{i},{i % 997 / 8}\n" for i in range(1_000_000 if full else 10_000))
    for i in range(100):
        (DATA / "files" / f"file_{i}.csv").write_text("name,value\n" + "".join(f"n{k},{k * i}\n" for k in range(1, 11)))


class Sites(http.server.BaseHTTPRequestHandler):
    """Fifty shops, each with one price."""

    asked: list = []

    def do_GET(self) -> None:
        n = int(self.path.rpartition("-")[2])
        self.asked.append(n)
        page = f'<html><head><title>Shop {n}</title></head><body>A dock: <b class="price">{(n * 37) % 50 + 100}.90</b></body></html>'.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, *_: object) -> None:
        pass


def do(sentence: str, *flags: str) -> int:
    """Does a task and shows its result; returns its pid."""
    command = [COMMAND, "do", sentence, *flags]
    print("$", shlex.join(["agentkernel", *command[1:]]))
    ended = subprocess.run([*command, "--json"], stdout=subprocess.PIPE, text=True, encoding="utf-8")
    answer = json.loads(ended.stdout.splitlines()[-1])  # before it is a line for each step
    print(answer.get("stderr", ""), end="", file=sys.stderr)
    if ended.returncode != 0:
        raise SystemExit(f"not done: {answer}")
    print(" ", answer["result"])
    return answer["pid"]


def dispatch(sentences: list, *flags: str) -> list:
    """Does tasks at the same time, in the background, and returns their results in order."""
    print("$", shlex.join(["agentkernel", "mcp", *flags]))
    with Client(*flags) as agent:
        ids = [agent.call("dispatch_background_task", task_description=sentence)["task_id"] for sentence in sentences]
        return [agent.call("wait_for_background_task", task_id=i, timeout=300)["stdout"].strip() for i in ids]


def tasks(port: int) -> None:
    do("Calculate fibonacci(30)")
    do("Get weather for Paris", "--tools", TOOLS)
    pid = do("Get weather for top 10 US cities, compare temperatures, generate chart", "--tools", TOOLS, "--workspace", str(DATA / "charts"))
    chart = ElementTree.fromstring(subprocess.run([COMMAND, "get", str(pid), "chart.svg"], stdout=subprocess.PIPE, check=True).stdout)
    bars = {bar[0].text: int(bar.get("width")) for bar in chart.iter("{http://www.w3.org/2000/svg}rect")}
    print(f"  chart.svg: {len(bars)} bars, the longest {max(bars, key=bars.get)}, the shortest {min(bars, key=bars.get)}")
    pid = do("Analyze sales_data.csv (10M rows) and generate monthly revenue report", "--workspace", str(DATA / "sales"), "--time", "10m")
    report = subprocess.run([COMMAND, "get", str(pid), "report.md"], stdout=subprocess.PIPE, text=True, check=True).stdout
    print("  " + report.strip().replace("\n", "\n  "))

    sentences = ["Analyze 1M row CSV", "Scrape 50 websites", "Calculate fibonacci(40)"]
    for sentence, result in zip(sentences, dispatch(sentences, "--workspace", str(DATA / "background"), "--allow-host", f"127.0.0.1:{port}", "--time", "10m")):
        print(f"  {sentence}: {result}")
    print(f"  the sites were asked for {len(Sites.asked)} pages, {len(set(Sites.asked))} different ones")

    results = dispatch([f"Process file_{i}.csv" for i in range(100)], "--tools", TOOLS)
    print("  " + results[0], results[1], "...", results[99], sep="\n  ")
    print(f"  {len(set(results))} different results")


def main() -> None:
    flags = argparse.ArgumentParser()
    flags.add_argument("--full", action="store_true", help="as many rows as the sentences say")
    write_data(flags.parse_args().full)
    sites = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Sites)
    threading.Thread(target=sites.serve_forever, daemon=True).start()
    (DATA / "background" / "sites.txt").write_text("".join(f"http://127.0.0.1:{sites.server_port}/shop-{n}\n" for n in range(1, 51)))
    model = subprocess.Popen([COMMAND, "devllm", "--json", "--listen", "127.0.0.1:0", "--limit", "total=10000000",  # a hundred tasks at the same time would wait for minutes
                              "--script", str(HERE / "answers.yaml")], stdout=subprocess.PIPE, text=True)
    home = tempfile.mkdtemp(prefix="ak")  # a kernel of its own, which knows this model alone
    try:
        url = json.loads(model.stdout.readline())["url"]
        os.environ.update(AGENTKERNEL_HOME=home, OPENAI_API_KEY="made-up", AGENTKERNEL_MODELS=f"fast openai:gpt-dev-mini url={url}/v1 price=0.25/2")
        tasks(sites.server_port)
    finally:
        subprocess.run([COMMAND, "shutdown"], stderr=subprocess.DEVNULL)
        model.terminate()
        model.wait()
        shutil.rmtree(home, ignore_errors=True)


main()
