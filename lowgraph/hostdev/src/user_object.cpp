#include "user_object.h"

namespace lowgraph {
namespace {

struct Call {
    CUhostFn function;
    void* pointer;
};

// The queue has its own lock: the last owner may be a launch that an executor thread lets go of.
struct Registry {
    std::unordered_map<CUuserObject, std::shared_ptr<UserObject>> held;
    std::mutex queue_lock;
    std::vector<Call> queue;
};

Registry& registry() {
    static Registry* const instance = new Registry;
    return *instance;
}

}  // namespace

UserObject::~UserObject() {
    const std::lock_guard<std::mutex> hold(registry().queue_lock);
    registry().queue.push_back({destroy, pointer});
}

CUuserObject create_user_object(void* pointer, CUhostFn destroy, unsigned references) {
    auto object = std::make_shared<UserObject>();
    object->destroy = destroy;
    object->pointer = pointer;
    object->references = references;
    const auto handle = reinterpret_cast<CUuserObject>(object.get());
    registry().held.emplace(handle, std::move(object));
    return handle;
}

std::shared_ptr<UserObject> find_user_object(CUuserObject handle) {
    const auto found = registry().held.find(handle);
    return found == registry().held.end() ? nullptr : found->second;
}

CUresult retain_user_object(CUuserObject handle, unsigned count) {
    const std::shared_ptr<UserObject> object = find_user_object(handle);
    if (!object || count == 0) return CUDA_ERROR_INVALID_VALUE;
    object->references += count;
    return CUDA_SUCCESS;
}

CUresult release_user_object(CUuserObject handle, unsigned count) {
    const std::shared_ptr<UserObject> object = find_user_object(handle);
    if (!object || count == 0 || object->references < count) return CUDA_ERROR_INVALID_VALUE;
    object->references -= count;
    if (object->references == 0) registry().held.erase(handle);
    return CUDA_SUCCESS;
}

void call_user_destructors() {
    std::vector<Call> calls;
    {
        const std::lock_guard<std::mutex> hold(registry().queue_lock);
        calls.swap(registry().queue);
    }
    for (const Call& call : calls) call.function(call.pointer);
}

}  // namespace lowgraph
