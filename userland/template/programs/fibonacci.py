def fibonacci(n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


answer = fibonacci({{py .N}})
print(answer)
answer
