import re

from tools.{{.List.PythonServer}} import {{.List.PythonName}}

PATTERN = {{py .Pattern}}


{{template "entries" .}}

{{template "walk" .}}

# In a pattern * stands for anything and ? for one character; one without / is for the name alone.
shape = "^" + re.escape(PATTERN).replace("\\*", ".*").replace("\\?", ".") + "$"
answer = []
for path in files_below({{py .Folder}}):
    name = path if "/" in PATTERN else path.split("/")[-1]
    if re.search(shape, name):
        answer.append(path)
print("\n".join(answer) if answer else "nothing")
answer
