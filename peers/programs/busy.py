n = 0
for i in range(15_000_000):
    n += i & 3
print(n)
