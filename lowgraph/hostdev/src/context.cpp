#include "context.h"

#include "exec.h"
#include "graph.h"
#include "mapped.h"
#include "memory.h"
#include "module.h"
#include "stream.h"

namespace lowgraph {
namespace {

struct State {
    bool initialised = false;
    uint64_t next_id = 1;
    Context* primary = nullptr;
    unsigned primary_retained = 0;
    unsigned primary_flags = 0;
    CUresult sticky = CUDA_SUCCESS;
    std::string fault;
    std::unordered_map<const Context*, std::unique_ptr<Context>> contexts;
};

State& state() {
    static State* const instance = new State;
    return *instance;
}

thread_local std::vector<Context*> stack;

void destroy_contents(Context& context) {
    destroy_streams_and_events(context);
    destroy_modules(&context);
    destroy_memory(context);
}

// What is no context's own goes with the last of them; the fault too, as after a reset.
void destroy_shared() {
    destroy_execs();
    destroy_graphs();
    destroy_modules(nullptr);
    forget_mappings();
    destroy_all_memory();
    forget_context_error();
}

}  // namespace

bool initialised() { return state().initialised; }

void initialise() { state().initialised = true; }

std::vector<Context*>& context_stack() { return stack; }

Context* current_context() { return stack.empty() ? nullptr : stack.back(); }

Context* primary_context() {
    Context* primary = state().primary;
    return primary != nullptr && !primary->destroyed ? primary : nullptr;
}

bool has_company(const Context& context) {
    for (const auto& [key, other] : state().contexts)
        if (key != &context && !other->destroyed) return true;
    return false;
}

Context* find_context(CUcontext handle) {
    const auto spot = state().contexts.find(reinterpret_cast<const Context*>(handle));
    return spot == state().contexts.end() ? nullptr : spot->second.get();
}

Context* create_context(bool primary, unsigned flags) {
    auto context = std::make_unique<Context>();
    context->id = state().next_id++;
    context->primary = primary;
    context->flags = flags;
    Context* made = context.get();
    state().contexts[made] = std::move(context);
    return made;
}

void destroy_context(Context& context, Lock& lock) {
    finish_all(lock);
    if (context.destroyed) return;  // by another thread, meanwhile
    context.destroyed = true;
    destroy_contents(context);
    if (!has_company(context)) destroy_shared();
}

Context* retain_primary() {
    State& all = state();
    if (all.primary == nullptr) all.primary = create_context(true, all.primary_flags);
    Context& primary = *all.primary;
    if (primary.destroyed) {  // the handle stays the same for the life of the process
        primary.destroyed = false;
        primary.id = all.next_id++;
        primary.limits.clear();
        primary.flags = all.primary_flags;
    }
    ++all.primary_retained;
    return all.primary;
}

CUresult release_primary(Lock& lock) {
    State& all = state();
    if (all.primary_retained == 0) return CUDA_ERROR_INVALID_CONTEXT;
    if (--all.primary_retained == 0) reset_primary(lock);
    return CUDA_SUCCESS;
}

void reset_primary(Lock& lock) {
    Context* primary = primary_context();
    state().primary_retained = 0;
    if (primary != nullptr) destroy_context(*primary, lock);
}

unsigned& primary_flags() { return state().primary_flags; }

bool are_context_flags(unsigned flags) {
    const unsigned wait = flags & CU_CTX_SCHED_MASK;
    return (flags & ~unsigned{CU_CTX_FLAGS_MASK}) == 0 && (wait & (wait - 1)) == 0;
}

CUresult context_error() { return state().sticky; }

void set_context_error(CUresult code, const char* text) {
    if (state().sticky != CUDA_SUCCESS) return;
    state().sticky = code;
    state().fault = text;
}

void note(const std::string& text) {
    if (state().sticky == CUDA_SUCCESS) state().fault = text;
}

std::string fault_text() { return state().fault; }

void forget_context_error() {
    state().sticky = CUDA_SUCCESS;
    state().fault.clear();
}

bool& in_host_function() {
    thread_local bool inside = false;
    return inside;
}

}  // namespace lowgraph
