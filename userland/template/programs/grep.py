from tools.{{.List.PythonServer}} import {{.List.PythonName}}
from tools.{{.Read.PythonServer}} import {{.Read.PythonName}}

TEXT = {{py .Text}}


{{template "entries" .}}

{{template "walk" .}}

answer = []
unreadable = 0
for path in files_below({{py .Folder}}):
{{- if .Extension}}
    if not path.lower().endswith({{py .Extension}}):
        continue
{{- end}}
    try:
        lines = {{.Read.PythonName}}({{.Read.Path}}=path).splitlines()
    except RuntimeError:
        unreadable += 1  # not text, or not ours to read
        continue
{{- if .Names}}
    if any([TEXT in line for line in lines]):
        print(path)
        answer.append(path)
{{- else}}
    for n, line in enumerate(lines, 1):
        if TEXT in line:
            print(f"{path}:{n}: {line.strip()}")
            answer.append((path, n))
{{- end}}
if not answer:
    print("nothing")
if unreadable:
    print(f"{unreadable} files could not be read as text")
answer
