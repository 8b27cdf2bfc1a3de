// User objects: a count of references and what to call when the last is gone. Graphs and their
// executables hold references, so that what kernels point at lives as long as they do.
#pragma once
#include "model.h"

namespace lowgraph {

struct UserObject {
    CUhostFn destroy = nullptr;
    void* pointer = nullptr;
    uint64_t references = 0;  // of the user's own, apart from those of graphs

    ~UserObject();  // queues the call: user code must not run under big_lock
};

CUuserObject create_user_object(void* pointer, CUhostFn destroy, unsigned references);
// The object behind a handle that the user still holds references of; null: there is none.
std::shared_ptr<UserObject> find_user_object(CUuserObject handle);
CUresult retain_user_object(CUuserObject handle, unsigned count);
CUresult release_user_object(CUuserObject handle, unsigned count);

// Calls what the destruction of objects has queued. Without big_lock.
void call_user_destructors();

}  // namespace lowgraph
