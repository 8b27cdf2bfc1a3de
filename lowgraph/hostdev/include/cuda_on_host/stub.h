// From a kernel function to its KernelEntry: the argument list is deduced, so that nobody writes it
// twice.
#pragma once

// Goes on with the block's next thread. The plain loop is inlined: no call for a kernel that never
// waits.
static inline LOWGRAPH_QUIET int lowgraph_advance() {
    lowgraph::ThreadState& state = lowgraph_thread;
    if (__builtin_expect(state.fibers != 0, 0)) return lowgraph_next_thread();
    if (++state.linear >= state.threads) return 0;
    if (++state.thread.x == state.block_size.x) {
        state.thread.x = 0;
        if (++state.thread.y == state.block_size.y) {
            state.thread.y = 0;
            ++state.thread.z;
        }
    }
    return 1;
}

// Where each argument lies in the packed block: one after another, each at its own alignment.
template <class... Args>
struct LowgraphOffsets {
    uint16_t at[sizeof...(Args) + 1];
    constexpr LowgraphOffsets() : at{} {
        size_t next = 0, i = 0;
        ((next = (next + alignof(Args) - 1) / alignof(Args) * alignof(Args),
          at[i++] = (uint16_t)next, next += sizeof(Args)),
         ...);
        at[i] = (uint16_t)next;
    }
};

template <class... Args>
struct LowgraphStub {
    static constexpr int count = sizeof...(Args);
    static constexpr uint16_t sizes[sizeof...(Args) + 1] = {(uint16_t)sizeof(Args)..., 0};
    static constexpr LowgraphOffsets<Args...> offsets{};

    template <void (*kernel)(Args...), size_t... i>
    static LOWGRAPH_QUIET void run_each([[maybe_unused]] void** params, std::index_sequence<i...>) {
        do kernel(*static_cast<std::remove_const_t<Args>*>(params[i])...);
        while (lowgraph_advance());
    }
    template <void (*kernel)(Args...)>
    static LOWGRAPH_QUIET void run(void** params) {
        run_each<kernel>(params, std::index_sequence_for<Args...>());
    }
};
template <class... Args>
constexpr LowgraphStub<Args...> lowgraph_stub(void (*)(Args...)) {
    return {};
}

// In an object file of its own, linked last: thread-local variables lie in the order of linking.
extern "C" __thread unsigned char lowgraph_shared_tail[lowgraph::shared_tail_bytes]
    __attribute__((visibility("hidden")));
static LOWGRAPH_QUIET unsigned char* lowgraph_touch_image() { return lowgraph_shared_tail; }

// The start of the block's dynamic shared memory; kernel_build.py writes it for `extern __shared__
// T name[];`.
template <class T>
LOWGRAPH_INLINE T* lowgraph_dynamic_shared() {
    return static_cast<T*>(__builtin_assume_aligned(lowgraph_thread.dynamic_shared, 16));
}

// kernel_build.py exports one for each kernel that it finds, and fills static_shared into the
// finished image.
template <auto kernel>
constexpr lowgraph::KernelEntry lowgraph_entry(const char* name, uint32_t max_threads) {
    using Stub = decltype(lowgraph_stub(kernel));
    return {name,
            &Stub::template run<kernel>,
            Stub::count,
            Stub::sizes,
            Stub::offsets.at,
            &lowgraph_touch_image,
            0,
            max_threads};
}
