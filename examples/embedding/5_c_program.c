/* 5. A C program launches a graph that lowgraph recorded, from its handle: no Python in the loop.
   5_recorded.py records it; a handle serves within its process, so Python runs in this one.

       cc 5_c_program.c $(python -m lowgraph include) $(python3-config --includes --embed --ldflags)
       PYTHONPATH=examples/embedding ./a.out .venv/bin/python [DEVICE] */
#include <Python.h>

#include "lowgraph.h"

enum { N = 1000, REPLAYS = 9 };

static int run(CUgraphExec exec, CUstream stream, CUdeviceptr y, float *result) {
    for (int i = 0; i < REPLAYS; ++i) LG_CALL(cuGraphLaunch, exec, stream);
    LG_CALL(cuMemcpyDtoHAsync, result, y, N * sizeof(float), stream);
    LG_CALL(cuStreamSynchronize, stream);
    return 0;
}

static int start(const char *python) {
    PyConfig config;
    PyConfig_InitPythonConfig(&config); /* by its name it finds the packages beside it */
    PyStatus status = PyConfig_SetBytesString(&config, &config.program_name, python);
    if (!PyStatus_Exception(status)) status = Py_InitializeFromConfig(&config);
    PyConfig_Clear(&config);
    return !PyStatus_Exception(status);
}

int main(int argc, char **argv) {
    static float result[N];
    unsigned long long exec, stream, y;
    if (argc < 2 || !start(argv[1])) return 2;
    PyObject *recorded = PyImport_ImportModule("5_recorded");
    PyObject *handles = recorded == NULL ? NULL : PyObject_CallMethod(
        recorded, "record", "s", argc > 2 ? argv[2] : "auto");
    if (handles == NULL || !PyArg_ParseTuple(handles, "KKK", &exec, &stream, &y)) {
        PyErr_Print();
        return 2;
    }
    if (run((CUgraphExec)exec, (CUstream)stream, (CUdeviceptr)y, result) != 0) {
        struct lg_failure *failed = lg_failure();
        fprintf(stderr, "%s:%d: %s gives %d\n", failed->file, failed->line, failed->call, failed->code);
        return 1;
    }
    printf("%d launches from C: y[0] = %.9f\n", REPLAYS, result[0]);
    Py_XDECREF(PyObject_CallMethod(recorded, "close", NULL));
    return Py_FinalizeEx() != 0 || result[0] != 2.0f - 1.0f / 512; /* 1 + 1/2 + ... + 1/2^9 */
}
