#include "words.h"

#include <algorithm>

#include "check_bits.h"
#include "context.h"
#include "memory.h"
#include "queue.h"

namespace lowgraph {
namespace {

constexpr unsigned most_operations = 255;

using Operation = CUstreamBatchMemOpParams;

bool is_wait(const Operation& given) {
    return given.operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ||
           given.operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
}

bool is_write(const Operation& given) {
    return given.operation == CU_STREAM_MEM_OP_WRITE_VALUE_32 ||
           given.operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
}

unsigned width_of(const Operation& given) {
    const bool wide = given.operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 ||
                      given.operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
    return wide ? 8 : 4;
}

// Waits and writes have the same layout.
CUresult check_one(const Operation& given) {
    if (given.operation == CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES) return CUDA_ERROR_NOT_SUPPORTED;
    if (given.operation == CU_STREAM_MEM_OP_BARRIER)
        return given.memoryBarrier.flags <= CU_STREAM_MEMORY_BARRIER_TYPE_GPU ? CUDA_SUCCESS
                                                                              : CUDA_ERROR_INVALID_VALUE;
    const unsigned flags = given.waitValue.flags;
    if (is_wait(given)) {
        const unsigned condition = flags & ~unsigned{CU_STREAM_WAIT_VALUE_FLUSH};
        if (condition > CU_STREAM_WAIT_VALUE_NOR) return CUDA_ERROR_INVALID_VALUE;
        if (condition != flags) return CUDA_ERROR_NOT_SUPPORTED;  // writes of other devices: none
    } else if (!is_write(given) || flags != CU_STREAM_WRITE_VALUE_DEFAULT) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return given.waitValue.address % width_of(given) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

bool is_word(uint64_t address, size_t bytes) {
    Region region;
    return find_region(address, bytes, &region) && region.kind != RegionKind::pool &&
           region.state == RegionState::live;
}

// Greater-or-equal is cyclic: the difference counts, as a number with a sign.
template <typename Word>
bool holds(Word seen, Word wanted, unsigned condition) {
    switch (condition) {
        case CU_STREAM_WAIT_VALUE_EQ: return seen == wanted;
        case CU_STREAM_WAIT_VALUE_AND: return (seen & wanted) != 0;
        case CU_STREAM_WAIT_VALUE_NOR: return static_cast<Word>(~(seen | wanted)) != 0;
        default: return static_cast<std::make_signed_t<Word>>(seen - wanted) >= 0;
    }
}

template <typename Word>
bool is_there(const Operation& wait, Word wanted) {
    const auto* const word = reinterpret_cast<const Word*>(wait.waitValue.address);
    return holds(__atomic_load_n(word, __ATOMIC_ACQUIRE), wanted, wait.waitValue.flags);
}

bool is_there(const Operation& wait) {
    return width_of(wait) == 8 ? is_there<cuuint64_t>(wait, wait.waitValue.value64)
                               : is_there<cuuint32_t>(wait, wait.waitValue.value);
}

void store(const Operation& write) {
    const uint64_t address = write.writeValue.address;
    if (width_of(write) == 8)
        __atomic_store_n(reinterpret_cast<cuuint64_t*>(address), write.writeValue.value64,
                         __ATOMIC_RELEASE);
    else
        __atomic_store_n(reinterpret_cast<cuuint32_t*>(address), write.writeValue.value,
                         __ATOMIC_RELEASE);
    mark_written(address, width_of(write));
}

CUresult gone(const std::string& where) {
    const std::lock_guard<std::mutex> hold(big_lock);
    set_context_error(CUDA_ERROR_ILLEGAL_ADDRESS, ("a memory operation's word is " + where).c_str());
    return CUDA_ERROR_ILLEGAL_ADDRESS;
}

}  // namespace

CUresult read_words(const CUstreamBatchMemOpParams* operations, unsigned count, unsigned flags,
                    WordsWork* work) {
    if (flags != 0 || count > most_operations || (operations == nullptr && count != 0))
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; ++i)
        if (const CUresult bad = check_one(operations[i]); bad != CUDA_SUCCESS) return bad;
    work->operations.assign(operations, operations + count);
    return CUDA_SUCCESS;
}

CUresult check_words(const WordsWork& work) {
    for (const Operation& given : work.operations)
        if ((is_wait(given) || is_write(given)) && !is_word(given.waitValue.address, width_of(given)))
            return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

bool have_same_kinds(const WordsWork& now, const WordsWork& next) {
    return std::ranges::equal(now.operations, next.operations, {}, &Operation::operation,
                              &Operation::operation);
}

bool can_go_on(const WordsWork& work, size_t next) {
    if (next >= work.operations.size() || !is_wait(work.operations[next])) return true;
    const Operation& wait = work.operations[next];
    std::string where;  // what is gone is not waited for: run_some tells
    return !check_access(wait.waitValue.address, width_of(wait), &where) || is_there(wait);
}

CUresult run_some(const WordsWork& work, size_t* next) {
    for (; *next < work.operations.size() && can_go_on(work, *next); ++*next) {
        const Operation& given = work.operations[*next];
        if (!is_wait(given) && !is_write(given)) continue;  // a barrier: each is one already
        std::string where;
        if (!check_access(given.waitValue.address, width_of(given), &where)) return gone(where);
        if (is_write(given)) store(given);
    }
    return CUDA_SUCCESS;
}

CUresult run_words(const WordsWork& work, const ExecImage* image, size_t place) {
    for (size_t next = 0; next < work.operations.size();) {
        CUresult code = CUDA_ERROR_UNKNOWN;
        switch (wait_for_others([&] { return can_go_on(work, next); })) {
            case Waited::there: code = run_some(work, &next); break;
            case Waited::overdue: code = end_wait(work, next++, image, place); break;
            case Waited::broke: break;  // what broke is told
        }
        if (code != CUDA_SUCCESS) return code;
    }
    return CUDA_SUCCESS;
}

}  // namespace lowgraph
