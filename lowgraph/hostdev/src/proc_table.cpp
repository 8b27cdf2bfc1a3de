// cuGetProcAddress: the address of a call by its name and the CUDA version that the caller was
// written for. A row answers from its version on, until a later row of the name replaces it.
#include <cstring>

#include "device.h"
#include "entry.h"
#include "proc_entry.h"

#undef cuGetProcAddress

using namespace lowgraph;

namespace {

struct Answer {
    void* function = nullptr;
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    int version = -1;
};

void search(std::span<const ProcEntry> rows, const char* name, int version, Answer* answer) {
    for (const ProcEntry& row : rows) {
        if (std::strcmp(row.name, name) != 0) continue;
        if (row.version <= version && row.version > answer->version)
            *answer = {row.function, CU_GET_PROC_ADDRESS_SUCCESS, row.version};
        else if (answer->function == nullptr)
            answer->status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    }
}

Answer look_up(const char* name, int version) {
    Answer answer;
    for (const auto rows : {device_procs(), memory_procs(), mapped_procs(), work_procs(), library_procs(),
                            capture_procs(), graph_procs()})
        search(rows, name, version, &answer);
    return answer;
}

constexpr cuuint64_t known_flags =
    CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;

CUresult find(const char* name, void** out, int version, cuuint64_t flags, Answer* answer) {
    if (name == nullptr || out == nullptr || version > driver_version || (flags & ~known_flags) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    *answer = look_up(name, version);
    // Both flags at once are answered (recorded), by which of the two forms is not known: the plain one.
    const bool per_thread = flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    void* variant = per_thread ? per_thread_variant(answer->function) : nullptr;
    *out = variant != nullptr ? variant : answer->function;
    return CUDA_SUCCESS;
}

}  // namespace

// What a real driver answers (recorded): success and a null pointer for a name that is not found.
LOWGRAPH_API CUresult cuGetProcAddress_v2(const char* name, void** out, int version,
                                          cuuint64_t flags,
                                          CUdriverProcAddressQueryResult* status) {
    LOWGRAPH_ENTRY(nothing);
    Answer answer;
    const CUresult code = find(name, out, version, flags, &answer);
    if (code == CUDA_SUCCESS && status != nullptr) *status = answer.status;
    return code;
}

LOWGRAPH_API CUresult cuGetProcAddress(const char* name, void** out, int version,
                                       cuuint64_t flags) {
    LOWGRAPH_ENTRY(nothing);
    Answer answer;
    const CUresult code = find(name, out, version, flags, &answer);
    if (code != CUDA_SUCCESS) return code;
    return answer.function != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

// There are no export tables. The call must exist all the same: NVRTC jumps through it unchecked.
LOWGRAPH_API CUresult cuGetExportTable(const void** table, const CUuuid*) {
    LOWGRAPH_ENTRY(nothing);
    if (table != nullptr) *table = nullptr;
    return CUDA_ERROR_NOT_FOUND;
}

extern "C" CUresult cuProfilerStart() {
    LOWGRAPH_ENTRY(context);
    return CUDA_SUCCESS;  // nothing to profile with
}

extern "C" CUresult cuProfilerStop() {
    LOWGRAPH_ENTRY(context);
    return CUDA_SUCCESS;
}
