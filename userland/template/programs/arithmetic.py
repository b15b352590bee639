{{if .Math -}}
from math import {{range $i, $name := .Math}}{{if $i}}, {{end}}{{$name}}{{end}}

{{end -}}
answer = {{.Expression}}
print(answer)
answer
