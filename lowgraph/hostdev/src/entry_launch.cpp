// Kernel launches, all by one path: check, pack the arguments, offer the work to the stream.
#include <span>

#include "attributes.h"
#include "capture.h"
#include "context.h"
#include "edge_data.h"
#include "launch.h"
#include "module.h"
#include "queue.h"
#include "stream.h"

using namespace lowgraph;

namespace {

using Given = std::span<const CUlaunchAttribute>;

// An attribute that launches do not take; a capture goes on.
CUresult refused_attribute(Stream& stream, CUresult code) {
    const CUresult standing = standing_refusal(stream);
    return standing != CUDA_SUCCESS ? standing : code;
}

// What of a launch is not the kernel's: when it may begin, and events that stand for its trigger and its start.
struct LaunchOrder {
    struct Recorded {
        Event* event;
        CUgraphEdgeData data;  // of the edge to who waits for it
    };
    bool may_begin_early = false;
    std::vector<Recorded> events;
};

// Flags, and a trigger at the begin of each block, were not recorded; outside a capture it is recorded at the end.
CUresult take_event(const Stream& stream, CUevent handle, bool is_plain, CUgraphEdgeData data, LaunchOrder* order) {
    Event* const event = find_event(handle);
    if (event == nullptr || event->context != stream.context) return CUDA_ERROR_INVALID_HANDLE;
    if (!is_plain) return CUDA_ERROR_NOT_SUPPORTED;
    order->events.push_back({event, data});
    return CUDA_SUCCESS;
}

CUresult take_order(Given given, const Stream& stream, LaunchOrder* order) {
    CUresult code = CUDA_SUCCESS;
    for (const CUlaunchAttribute& attribute : given) {
        const CUlaunchAttributeValue& value = attribute.value;
        if (attribute.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
            order->may_begin_early = value.programmaticStreamSerializationAllowed != 0;
        if (attribute.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT) {
            const auto& [event, flags, at_block_start] = value.programmaticEvent;
            const bool known = flags == 0 && (at_block_start == 0 || !stream.capture);
            code = take_event(stream, event, known, trigger_edge, order);
        }
        if (attribute.id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT) {
            const auto& [event, flags] = value.launchCompletionEvent;
            code = take_event(stream, event, flags == 0, start_edge, order);
        }
        if (code != CUDA_SUCCESS) return code;
    }
    return CUDA_SUCCESS;
}

// The kernel, then the events: all of them at its end, since nothing here waits for less.
CUresult send(Entry& entry, Stream& stream, KernelWork&& work, const LaunchOrder& order) {
    if (order.may_begin_early) start_early(stream.tail);
    Work offered = std::move(work);
    const Route route = route_work(stream, std::move(offered));
    if (route.kind == Route::refused) return route.code;
    Ticket last = route.kind == Route::run ? enqueue(stream, std::move(offered)) : nullptr;
    for (const auto& [event, data] : order.events)
        if (route_launch_event(stream, *event, data).kind == Route::run)
            last = event->recorded = enqueue(stream, RecordWork{event});
    return last ? settle(entry, last) : route.code;
}

// What the launch does not name it has of its stream, and so has the node that it becomes.
CUresult launch(Entry& entry, CUfunction function, CUstream handle, KernelWork&& work, Given given, void** params,
                void** extra) {
    Stream* stream = find_stream(handle);
    work.function = find_function(function);
    if (stream == nullptr || work.function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    const Context* const home = work.function->module->context;
    if (home != nullptr && home != stream->context) return foreign_object(*stream);
    work.context = stream->context;
    inherit_attributes(*stream, work);
    work.launched = true;
    const CUresult taken = take_attributes(given, work);
    if (taken == CUDA_ERROR_INVALID_VALUE || taken == CUDA_ERROR_NOT_SUPPORTED)
        return refused_attribute(*stream, taken);
    if (taken != CUDA_SUCCESS) return invalid_call(*stream, taken);
    LaunchOrder order;
    if (const CUresult code = take_order(given, *stream, &order); code != CUDA_SUCCESS)
        return refused_attribute(*stream, code);
    if (const CUresult bad = check_launch(work); bad != CUDA_SUCCESS)
        return invalid_call(*stream, bad);
    const CUresult packed = pack_arguments(*work.function, params, extra, &work.args);
    if (packed != CUDA_SUCCESS) return invalid_call(*stream, packed);
    work.function->resident = true;
    return send(entry, *stream, std::move(work), order);
}

}  // namespace

LOWGRAPH_API CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                     unsigned grid_z, unsigned block_x, unsigned block_y,
                                     unsigned block_z, unsigned shared_bytes, CUstream stream,
                                     void** params, void** extra) {
    LOWGRAPH_STREAM_ENTRY(stream);
    KernelWork work;
    work.grid = {grid_x, grid_y, grid_z};
    work.block = {block_x, block_y, block_z};
    work.shared_bytes = shared_bytes;
    return launch(entry, function, stream, std::move(work), {}, params, extra);
}

LOWGRAPH_API CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function,
                                       void** params, void** extra) {
    LOWGRAPH_STREAM_ENTRY(config != nullptr ? config->hStream : nullptr);
    if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
    KernelWork work;
    work.grid = {config->gridDimX, config->gridDimY, config->gridDimZ};
    work.block = {config->blockDimX, config->blockDimY, config->blockDimZ};
    work.shared_bytes = config->sharedMemBytes;
    return launch(entry, function, config->hStream, std::move(work), {config->attrs, config->numAttrs}, params, extra);
}

LOWGRAPH_API CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x,
                                                unsigned grid_y, unsigned grid_z, unsigned block_x,
                                                unsigned block_y, unsigned block_z,
                                                unsigned shared_bytes, CUstream stream,
                                                void** params) {
    LOWGRAPH_STREAM_ENTRY(stream);
    KernelWork work;
    work.grid = {grid_x, grid_y, grid_z};
    work.block = {block_x, block_y, block_z};
    work.shared_bytes = shared_bytes;
    work.cooperative = true;
    return launch(entry, function, stream, std::move(work), {}, params, nullptr);
}
