import {{if or (eq .Format "csv") (eq .Format "tabs")}}csv{{else}}json{{end}}
{{- if eq .Kind "median"}}
import statistics
{{- end}}

{{if not .Folder -}}
from tools.{{.Read.PythonServer}} import {{.Read.PythonName}}

{{end -}}
PATH = {{py .Path}}


{{template "number" .}}

{{template "show" .}}

{{template "rows" .}}

{{template "columns" .}}

{{template "column" .}}

{{if .Period}}
LENGTH = {"day": 10, "month": 7, "year": 4}[{{py .Period}}]


def period(columns, row):
    """The column that holds dates, for {{.Period}}s that are no column of their own."""
    dates = []
    for c in columns:
        text = str(row.get(c))
        if len(text) >= 10 and text[4] == "-" and text[7] == "-" and text[:4].isdigit():
            dates.append(c)
    if len(dates) == 1:
        return dates[0]
    problem = "has neither a column {{.Period}} nor one with dates such as 2026-11-21"
    if dates:
        problem = f"has several columns with dates ({', '.join(dates)}), and the task does not say which"
    raise ValueError(f"{PATH} {problem}; its columns: {', '.join(columns)}")

{{end}}
def combine(values):
{{- if eq .Kind "mean"}}
    return sum(values) / len(values)
{{- else if eq .Kind "median"}}
    return statistics.median(values)
{{- else}}
    return {{.Kind}}(values)
{{- end}}


{{if .Folder -}}
with open({{py .Folder}}, encoding="utf-8", newline="") as file:
    rows = rows_of(file.read())
{{- else -}}
rows = rows_of({{.Read.PythonName}}({{.Read.Path}}=PATH))
{{- end}}
if not isinstance(rows, list) or rows and not isinstance(rows[0], dict):
    raise ValueError(f"{PATH} is not a table: a list of objects is needed")

if not rows:
    raise ValueError(f"{PATH} has no rows")
columns = columns_of(rows)
value = column({{py .Value}}, columns)
{{- if .Period}}
group = {{py .Group}}
if group in [c.lower() for c in columns]:
    group = column(group, columns)
    LENGTH = None
else:
    group = period(columns, rows[0])
{{- else if .Group}}
group = column({{py .Group}}, columns)
{{- end}}

{{if .Group}}groups = {}{{else}}values = []{{end}}
skipped = 0
for row in rows:
    n = number(row.get(value))
    if n is None:
        skipped += 1
        continue
{{- if .Group}}
    name = str(row.get(group)){{if .Period}}[:LENGTH]{{end}}
    if name not in groups:
        groups[name] = []
    groups[name].append(n)
{{- else}}
    values.append(n)
{{- end}}
if skipped == len(rows):
    raise ValueError(f"the column {value!r} of {PATH} holds no numbers")

{{if .Group -}}
answer = {name: combine(groups[name]) for name in sorted(groups)}
{{- if not .Period}}
answer = {name: answer[name] for name in sorted(answer, key=lambda name: -answer[name])}
{{- end}}
print(f"{{.Kind}} of {value} by {{if .Period}}{{.Period}}{{else}}{group}{{end}}")
width = max([len(name) for name in answer])
for name in answer:
    print(f"  {name.ljust(width)}  {show(answer[name]).rjust(16)}")
{{- else -}}
answer = combine(values)
print(f"{{.Kind}} of {value}: {show(answer)}")
{{- end}}
if skipped:
    print(f"{skipped:,} rows without a number in {value} were left out")
answer
