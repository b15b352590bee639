from tools.{{.List.PythonServer}} import {{.List.PythonName}}


{{template "entries" .}}

{{if .Extension -}}
names = [name for name, is_folder in entries({{py .Folder}}) if not is_folder and name.lower().endswith({{py .Extension}})]
{{- else if .Count -}}
names = [name for name, is_folder in entries({{py .Folder}}) if not is_folder]
{{- else -}}
names = [name + "/" if is_folder else name for name, is_folder in entries({{py .Folder}})]
{{- end}}
{{if .Count -}}
answer = len(names)
print(answer)
{{- else -}}
answer = names
print("\n".join(answer) if answer else "nothing")
{{- end}}
answer
