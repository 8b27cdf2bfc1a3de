// Attributes of streams: kept and told, for a CPU has nothing to do with them.
#include "attributes.h"
#include "capture.h"
#include "device.h"
#include "stream.h"

using namespace lowgraph;

LOWGRAPH_API CUresult cuStreamSetAttribute(CUstream handle, CUstreamAttrID id, const CUstreamAttrValue* value) {
    LOWGRAPH_STREAM_ENTRY(handle);
    Stream* const stream = find_stream(handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (const CUresult standing = standing_refusal(*stream); standing != CUDA_SUCCESS) return standing;
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return write_attribute(*stream, id, *value);
}

LOWGRAPH_API CUresult cuStreamGetAttribute(CUstream handle, CUstreamAttrID id, CUstreamAttrValue* value) {
    LOWGRAPH_STREAM_ENTRY(handle);
    Stream* const stream = find_stream(handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (const CUresult standing = standing_refusal(*stream); standing != CUDA_SUCCESS) return standing;
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return read_attribute(*stream, id, value);
}

LOWGRAPH_API CUresult cuStreamCopyAttributes(CUstream target_handle, CUstream source_handle) {
    LOWGRAPH_STREAM_ENTRY(target_handle);
    Stream* const target = find_stream(target_handle);
    Stream* const source = find_stream(source_handle);
    if (target == nullptr || source == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    for (Stream* end : {target, source})
        if (const CUresult standing = standing_refusal(*end); standing != CUDA_SUCCESS) return standing;
    if (target->context != source->context) return CUDA_ERROR_INVALID_VALUE;
    copy_attributes(*source, *target);
    return CUDA_SUCCESS;
}
