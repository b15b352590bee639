{{- if or (eq .Kind "mean") (eq .Kind "median") (eq .Kind "stdev") -}}
import statistics

{{end -}}
{{- if or (eq .Kind "gcd") (eq .Kind "lcm") -}}
import math

{{end -}}
numbers = {{py .Numbers}}
{{if eq .Kind "mean" -}}
answer = statistics.mean(numbers)
{{- else if eq .Kind "median" -}}
answer = statistics.median(numbers)
{{- else if eq .Kind "stdev" -}}
answer = statistics.stdev(numbers)
{{- else if eq .Kind "min" -}}
answer = min(numbers)
{{- else if eq .Kind "max" -}}
answer = max(numbers)
{{- else if eq .Kind "product" -}}
answer = 1
for n in numbers:
    answer *= n
{{- else if or (eq .Kind "gcd") (eq .Kind "lcm") -}}
answer = math.{{.Kind}}(*numbers)
{{- else -}}
answer = sum(numbers)
{{- end}}
print(answer)
answer
