// Faults of a running kernel: how they are recorded, and the signal handlers that turn a bad access
// into one.
#pragma once
#include <cstdint>

namespace lowgraph {

// Records a fault of the thread that runs now, unless the launch has one already. The text gets the
// kernel, block and thread appended.
void fault_here(int code, uint64_t address, const char* format, ...)
    __attribute__((format(printf, 3, 4)));

// Gives the calling OS thread a stack for signal handlers, unless it has one: a fiber's own may be
// used up. Returns it, for when the thread ends; null: it had one.
void* use_alternate_signal_stack();
void give_signal_stack_back(void* stack);
// A launch begins: SIGSEGV, SIGBUS, SIGFPE and SIGILL are the engine's; cheap when it has them
// already.
void take_signals();
// A launch has ended. The handlers stay: the next launch is likely to follow at once.
void release_signals();
// Puts the handlers back that were there before, unless a launch is running.
void give_signals_back();


// What the watchdog sends to a thread whose launch has run too long. Ignored by whoever does not
// expect it, unlike any other signal that a thread could be sent.
constexpr int stop_signal = 23;  // SIGURG
void take_stop_signal();

}  // namespace lowgraph
