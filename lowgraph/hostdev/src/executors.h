// What the queue and its threads share. All of it needs big_lock.
#pragma once
#include <atomic>
#include <condition_variable>
#include <deque>

#include "queue.h"

namespace lowgraph {

struct Orphan {
    Ticket last;
    const Context* context = nullptr;
    bool blocking = false;
};

struct Queue {
    std::deque<Ticket> ready;
    std::atomic<bool> any_ready{false};  // of `ready`, for a look without the lock
    size_t looking = 0;                  // executor threads that look for work without the lock
    std::condition_variable work_ready, work_done;
    size_t awaiting_all = 0;  // threads that wait for nothing to be in flight
    size_t in_flight = 0;         // queued or running
    uint64_t issued = 0;
    Ticket barrier;               // the newest enqueue_barrier
    std::vector<Orphan> orphans;  // unfinished work of destroyed streams
    int threads = 0;
    int away = 0;  // of those, in wait_for_others
    int busy = 0;  // of those, that carry out an op, away or not
    uint64_t progress = 0;
    bool blocking = false;
};

Queue& queue();
// As many threads as there is to be, for work that is about to be added or to wait.
void hire();
// The op was carried out, or never will be: what waited for it may be ready.
void complete(const Ticket& op);

}  // namespace lowgraph
