def far_and_back(a,
                 b=(1 +
                    2)):
    try:
        x = [a,

             b
             ]
    except ValueError as error:
        raise KeyError(
            a) from error
    finally:
        b = 0











































































































































    with open(a) as lines:
        for y in lines: b += y
    return [
        a, b, x, a, b, x, a, b, x, a, b, x, a, b, x, a, b, x, a, b, x, a, b, x, a, b, x, a, b, x, a, b, x, a, b, x, a, b, x, a, b, x,
        a.b.c.d.e.f(a, b, x, a, b, x, a, b, x, a, b, x, a, b, x, a, b, x, a, b, x, a, b, x, a, b, x, a, b, x, a, b, x, a, b, x, a, b, x,
                    a, b, x, a, b, x, a, b, x, a, b, x, a, b, x, a, b, x, a, b, x, a, b, x, a, b, x, a, b, x, a, b, x, a, b, x, a, b, x)]


async def generator(source):
    async for item in source:
        if item:
            yield (item
                   .first
                   .second)
