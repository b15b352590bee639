from tools.{{.Search.PythonServer}} import {{.Search.PythonName}}

answer = {{.Search.PythonName}}({{.Search.Path}}={{py .Folder}}, {{.Search.Pattern}}={{py .Pattern}})
print(answer)
answer
