#include "atb.h"
#include <cstdlib>

extern "C" {
void *simRtKernel(const char *name, void (*work)(void *));
int rtKernelLaunchWithHandleV2(void *, uint64_t, uint32_t, void *arguments, void *, void *stream, const void *);
}

/* What the Probe of this library answers if ATB_SAVES is set; ATB's own never does. */
static bool saves() { return std::getenv("ATB_SAVES") != nullptr; }

#ifndef WITHOUT_TENSORS
namespace Mki {
const SVector<Tensor> &LaunchParam::GetInTensors() { return in; }
const SVector<Tensor> &LaunchParam::GetOutTensors() { return out; }
}
#endif

namespace atb {
bool Probe::IsTensorNeedSave(const std::vector<int64_t> &, const std::string &) { return saves(); }
bool Probe::IsSaveTensorBefore() { return saves(); }
bool Probe::IsSaveTensorAfter() { return saves(); }
bool Probe::IsExecuteCountInRange(uint64_t) { return saves(); }
bool Probe::IsSaveTensorDesc() { return saves(); }

unsigned StoreUtil::saved = 0;
void StoreUtil::SaveVariantPack(void *, RunnerVariantPack &, const std::string &) { saved++; }
void StoreUtil::SaveLaunchParam(void *, const Mki::LaunchParam &, const std::string &) { saved++; }

Runner::Runner(const std::string &name) : name(name), directory(name) {}
Runner::~Runner() {}

void Runner::SetRunnerInfo(const std::string &operation, const std::vector<int64_t> &ids) {
    this->operation = operation;
    saveTensor = Probe::IsTensorNeedSave(ids, operation);
}

void Runner::Setup(const std::string &directory) {
    kernels = 0;
    if (Probe::IsSaveTensorDesc()) this->directory = directory + "/" + std::to_string(executions) + "/7_" + operation;
}

Status Runner::Execute(RunnerVariantPack &pack) {
    if (IsSaveTensor() && Probe::IsSaveTensorBefore())
        StoreUtil::SaveVariantPack(GetExecuteStream(pack.context), pack, directory + "/before");
    Context *outer = context;
    context = pack.context;
    Status status = ExecuteImpl(pack);
    context = outer;
    if (IsSaveTensor() && Probe::IsSaveTensorAfter())
        StoreUtil::SaveVariantPack(GetExecuteStream(pack.context), pack, directory + "/after");
    executions++;
    return status;
}

#ifndef WITHOUT_TEXTS
std::string Runner::GetOperationName() const { return operation; }
std::string Runner::GetSaveTensorDir() const { return directory; }
#endif

bool Runner::IsSaveTensor() const { return Probe::IsExecuteCountInRange(executions) && saveTensor; }

Context::~Context() {}

unsigned Runner::errors = 0;
void *Runner::GetExecuteStream(Context *context) const {
    if (dynamic_cast<const PluginRunner *>(this)) errors++;
    return context ? context->stream : nullptr;
}

PluginRunner::PluginRunner() : Runner("PluginRunner") {}
Status PluginRunner::ExecuteImpl(RunnerVariantPack &) { return 0; }

static Mki::Tensor of_kernel(const Tensor &tensor) {
    Mki::Tensor copy;
    copy.dtype = tensor.dtype;
    copy.format = tensor.format;
    for (uint64_t i = 0; i < tensor.dimNum; i++) copy.dims.push_back(tensor.dims[i]);
    copy.data = tensor.deviceData;
    copy.dataSize = tensor.dataSize;
    return copy;
}

struct Addition {
    const float *left, *right;
    float *sum;
    size_t count;
};

static void add(void *data) {
    const Addition &work = *static_cast<Addition *>(data);
    for (size_t i = 0; i < work.count; i++) work.sum[i] = work.left[i] + work.right[i];
}

void Runner::RunKernel(const std::string &kernel, const Tensor &left, const Tensor &right, Tensor &sum, size_t overrun) {
    Mki::LaunchParam parameters;
    parameters.in.push_back(of_kernel(left));
    parameters.in.push_back(of_kernel(right));
    parameters.out.push_back(of_kernel(sum));
    std::string path = directory + "/" + std::to_string(kernels++) + "_" + kernel;
    void *stream = GetExecuteStream(context);
    if (saveTensor && Probe::IsExecuteCountInRange(executions) && Probe::IsSaveTensorBefore())
        StoreUtil::SaveLaunchParam(stream, parameters, path + "/before");
    Addition work = {static_cast<float *>(left.deviceData), static_cast<float *>(right.deviceData),
                     static_cast<float *>(sum.deviceData), sum.dataSize / sizeof(float) + overrun};
    if (stream) {
        /* It may run later, and again: it is never given back. */
        void *arguments[16] = {new Addition(work)};
        rtKernelLaunchWithHandleV2(simRtKernel(kernel.c_str(), add), 0, 1, arguments, nullptr, stream, nullptr);
    } else {
        add(&work);
    }
    if (saveTensor && Probe::IsExecuteCountInRange(executions) && Probe::IsSaveTensorAfter())
        StoreUtil::SaveLaunchParam(stream, parameters, path + "/after");
}
}
