#include "copy.h"

#include <cstring>

#include "capture.h"
#include "context.h"
#include "engine.h"
#include "memory.h"
#include "queue.h"
#include "shuffle.h"
#include "stream.h"

namespace lowgraph {
namespace {

size_t reach(const CopyWork& work, size_t pitch, size_t rows) {
    if (work.width == 0 || work.height == 0 || work.depth == 0) return 0;
    const size_t stride = rows != 0 ? rows : work.height;
    return ((work.depth - 1) * stride + work.height - 1) * pitch + work.width;
}

// Pinned memory counts, but not a pool's of the host.
bool is_device_range(uint64_t address, size_t bytes) {
    Region region;
    if (!find_region(address, bytes, &region)) return false;
    if (region.kind == RegionKind::pool && region.pool == PoolKind::host) return false;
    return region.state != RegionState::closing;
}

bool side_is_good(CUmemorytype kind, uint64_t address, size_t bytes) {
    if (kind == CU_MEMORYTYPE_HOST) return address != 0;
    return is_device_range(address, bytes);
}

// An address of the device that a call says is the host's is no pageable memory, freed or not.
bool is_pageable(CUmemorytype kind, uint64_t address, size_t bytes) {
    return kind == CU_MEMORYTYPE_HOST && !is_pinned(address, bytes) && !in_device_memory(address);
}

// Whether the call of a synchronous copy ends before the copy does (CUDA's "API synchronization
// behavior"): between addresses of the device the host waits for nothing, and a copy from pageable
// memory is on its way once the bytes are staged. Work of a non-blocking stream is in no order with
// it: one test of many, on an H200 that 14 processes shared, read the copied zeros where a graph that
// was launched later had set another value.
bool outlives_call(const CopyWork& work, size_t src_bytes) {
    const auto is_on_device = [](CUmemorytype kind, uint64_t address) {
        return kind == CU_MEMORYTYPE_DEVICE && memory_type(address) == CU_MEMORYTYPE_DEVICE &&
               !is_managed(address);
    };
    return is_on_device(work.dst_kind, work.dst) &&
           (is_pageable(work.src_kind, work.src, src_bytes) || is_on_device(work.src_kind, work.src));
}

// The op for a copy that runs, with the bytes of a pageable source: the caller may overwrite them
// as soon as the call has returned.
Ticket make_op(CopyWork&& work, size_t src_bytes) {
    auto op = std::make_shared<Op>();
    if (is_pageable(work.src_kind, work.src, src_bytes)) {
        op->staging.resize(src_bytes);
        std::memcpy(op->staging.data(), reinterpret_cast<const void*>(work.src), src_bytes);
        work.src = reinterpret_cast<uint64_t>(op->staging.data());
    }
    op->work = work;
    return op;
}

}  // namespace

CUresult check_copy(const CopyWork& work) {
    const size_t dst_bytes = reach(work, work.dst_pitch, work.dst_rows);
    const size_t src_bytes = reach(work, work.src_pitch, work.src_rows);
    if (dst_bytes == 0) return CUDA_SUCCESS;
    const bool good = side_is_good(work.dst_kind, work.dst, dst_bytes) &&
                      side_is_good(work.src_kind, work.src, src_bytes);
    return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult check_fill(const FillWork& work) {
    if (work.width == 0 || work.height == 0) return CUDA_SUCCESS;
    const size_t row = work.width * work.element;
    if (work.dst % work.element != 0 || (work.height > 1 && work.pitch < row))
        return CUDA_ERROR_INVALID_VALUE;
    const size_t bytes = (work.height - 1) * work.pitch + row;
    return is_device_range(work.dst, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult copy_async(Entry& entry, CUstream handle, CopyWork&& work) {
    Stream* stream = find_stream(handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (const CUresult bad = check_copy(work); bad != CUDA_SUCCESS)
        return invalid_call(*stream, bad);
    const size_t dst_bytes = reach(work, work.dst_pitch, work.dst_rows);
    const size_t src_bytes = reach(work, work.src_pitch, work.src_rows);
    if (dst_bytes == 0) return standing_refusal(*stream);  // nothing to do is no node either
    Work offered = work;
    const Route route = route_work(*stream, std::move(offered));
    if (route.kind != Route::run) return route.code;
    const bool wait = is_pageable(work.dst_kind, work.dst, dst_bytes);
    const Ticket ticket = enqueue_op(*stream, make_op(std::move(work), src_bytes), nullptr);
    if (!wait) return settle(entry, ticket);
    finish(ticket, entry.lock());
    return context_error();
}

CUresult copy_now(Entry& entry, CopyWork&& work) {
    if (const CUresult refused = guard_legacy(*current_context()); refused != CUDA_SUCCESS) return refused;
    if (const CUresult bad = check_copy(work); bad != CUDA_SUCCESS) return bad;
    Stream* stream = find_stream(nullptr);
    tell_elsewhere(*stream, work);
    const size_t src_bytes = reach(work, work.src_pitch, work.src_rows);
    if (!outlives_call(work, src_bytes)) {
        finish(enqueue(*stream, std::move(work)), entry.lock());
        return context_error();
    }
    if (is_pageable(work.src_kind, work.src, src_bytes)) {
        // Staged when the work before it is done: a host function may have written the source.
        finish(enqueue(*stream, EmptyWork{}), entry.lock());
        stream = find_stream(nullptr);  // another thread may have destroyed the context
        if (stream == nullptr) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    work.outlives_call = true;
    const Ticket ticket = enqueue_op(*stream, make_op(std::move(work), src_bytes), nullptr);
    // A plain run waits, so that results do not go by the machine's load.
    if (!shuffling()) await(ticket, entry.lock());
    else settle(entry, ticket);
    return context_error();
}

}  // namespace lowgraph
