def innermost():
    return bytearray(3_000_000)


def outer():
    return [innermost() for _ in range(3)]


print(len(outer()))
