"""Keeps what it should not."""
kept = []


def remember(size):
    kept.append(bytearray(size))


for number in range(200):
    remember(50_000 + number)
    bytearray(70_000)
print(sum(map(len, kept)))
