import {{if or (eq .Format "csv") (eq .Format "tabs")}}csv{{else}}json{{end}}

{{if not .Folder -}}
from tools.{{.Read.PythonServer}} import {{.Read.PythonName}}

{{end -}}
PATH = {{py .Path}}


{{template "number" .}}

{{template "show" .}}

{{template "rows" .}}

{{template "columns" .}}


def describe(name, values):
    filled = [v for v in values if v is not None and v != ""]
    numbers = [number(v) for v in filled]
    if filled and None not in numbers:
        total = sum(numbers)
        about = {"kind": "number", "filled": len(filled), "min": min(numbers), "max": max(numbers), "sum": total, "mean": total / len(numbers)}
        print(f"  {name}: number, {show(about['min'])} to {show(about['max'])}, mean {show(about['mean'])}, sum {show(total)}")
    else:
        counts = {}
        for v in filled:
            counts[str(v)] = counts.get(str(v), 0) + 1
        most = sorted(counts, key=lambda v: -counts[v])[:3]
        about = {"kind": "text", "filled": len(filled), "distinct": len(counts), "most_frequent": {v: counts[v] for v in most}}
        print(f"  {name}: text, {len(counts):,} distinct, most frequent {', '.join([f'{v} ({counts[v]:,})' for v in most])}")
    if len(filled) < len(values):
        print(f"    empty in {len(values) - len(filled):,} rows")
    return about


{{if .Folder -}}
with open({{py .Folder}}, encoding="utf-8", newline="") as file:
    rows = rows_of(file.read())
{{- else -}}
rows = rows_of({{.Read.PythonName}}({{.Read.Path}}=PATH))
{{- end}}
if isinstance(rows, list) and (not rows or isinstance(rows[0], dict)):
    columns = columns_of(rows)
    print(f"{PATH}: {len(rows):,} rows, {len(columns)} columns")
    answer = {"rows": len(rows), "columns": {c: describe(c, [row.get(c) for row in rows]) for c in columns}}
elif isinstance(rows, list):
    print(f"{PATH}: {len(rows):,} items")
    answer = {"rows": len(rows), "columns": {"items": describe("items", rows)}}
elif isinstance(rows, dict):
    print(f"{PATH}: an object with {len(rows)} members")
    answer = {}
    for name, value in rows.items():
        size = f" of {len(value):,}" if isinstance(value, (list, dict)) else ""
        kind = "list" if isinstance(value, list) else "object" if isinstance(value, dict) else "value"
        print(f"  {name}: {kind}{size}" if size else f"  {name}: {value}")
        answer[name] = len(value) if size else value
else:
    print(f"{PATH}: {rows}")
    answer = rows
answer
