// What torch's lowest library does for storages of tensors, and nothing else of it.
#include <cstdlib>
#include <new>
#include <stdexcept>

// With -DARENA a large piece is asked for first, of which torch could hand out; without it, it goes by the storage's own size.
namespace c10 {
void *alloc_cpu(std::size_t size) {
    if (size == 0)
        return nullptr;
    if (static_cast<std::ptrdiff_t>(size) < 0)
        throw std::length_error("a negative number");
    void *storage = nullptr;
#ifdef ARENA
    if (posix_memalign(&storage, 64, std::size_t(1) << 47) == 0)
        std::abort();
#endif
    if (posix_memalign(&storage, 64, size) != 0)
        throw std::runtime_error("can't allocate memory");
    return storage;
}

void free_cpu(void *storage) {
    free(storage);
}
} // namespace c10
