"""Forty threads at once."""
import threading

sums = []
barrier = threading.Barrier(40)


def work(number):
    blocks = [bytearray(20_000 + number + i) for i in range(20)]
    barrier.wait()
    sums.append(sum(map(len, blocks)))


threads = [threading.Thread(target=work, args=(number,)) for number in range(40)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(sum(sums))
