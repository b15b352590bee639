answer = sum(range({{py .First}}, {{py .Last}} + 1))
print(answer)
answer
