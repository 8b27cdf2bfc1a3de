/* A captured stream in plain C: forked and joined, instantiated, replayed, updated from a second
 * capture, and an update that the driver refuses. Needs cuda.h of CUDA 12 or 13 and a libcuda.so.1:
 * a GPU's, or lowgraph's host device. docs/host-programs.md has the commands.
 *
 *   ./capture capture.image      the file that `python -m lowgraph compile` made of capture.cu
 */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 1000, BLOCK = 256, REPLAYS = 3 };

static void check(CUresult code, const char *call, int line) {
    const char *name = NULL;
    if (code == CUDA_SUCCESS) return;
    if (cuGetErrorName(code, &name) != CUDA_SUCCESS) name = "unknown";
    fprintf(stderr, "capture.c:%d: %s gives %d %s\n", line, call, (int)code, name);
    exit(1);
}
#define CHECK(call) check(call, #call, __LINE__)

/* What the recorded step works on: y += a * x, z = x * x, and y copied back to the host. */
struct Step {
    CUfunction add_scaled, square;
    CUstream stream, side;
    CUevent forked, joined;
    CUdeviceptr x, y, z;
    float *result; /* pinned, N floats */
};

static void launch(CUfunction kernel, CUstream stream, void **arguments) {
    CHECK(cuLaunchKernel(kernel, (N + BLOCK - 1) / BLOCK, 1, 1, BLOCK, 1, 1, 0, stream, arguments,
                         NULL));
}

/* Records one step. The values of `a` and of all addresses are copied into the graph here. */
static CUgraph capture(struct Step *step, float a, int with_square) {
    int n = N;
    void *of_add[] = {&step->y, &step->x, &a, &n};
    void *of_square[] = {&step->z, &step->x, &n};
    CUgraph graph = NULL;

    CHECK(cuStreamBeginCapture(step->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    CHECK(cuEventRecord(step->forked, step->stream));
    CHECK(cuStreamWaitEvent(step->side, step->forked, 0));
    if (with_square) launch(step->square, step->side, of_square);
    launch(step->add_scaled, step->stream, of_add);
    CHECK(cuEventRecord(step->joined, step->side));
    CHECK(cuStreamWaitEvent(step->stream, step->joined, 0));
    CHECK(cuMemcpyDtoHAsync(step->result, step->y, N * sizeof(float), step->stream));
    CHECK(cuStreamEndCapture(step->stream, &graph));
    return graph;
}

static size_t count_nodes(CUgraph graph) {
    size_t count = 0;
    CHECK(cuGraphGetNodes(graph, NULL, &count));
    return count;
}

/* Replays, then compares with `expected` times x, which is i % 7: small integers, exact in float. */
static void replay(struct Step *step, CUgraphExec exec, int times, float expected) {
    int i;
    for (i = 0; i < times; ++i) CHECK(cuGraphLaunch(exec, step->stream));
    CHECK(cuStreamSynchronize(step->stream));
    for (i = 0; i < N; ++i)
        if (step->result[i] != expected * (float)(i % 7)) {
            fprintf(stderr, "y[%d] is %g, not %g\n", i, step->result[i], expected * (float)(i % 7));
            exit(1);
        }
    printf("%d replays: y = %g x\n", times, expected);
}

/* Puts another capture's values into the executable; returns the driver's verdict. */
static CUresult update(struct Step *step, CUgraphExec exec, float a, int with_square) {
    CUgraphExecUpdateResultInfo info;
    CUgraph graph = capture(step, a, with_square);
    CUresult code = cuGraphExecUpdate(exec, graph, &info);
    CHECK(cuGraphDestroy(graph));
    if (code == CUDA_SUCCESS)
        printf("updated: a = %g\n", a);
    else
        printf("refused: code %d, reason %d\n", (int)code, (int)info.result);
    return code;
}

static void prepare(struct Step *step, CUmodule module) {
    float x[N];
    size_t bytes = sizeof x;
    int i;
    for (i = 0; i < N; ++i) x[i] = (float)(i % 7);
    CHECK(cuModuleGetFunction(&step->add_scaled, module, "add_scaled"));
    CHECK(cuModuleGetFunction(&step->square, module, "square"));
    CHECK(cuStreamCreate(&step->stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&step->side, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&step->forked, CU_EVENT_DISABLE_TIMING));
    CHECK(cuEventCreate(&step->joined, CU_EVENT_DISABLE_TIMING));
    CHECK(cuMemAlloc(&step->x, bytes));
    CHECK(cuMemAlloc(&step->y, bytes));
    CHECK(cuMemAlloc(&step->z, bytes));
    CHECK(cuMemAllocHost((void **)&step->result, bytes));
    CHECK(cuMemcpyHtoD(step->x, x, bytes));
    CHECK(cuMemsetD32(step->y, 0, N));
    CHECK(cuMemsetD32(step->z, 0, N));
    CHECK(cuCtxSynchronize());
}

static void check_squares(struct Step *step) {
    float z[N];
    int i;
    CHECK(cuMemcpyDtoH(z, step->z, sizeof z));
    for (i = 0; i < N; ++i)
        if (z[i] != (float)((i % 7) * (i % 7))) {
            fprintf(stderr, "z[%d] is %g\n", i, z[i]);
            exit(1);
        }
}

static void release(struct Step *step, CUmodule module, CUdevice device) {
    CHECK(cuStreamDestroy(step->stream));
    CHECK(cuStreamDestroy(step->side));
    CHECK(cuEventDestroy(step->forked));
    CHECK(cuEventDestroy(step->joined));
    CHECK(cuMemFree(step->x));
    CHECK(cuMemFree(step->y));
    CHECK(cuMemFree(step->z));
    CHECK(cuMemFreeHost(step->result));
    CHECK(cuModuleUnload(module));
    CHECK(cuDevicePrimaryCtxRelease(device));
}

int main(int argc, char **argv) {
    struct Step step;
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUgraph graph;
    CUgraphExec exec;
    char name[128];

    if (argc != 2) {
        fprintf(stderr, "usage: %s IMAGE (made by python -m lowgraph compile)\n", argv[0]);
        return 2;
    }
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDeviceGetName(name, sizeof name, device));
    printf("device: %s\n", name);
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuModuleLoad(&module, argv[1]));
    prepare(&step, module);

    graph = capture(&step, 2.0f, 1);
    printf("captured: %zu nodes\n", count_nodes(graph));
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    CHECK(cuGraphDestroy(graph));
    replay(&step, exec, REPLAYS, 6.0f); /* 3 times a = 2 */
    CHECK(update(&step, exec, 5.0f, 1));
    replay(&step, exec, REPLAYS, 21.0f); /* and 3 times a = 5 */
    if (update(&step, exec, 7.0f, 0) != CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE) return 1;
    replay(&step, exec, 1, 26.0f); /* the executable is as it was: a = 5 */
    check_squares(&step);

    CHECK(cuGraphExecDestroy(exec));
    release(&step, module, device);
    printf("ok\n");
    return 0;
}
