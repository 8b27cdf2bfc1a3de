// The device's one address space and its contexts: which is current, and the sticky error.
#pragma once
#include <string>

#include "entry.h"

namespace lowgraph {

// A CUcontext. It owns streams, events, modules and plain memory, which go with it; graphs, memory
// of pools and libraries are nobody's, and go with the last context. The sticky error is one for
// all. Objects are never freed, so that a stale handle is seen as such.
struct Context {
    uint64_t id = 0;
    bool primary = false;
    bool destroyed = false;
    unsigned flags = 0;
    Stream* legacy = nullptr;  // its default stream, made on first use
    std::unordered_map<int, size_t> limits;
};

bool initialised();
void initialise();
std::vector<Context*>& context_stack();   // of the calling thread; the current one is last
Context* current_context();               // null: none
Context* primary_context();               // null: not retained
bool has_company(const Context& context);  // another one is there too
Context* find_context(CUcontext handle);  // destroyed ones too; null: never was one

Context* create_context(bool primary, unsigned flags);
void destroy_context(Context& context, Lock& lock);  // waits for the device
Context* retain_primary();
CUresult release_primary(Lock& lock);  // the last release resets
void reset_primary(Lock& lock);
unsigned& primary_flags();  // for the next primary context
bool are_context_flags(unsigned flags);  // one way to wait at most, and nothing unknown

// The sticky error (700, 719 ...) of the live context, or success.
CUresult context_error();
// Makes `code` sticky; the first one wins. `text` says what happened, for people.
void set_context_error(CUresult code, const char* text);
// Why a call failed where its code alone does not tell; the fault text until there is a fault.
void note(const std::string& text);
std::string fault_text();
void forget_context_error();

// True on a thread that is running a host function: driver calls there give 800 NOT_PERMITTED.
bool& in_host_function();

}  // namespace lowgraph
