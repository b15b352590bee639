{{if .JSON}}import json

{{end}}from tools.{{.Tool.PythonServer}} import {{.Tool.PythonName}}

answer = {{.Tool.PythonName}}({{range $i, $a := .Arguments}}{{if $i}}, {{end}}{{$a.Python}}={{py $a.Value}}{{end}})
{{- if .JSON}}
if isinstance(answer, str):
    print(answer)
else:
    print(json.dumps(answer, indent=2, ensure_ascii=False, default=lambda v: f"<{type(v).__name__}>"))
{{- else}}
print(answer)
{{- end}}
answer
