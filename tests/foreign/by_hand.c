/* A graph built node by node in plain C, its executable edited between launches:
 *
 *   x = 3; [child: z = x * x]; y = z; y += a * x; a host function; an event; memory taken and freed
 *
 * and what a graph keeps alive. Prints y after each change. Takes the image of capture.cu.
 */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 257, BLOCK = 128 };

static void check(CUresult code, const char *call, int line) {
    const char *name = NULL;
    if (code == CUDA_SUCCESS) return;
    if (cuGetErrorName(code, &name) != CUDA_SUCCESS) name = "unknown";
    fprintf(stderr, "by_hand.c:%d: %s gives %d %s\n", line, call, (int)code, name);
    exit(1);
}
#define CHECK(call) check(call, #call, __LINE__)

struct Run {
    CUcontext context;
    CUfunction add_scaled, square;
    CUstream stream;
    CUevent reached, other;
    CUdeviceptr x, y, z;
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode fill, child, copy, kernel, host, record;
};

static void CUDA_CB count(void *counter) { *(volatile int *)counter += 1; }

static CUDA_MEMSET_NODE_PARAMS fill_of(CUdeviceptr where, float value) {
    CUDA_MEMSET_NODE_PARAMS params;
    memset(&params, 0, sizeof params);
    params.dst = where;
    memcpy(&params.value, &value, sizeof value);
    params.elementSize = sizeof value;
    params.width = N;
    params.height = 1;
    return params;
}

static CUDA_KERNEL_NODE_PARAMS launch_of(CUfunction function, void **arguments) {
    CUDA_KERNEL_NODE_PARAMS params;
    memset(&params, 0, sizeof params);
    params.func = function;
    params.gridDimX = (N + BLOCK - 1) / BLOCK;
    params.blockDimX = BLOCK;
    params.gridDimY = params.gridDimZ = params.blockDimY = params.blockDimZ = 1;
    params.kernelParams = arguments;
    return params;
}

static CUDA_MEMCPY3D copy_of(CUdeviceptr target, CUdeviceptr source) {
    CUDA_MEMCPY3D params;
    memset(&params, 0, sizeof params);
    params.srcMemoryType = params.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    params.srcDevice = source;
    params.dstDevice = target;
    params.WidthInBytes = N * sizeof(float);
    params.Height = params.Depth = 1;
    return params;
}

static void add_child(struct Run *run) {
    int n = N;
    void *arguments[] = {&run->z, &run->x, &n};
    CUDA_KERNEL_NODE_PARAMS square = launch_of(run->square, arguments);
    CUgraph inside;
    CUgraphNode node;
    CHECK(cuGraphCreate(&inside, 0));
    CHECK(cuGraphAddKernelNode(&node, inside, NULL, 0, &square));
    CHECK(cuGraphAddChildGraphNode(&run->child, run->graph, &run->fill, 1, inside));
    CHECK(cuGraphDestroy(inside)); /* the node has a copy */
}

static void add_memory(struct Run *run) {
    CUDA_MEM_ALLOC_NODE_PARAMS params;
    CUgraphNode alloc, freed;
    memset(&params, 0, sizeof params);
    params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    params.bytesize = 4096;
    CHECK(cuGraphAddMemAllocNode(&alloc, run->graph, &run->record, 1, &params));
    CHECK(cuGraphAddMemFreeNode(&freed, run->graph, &alloc, 1, params.dptr));
}

static void build(struct Run *run, float a, int *counter) {
    int n = N;
    void *arguments[] = {&run->y, &run->x, &a, &n};
    CUDA_MEMSET_NODE_PARAMS fill = fill_of(run->x, 3);
    CUDA_KERNEL_NODE_PARAMS kernel = launch_of(run->add_scaled, arguments);
    CUDA_MEMCPY3D copy = copy_of(run->y, run->z);
    CUDA_HOST_NODE_PARAMS host = {count, counter};
    CHECK(cuGraphCreate(&run->graph, 0));
    CHECK(cuGraphAddMemsetNode(&run->fill, run->graph, NULL, 0, &fill, run->context));
    add_child(run);
    CHECK(cuGraphAddMemcpyNode(&run->copy, run->graph, &run->child, 1, &copy, run->context));
    CHECK(cuGraphAddKernelNode(&run->kernel, run->graph, &run->copy, 1, &kernel));
    CHECK(cuGraphAddHostNode(&run->host, run->graph, &run->kernel, 1, &host));
    CHECK(cuGraphAddEventRecordNode(&run->record, run->graph, &run->host, 1, run->reached));
    add_memory(run);
    CHECK(cuGraphInstantiate(&run->exec, run->graph, 0));
}

/* Launches once; every element of y has to be the same. */
static void show(struct Run *run, const char *what) {
    float y[N];
    int i;
    CHECK(cuGraphLaunch(run->exec, run->stream));
    CHECK(cuStreamSynchronize(run->stream));
    CHECK(cuMemcpyDtoH(y, run->y, sizeof y));
    for (i = 1; i < N; ++i)
        if (y[i] != y[0]) {
            fprintf(stderr, "y[%d] is %g, y[0] %g\n", i, y[i], y[0]);
            exit(1);
        }
    printf("%s: y = %g\n", what, y[0]);
}

static void edit(struct Run *run, int *counter, int *second) {
    int n = N;
    float a = 4;
    unsigned enabled = 7;
    void *arguments[] = {&run->y, &run->x, &a, &n};
    CUDA_KERNEL_NODE_PARAMS kernel = launch_of(run->add_scaled, arguments);
    CUDA_MEMSET_NODE_PARAMS fill = fill_of(run->x, 2);
    CUDA_HOST_NODE_PARAMS host = {count, second};
    CUDA_MEMCPY3D copy = copy_of(run->y, run->x);
    CHECK(cuGraphExecKernelNodeSetParams(run->exec, run->kernel, &kernel));
    show(run, "another factor");
    CHECK(cuGraphNodeSetEnabled(run->exec, run->kernel, 0));
    CHECK(cuGraphNodeGetEnabled(run->exec, run->kernel, &enabled));
    show(run, enabled == 0 ? "without the kernel" : "still enabled");
    CHECK(cuGraphNodeSetEnabled(run->exec, run->kernel, 1));
    CHECK(cuGraphExecMemsetNodeSetParams(run->exec, run->fill, &fill, run->context));
    CHECK(cuGraphExecHostNodeSetParams(run->exec, run->host, &host));
    CHECK(cuGraphExecEventRecordNodeSetEvent(run->exec, run->record, run->other));
    show(run, "another x");
    CHECK(cuEventQuery(run->other));
    CHECK(cuGraphExecMemcpyNodeSetParams(run->exec, run->copy, &copy, run->context));
    show(run, "another source");
    printf("host functions: %d and %d\n", *counter, *second);
}

/* A graph holds the reference that it was given until it and its executables are gone. */
static void keep(struct Run *run, int *let_go) {
    CUuserObject object;
    CHECK(cuUserObjectCreate(&object, let_go, count, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    CHECK(cuGraphRetainUserObject(run->graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
    printf("kept: %s\n", *(volatile int *)let_go ? "no" : "yes");
}

static void settings(struct Run *run) {
    CUstreamAttrValue value;
    memset(&value, 0, sizeof value);
    value.syncPolicy = CU_SYNC_POLICY_BLOCKING_SYNC;
    CHECK(cuStreamSetAttribute(run->stream, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
    memset(&value, 0, sizeof value);
    CHECK(cuStreamGetAttribute(run->stream, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
    printf("waits blocked: %s\n", value.syncPolicy == CU_SYNC_POLICY_BLOCKING_SYNC ? "yes" : "no");
}

int main(int argc, char **argv) {
    struct Run run;
    CUdevice device;
    CUmodule module;
    int counter = 0, second = 0;
    static int let_go; /* a driver may call for it as late as it likes */
    if (argc != 2) return 2;
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&run.context, device));
    CHECK(cuCtxSetCurrent(run.context));
    CHECK(cuModuleLoad(&module, argv[1]));
    CHECK(cuModuleGetFunction(&run.add_scaled, module, "add_scaled"));
    CHECK(cuModuleGetFunction(&run.square, module, "square"));
    CHECK(cuStreamCreate(&run.stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&run.reached, CU_EVENT_DISABLE_TIMING));
    CHECK(cuEventCreate(&run.other, CU_EVENT_DISABLE_TIMING));
    CHECK(cuMemAlloc(&run.x, N * sizeof(float)));
    CHECK(cuMemAlloc(&run.y, N * sizeof(float)));
    CHECK(cuMemAlloc(&run.z, N * sizeof(float)));
    settings(&run);
    build(&run, 2, &counter);
    show(&run, "as built");
    edit(&run, &counter, &second);
    keep(&run, &let_go);
    CHECK(cuGraphExecDestroy(run.exec));
    CHECK(cuGraphDestroy(run.graph));
    CHECK(cuStreamDestroy(run.stream));
    CHECK(cuEventDestroy(run.reached));
    CHECK(cuEventDestroy(run.other));
    CHECK(cuModuleUnload(module));
    CHECK(cuDevicePrimaryCtxRelease(device));
    puts("ok");
    return 0;
}
