{{if .All -}}
def fibonacci_numbers(count):
    numbers = []
    a, b = 0, 1
    for _ in range(count):
        numbers.append(a)
        a, b = b, a + b
    return numbers


answer = fibonacci_numbers({{py .N}})
print(*answer, sep=", ")
{{- else -}}
def fibonacci(n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


answer = fibonacci({{py .N}})
print(answer)
{{- end}}
answer
