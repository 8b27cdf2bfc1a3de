/* 4. A library with kernels of its own. It enqueues them on the stream that it is given: called in
   a window of lowgraph's, its launches become nodes of that graph (4_c_library.py).

       cc -shared -fPIC 4_c_library.c $(python -m lowgraph include) -o libleaky.so */
#include "lowgraph.h"

static CUfunction leaky_sum;

/* Loads the kernels; call it once, before any window. image: as cuModuleLoadData takes it. */
int leaky_load(const void *image) {
    CUmodule module;
    LG_CALL(cuModuleLoadData, &module, image);
    LG_CALL(cuModuleGetFunction, &leaky_sum, module, "leaky_sum");
    return 0;
}

static int launch(CUstream stream, CUdeviceptr y, CUdeviceptr x, float decay, int n) {
    unsigned blocks = (unsigned)(n + 255) / 256;
    void *args[] = {&y, &x, &decay, &n};
    LG_CALL(cuLaunchKernel, leaky_sum, blocks, 1, 1, 256, 1, 1, 0, stream, args, NULL);
    return 0;
}

/* y <- decay * y + x, then x <- decay * x + y. */
int leaky_pair(CUstream stream, float *y, float *x, float decay, int n) {
    int code = launch(stream, (CUdeviceptr)y, (CUdeviceptr)x, decay, n);
    return code != 0 ? code : launch(stream, (CUdeviceptr)x, (CUdeviceptr)y, decay, n);
}

/* Two mistakes, neither of which has a place in a capture: the legacy stream, and a wait. */
int leaky_astray(CUstream stream, float *y, float *x, float decay, int n) {
    (void)stream;
    return launch(NULL, (CUdeviceptr)y, (CUdeviceptr)x, decay, n);
}

int leaky_waits(CUstream stream, float *y, float *x, float decay, int n) {
    int code = leaky_pair(stream, y, x, decay, n);
    if (code != 0) return code;
    LG_CALL(cuStreamSynchronize, stream);
    return 0;
}
