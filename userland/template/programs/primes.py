{{if .Test -}}
def is_prime(n):
    if n < 2:
        return False
    d = 2
    while d * d <= n:
        if n % d == 0:
            print(f"{n} is not a prime: {d} divides it")
            return False
        d += 1
    print(f"{n} is a prime")
    return True


answer = is_prime({{py .Test}})
{{- else if .First -}}
answer = []
n = 2
while len(answer) < {{py .First}}:
    for p in answer:
        if p * p > n:
            answer.append(n)
            break
        if n % p == 0:
            break
    else:
        answer.append(n)
    n += 1
print(*answer, sep=", ")
{{- else -}}
limit = {{py .Below}}
sieve = [True] * limit
answer = []
for n in range(2, limit):
    if sieve[n]:
        answer.append(n)
        for multiple in range(n * n, limit, n):
            sieve[multiple] = False
{{- if .Count}}
answer = len(answer)
print(answer)
{{- else}}
print(*answer, sep=", ")
{{- end}}
{{- end}}
answer
