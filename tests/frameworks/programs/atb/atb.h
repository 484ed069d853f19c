/* A library with the names, the layouts and the habits of ATB as far as a profiler meets them: operators of kernels that
 * really compute, on memory of the device, and that save their tensors if asked to. */
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace Mki {
template <typename T> struct SVector {
    T storage[49];
    size_t count = 0;

    void push_back(const T &value) { storage[count++] = value; }
    const T &at(size_t index) const { return storage[index]; }
};

struct Tensor {
    int32_t dtype = -1;
    int32_t format = -1;
    SVector<int64_t> dims;
    std::vector<int64_t> strides;
    int64_t offset = 0;
    void *data = nullptr;
    size_t dataSize = 0;
    void *hostData = nullptr;
};

class LaunchParam {
public:
    const SVector<Tensor> &GetInTensors();
    const SVector<Tensor> &GetOutTensors();

    SVector<Tensor> in, out;
};
}

namespace atb {
using Status = int32_t;

template <typename T> struct SVector {
    size_t capacity = 0;
    size_t count = 0;
    T storage[65];
    T *heap = nullptr;

    void push_back(const T &value) { (heap ? heap : storage)[count++] = value; }
    T &at(size_t index) { return (heap ? heap : storage)[index]; }
};

struct Tensor {
    int32_t dtype = -1;
    int32_t format = -1;
    int64_t dims[8] = {};
    uint64_t dimNum = 0;
    void *deviceData = nullptr;
    void *hostData = nullptr;
    uint64_t dataSize = 0;
};

/* What streams operators use. */
class Context {
public:
    explicit Context(void *stream) : stream(stream) {}
    virtual ~Context();
    void *stream;
};

struct RunnerVariantPack {
    SVector<Tensor> inTensors, outTensors;
    SVector<bool> inTensorsCanGo, outTensorsNeedMemory;
    uint8_t *hostTiling = nullptr, *tiling = nullptr;
    uint64_t tilingSize = 0;
    uint8_t *workspaceBuffer = nullptr;
    uint64_t workspaceBufferSize = 0;
    uint8_t *intermediateBuffer = nullptr;
    uint64_t intermediateBufferSize = 0;
    Context *context = nullptr;
};

static_assert(sizeof(Mki::SVector<int64_t>) == 400 && sizeof(Mki::Tensor) == 464, "Mki");
static_assert(sizeof(Mki::SVector<Mki::Tensor>) == 22744 && offsetof(Mki::Tensor, data) == 440, "Mki");
static_assert(sizeof(Tensor) == 104 && sizeof(SVector<Tensor>) == 6784 && sizeof(SVector<bool>) == 96, "ATB");
static_assert(sizeof(RunnerVariantPack) == 13824 && offsetof(RunnerVariantPack, workspaceBuffer) == 13784, "ATB");

class Probe {
public:
    static bool IsTensorNeedSave(const std::vector<int64_t> &ids, const std::string &type);
    static bool IsSaveTensorBefore();
    static bool IsSaveTensorAfter();
    static bool IsExecuteCountInRange(uint64_t count);
    static bool IsSaveTensorDesc();
};

class StoreUtil {
public:
    static void SaveVariantPack(void *stream, RunnerVariantPack &pack, const std::string &path);
    static void SaveLaunchParam(void *stream, const Mki::LaunchParam &kernel, const std::string &path);
    /* How often either of them did so. */
    static unsigned saved;
};

class Runner {
public:
    explicit Runner(const std::string &name);
    virtual ~Runner();
    void SetRunnerInfo(const std::string &operation, const std::vector<int64_t> &ids);
    void Setup(const std::string &directory);
    Status Execute(RunnerVariantPack &pack);
    std::string GetOperationName() const;
    std::string GetSaveTensorDir() const;
    bool IsSaveTensor() const;
    void *GetExecuteStream(Context *context) const;
    /* Errors that it logged. */
    static unsigned errors;

protected:
    virtual Status ExecuteImpl(RunnerVariantPack &pack) = 0;
    /* Launches a kernel that gives `left + right`, element by element, and writes `overrun` elements more than there are: by the
     * runtime if the operator has a stream, else on the spot. */
    void RunKernel(const std::string &kernel, const Tensor &left, const Tensor &right, Tensor &sum, size_t overrun = 0);

private:
    std::string name, operation, directory;
    bool saveTensor = false;
    uint64_t executions = 0, kernels = 0;
    Context *context = nullptr;
};

/* Of an operation that is not ATB's own: it has no stream that ATB knows. */
class PluginRunner : public Runner {
public:
    PluginRunner();

protected:
    Status ExecuteImpl(RunnerVariantPack &pack) override;
};
}
