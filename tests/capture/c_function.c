/* A library for test_c_function.py: what C code does in a window, well and badly. With PLAIN it
   keeps no notes, as code that does not know of lowgraph.h. */
#include "lowgraph.h"

#include <pthread.h>
#include <unistd.h>

#ifdef PLAIN
#undef LG_CALL
#define LG_CALL(function, ...)                                   \
    do {                                                         \
        CUresult code_ = LG_DRIVER(function)(__VA_ARGS__);       \
        if (code_ != CUDA_SUCCESS) return (int)code_;            \
    } while (0)
#endif

static CUfunction kernel;
static CUstream side;
static CUevent forked, joined;
static CUdeviceptr own;
static const char *bytes;

int prepare(const void *image) {
    CUmodule module;
    bytes = image;
    LG_CALL(cuModuleLoadData, &module, image);
    LG_CALL(cuModuleGetFunction, &kernel, module, "leaky_sum");
    LG_CALL(cuStreamCreate, &side, CU_STREAM_NON_BLOCKING);
    LG_CALL(cuEventCreate, &forked, CU_EVENT_DISABLE_TIMING);
    LG_CALL(cuEventCreate, &joined, CU_EVENT_DISABLE_TIMING);
    LG_CALL(cuMemAlloc, &own, 4096);
    return 0;
}

int launch(CUstream stream, float *y, const float *x, float decay, int n) {
    void *args[] = {&y, &x, &decay, &n};
    LG_CALL(cuLaunchKernel, kernel, (n + 255) / 256, 1, 1, 256, 1, 1, 0, stream, args, NULL);
    return 0;
}

void quietly(CUstream stream, float *y, const float *x, float decay, int n) {
    launch(stream, y, x, decay, n);
}

int forks(CUstream stream, float *y, const float *x, float decay, int n) {
    LG_CALL(cuEventRecord, forked, stream);
    LG_CALL(cuStreamWaitEvent, side, forked, 0);
    int code = launch(side, y, x, decay, n);
    if (code != 0) return code;
    LG_CALL(cuMemsetD32Async, own, 0, 16, stream);
    LG_CALL(cuEventRecord, joined, side);
    LG_CALL(cuStreamWaitEvent, stream, joined, 0);
    return 0;
}

int never_joins(CUstream stream, float *y, const float *x, float decay, int n) {
    LG_CALL(cuEventRecord, forked, stream);
    LG_CALL(cuStreamWaitEvent, side, forked, 0);
    return launch(side, y, x, decay, n);
}

int allocates(CUstream stream, float *y, const float *x, float decay, int n) {
    CUdeviceptr scratch;
    LG_CALL(cuMemAlloc, &scratch, 64);
    return launch(stream, y, x, decay, n);
}

/* Goes on as if nothing had happened. */
int swallows(CUstream stream, float *y, const float *x, float decay, int n) {
    CUdeviceptr scratch;
    (void)LG_DRIVER(cuMemAlloc)(&scratch, 64);
    launch(stream, y, x, decay, n);
    return 0;
}

int copies_at_once(CUstream stream, float *y, const float *x, float decay, int n) {
    float zero[16] = {0};
    LG_CALL(cuMemcpyHtoD, own, zero, sizeof zero);
    return launch(stream, y, x, decay, n);
}

int loads(CUstream stream, float *y, const float *x, float decay, int n) {
    CUmodule module;
    LG_CALL(cuModuleLoadData, &module, bytes);
    return launch(stream, y, x, decay, n);
}

int ends(CUstream stream, float *y, const float *x, float decay, int n) {
    CUgraph graph;
    int code = launch(stream, y, x, decay, n);
    if (code != 0) return code;
    (void)LG_DRIVER(cuStreamEndCapture)(stream, &graph);
    return 0;
}

int half_astray(CUstream stream, float *y, const float *x, float decay, int n) {
    int code = launch(stream, y, x, decay, n);
    return code != 0 ? code : launch(side, y, x, decay, n);
}

int fills_astray(CUstream stream, float *y, const float *x, float decay, int n) {
    int code = launch(stream, y, x, decay, n);
    if (code != 0) return code;
    LG_CALL(cuMemsetD32Async, own, 0, 16, side);
    return 0;
}

int nothing(CUstream stream, float *y, const float *x, float decay, int n) {
    (void)stream, (void)y, (void)x, (void)decay, (void)n;
    return 0;
}

int fails(CUstream stream, float *y, const float *x, float decay, int n) {
    void *args[] = {&y, &x, &decay, &n};
    LG_CALL(cuLaunchKernel, kernel, 0, 1, 1, 256, 1, 1, 0, stream, args, NULL);
    return 0;
}

int called;

static void CUDA_CB count_call(void *counter) { ++*(int *)counter; }

int calls_back(CUstream stream, float *y, const float *x, float decay, int n) {
    LG_CALL(cuLaunchHostFunc, stream, count_call, &called);
    return launch(stream, y, x, decay, n);
}

int minus_one(CUstream stream, float *y, const float *x, float decay, int n) {
    (void)stream, (void)y, (void)x, (void)decay, (void)n;
    return -1;
}

int slow(CUstream stream, float *y, const float *x, float decay, int n) {
    usleep(100 * 1000);
    return launch(stream, y, x, decay, n);
}

void (*meanwhile)(void);

/* Something else of the process happens while it runs. */
int in_company(CUstream stream, float *y, const float *x, float decay, int n) {
    meanwhile();
    return launch(stream, y, x, decay, n);
}

struct work {
    CUcontext context;
    CUstream stream;
    float *y;
    const float *x;
    float decay;
    int n, code;
};

static void *sends(void *given) {
    struct work *work = given;
    LG_DRIVER(cuCtxSetCurrent)(work->context);
    work->code = launch(work->stream, work->y, work->x, work->decay, work->n);
    return NULL;
}

static void *waits(void *given) {
    struct work *work = given;
    LG_DRIVER(cuCtxSetCurrent)(work->context);
    LG_DRIVER(cuStreamSynchronize)(side);
    return sends(work);
}

static int in_a_thread(void *(*run)(void *), struct work work) {
    pthread_t thread;
    LG_CALL(cuCtxGetCurrent, &work.context);
    if (pthread_create(&thread, NULL, run, &work) || pthread_join(thread, NULL)) return -1;
    return work.code;
}

int threaded(CUstream stream, float *y, const float *x, float decay, int n) {
    return in_a_thread(sends, (struct work){NULL, stream, y, x, decay, n, 0});
}

int threaded_waits(CUstream stream, float *y, const float *x, float decay, int n) {
    return in_a_thread(waits, (struct work){NULL, stream, y, x, decay, n, 0});
}

int half(CUstream stream, double d, _Bool b, signed char c, unsigned long u) {
    (void)stream;
    return d == 0.5 && b && c == -3 && u == ~0ul ? 0 : 1;
}

/* Launches an executable from its handle: how a library of C does it. */
int replay(CUgraphExec exec, CUstream stream, int times) {
    for (int i = 0; i < times; ++i) LG_CALL(cuGraphLaunch, exec, stream);
    LG_CALL(cuStreamSynchronize, stream);
    return 0;
}
