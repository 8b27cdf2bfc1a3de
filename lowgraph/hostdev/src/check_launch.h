// What brackets a piece of work on the device while checking.
#pragma once
#include <mutex>

#include "check.h"

namespace lowgraph {

// Has the device to itself until it ends; nothing unless checking().
class CheckedWork {
public:
    explicit CheckedWork(bool launch);
    ~CheckedWork();
    CheckedWork(const CheckedWork&) = delete;
    CheckedWork& operator=(const CheckedWork&) = delete;
    bool found_any() const;  // findings since it began

private:
    std::unique_lock<std::mutex> hold_;
    uint64_t before_ = 0;
};

// The same around a copy or a memset; `what` is of static storage duration.
class CheckedTransfer {
public:
    explicit CheckedTransfer(const char* what);
    ~CheckedTransfer();
    CheckedTransfer(const CheckedTransfer&) = delete;
    CheckedTransfer& operator=(const CheckedTransfer&) = delete;

private:
    const CheckedWork work_{false};
};

uint64_t launches_checked();

// Every next access is looked up anew: bounds may have changed, or the kernel is to be stopped.
void forget_places();

// At each block's begin: its OS thread's stacks are not looked at.
void note_stacks();

// Puts a watcher of the checker's around the race detector's.
void watch_blocks();

}  // namespace lowgraph
