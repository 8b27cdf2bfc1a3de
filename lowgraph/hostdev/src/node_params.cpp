#include "node_params.h"

#include "conditional.h"
#include "context.h"
#include "copy.h"
#include "graph_memory.h"
#include "handles.h"
#include "memory.h"
#include "pool.h"
#include "stream.h"
#include "words.h"

namespace lowgraph {
namespace {

// One end of a copy: its kind, its address at the offsets, and the layout of its rows.
struct End {
    CUmemorytype kind;
    const void* host;
    CUdeviceptr device;
    size_t x, y, z, pitch, rows;
};

CUresult read_end(const End& end, CUmemorytype* kind, uint64_t* address) {
    const bool on_host = end.kind == CU_MEMORYTYPE_HOST;
    if (!on_host && end.kind != CU_MEMORYTYPE_DEVICE && end.kind != CU_MEMORYTYPE_UNIFIED)
        return CUDA_ERROR_NOT_SUPPORTED;  // arrays: there are none on this device
    const uint64_t base = on_host ? reinterpret_cast<uint64_t>(end.host) : end.device;
    if (base == 0) return CUDA_ERROR_INVALID_VALUE;
    *address = base + (end.z * end.rows + end.y) * end.pitch + end.x;
    *kind = end.kind == CU_MEMORYTYPE_UNIFIED ? memory_type(*address) : end.kind;
    return CUDA_SUCCESS;
}

bool holds_rows(const CopyWork& copy, size_t pitch) {
    return (copy.height <= 1 && copy.depth <= 1) || pitch >= copy.width;
}

void write_end(CUmemorytype kind, uint64_t address, const void** host, CUdeviceptr* device) {
    if (kind == CU_MEMORYTYPE_HOST) *host = reinterpret_cast<const void*>(address);
    else *device = address;
}

CUresult read_event(CUevent handle, Event** event) {
    *event = find_event(handle);
    return *event == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUDA_KERNEL_NODE_PARAMS with_old_layout(const CUDA_KERNEL_NODE_PARAMS_v3& params) {
    CUDA_KERNEL_NODE_PARAMS old{};
    old.func = params.func;
    old.gridDimX = params.gridDimX, old.gridDimY = params.gridDimY, old.gridDimZ = params.gridDimZ;
    old.blockDimX = params.blockDimX, old.blockDimY = params.blockDimY, old.blockDimZ = params.blockDimZ;
    old.sharedMemBytes = params.sharedMemBytes;
    old.kernelParams = params.kernelParams;
    old.extra = params.extra;
    old.kern = params.kern;
    old.ctx = params.ctx;
    return old;
}

}  // namespace

CUresult read_params(const CUDA_MEMCPY3D& params, Work* work) {
    CopyWork copy;
    copy.width = params.WidthInBytes, copy.height = params.Height, copy.depth = params.Depth;
    copy.dst_pitch = params.dstPitch, copy.src_pitch = params.srcPitch;
    copy.dst_rows = params.dstHeight, copy.src_rows = params.srcHeight;
    copy.dst_told = params.dstMemoryType, copy.src_told = params.srcMemoryType;
    const End dst{params.dstMemoryType, params.dstHost, params.dstDevice, params.dstXInBytes,
                  params.dstY,          params.dstZ,    params.dstPitch,  params.dstHeight};
    const End src{params.srcMemoryType, params.srcHost, params.srcDevice, params.srcXInBytes,
                  params.srcY,          params.srcZ,    params.srcPitch,  params.srcHeight};
    const bool empty = copy.width == 0 || copy.height == 0 || copy.depth == 0;
    if (empty || !holds_rows(copy, copy.dst_pitch) || !holds_rows(copy, copy.src_pitch))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult code = read_end(dst, &copy.dst_kind, &copy.dst);
    if (code == CUDA_SUCCESS) code = read_end(src, &copy.src_kind, &copy.src);
    if (code == CUDA_SUCCESS) code = check_copy(copy);
    if (code == CUDA_SUCCESS) *work = copy;
    return code;
}

CUresult read_params(const CUDA_MEMSET_NODE_PARAMS& params, Work* work) {
    const bool known = params.elementSize == 1 || params.elementSize == 2 || params.elementSize == 4;
    if (!known || params.width == 0 || params.height == 0) return CUDA_ERROR_INVALID_VALUE;
    const FillWork fill{params.dst, params.value, params.elementSize, params.width, params.height, params.pitch};
    const CUresult code = check_fill(fill);
    if (code == CUDA_SUCCESS) *work = fill;
    return code;
}

CUresult read_params(const CUDA_HOST_NODE_PARAMS& params, Work* work) {
    if (params.fn == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *work = HostWork{params.fn, params.userData};
    return CUDA_SUCCESS;
}

CUresult read_params(const CUDA_BATCH_MEM_OP_NODE_PARAMS& params, Work* work) {
    Context* const context = find_context(params.ctx);
    if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
    WordsWork words{context, {}};
    const CUresult code = read_words(params.paramArray, params.count, params.flags, &words);
    if (code == CUDA_SUCCESS) *work = std::move(words);
    return code;
}

CUresult read_record(CUevent handle, Work* work) {
    Event* event = nullptr;
    const CUresult code = read_event(handle, &event);
    if (code == CUDA_SUCCESS) *work = RecordWork{event};
    return code;
}

CUresult read_wait(CUevent handle, Work* work) {
    Event* event = nullptr;
    const CUresult code = read_event(handle, &event);
    if (code == CUDA_SUCCESS) *work = WaitWork{event};
    return code;
}

CUresult read_child(CUgraph handle, Work* work) {
    const Graph* const graph = find_graph(handle);
    if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!may_be_copied(*graph)) return CUDA_ERROR_NOT_SUPPORTED;
    *work = ChildWork{clone_graph(*graph)};
    return CUDA_SUCCESS;
}

CUresult read_params(CUDA_MEM_ALLOC_NODE_PARAMS& params, Work* work) {
    const bool plain = params.poolProps.allocType == CU_MEM_ALLOCATION_TYPE_PINNED &&
                       params.poolProps.location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
                       params.poolProps.location.id == 0;
    if (!plain || params.bytesize == 0) return CUDA_ERROR_INVALID_VALUE;
    uint64_t address = 0;
    const CUresult code = reserve(params.bytesize, false, PoolKind::device, nullptr, &address);
    if (code != CUDA_SUCCESS) return code;
    params.dptr = address;
    *work = AllocWork{address, params.bytesize};
    return CUDA_SUCCESS;
}

CUresult read_free(CUdeviceptr address, Work* work) {
    if (!find_graph_memory(address)) return CUDA_ERROR_INVALID_VALUE;
    *work = FreeWork{address};
    return CUDA_SUCCESS;
}

CUresult read_params(CUgraphNodeParams& params, Work* work) {
    switch (params.type) {
        case CU_GRAPH_NODE_TYPE_KERNEL: return read_params(with_old_layout(params.kernel), work);
        case CU_GRAPH_NODE_TYPE_MEMCPY: {
            const CUresult code = read_params(params.memcpy.copyParams, work);
            if (code == CUDA_SUCCESS) set_context(*work, find_context(params.memcpy.copyCtx));
            return code;
        }
        case CU_GRAPH_NODE_TYPE_MEMSET: {
            const auto& set = params.memset;
            const CUresult code = read_params(CUDA_MEMSET_NODE_PARAMS{set.dst, set.pitch, set.value,
                                                                      set.elementSize, set.width, set.height},
                                              work);
            if (code == CUDA_SUCCESS) set_context(*work, find_context(set.ctx));
            return code;
        }
        case CU_GRAPH_NODE_TYPE_HOST:
            return read_params(CUDA_HOST_NODE_PARAMS{params.host.fn, params.host.userData}, work);
        case CU_GRAPH_NODE_TYPE_GRAPH: return read_child(params.graph.graph, work);
        case CU_GRAPH_NODE_TYPE_EMPTY: *work = EmptyWork{}; return CUDA_SUCCESS;
        case CU_GRAPH_NODE_TYPE_WAIT_EVENT: return read_wait(params.eventWait.event, work);
        case CU_GRAPH_NODE_TYPE_EVENT_RECORD: return read_record(params.eventRecord.event, work);
        case CU_GRAPH_NODE_TYPE_MEM_ALLOC: {
            CUDA_MEM_ALLOC_NODE_PARAMS alloc{};
            alloc.poolProps = params.alloc.poolProps;
            alloc.bytesize = params.alloc.bytesize;
            const CUresult code = read_params(alloc, work);
            params.alloc.dptr = alloc.dptr;
            return code;
        }
        case CU_GRAPH_NODE_TYPE_MEM_FREE: return read_free(params.free.dptr, work);
        case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: {
            const auto& memory = params.memOp;
            return read_params(CUDA_BATCH_MEM_OP_NODE_PARAMS{memory.ctx, memory.count, memory.paramArray,
                                                             memory.flags},
                               work);
        }
        default: return CUDA_ERROR_NOT_SUPPORTED;  // semaphores
    }
}

void write_params(const CopyWork& work, CUDA_MEMCPY3D* params) {
    *params = CUDA_MEMCPY3D{};
    params->WidthInBytes = work.width, params->Height = work.height, params->Depth = work.depth;
    params->dstPitch = work.dst_pitch, params->srcPitch = work.src_pitch;
    params->dstHeight = work.dst_rows, params->srcHeight = work.src_rows;
    params->dstMemoryType = work.dst_told, params->srcMemoryType = work.src_told;
    const void* dst_host = nullptr;
    write_end(params->dstMemoryType, work.dst, &dst_host, &params->dstDevice);
    params->dstHost = const_cast<void*>(dst_host);
    write_end(params->srcMemoryType, work.src, &params->srcHost, &params->srcDevice);
}

void write_params(const FillWork& work, CUDA_MEMSET_NODE_PARAMS* params) {
    *params = {work.dst, work.pitch, work.value, work.element, work.width, work.height};
}

void write_params(const AllocWork& work, CUDA_MEM_ALLOC_NODE_PARAMS* params) {
    *params = CUDA_MEM_ALLOC_NODE_PARAMS{};
    params->poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params->poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    params->bytesize = work.bytes;
    params->dptr = work.address;
}

}  // namespace lowgraph
