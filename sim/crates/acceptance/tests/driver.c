/* Calls the simulated libraries the way programs and tools do and prints what comes back, one key=value per line. */
#include <inttypes.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>
#include <stdlib.h>
#include <string.h>

int aclInit(const char *), aclFinalize(void);
int aclrtSetDevice(int32_t), aclrtGetDevice(int32_t *), aclrtGetDeviceCount(uint32_t *);
int aclrtMalloc(void **, size_t, int), aclrtMallocAlign32(void **, size_t, int), aclrtFree(void *);
int aclrtMallocHost(void **, size_t), aclrtFreeHost(void *);
int aclrtHostRegisterV2(void *, uint64_t, uint32_t), aclrtHostUnregister(void *);
int aclrtGetMemInfo(int, size_t *, size_t *);
int aclrtMemcpy(void *, size_t, const void *, size_t, int);
int aclrtMemcpyAsync(void *, size_t, const void *, size_t, int, void *);
int aclrtMemset(void *, size_t, int32_t, size_t);
int aclrtReserveMemAddress(void **, size_t, size_t, void *, uint64_t), aclrtReleaseMemAddress(void *);
int aclrtMallocPhysical(void **, size_t, const void *, uint64_t), aclrtFreePhysical(void *);
int aclrtMapMem(void *, size_t, size_t, void *, uint64_t), aclrtUnmapMem(void *);
int aclrtCreateStream(void **), aclrtDestroyStream(void *), aclrtStreamGetId(void *, int32_t *);
int aclrtCreateEventWithFlag(void **, uint32_t), aclrtDestroyEvent(void *), aclrtRecordEvent(void *, void *);
int aclrtQueryEventStatus(void *, int *), aclrtEventElapsedTime(float *, void *, void *);
int aclrtSynchronizeStream(void *), aclrtSynchronizeDevice(void), aclrtStreamWaitEvent(void *, void *);
int aclrtLaunchHostFunc(void *, void (*)(void *), void *);
int aclmdlRICaptureBegin(void *, int), aclmdlRICaptureEnd(void *, void **), aclmdlRICaptureGetInfo(void *, int *, void **);
int aclmdlRIExecuteAsync(void *, void *), aclmdlRIDestroy(void *);
int aclrtBinaryLoadFromData(const void *, size_t, const void *, void **);
int aclrtBinaryGetFunction(void *, const char *, void **);
int aclrtLaunchKernel(void *, uint32_t, const void *, size_t, void *);
int aclrtLaunchKernelWithConfig(void *, uint32_t, void *, void *, void *, void *);
int aclrtLaunchKernelWithHostArgs(void *, uint32_t, void *, void *, void *, size_t, void *, size_t);
int rtFunctionRegister(void *, const void *, const char *, const void *, uint32_t);
int rtKernelLaunch(const void *, uint32_t, void *, uint32_t, void *, void *);
int rtAicpuKernelLaunchExWithArgs(uint32_t, const char *, uint32_t, const void *, void *, void *, uint32_t);

void *aclCreateTensor(const int64_t *, uint64_t, int, const int64_t *, int64_t, int, const int64_t *, uint64_t, void *);
int aclDestroyTensor(void *);
void *aclCreateScalar(void *, int);
int aclDestroyScalar(void *);
int aclnnAddGetWorkspaceSize(void *, void *, void *, void *, uint64_t *, void **);
int aclnnAdd(void *, uint64_t, void *, void *);
int aclnnInplaceZeroGetWorkspaceSize(void *, uint64_t *, void **), aclnnInplaceZero(void *, uint64_t, void *, void *);
int aclnnInplaceCopyGetWorkspaceSize(void *, void *, uint64_t *, void **), aclnnInplaceCopy(void *, uint64_t, void *, void *);
int aclnnMulGetWorkspaceSize(void *, void *, void *, uint64_t *, void **), aclnnMul(void *, uint64_t, void *, void *);
int aclnnAbsGetWorkspaceSize(void *, void *, uint64_t *, void **), aclnnAbs(void *, uint64_t, void *, void *);

int MsprofRegisterProfileCallback(int32_t, void *, uint32_t);
int profSetProfCommand(void *, uint32_t);
int prof_drv_start(uint32_t, uint32_t, void *), prof_channel_read(uint32_t, uint32_t, char *, uint32_t);
int prof_stop(uint32_t, uint32_t);
int halGetDeviceInfo(uint32_t, int32_t, int32_t, int64_t *);

int dcmi_init(void), dcmi_get_card_list(int *, int *, int), dcmi_get_device_num_in_card(int, int *);
int dcmi_get_device_logic_id(int *, int, int);
int dcmi_get_device_hbm_info(int, int, void *), dcmi_get_npu_proc_mem_info(int, int, void *, int *);

void mstxMarkA(const char *, void *), mstxRangeEnd(uint64_t), mstxGetToolId(uint64_t *);
uint64_t mstxRangeStartA(const char *, void *);
void *mstxDomainCreateA(const char *), *mstxMemHeapRegister(void *, const void *);
void mstxMemRegionsRegister(void *, const void *), mstxMemRegionsUnregister(void *, const void *);
void mstxMemHeapUnregister(void *, void *);

#define MIB ((size_t)1 << 20)
#define OK(call) do { int r_ = (call); if (r_) { printf("failed=%s -> %d\n", #call, r_); exit(1); } } while (0)

static size_t free_bytes(void) {
    size_t free = 0, total = 0;
    OK(aclrtGetMemInfo(1, &free, &total));
    return free;
}

static void begin(int device) {
    OK(aclInit(NULL));
    OK(aclrtSetDevice(device));
}

static void memory(void) {
    begin(0);
    size_t before = free_bytes();
    void *small, *big, *padded;
    OK(aclrtMallocAlign32(&small, 100, 0));
    printf("small=%p\n", small);
    OK(aclrtMallocAlign32(&big, 4 * MIB, 0));
    printf("big=%p\n", big);
    printf("taken=%zu\n", before - free_bytes());
    OK(aclrtMalloc(&padded, 2 * MIB, 0));
    printf("padded_taken=%zu\n", before - free_bytes());
    OK(aclrtFree(padded));
    OK(aclrtFree(big));
    printf("double_free=%d\n", aclrtFree(big));
    printf("copy_to_freed=%d\n", aclrtMemset(big, MIB, 0, MIB));
    OK(aclrtMallocAlign32(&padded, 4 * MIB, 0));
    printf("reused=%d\n", padded == big);
    OK(aclrtFree(padded));
    OK(aclrtFree(small));
    printf("returned=%d\n", before == free_bytes());
}

static void fill_up(void) {
    begin(0);
    void *block;
    int blocks = 0, result;
    while (!(result = aclrtMallocAlign32(&block, 16 * MIB, 0))) blocks++;
    printf("blocks=%d\nresult=%d\nfree=%zu\n", blocks, result, free_bytes());
    OK(aclrtSetDevice(1));
    OK(aclrtMallocAlign32(&block, 16 * MIB, 0));
    printf("other_device=%p\n", block);
}

static void faults(void) {
    begin(0);
    void *block;
    for (int i = 0; i < 3; i++) printf("alloc=%d\n", aclrtMallocAlign32(&block, MIB, 0));
}

static void pinned(void) {
    begin(0);
    size_t before = free_bytes();
    void *host, *device;
    OK(aclrtMallocHost(&host, 8192));
    printf("host=%p\ndevice_memory_taken=%zu\n", host, before - free_bytes());
    OK(aclrtMallocAlign32(&device, 8192, 0));
    memset(host, 0x5a, 8192);
    OK(aclrtMemcpy(device, 8192, host, 8192, 1));
    char back[8192] = {0};
    OK(aclrtMemcpy(back, 8192, device, 8192, 2));
    printf("round_trip=%d\n", !memcmp(back, host, 8192));
    printf("too_large=%d\n", aclrtMemcpy(device, 100, host, 8192, 1));
    OK(aclrtHostRegisterV2(back, sizeof back, 0x10000000));
    OK(aclrtHostUnregister(back));
    OK(aclrtFreeHost(host));
    OK(aclrtFree(device));
}

static void virtual_memory(void) {
    begin(0);
    size_t before = free_bytes();
    struct { uint32_t handle, allocation, memory, id, location; uint64_t reserved; } properties = {0, 0, 4, 0, 1, 0};
    void *range, *first, *second;
    OK(aclrtReserveMemAddress(&range, 64 * MIB, 0, NULL, 1));
    printf("reserve_taken=%zu\n", before - free_bytes());
    OK(aclrtMallocPhysical(&first, 2 * MIB, &properties, 0));
    OK(aclrtMallocPhysical(&second, 2 * MIB, &properties, 0));
    printf("physical_taken=%zu\n", before - free_bytes());
    OK(aclrtMapMem(range, 2 * MIB, 0, first, 0));
    OK(aclrtMapMem((char *)range + 2 * MIB, 2 * MIB, 0, second, 0));
    char *across = (char *)range + 2 * MIB - 8;
    OK(aclrtMemcpy(across, 16, "0123456789abcde", 16, 1));
    char back[16];
    OK(aclrtMemcpy(back, 16, across, 16, 2));
    printf("across=%s\n", back);
    printf("unmapped_part=%d\n", aclrtMemset((char *)range + 8 * MIB, MIB, 0, MIB));
    printf("outside=%d\n", aclrtMapMem((char *)range + 63 * MIB, 2 * MIB, 0, first, 0));
    OK(aclrtUnmapMem(range));
    OK(aclrtUnmapMem((char *)range + 2 * MIB));
    OK(aclrtFreePhysical(first));
    OK(aclrtFreePhysical(second));
    OK(aclrtReleaseMemAddress(range));
    printf("returned=%d\n", before == free_bytes());
}

static void streams(void) {
    begin(0);
    void *one, *two, *start, *end;
    int32_t first, second;
    OK(aclrtCreateStream(&one));
    OK(aclrtCreateStream(&two));
    OK(aclrtStreamGetId(one, &first));
    OK(aclrtStreamGetId(two, &second));
    printf("ids=%d,%d\n", first, second);
    OK(aclrtDestroyStream(one));
    OK(aclrtCreateStream(&one));
    OK(aclrtStreamGetId(one, &first));
    printf("reused_id=%d\n", first);
    int status;
    OK(aclrtCreateEventWithFlag(&start, 0));
    OK(aclrtCreateEventWithFlag(&end, 0));
    OK(aclrtQueryEventStatus(start, &status));
    printf("unrecorded=%d\n", status);
    float elapsed = -1;
    printf("elapsed_too_early=%d\n", aclrtEventElapsedTime(&elapsed, start, end));
    OK(aclrtRecordEvent(start, one));
    OK(aclrtRecordEvent(end, two));
    OK(aclrtQueryEventStatus(start, &status));
    printf("recorded=%d\n", status);
    OK(aclrtEventElapsedTime(&elapsed, start, end));
    printf("elapsed_sane=%d\n", elapsed >= 0);
    OK(aclrtDestroyEvent(start));
    OK(aclrtDestroyEvent(end));
}

/* One byte of device memory for each of two streams and the default stream, as everybody sees them. */
static char *bytes_of_streams(void) {
    static void *block;
    if (!block) {
        OK(aclrtMalloc(&block, 4096, 0));
        memset(block, '-', 3);
    }
    return block;
}

static void show(const char *when) { printf("%s=%.3s\n", when, bytes_of_streams()); }

static void host_function(void *byte) { *(char *)byte = 'h'; }

static void deferred(void) {
    begin(0);
    char *bytes = bytes_of_streams(), copied[3];
    void *one, *two, *event;
    OK(aclrtCreateStream(&one));
    OK(aclrtCreateStream(&two));
    OK(aclrtMemcpyAsync(bytes, 1, "0", 1, 1, NULL));
    OK(aclrtMemcpyAsync(bytes + 1, 1, "1", 1, 1, one));
    OK(aclrtLaunchHostFunc(two, host_function, bytes + 2));
    show("launched");
    OK(aclrtMemcpy(copied, 3, bytes, 3, 2));
    printf("no_device_address=%d\n", aclrtMemcpy(copied, 3, (void *)16, 3, 2));
    show("copied_at_once");
    OK(aclrtSynchronizeStream(one));
    show("waited_for_one");
    OK(aclrtCreateEventWithFlag(&event, 0));
    OK(aclrtRecordEvent(event, two));
    OK(aclrtStreamWaitEvent(one, event));
    show("waited_for_event");
    OK(aclrtSynchronizeDevice());
    show("waited_for_device");
    /* An operator's plan is still there when it runs. */
    int64_t three = 3, step = 1;
    void *tensor = aclCreateTensor(&three, 1, 2, &step, 0, 2, &three, 1, bytes), *executor;
    uint64_t workspace;
    OK(aclnnInplaceZeroGetWorkspaceSize(tensor, &workspace, &executor));
    OK(aclnnInplaceZero(NULL, 0, executor, one));
    OK(aclDestroyTensor(tensor));
    OK(aclrtSynchronizeStream(two));
    show("before_operator");
    OK(aclrtSynchronizeStream(one));
    printf("after_operator=%d\n", bytes[0] + bytes[1] + bytes[2]);
    /* Freed memory is used by nobody any more. */
    OK(aclrtMemcpyAsync(bytes, 1, "x", 1, 1, one));
    OK(aclrtFree(bytes));
    OK(aclrtSynchronizeDevice());
}

static int captured(void *stream) {
    int status = -1;
    void *model;
    OK(aclmdlRICaptureGetInfo(stream, &status, &model));
    return status;
}

static void capture(void) {
    begin(0);
    char *bytes = bytes_of_streams(), copied[3];
    void *one, *two, *model = NULL;
    OK(aclrtCreateStream(&one));
    OK(aclrtCreateStream(&two));
    printf("default_stream=%d\n", aclmdlRICaptureBegin(NULL, 0));
    printf("status=%d\n", captured(one));
    OK(aclmdlRICaptureBegin(one, 0));
    printf("status=%d\n", captured(one));
    OK(aclrtMemcpyAsync(bytes + 1, 1, "1", 1, 1, one));
    OK(aclrtMemcpyAsync(bytes + 2, 1, "2", 1, 1, two));
    show("captured");
    OK(aclmdlRICaptureEnd(one, &model));
    printf("status=%d\n", captured(one));
    show("ended");
    for (int i = 0; i < 2; i++) {
        bytes[1] = '-';
        OK(aclmdlRIExecuteAsync(model, two));
        OK(aclrtSynchronizeStream(two));
        show("replayed");
    }
    OK(aclmdlRIDestroy(model));
    printf("not_captured=%d\n", aclmdlRICaptureEnd(one, &model));
    /* What a capture forbids makes it void. */
    for (int what = 0; what < 3; what++) {
        OK(aclmdlRICaptureBegin(one, 0));
        int refused = what == 0   ? aclrtSynchronizeStream(one)
                      : what == 1 ? aclrtSynchronizeDevice()
                                  : aclrtMemcpy(copied, 3, bytes, 3, 2);
        printf("refused=%d\n", refused);
        printf("status=%d\n", captured(one));
        printf("void=%d\n", aclmdlRICaptureEnd(one, &model));
    }
    /* A relaxed one forbids no copies. */
    OK(aclmdlRICaptureBegin(one, 2));
    OK(aclrtMemcpy(copied, 3, bytes, 3, 2));
    OK(aclmdlRICaptureEnd(one, &model));
}

static void *without_device(void *result) {
    int32_t device;
    *(int *)result = aclrtGetDevice(&device);
    return NULL;
}

static void devices(void) {
    OK(aclInit(NULL));
    uint32_t count;
    OK(aclrtGetDeviceCount(&count));
    printf("count=%u\n", count);
    for (uint32_t device = 0; device < count; device++) {
        void *block;
        OK(aclrtSetDevice((int)device));
        OK(aclrtMallocAlign32(&block, 4096, 0));
        printf("block=%p\n", block);
    }
    printf("no_such_device=%d\n", aclrtSetDevice((int)count));
    pthread_t thread;
    int result = 0;
    pthread_create(&thread, NULL, without_device, &result);
    pthread_join(thread, NULL);
    printf("thread_without_device=%d\n", result);
}

static void *tensor(void *data, int64_t count, int type) {
    int64_t stride = 1;
    return aclCreateTensor(&count, 1, type, &stride, 0, 2, &count, 1, data);
}

static void computing(void) {
    begin(0);
    float host[4] = {1, 2, 3, 4};
    void *a, *b, *executor = NULL;
    uint64_t workspace = 0;
    OK(aclrtMallocAlign32(&a, sizeof host, 0));
    OK(aclrtMallocAlign32(&b, sizeof host, 0));
    OK(aclrtMemcpy(a, sizeof host, host, sizeof host, 1));
    void *ta = tensor(a, 4, 0), *tb = tensor(b, 4, 0), *halves = tensor(b, 4, 1);
    float two = 2;
    void *alpha = aclCreateScalar(&two, 0);
    OK(aclnnAddGetWorkspaceSize(ta, ta, alpha, tb, &workspace, &executor));
    OK(aclnnAdd(NULL, 0, executor, NULL));
    OK(aclrtMemcpy(host, sizeof host, b, sizeof host, 2));
    printf("add=%g,%g,%g,%g\n", host[0], host[1], host[2], host[3]);
    OK(aclnnInplaceCopyGetWorkspaceSize(halves, ta, &workspace, &executor));
    OK(aclnnInplaceCopy(NULL, 0, executor, NULL));
    uint16_t half[4];
    OK(aclrtMemcpy(half, sizeof half, b, sizeof half, 2));
    printf("half=%04x,%04x,%04x,%04x\n", half[0], half[1], half[2], half[3]);
    OK(aclnnInplaceZeroGetWorkspaceSize(ta, &workspace, &executor));
    OK(aclnnInplaceZero(NULL, 0, executor, NULL));
    OK(aclrtMemcpy(host, sizeof host, a, sizeof host, 2));
    printf("zero=%g,%g,%g,%g\n", host[0], host[1], host[2], host[3]);
    executor = NULL;
    OK(aclnnMulGetWorkspaceSize(ta, ta, tb, &workspace, &executor));
    printf("mul_workspace=%" PRIu64 "\n", workspace);
    workspace = 0;
    OK(aclnnAbsGetWorkspaceSize(ta, tb, &workspace, &executor));
    printf("abs_workspace=%" PRIu64 "\n", workspace);
    aclDestroyTensor(ta), aclDestroyTensor(tb), aclDestroyTensor(halves), aclDestroyScalar(alpha);
}

static char hashed[64][64];
static int hashed_count;

static uint64_t hash(const char *text, size_t length) {
    snprintf(hashed[hashed_count], sizeof hashed[0], "%.*s", (int)length, text);
    return (uint64_t)++hashed_count;
}

static int32_t compact(uint32_t aging, const void *data, uint32_t length) {
    (void)aging;
    const char *bytes = data;
    uint16_t magic, level, device, stream;
    uint32_t type, task;
    uint64_t name;
    memcpy(&magic, bytes, 2), memcpy(&level, bytes + 2, 2), memcpy(&type, bytes + 4, 4);
    memcpy(&device, bytes + 24, 2), memcpy(&stream, bytes + 26, 2), memcpy(&task, bytes + 28, 4);
    memcpy(&name, bytes + 40, 8);
    if (length != 64 || magic != 0x5a5a || level != 5000) printf("malformed_report=%u\n", length);
    if (type == 802) printf("track=%u/%u/%u %s\n", device, stream, task, name ? hashed[name - 1] : "-");
    else printf("report=%u %u\n", type, device & 0xff);
    return 0;
}

static void launch_everything(void *stream) {
    void *block, *binary, *function, *executor = NULL;
    uint64_t workspace = 0;
    OK(aclrtMallocAlign32(&block, 16, 0));
    void *t = tensor(block, 4, 0);
    OK(aclnnMulGetWorkspaceSize(t, t, t, &workspace, &executor));
    OK(aclnnMul(NULL, 0, executor, stream));
    OK(aclrtMemcpyAsync(block, 16, "0123456789abcde", 16, 1, stream));
    OK(aclrtBinaryLoadFromData("code", 4, NULL, &binary));
    OK(aclrtBinaryGetFunction(binary, "custom_kernel", &function));
    OK(aclrtLaunchKernel(function, 1, NULL, 0, stream));
    OK(aclrtLaunchKernelWithConfig(function, 1, stream, NULL, NULL, NULL));
    OK(aclrtLaunchKernelWithHostArgs(function, 1, stream, NULL, NULL, 0, NULL, 0));
    OK(rtFunctionRegister(NULL, (void *)launch_everything, "stub_kernel", NULL, 0));
    OK(rtKernelLaunch((void *)launch_everything, 1, NULL, 0, NULL, stream));
    OK(rtAicpuKernelLaunchExWithArgs(0, "cpu_kernel", 1, NULL, NULL, stream, 0));
    aclDestroyTensor(t);
    OK(aclrtFree(block));
}

static void kernels(void) {
    begin(1);
    static char command[5424];
    *(uint64_t *)command = 0x4000800;
    *(uint32_t *)(command + 280) = 1;
    MsprofRegisterProfileCallback(12, (void *)hash, sizeof(void *));
    MsprofRegisterProfileCallback(4, (void *)compact, sizeof(void *));
    if (!getenv("NO_COMMAND")) OK(profSetProfCommand(command, sizeof command));
    uint32_t switches[11] = {1, 0, 0, 0, 0, 0, 1};
    struct { uint32_t type, period, real_time; void *data; uint32_t size; } parameters = {0, 20, 1, switches, 36};
    OK(prof_drv_start(1, 50, &parameters));
    int64_t counter, frequency;
    OK(halGetDeviceInfo(1, 0, 13, &counter));
    OK(halGetDeviceInfo(1, 0, 25, &frequency));
    printf("frequency=%" PRId64 "\n", frequency);
    void *stream;
    OK(aclrtCreateStream(&stream));
    launch_everything(stream);
    OK(prof_stop(1, 50));
    static char log[2 << 20];
    int length = prof_channel_read(1, 50, log, sizeof log);
    int size = getenv("SHORT_RECORDS") ? 32 : 64;
    printf("log_bytes=%d\n", length);
    for (int at = 0; at + size <= length; at += size) {
        uint32_t head, ids;
        int64_t time;
        memcpy(&head, log + at, 4), memcpy(&ids, log + at + 4, 4), memcpy(&time, log + at + 8, 8);
        printf("logged=%s %u/%u\n", head & 0x3f ? "end" : "begin", size == 64 ? ids & 0xffff : 0, size == 64 ? ids >> 16 : ids);
        if (time < counter) printf("time_runs_backwards=1\n");
        counter = time;
    }
    printf("read_after_stop=%d\n", prof_channel_read(1, 50, log, sizeof log));
}

static volatile int stopped;

static void *read_log(void *bytes) {
    static char buffer[4096];
    for (;;) {
        int was_stopped = stopped, length = prof_channel_read(0, 50, buffer, sizeof buffer);
        if (length % 64 || length < 0) printf("torn_read=%d\n", length);
        *(long *)bytes += length;
        if (was_stopped && length == 0) return NULL;
    }
}

static void *launch_many(void *stream) {
    OK(aclrtSetDevice(0));
    for (int i = 0; i < 5000; i++) OK(aclnnAbs(NULL, 0, NULL, stream));
    return NULL;
}

/* A reader keeps up with two launching threads. */
static void live_log(void) {
    begin(0);
    uint32_t switches[11] = {1};
    struct { uint32_t type, period, real_time; void *data; uint32_t size; } parameters = {0, 20, 1, switches, 36};
    OK(prof_drv_start(0, 50, &parameters));
    printf("second_start=%d\n", prof_drv_start(0, 50, &parameters));
    pthread_t reader, launchers[2];
    void *streams[2];
    long bytes = 0;
    pthread_create(&reader, NULL, read_log, &bytes);
    for (int i = 0; i < 2; i++) {
        OK(aclrtCreateStream(&streams[i]));
        pthread_create(&launchers[i], NULL, launch_many, streams[i]);
    }
    for (int i = 0; i < 2; i++) pthread_join(launchers[i], NULL);
    OK(prof_stop(0, 50));
    stopped = 1;
    pthread_join(reader, NULL);
    printf("records=%ld\n", bytes / 64);
}

static void launch_fault(void) {
    begin(0);
    void *t = tensor(NULL, 4, 0), *executor = NULL;
    uint64_t workspace = 0;
    for (int i = 0; i < 3; i++) {
        OK(aclnnAbsGetWorkspaceSize(t, t, &workspace, &executor));
        printf("launch=%d\n", aclnnAbs(NULL, 0, executor, NULL));
    }
}

static void gaps(void) {
    begin(0);
    char *blocks[3], *gap, *behind, *rest;
    for (int i = 0; i < 3; i++) OK(aclrtMallocAlign32((void **)&blocks[i], 4096, 0));
    OK(aclrtFree(blocks[0]));
    OK(aclrtFree(blocks[1]));
    OK(aclrtMallocAlign32((void **)&gap, 4096, 0));
    OK(aclrtMallocAlign32((void **)&behind, 8192, 0));
    OK(aclrtMallocAlign32((void **)&rest, 4096, 0));
    printf("gap=%d\nbehind=%d\nrest=%d\n", gap == blocks[0], behind == blocks[2] + 4096, rest == blocks[1]);
}

static void management(void) {
    begin(1);
    void *block;
    OK(aclrtMallocAlign32(&block, 32 * MIB, 0));
    int count, cards[32], devices, logic;
    OK(dcmi_init());
    OK(dcmi_get_card_list(&count, cards, 32));
    OK(dcmi_get_device_num_in_card(cards[1], &devices));
    OK(dcmi_get_device_logic_id(&logic, cards[1], 0));
    printf("cards=%d\ndevices_in_card=%d\nlogic=%d\n", count, devices, logic);
    struct { uint64_t size; uint32_t frequency; uint64_t used; int32_t temperature; uint32_t utilisation; } hbm;
    struct { int32_t pid; unsigned long bytes; } processes[64];
    OK(dcmi_get_device_hbm_info(cards[1], 0, &hbm));
    printf("hbm_mib=%" PRIu64 "\nused_mib=%" PRIu64 "\n", hbm.size, hbm.used);
    int n = 0;
    OK(dcmi_get_npu_proc_mem_info(cards[1], 0, processes, &n));
    unsigned long own = 0, others = 0;
    for (int i = 0; i < n; i++) *(processes[i].pid == getpid() ? &own : &others) += processes[i].bytes;
    printf("processes=%d\nprocess_bytes=%lu\nbytes_of_others=%lu\n", n, own, others);
    printf("no_such_card=%d\n", dcmi_get_device_hbm_info(99, 0, &hbm) != 0);
}

static void marks(void) {
    uint64_t tool = 0;
    mstxMarkA("hello", NULL);
    uint64_t range = mstxRangeStartA("step start", NULL);
    printf("range=%" PRIu64 "\n", range);
    mstxRangeEnd(range);
    mstxGetToolId(&tool);
    printf("tool=%" PRIu64 "\n", tool);
    void *domain = mstxDomainCreateA("ptaCaching");
    printf("domain=%s\n", domain ? "given" : "none");
    struct { uint32_t device; void *address; uint64_t size; } span = {1, (void *)0x1000, 4608};
    struct { uint32_t usage, type; void *description; } heap = {7, 9, &span};
    struct { void *heap; uint32_t type; size_t count; void *list; void *out; } regions = {NULL, 3, 1, &span, NULL};
    struct { uint32_t kind; void *address; } reference = {0, (void *)0x1000};
    struct { size_t count; void *list; } gone = {1, &reference};
    mstxMemHeapRegister(domain, &heap);
    mstxMemRegionsRegister(domain, &regions);
    mstxMemRegionsUnregister(domain, &gone);
    mstxMemHeapUnregister(domain, NULL);
}

static void interposed(void) {
    begin(0);
    void *block, *stream;
    OK(aclrtCreateStream(&stream));
    OK(aclrtMallocAlign32(&block, 2 * MIB, 0));
    OK(aclrtFree(block));
    launch_everything(stream);
    struct { uint32_t handle, allocation, memory, id, location; uint64_t reserved; } properties = {0, 0, 4, 0, 1, 0};
    OK(aclrtMallocPhysical(&block, 2 * MIB, &properties, 0));
    OK(aclrtFreePhysical(block));
    OK(aclFinalize());
}

int main(int argc, char **argv) {
    static const struct { const char *name; void (*run)(void); } scenarios[] = {
        {"memory", memory}, {"gaps", gaps}, {"fill_up", fill_up}, {"faults", faults}, {"pinned", pinned},
        {"virtual_memory", virtual_memory}, {"streams", streams}, {"devices", devices}, {"computing", computing},
        {"kernels", kernels}, {"live_log", live_log}, {"launch_fault", launch_fault}, {"management", management}, {"marks", marks},
        {"interposed", interposed}, {"deferred", deferred}, {"capture", capture},
    };
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
        if (argc == 2 && !strcmp(argv[1], scenarios[i].name)) return scenarios[i].run(), 0;
    fprintf(stderr, "no such scenario\n");
    return 2;
}
