answer = sum(range({{py .Low}}, {{py .High}} + 1))
print(answer)
answer
