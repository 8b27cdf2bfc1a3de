// Memory operations: the calls on a stream, and the nodes.
#include "capture.h"
#include "context.h"
#include "node_entry.h"
#include "queue.h"
#include "stream.h"
#include "words.h"

using namespace lowgraph;

namespace {

// A capture takes any address: its launch is what looks. A bad form is refused and harms no capture.
CUresult operate(Entry& entry, CUstream handle, const CUstreamBatchMemOpParams* operations, unsigned count,
                 unsigned flags) {
    Stream* const stream = find_stream(handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (const CUresult standing = standing_refusal(*stream); standing != CUDA_SUCCESS) return standing;
    WordsWork work{stream->context, {}};
    CUresult bad = read_words(operations, count, flags, &work);
    if (bad == CUDA_SUCCESS && !stream->capture) bad = check_words(work);
    return bad == CUDA_SUCCESS ? offer(entry, *stream, std::move(work)) : bad;
}

CUresult operate_one(Entry& entry, CUstream stream, CUstreamBatchMemOpType kind, CUdeviceptr address,
                     cuuint64_t value, unsigned flags) {
    CUstreamBatchMemOpParams made{};
    made.writeValue.operation = kind;  // a wait has the same layout
    made.writeValue.address = address;
    made.writeValue.value64 = value;
    made.writeValue.flags = flags;
    return operate(entry, stream, &made, 1, 0);
}

}  // namespace

LOWGRAPH_API CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value,
                                              unsigned flags) {
    LOWGRAPH_STREAM_ENTRY(stream);
    return operate_one(entry, stream, CU_STREAM_MEM_OP_WRITE_VALUE_32, addr, value, flags);
}

LOWGRAPH_API CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value,
                                              unsigned flags) {
    LOWGRAPH_STREAM_ENTRY(stream);
    return operate_one(entry, stream, CU_STREAM_MEM_OP_WRITE_VALUE_64, addr, value, flags);
}

LOWGRAPH_API CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value,
                                             unsigned flags) {
    LOWGRAPH_STREAM_ENTRY(stream);
    return operate_one(entry, stream, CU_STREAM_MEM_OP_WAIT_VALUE_32, addr, value, flags);
}

LOWGRAPH_API CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value,
                                             unsigned flags) {
    LOWGRAPH_STREAM_ENTRY(stream);
    return operate_one(entry, stream, CU_STREAM_MEM_OP_WAIT_VALUE_64, addr, value, flags);
}

LOWGRAPH_API CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned count,
                                            CUstreamBatchMemOpParams* paramArray, unsigned flags) {
    LOWGRAPH_STREAM_ENTRY(stream);
    return operate(entry, stream, paramArray, count, flags);
}

// ---- Nodes: their context is in the parameters, so that a thread needs none ----
LOWGRAPH_API CUresult cuGraphAddBatchMemOpNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                               const CUgraphNode* dependencies, size_t count,
                                               const CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
    LOWGRAPH_ENTRY(handle);
    return add({phGraphNode, hGraph, dependencies, count}, reader(params));
}

LOWGRAPH_API CUresult cuGraphBatchMemOpNodeGetParams(CUgraphNode hNode, CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
    LOWGRAPH_ENTRY(handle);
    WordsWork* const work = work_of<WordsWork>(hNode);
    if (work == nullptr || params == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *params = {reinterpret_cast<CUcontext>(work->context), static_cast<unsigned>(work->operations.size()),
               work->operations.data(), 0};
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuGraphBatchMemOpNodeSetParams(CUgraphNode hNode,
                                                     const CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
    LOWGRAPH_ENTRY(handle);
    return set<WordsWork>(hNode, reader(params));
}
