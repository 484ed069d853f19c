/* A model of a few operators, and what it computed as one line of JSON. The same line, whoever watches. */
#include "atb.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <malloc.h>
#include <stdexcept>
#include <utility>

extern "C" {
int aclInit(const char *);
int aclrtSetDevice(int32_t);
int aclrtMallocAlign32(void **, size_t, int);
int aclrtFree(void *);
int aclrtCreateStream(void **);
int aclrtSynchronizeDevice();
int aclmdlRICaptureBegin(void *stream, int mode);
int aclmdlRICaptureEnd(void *stream, void **model);
int aclmdlRIExecuteAsync(void *model, void *stream);
void *mstxDomainCreateA(const char *);
void *mstxMemHeapRegister(void *, const void *);
void mstxMemHeapUnregister(void *, void *);
void mstxMemRegionsRegister(void *, const void *);
void mstxMemRegionsUnregister(void *, const void *);
}

static void check(const char *what, int answer) {
    if (answer) std::fprintf(stderr, "%s failed: %d\n", what, answer), std::exit(1);
}

/* left + right */
class Add : public atb::Runner {
public:
    Add() : Runner("AddRunner") {}

protected:
    atb::Status ExecuteImpl(atb::RunnerVariantPack &pack) override {
        RunKernel("AddF32Kernel", pack.inTensors.at(0), pack.inTensors.at(1), pack.outTensors.at(0));
        return 0;
    }
};

/* 2 * left + right by two kernels, by way of an intermediate tensor; ends with a status of its own. */
class DoubleAdd : public atb::Runner {
public:
    DoubleAdd() : Runner("DoubleAddRunner") {}

protected:
    atb::Status ExecuteImpl(atb::RunnerVariantPack &pack) override {
        atb::Tensor twice = pack.outTensors.at(0);
        twice.deviceData = pack.intermediateBuffer;
        RunKernel("DoubleKernel", pack.inTensors.at(0), pack.inTensors.at(0), twice);
        RunKernel("AddF32Kernel", twice, pack.inTensors.at(1), pack.outTensors.at(0));
        return 0;
    }
};

class Fails : public atb::Runner {
public:
    explicit Fails(bool throws) : Runner("FailsRunner"), throws(throws) {}

protected:
    atb::Status ExecuteImpl(atb::RunnerVariantPack &) override {
        if (throws) throw std::runtime_error("out of luck");
        return 17;
    }

private:
    bool throws;
};

/* A graph of one operator. */
class Graph : public atb::Runner {
public:
    Graph() : Runner("GraphRunner") {}
    Add add;

protected:
    atb::Status ExecuteImpl(atb::RunnerVariantPack &pack) override {
        add.Setup("0_1/0/7_DecoderGraph");
        return add.Execute(pack);
    }
};

static atb::Tensor tensor(float *data, int64_t rows, int64_t columns) {
    atb::Tensor made;
    made.dtype = 0;
    made.format = 2;
    made.dims[0] = rows;
    made.dims[1] = columns;
    made.dimNum = 2;
    made.deviceData = data;
    made.dataSize = rows * columns * sizeof(float);
    return made;
}

struct Range { uint32_t device; const void *address; uint64_t size; };
struct Heap { int32_t usage, type; const Range *range; };
struct Regions { void *heap; int32_t type; size_t count; const Range *ranges; const void **handles; };
struct Reference { int32_t kind; const void *handle; };
struct References { size_t count; const Reference *list; };

static const int ROWS = 2, COLUMNS = 3, ELEMENTS = ROWS * COLUMNS;
static const int DEVICE = 1;

static double run(atb::Runner &runner, atb::RunnerVariantPack &pack, const char *operation, const char *directory) {
    runner.SetRunnerInfo(operation, {7});
    runner.Setup(directory);
    int status = runner.Execute(pack);
    if (status) return -status;
    double sum = 0;
    for (int i = 0; i < ELEMENTS; i++) sum += static_cast<float *>(pack.outTensors.at(0).deviceData)[i];
    return sum;
}

/* Writes two elements more than it was given room for, in one of its executions. */
class Overruns : public atb::Runner {
public:
    explicit Overruns(int when) : Runner("OverrunsRunner"), when(when) {}
    /* If there is one, an operator on another stream comes first. */
    atb::RunnerVariantPack *inner = nullptr;
    Add add;

protected:
    atb::Status ExecuteImpl(atb::RunnerVariantPack &pack) override {
        if (inner) {
            add.SetRunnerInfo("InnerOperation", {7, 0});
            add.Setup("0_1/0/7_StepOperation");
            add.Execute(*inner);
        }
        RunKernel("AddF32Kernel", pack.inTensors.at(0), pack.inTensors.at(1), pack.outTensors.at(0), ++executed == when ? 2 : 0);
        return 0;
    }

private:
    int when, executed = 0;
};

/* Doubles its first input, and puts out something else: a cache. */
class WritesInput : public atb::Runner {
public:
    WritesInput() : Runner("WritesInputRunner") {}

protected:
    atb::Status ExecuteImpl(atb::RunnerVariantPack &pack) override {
        RunKernel("AddF32Kernel", pack.inTensors.at(0), pack.inTensors.at(0), pack.inTensors.at(0));
        return 0;
    }
};

static const size_t SMALL = 4096, LARGE = 8192;
/* One more than the threshold between two uses. */
static const int MANY = 3001;

static void *block(size_t size) {
    void *memory;
    check("aclrtMallocAlign32", aclrtMallocAlign32(&memory, size, 0));
    return memory;
}

/* An operator whose tensors are all in one block. */
static void use(void *memory, atb::Context *context, int times = 1) {
    float *left = static_cast<float *>(memory);
    atb::RunnerVariantPack pack;
    pack.context = context;
    pack.inTensors.push_back(tensor(left, ROWS, COLUMNS));
    pack.inTensors.push_back(tensor(left + 256, ROWS, COLUMNS));
    pack.outTensors.push_back(tensor(left + 512, ROWS, COLUMNS));
    Add add;
    run(add, pack, "AddOperation", "0_1");
    for (int i = 1; i < times; i++) add.Execute(pack);
}

/* One block is allocated too early, not used for long, and freed too late; the others are not, and are used by others. */
static void *waste(atb::Context *wasting = nullptr, atb::Context *others = nullptr) {
    void *before = block(SMALL), *wasted = block(LARGE);
    use(before, others);
    check("aclrtFree", aclrtFree(before));
    use(wasted, wasting);
    void *busy = block(SMALL);
    use(busy, others, MANY);
    check("aclrtFree", aclrtFree(busy));
    use(wasted, wasting);
    void *after = block(SMALL);
    use(after, others);
    check("aclrtFree", aclrtFree(wasted));
    check("aclrtFree", aclrtFree(after));
    return wasted;
}

/* The same on one stream and on two; an operator of a plugin, and one whose context is none. */
static void streams() {
    void *handles[2];
    for (void *&handle : handles) check("aclrtCreateStream", aclrtCreateStream(&handle));
    atb::Context first(handles[0]), second(handles[1]);
    void *one = waste(&first, &first), *two = waste(&first, &second);
    atb::RunnerVariantPack pack;
    pack.context = &first;
    atb::PluginRunner plugin;
    plugin.SetRunnerInfo("PluginOperation", {7});
    plugin.Setup("0_1");
    plugin.Execute(pack);
    static void *foreign[4] = {reinterpret_cast<void *>(0x18), nullptr, nullptr, nullptr};
    for (void *context : {static_cast<void *>(foreign), reinterpret_cast<void *>(0x7)}) {
        pack.context = static_cast<atb::Context *>(context);
        /* It runs no kernel, and so does not use it itself. */
        Fails fails(false);
        fails.SetRunnerInfo("ForeignOperation", {7});
        fails.Setup("0_1");
        fails.Execute(pack);
    }
    std::printf("{\"first\": \"%p\", \"second\": \"%p\", \"one\": \"%p\", \"two\": \"%p\", \"errors\": %u}\n", handles[0],
                handles[1], one, two, atb::Runner::errors);
}

static const int STEPS = 200, FAULT = 137, OWN_WRITE = 50, HOST_WRITE = 90, CACHED = 60, FILLED = 70;

/* Of the steps around FAULT a graph is captured, and replayed at once. */
static const int CAPTURED_FROM = FAULT - 1, CAPTURED_TO = FAULT + 1;

/* So much of a disk is taken, or all of it, if it is less. */
static void fill_disk(const char *file, size_t megabytes) {
    static char megabyte[1 << 20];
    FILE *filled = std::fopen(file, "w");
    while (filled && megabytes-- && std::fwrite(megabyte, sizeof megabyte, 1, filled) && !std::fflush(filled)) {}
    if (filled) std::fclose(filled);
}

/* StartOperation puts out a tensor right behind the block that two hundred StepOperations write into; one of them writes into it
 * legally, and, if asked to, one beyond the end of its own; or the program itself writes into it between two; or an operator that has it
 * as an input. */
static void watched_steps(const char *what) {
    const bool overruns = std::strstr(what, "-overrun"), host_writes = std::strstr(what, "-host");
    const bool has_streams = std::strstr(what, "-streams"), is_captured = std::strstr(what, "-capture");
    void *streams[2] = {nullptr, nullptr}, *graph = nullptr;
    if (has_streams)
        for (void *&stream : streams) check("aclrtCreateStream", aclrtCreateStream(&stream));
    float *inputs = static_cast<float *>(block(SMALL)), *steps = static_cast<float *>(block(SMALL));
    float *kept = static_cast<float *>(block(SMALL));
    std::memset(inputs, 0, SMALL);
    for (int i = 0; i < ELEMENTS; i++) inputs[i] = i + 1;
    atb::RunnerVariantPack start, step;
    for (auto *pack : {&start, &step}) {
        pack->inTensors.push_back(tensor(inputs, ROWS, COLUMNS));
        pack->inTensors.push_back(tensor(inputs + 256, ROWS, COLUMNS));
    }
    start.outTensors.push_back(tensor(kept, ROWS, COLUMNS));
    start.outTensors.push_back(tensor(kept + 256, ROWS, COLUMNS));
    /* The last elements of their block. */
    step.outTensors.push_back(tensor(steps + SMALL / sizeof(float) - ELEMENTS, ROWS, COLUMNS));
    atb::RunnerVariantPack other = step, cache = step;
    other.outTensors.at(0) = tensor(steps, ROWS, COLUMNS);
    cache.inTensors.at(0) = start.outTensors.at(0);
    start.context = step.context = cache.context = static_cast<atb::Context *>(streams[0]);
    other.context = static_cast<atb::Context *>(streams[1]);
    Add add;
    WritesInput writes_input;
    run(add, start, "StartOperation", "0_1");
    Overruns overrun(overruns ? FAULT : 0);
    if (has_streams) overrun.inner = &other;
    overrun.SetRunnerInfo("StepOperation", {7});
    for (int i = 1; i <= STEPS; i++) {
        if (is_captured && i == CAPTURED_FROM) check("aclmdlRICaptureBegin", aclmdlRICaptureBegin(streams[0], 0));
        overrun.Setup("0_1");
        overrun.Execute(step);
        if (is_captured && i == CAPTURED_TO) {
            check("aclmdlRICaptureEnd", aclmdlRICaptureEnd(streams[0], &graph));
            check("aclmdlRIExecuteAsync", aclmdlRIExecuteAsync(graph, streams[0]));
        }
        if (i == OWN_WRITE) {
            inputs[0] += 1;
            start.context = other.context;
            run(add, start, "OwnerOperation", "0_1");
        }
        if (i == CACHED && std::strstr(what, "-input")) run(writes_input, cache, "CacheOperation", "0_1");
        if (i == FILLED && std::getenv("FILL_DISK")) fill_disk(std::getenv("FILL_DISK"), std::strtoul(std::getenv("FILL_MB"), nullptr, 10));
        if (i == HOST_WRITE && host_writes) kept[1] = -1;
        if (i % 20 == 0) inputs[1] += 1;
    }
    run(add, step, "EndOperation", "0_1");
    if (has_streams) check("aclrtSynchronizeDevice", aclrtSynchronizeDevice());
    kept[2] = -2;
    run(add, step, "LaterOperation", "0_1");
    std::printf("{\"kept\": \"%p\", \"steps\": \"%p\"}\n", static_cast<void *>(kept), static_cast<void *>(steps));
}

static double now_ns() {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e9 + now.tv_nsec;
}

/* What an operator takes while StartOperation's output, so many bytes, is there to be watched. */
static void timed(size_t bytes) {
    const int BATCHES = 200, EACH = 10;
    float *inputs = static_cast<float *>(block(bytes)), *kept = static_cast<float *>(block(bytes));
    std::memset(inputs, 0, bytes);
    atb::RunnerVariantPack start, step;
    const int64_t columns = static_cast<int64_t>(bytes / sizeof(float));
    start.inTensors.push_back(tensor(inputs, 1, columns));
    start.inTensors.push_back(tensor(inputs, 1, columns));
    start.outTensors.push_back(tensor(kept, 1, columns));
    step.inTensors.push_back(tensor(inputs, ROWS, COLUMNS));
    step.inTensors.push_back(tensor(inputs, ROWS, COLUMNS));
    step.outTensors.push_back(tensor(inputs, ROWS, COLUMNS));
    Add add, other;
    run(add, start, "StartOperation", "0_1");
    other.SetRunnerInfo("StepOperation", {7});
    other.Setup("0_1");
    double best = 1e18;
    for (int i = 0; i < BATCHES; i++) {
        double began = now_ns();
        for (int j = 0; j < EACH; j++) other.Execute(step);
        double each = (now_ns() - began) / EACH;
        if (each < best) best = each;
    }
    std::printf("{\"best_ns\": %.0f}\n", best);
}

extern "C" int run_model(const char *what) {
    check("aclInit", aclInit(nullptr));
    check("aclrtSetDevice", aclrtSetDevice(DEVICE));
    if (!std::strcmp(what, "probes")) {
        using atb::Probe;
        std::printf("{\"probes\": [%d, %d, %d, %d, %d]}\n", Probe::IsTensorNeedSave({1}, "Add"), Probe::IsSaveTensorBefore(),
                    Probe::IsSaveTensorAfter(), Probe::IsExecuteCountInRange(3), Probe::IsSaveTensorDesc());
        return 0;
    }
    if (!std::strncmp(what, "timed-", 6)) {
        timed(std::strtoul(what + 6, nullptr, 10));
        return 0;
    }
    if (!std::strncmp(what, "watched", 7)) {
        watched_steps(what);
        return 0;
    }
    if (!std::strcmp(what, "waste")) {
        std::printf("{\"wasted\": \"%p\"}\n", waste());
        return 0;
    }
    if (!std::strcmp(what, "streams")) {
        streams();
        return 0;
    }
    /* One block of the driver for all tensors, and one for the workspace, which ATB hands out again. */
    void *memory, *workspace;
    check("aclrtMallocAlign32", aclrtMallocAlign32(&memory, 4096, 0));
    check("aclrtMallocAlign32", aclrtMallocAlign32(&workspace, 8192, 0));
    float *left = static_cast<float *>(memory), *right = left + 256, *sum = left + 512;
    for (int i = 0; i < ELEMENTS; i++) left[i] = i + 1, right[i] = 10 * (i + 1);

    atb::RunnerVariantPack pack;
    pack.inTensors.push_back(tensor(left, ROWS, COLUMNS));
    pack.inTensors.push_back(tensor(right, ROWS, COLUMNS));
    /* An optional tensor that is not there, as ATB passes it. */
    pack.inTensors.push_back(atb::Tensor());
    pack.outTensors.push_back(tensor(sum, ROWS, COLUMNS));
    pack.workspaceBuffer = static_cast<uint8_t *>(workspace);
    pack.workspaceBufferSize = 1024;
    pack.intermediateBuffer = pack.workspaceBuffer + 1024;
    pack.intermediateBufferSize = 512;

    Add add;
    if (!std::strcmp(what, "many")) {
        /* A name too long to be kept in the string itself. */
        run(add, pack, "AddOperationOfALongName", "0_1");
        size_t before = mallinfo2().uordblks;
        for (int i = 0; i < 1000; i++) add.Execute(pack);
        std::printf("{\"kept\": %zu}\n", mallinfo2().uordblks - before);
        return 0;
    }
    void *domain = mstxDomainCreateA("atb");
    Range heap_range = {DEVICE, workspace, 8192}, region = {DEVICE, pack.intermediateBuffer, 512};
    Heap heap_description = {0, 0, &heap_range};
    void *heap = mstxMemHeapRegister(domain, &heap_description);
    const void *handle = nullptr;
    Regions regions = {heap, 0, 1, &region, &handle};
    mstxMemRegionsRegister(domain, &regions);

    double added = run(add, pack, "AddOperation", "0_1");
    /* More tensors than there is room for in place are on the heap, and those in place mean nothing. */
    atb::Tensor many[70];
    for (size_t i = 0; i < pack.inTensors.count; i++) std::swap(many[i], pack.inTensors.storage[i]);
    pack.inTensors.capacity = 70;
    pack.inTensors.heap = many;
    DoubleAdd double_add;
    double doubled = run(double_add, pack, "DoubleAddOperation", "0_1");
    Graph graph;
    graph.add.SetRunnerInfo("InnerAddOperation", {7, 0});
    double of_graph = run(graph, pack, "DecoderGraph", "0_1");
    Fails fails(false), throws(true);
    double failed = run(fails, pack, "FailsOperation", "0_1");
    std::string caught;
    try {
        run(throws, pack, "ThrowsOperation", "0_1");
    } catch (const std::runtime_error &error) {
        caught = error.what();
    }
    double after_exception = run(add, pack, "AddOperation", "0_1");

    Reference reference = {1, handle};
    References references = {1, &reference};
    mstxMemRegionsUnregister(domain, &references);
    mstxMemHeapUnregister(domain, heap);
    std::printf("{\"sums\": [%g, %g, %g, %g, %g], \"caught\": \"%s\", \"saved\": %u, \"left\": \"%p\", \"workspace\": \"%p\"}\n",
                added, doubled, of_graph, failed, after_exception, caught.c_str(), atb::StoreUtil::saved, memory, workspace);
    check("aclrtFree", aclrtFree(memory));
    check("aclrtFree", aclrtFree(workspace));
    return 0;
}
