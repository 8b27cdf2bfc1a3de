// Signal handlers: a bad access of a kernel thread becomes a fault of its launch and the process
// lives on. A signal that comes while no kernel runs in the thread goes to whoever had it before
// (Python's faulthandler, for one).
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include <sys/mman.h>
#include <ucontext.h>

#include "block.h"
#include "fault.h"
#include "watchdog.h"
#include "watcher.h"

namespace lowgraph {
namespace {

constexpr int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
constexpr int signal_count = 4;

struct sigaction previous[signal_count];  // who had the signal before the engine took it last
struct sigaction original[signal_count];  // ... and the first time
volatile sig_atomic_t handed_on[signal_count];
volatile sig_atomic_t taken = 0, taken_once = 0;
int launches = 0;  // running now
std::mutex& taken_lock =
    *new std::mutex;  // never destroyed: launches may outlive static destructors

// What the handler saw, for the landing to tell. The handler itself does next to nothing.
struct Caught {
    int signal, code;
    uint64_t address, pc;
    bool write;
    bool landing;  // the landing is at work: a second fault there is a bug of ours, to crash on
};
__thread Caught caught __attribute__((tls_model("initial-exec")));

int position(int signal) {
    int i = 0;
    while (signals[i] != signal) ++i;
    return i;
}

// The instruction's end is not known here, so pc + 1: what looks for a line goes back by one.
void tell_address() {
    const Block& block = *lowgraph_thread.runner;
    char where[240];
    const bool told = watched() && !block.stacks.is_guard(caught.address) &&
                      watcher->bad_access(caught.address, caught.write, caught.pc + 1);
    if (told) return;
    if (block.stacks.is_guard(caught.address)) {
        fault_here(700, caught.address,
                   "stack overflow: a thread's local variables need more than %zu bytes",
                   FiberStacks::usable - 8192);
        return;
    }
    if (block.shared.is_near(caught.address)) {
        snprintf(where, sizeof where, "outside the %u bytes of dynamic shared memory",
                 lowgraph_thread.dynamic_shared_bytes);
    } else {
        describe_address(caught.address, where, sizeof where);
    }
    fault_here(700, caught.address, "illegal %s at 0x%llx: %s", caught.write ? "write" : "read",
               static_cast<unsigned long long>(caught.address), where);
}

// The faulting thread goes on here, on the recovery stack and out of the handler.
LEAVES_BY_SWITCH void landing() {
    lowgraph_thread.runner->faulted_at = caught.pc;
    if (caught.signal == SIGFPE) {
        fault_here(719, 0,
                   "integer division by zero (or of the lowest integer by -1); a GPU gives a "
                   "meaningless value");
    } else if (caught.signal == SIGILL) {
        fault_here(719, 0,
                   "the compiler proved this code undefined and put a trap there (a null pointer, "
                   "a missing return)");
    } else if (caught.signal == SIGSEGV && caught.code == SI_KERNEL) {
        // The processor names no address here: a vector access off its boundary, or an address no
        // memory can have.
        fault_here(716, 0, "misaligned vector access, or a pointer that holds no address at all");
    } else {
        tell_address();
    }
    caught.landing = false;
    lowgraph_thread.runner->abandon();
}

LEAVES_BY_SWITCH void stop_landing() { end_overdue(caught.pc + 1); }

void go_to(void (*place)(), gregset_t& registers) {
    registers[REG_RIP] = reinterpret_cast<greg_t>(place);
    registers[REG_RSP] =
        reinterpret_cast<greg_t>(lowgraph_thread.runner->stacks.recovery_top()) - 8;
}

// Not ours: the old handler comes back, and gets the signal when the instruction runs again.
// A handler installed while the engine had the signal (faulthandler.enable() after a first launch)
// chains to us in turn. Two handlers must not chain in a ring: called by it, we go to who came
// before us both, then to the default.
void hand_on(int signal, const siginfo_t* info) {
    const int i = position(signal);
    struct sigaction next = taken ? previous[i] : original[i];
    if (handed_on[i]) {
        next = {};
        next.sa_handler = SIG_DFL;
    }
    handed_on[i] = 1;
    sigaction(signal, &next, nullptr);
    if (info->si_code <= 0) raise(signal);  // sent by a process: no instruction to run again
}

void on_signal(int signal, siginfo_t* info, void* context) {
    // A signal that another process sent is nobody's bad access.
    if (lowgraph_thread.runner == nullptr || caught.landing || info->si_code <= 0) {
        hand_on(signal, info);
        return;
    }
    auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
    caught = {signal,
              info->si_code,
              reinterpret_cast<uint64_t>(info->si_addr),
              static_cast<uint64_t>(registers[REG_RIP]),
              (registers[REG_ERR] & 2) != 0,
              true};
    go_to(landing, registers);
}

// The launch has run too long. Stopped only in the kernel's own code: elsewhere the thread may hold
// a lock (in printf, in a check) or be on no line of the user's (in a hook), and the watchdog will ask
// again. The check build has the headers' functions out of line: they are on none either. To ask that
// here is safe, locks and all: code of a kernel holds none.
void on_stop(int, siginfo_t*, void* context) {
    const Block* runner = lowgraph_thread.runner;
    if (runner == nullptr || caught.landing || !is_overdue(*runner->job)) return;
    auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
    const auto pc = static_cast<uint64_t>(registers[REG_RIP]);
    if (!runner->code.is_kernels(pc) || (watched() && !is_users_code(pc))) return;
    caught.pc = pc;
    go_to(stop_landing, registers);
}

constexpr size_t signal_stack_bytes = 64u << 10;

bool is_ours(int signal) {
    struct sigaction now;
    sigaction(signal, nullptr, &now);
    return (now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_signal;
}

}  // namespace

void* use_alternate_signal_stack() {
    stack_t now;
    if (sigaltstack(nullptr, &now) == 0 && !(now.ss_flags & SS_DISABLE)) return nullptr;
    stack_t stack{};
    stack.ss_size = signal_stack_bytes;
    stack.ss_sp =
        mmap(nullptr, stack.ss_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack.ss_sp == MAP_FAILED) return nullptr;
    sigaltstack(&stack, nullptr);
    return stack.ss_sp;
}

void give_signal_stack_back(void* stack) {
    if (stack == nullptr) return;
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    sigaltstack(&none, nullptr);
    munmap(stack, signal_stack_bytes);
}

void take_signals() {
    const std::lock_guard guard(taken_lock);
    ++launches;
    if (taken && is_ours(SIGSEGV)) return;
    struct sigaction action{};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < signal_count; ++i) {
        if (is_ours(signals[i])) continue;
        handed_on[i] = 0;
        sigaction(signals[i], &action, &previous[i]);
        if (!taken_once) original[i] = previous[i];
    }
    taken = 1;
    taken_once = 1;
}

void release_signals() {
    const std::lock_guard guard(taken_lock);
    --launches;
}

void take_stop_signal() {
    struct sigaction action{};
    action.sa_sigaction = on_stop;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(stop_signal, &action, nullptr);
}

void give_signals_back() {
    const std::lock_guard guard(taken_lock);
    if (!taken || launches != 0) return;
    for (int i = 0; i < signal_count; ++i) {
        if (is_ours(signals[i])) sigaction(signals[i], &previous[i], nullptr);
    }
    taken = 0;
}

}  // namespace lowgraph
