#include "entry.h"

#include <immintrin.h>
#include <pthread.h>

#include "context.h"

namespace lowgraph {
namespace {

// After a fork the child has no executor and maybe a locked lock: like a real driver, refuse it.
std::atomic<bool> forked_child{false};

[[maybe_unused]] const int fork_hook =
    pthread_atfork(nullptr, nullptr, [] { forked_child = true; });

CUresult refusal(Needs needs) {
    if (needs == Needs::nothing) return CUDA_SUCCESS;
    if (!initialised()) return CUDA_ERROR_NOT_INITIALIZED;
    if (in_host_function()) return CUDA_ERROR_NOT_PERMITTED;
    if (needs == Needs::driver) return CUDA_SUCCESS;
    const Context* context = current_context();
    if (context == nullptr && needs == Needs::context) return CUDA_ERROR_INVALID_CONTEXT;
    const bool looked_at = needs == Needs::context || needs == Needs::memory;
    if (looked_at && context != nullptr && context->destroyed) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return needs == Needs::graphs ? CUDA_SUCCESS : context_error();
}

}  // namespace

std::mutex big_lock;

void take(Lock& lock) {
    for (int spin = 0; spin < 50; ++spin) {
        if (lock.try_lock()) return;
        _mm_pause();
    }
    lock.lock();
}

Entry::Entry(Counter& counter, Needs needs) : code_(count_call(counter)) {
    if (code_ == CUDA_SUCCESS && forked_child && needs != Needs::nothing)
        code_ = CUDA_ERROR_NOT_INITIALIZED;
    if (code_ != CUDA_SUCCESS) return;
    lock_ = Lock(big_lock, std::defer_lock);
    take(lock_);
    telling::calling = &counter;
    code_ = refusal(needs);
}

}  // namespace lowgraph
