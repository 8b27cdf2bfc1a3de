// Carrying out one piece of work: what the executor and a graph's nodes have in common.
#include <cstring>

#include "check_bits.h"
#include "check_launch.h"
#include "conditional.h"
#include "context.h"
#include "engine.h"
#include "exec.h"
#include "images.h"
#include "memory.h"
#include "module.h"
#include "queue.h"
#include "race.h"
#include "stream.h"
#include "unchecked.h"
#include "words.h"

namespace lowgraph {
namespace {

CUresult fail(CUresult code, const std::string& text) {
    const std::lock_guard<std::mutex> hold(big_lock);
    set_context_error(code, text.c_str());
    return code;
}

std::string text_of(const Fault& fault) {
    char line[160];
    place_of_code(fault.instruction, line, sizeof line);
    return line[0] == '\0' ? fault.text : std::string(fault.text) + " (" + line + ")";
}

CUresult run(const EmptyWork&) { return CUDA_SUCCESS; }

CUresult run(const KernelWork& work) {
    const Function& function = *work.function;
    if (function.module == nullptr)
        return fail(CUDA_ERROR_ILLEGAL_ADDRESS,
                    "kernel '" + function.name + "' ran after its module was unloaded");
    const KernelEntry& entry = *function.entry;
    std::vector<void*> params(static_cast<size_t>(entry.param_count));
    for (size_t i = 0; i < params.size(); ++i)
        params[i] = const_cast<std::byte*>(work.args.data()) + entry.offsets[i];
    const Launch launch{&entry,
                        {work.grid.x, work.grid.y, work.grid.z},
                        {work.block.x, work.block.y, work.block.z},
                        work.shared_bytes,
                        params.data(),
                        function.gaps ? &*function.gaps : nullptr};
    const CheckedWork checked(function.module->checks);
    if (checking() && !function.module->checks) note_unchecked(function);
    const Fault fault = run_kernel(launch);
    if (fault.code != 0) return fail(static_cast<CUresult>(fault.code), text_of(fault));
    std::string damage;
    bool sound = check_canaries(false, &damage);
    // Told where it was done: what is left is to put the bytes back.
    while (!sound && checked.found_any()) sound = check_canaries(false, &damage);
    if (sound) return CUDA_SUCCESS;
    return fail(CUDA_ERROR_ILLEGAL_ADDRESS, "kernel '" + function.name + "' " + damage);
}

struct Extent {
    uint64_t start = 0;
    size_t pitch = 0, rows = 0;  // bytes from row to row, rows from slice to slice
};

size_t reach(const Extent& side, const CopyWork& work) {
    if (work.width == 0 || work.height == 0 || work.depth == 0) return 0;
    return ((work.depth - 1) * side.rows + work.height - 1) * side.pitch + work.width;
}

void note_copy(uint64_t to, uint64_t from, size_t bytes) {
    copy_written(to, from, bytes);
    if (in_device_memory(from)) race_range(from, bytes, false);
    if (in_device_memory(to)) race_range(to, bytes, true);
}

void copy_rows(const Extent& dst, const Extent& src, const CopyWork& work) {
    for (size_t slice = 0; slice < work.depth; ++slice)
        for (size_t row = 0; row < work.height; ++row) {
            auto* to = reinterpret_cast<void*>(dst.start + (slice * dst.rows + row) * dst.pitch);
            const auto* from =
                reinterpret_cast<const void*>(src.start + (slice * src.rows + row) * src.pitch);
            std::memmove(to, from, work.width);
            if (!checking()) continue;
            note_copy(reinterpret_cast<uint64_t>(to), reinterpret_cast<uint64_t>(from), work.width);
        }
}

CUresult run(const CopyWork& work) {
    const Extent dst{work.dst, work.dst_pitch, work.dst_rows != 0 ? work.dst_rows : work.height};
    const Extent src{work.src, work.src_pitch, work.src_rows != 0 ? work.src_rows : work.height};
    std::string text;
    if (!check_access(dst.start, reach(dst, work), &text))
        return fail(CUDA_ERROR_ILLEGAL_ADDRESS, "a copy writes " + text);
    if (!check_access(src.start, reach(src, work), &text))
        return fail(CUDA_ERROR_ILLEGAL_ADDRESS, "a copy reads " + text);
    const CheckedTransfer checked(work.outlives_call ? late_copy : "copy");
    copy_rows(dst, src, work);
    return CUDA_SUCCESS;
}

void fill_row(uint64_t dst, const FillWork& work) {
    if (work.element == 1) {
        std::memset(reinterpret_cast<void*>(dst), static_cast<int>(work.value & 0xFF), work.width);
    } else if (work.element == 2) {
        auto* row = reinterpret_cast<uint16_t*>(dst);
        std::fill(row, row + work.width, static_cast<uint16_t>(work.value));
    } else {
        auto* row = reinterpret_cast<uint32_t*>(dst);
        std::fill(row, row + work.width, work.value);
    }
}

CUresult run(const FillWork& work) {
    if (work.width == 0 || work.height == 0) return CUDA_SUCCESS;
    const size_t bytes = (work.height - 1) * work.pitch + work.width * work.element;
    std::string text;
    if (!check_access(work.dst, bytes, &text))
        return fail(CUDA_ERROR_ILLEGAL_ADDRESS, "a memset writes " + text);
    const CheckedTransfer checked("memset");
    for (size_t row = 0; row < work.height; ++row) {
        const uint64_t start = work.dst + row * work.pitch;
        fill_row(start, work);
        if (!checking()) continue;
        mark_written(start, work.width * work.element);
        race_range(start, work.width * work.element, true);
    }
    return CUDA_SUCCESS;
}

CUresult run(const HostWork& work) {
    if (checking()) {
        const std::lock_guard<std::mutex> hold(big_lock);
        race_host_called();
    }
    in_host_function() = true;
    work.fn(work.user_data);
    in_host_function() = false;
    return CUDA_SUCCESS;
}

// An external record node of a graph: the event takes the time of this replay.
CUresult run(const RecordWork& work) {
    const std::lock_guard<std::mutex> hold(big_lock);
    Event* event = find_event(reinterpret_cast<CUevent>(work.event));
    if (event != nullptr) event->time_ms = now_ms();
    return CUDA_SUCCESS;
}

CUresult run(const WaitWork&) { return CUDA_SUCCESS; }  // the wait is the op's dependency

// Launches that nothing orders may free before they allocate, and find what they did not leave. A
// call that is wrong in the order of issue was refused then; to this a driver says nothing, and the
// checker that it is a race.
CUresult run(const AllocWork& work) {
    const CheckedWork checked(false);
    const CUresult code = commit(work.address);
    if (checking()) race_allocated(work.address, work.bytes);
    return code != CUDA_ERROR_OUT_OF_MEMORY
               ? CUDA_SUCCESS
               : fail(code, "memory for a stream-ordered allocation is used up");
}

CUresult run(const FreeWork& work) {
    const CheckedWork checked(false);
    if (checking()) race_freed(work.address);
    release(work.address);
    return CUDA_SUCCESS;
}

CUresult run(const ChildWork&) {
    return CUDA_ERROR_NOT_SUPPORTED;
}  // images hold children flattened

CUresult run(const ConditionalWork& work) { return run_conditional(work); }

CUresult run(const WordsWork& work) { return run_words(work); }

CUresult run(const ImageWork& work) {
    if (checking()) race_enter_graph(*work.image);
    for (const auto& condition : work.image->assigned) condition->value = condition->initial;
    return run_image(*work.image);
}

}  // namespace

void check_memory() {
    std::string damage;
    if (!check_canaries(true, &damage))
        set_context_error(CUDA_ERROR_ILLEGAL_ADDRESS, ("a kernel " + damage).c_str());
}

CUresult run_work(const Work& work) {
    return std::visit([](const auto& kind) { return run(kind); }, work);
}

}  // namespace lowgraph
