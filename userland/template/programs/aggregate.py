{{- if or (eq .Kind "mean") (eq .Kind "median") -}}
import statistics

{{end -}}
numbers = {{py .Numbers}}
{{if or (eq .Kind "mean") (eq .Kind "median") -}}
answer = statistics.{{.Kind}}(numbers)
{{- else -}}
answer = {{.Kind}}(numbers)
{{- end}}
print(answer)
answer
