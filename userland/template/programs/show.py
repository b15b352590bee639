from tools.{{.Read.PythonServer}} import {{.Read.PythonName}}

answer = {{.Read.PythonName}}({{.Read.Path}}={{py .Path}})
print(answer)
answer
