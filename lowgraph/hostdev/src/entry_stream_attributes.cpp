// A stream's settings: kept, told and copied, with nothing done by them. Its priority and memory domain are not
// settings here. A captured kernel keeps the stream's priority alone.
#include "capture.h"
#include "device.h"
#include "stream.h"

using namespace lowgraph;

// Takes the source's settings; what refuses a call on the target refuses this one.
LOWGRAPH_API CUresult cuStreamCopyAttributes(CUstream to, CUstream from) {
    LOWGRAPH_STREAM_ENTRY(to);
    Stream* const target = find_stream(to);
    const Stream* const source = find_stream(from);
    if (target == nullptr || source == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (const CUresult standing = standing_refusal(*target); standing != CUDA_SUCCESS) return standing;
    target->settings = source->settings;
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuStreamGetAttribute(CUstream handle, CUstreamAttrID attribute, CUstreamAttrValue* value) {
    LOWGRAPH_STREAM_ENTRY(handle);
    Stream* const stream = find_stream(handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult standing = standing_refusal(*stream); standing != CUDA_SUCCESS) return standing;
    switch (attribute) {
        case CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW:
            value->accessPolicyWindow = stream->settings.window;
            return CUDA_SUCCESS;
        case CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY:
            value->syncPolicy = stream->settings.waits;
            return CUDA_SUCCESS;
        default: return CUDA_ERROR_NOT_SUPPORTED;
    }
}

LOWGRAPH_API CUresult cuStreamSetAttribute(CUstream handle, CUstreamAttrID attribute, const CUstreamAttrValue* value) {
    LOWGRAPH_STREAM_ENTRY(handle);
    Stream* const stream = find_stream(handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult standing = standing_refusal(*stream); standing != CUDA_SUCCESS) return standing;
    switch (attribute) {
        case CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW:
            if (value->accessPolicyWindow.num_bytes > max_window_bytes) return CUDA_ERROR_INVALID_VALUE;
            stream->settings.window = value->accessPolicyWindow;
            return CUDA_SUCCESS;
        case CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY:
            stream->settings.waits = value->syncPolicy;
            return CUDA_SUCCESS;
        default: return CUDA_ERROR_NOT_SUPPORTED;
    }
}
