/* lowgraph.h: driver calls of C and C++ code that lowgraph can explain (docs/embedding-c.md).

   int smooth(CUstream stream, float *y, const float *x, int n) {
       void *args[] = {&y, &x, &n};
       LG_CALL(cuLaunchKernel, kernel, (n + 255) / 256, 1, 1, 256, 1, 1, 0, stream, args, NULL);
       return 0;
   }

   LG_CALL(function, arguments...)  makes the call. If it fails, the call is noted with its file and
                                    line, and the enclosing function, one of int, returns the code.
   LG_DRIVER(function)              a pointer to the function, for calls whose code is an answer.
   lg_failure()                     the first call of this thread that failed since it was cleared.

   The functions are found in the process's libcuda.so.1 when they are first called: nothing is
   linked but libdl, and one library serves a GPU and lowgraph's host device. */
#ifndef LOWGRAPH_H
#define LOWGRAPH_H

#include <cuda.h>
#include <dlfcn.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* code: the CUresult, 0 if no call has failed; CUDA_ERROR_NOT_FOUND also where libcuda.so.1 or the
   function in it cannot be found. call: as it is written. */
struct lg_failure {
    int code, line;
    const char *call, *file;
};

/* lowgraph reads and clears it through this symbol. Weak: one for all files of a library. */
__attribute__((weak, visibility("default"))) struct lg_failure *lg_failure(void) {
    static __thread struct lg_failure failure;
    return &failure;
}

static inline int lg_note(int code, const char *call, const char *file, int line) {
    struct lg_failure *failure = lg_failure();
    if (failure->code == 0) {
        failure->code = code, failure->call = call;
        failure->file = file, failure->line = line;
    }
    return code;
}

static inline void *lg_symbol(const char *name) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW); /* never closed: it has to outlive its users */
    return driver == NULL ? NULL : dlsym(driver, name);
}

#ifdef __cplusplus
}
#endif

/* Two steps: cuda.h defines cuMemAlloc as cuMemAlloc_v2, which is the symbol's name. */
#define LG_DRIVER(function) LG_DRIVER_AS(function)
#define LG_DRIVER_AS(function) ((__typeof__(&function))lg_symbol(#function))

#define LG_CALL(function, ...) LG_CALL_AS(function, #function "(" #__VA_ARGS__ ")", __VA_ARGS__)
#define LG_CALL_AS(function, text, ...)                                               \
    do {                                                                              \
        static __typeof__(&function) lg_found_;                                       \
        int lg_code_ = CUDA_ERROR_NOT_FOUND;                                          \
        if (lg_found_ == NULL) lg_found_ = LG_DRIVER_AS(function);                    \
        if (lg_found_ != NULL) lg_code_ = lg_found_(__VA_ARGS__);                     \
        if (lg_code_ != CUDA_SUCCESS) return lg_note(lg_code_, text, __FILE__, __LINE__); \
    } while (0)

#endif
