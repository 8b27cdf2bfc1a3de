// The C functions that lowgraph.hostdev.control calls: no driver calls, so never counted.
#pragma once
#include <cstddef>
#include <cstdint>

extern "C" {
// What happened to a capture. kind: "begun" (what: its mode), "ended" (code; what: its nodes, one
// line a kind and kernel, "COUNT kernel NAME"), "broken" by a call that answered `code`, "refused":
// a call that harmed nothing more, "elsewhere": what ran on `stream`, which is in no capture, "let
// through": a call that only the capture's mode allows. own: by the thread that began it.
struct lowgraph_capture_event {
    const char* kind;
    const char* call;
    const char* what;
    uint64_t capture;
    uint64_t stream;
    int code;
    int own;
};
typedef void (*lowgraph_capture_listener)(const lowgraph_capture_event*);
// From now on `listener` is told, in the thread that made the call, before the call returns; null
// ends it. It may call the driver.
void lowgraph_host_watch_captures(lowgraph_capture_listener listener);

// Calls of a driver entry point since the start or the last reset; versions count together.
uint64_t lowgraph_host_calls(const char* name);
size_t lowgraph_host_call_names(char* out, size_t size);
void lowgraph_host_reset_calls();
// Counts calls by thread from now on, or no more; nests. mark: asked in the thread of each call, with
// a lock held: threads for which it answers not null are marked. `tallied`: "THREAD MARK NAME CALLS"
// a line, the thread as gettid gives it, the mark 1 or 0; returns the bytes needed with the NUL.
typedef void* (*lowgraph_thread_mark)();
void lowgraph_host_tally(int on, lowgraph_thread_mark mark);
size_t lowgraph_host_tallied(char* out, size_t size);
// The nth call of `name` from now on (1: the next) returns `code` and does nothing; 0 takes it
// back.
void lowgraph_host_fail(const char* name, uint64_t nth, int code);

void lowgraph_host_set_memory(uint64_t bytes);
void lowgraph_host_set_blocking(int blocking);
void lowgraph_host_set_workers(int workers);
// Text of the fault behind the sticky error, "" if there is none; returns the bytes needed.
size_t lowgraph_host_fault(char* out, size_t size);
// The check build (check.h): on from now on, for good; before the first allocation.
void lowgraph_host_set_check();
// Findings so far as JSON objects, one a line; returns the bytes needed with the NUL.
size_t lowgraph_host_findings(char* out, size_t size);
void lowgraph_host_forget_findings();
// Launches of kernels whose images have no checks, JSON objects, one a line; bytes with the NUL.
size_t lowgraph_host_unchecked(char* out, size_t size);
void lowgraph_host_finish();  // waits for all work in flight
uint64_t lowgraph_host_launches_checked();
// The host itself writes device memory, past the driver.
void lowgraph_host_mark_written(uint64_t ptr, uint64_t bytes);
// Seconds of processor time that a launch may take from now on, on each thread; 0: no limit.
void lowgraph_host_set_kernel_seconds(double seconds);
// State of [ptr, ptr + bytes) after the work issued so far: 0 gone, 1 free, 2 live. Returns a
// CUresult.
int lowgraph_host_annotate(uint64_t ptr, uint64_t bytes, int state, const char* name);
}
