// Entry points of user objects.
#include <algorithm>

#include "entry.h"
#include "graph.h"
#include "user_object.h"

using namespace lowgraph;

LOWGRAPH_API CUresult cuUserObjectCreate(CUuserObject* object_out, void* ptr, CUhostFn destroy,
                                         unsigned int initialRefcount, unsigned int flags) {
    LOWGRAPH_ENTRY(context);
    const bool known = flags == CU_USER_OBJECT_NO_DESTRUCTOR_SYNC;
    if (object_out == nullptr || destroy == nullptr || initialRefcount == 0 || !known)
        return CUDA_ERROR_INVALID_VALUE;
    *object_out = create_user_object(ptr, destroy, initialRefcount);
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuUserObjectRetain(CUuserObject object, unsigned int count) {
    LOWGRAPH_ENTRY(context);
    return retain_user_object(object, count);
}

LOWGRAPH_API CUresult cuUserObjectRelease(CUuserObject object, unsigned int count) {
    LOWGRAPH_ENTRY(context);
    const CUresult code = release_user_object(object, count);
    entry.lock().unlock();
    call_user_destructors();
    return code;
}

LOWGRAPH_API CUresult cuGraphRetainUserObject(CUgraph hGraph, CUuserObject object, unsigned int count,
                                              unsigned int flags) {
    LOWGRAPH_ENTRY(context);
    Graph* const graph = find_graph(hGraph);
    const std::shared_ptr<UserObject> found = find_user_object(object);
    if (graph == nullptr || !found || count == 0 || (flags & ~unsigned{CU_GRAPH_USER_OBJECT_MOVE}) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (flags & CU_GRAPH_USER_OBJECT_MOVE)
        if (const CUresult code = release_user_object(object, count); code != CUDA_SUCCESS) return code;
    graph->user_objects.insert(graph->user_objects.end(), count, found);
    return CUDA_SUCCESS;
}

LOWGRAPH_API CUresult cuGraphReleaseUserObject(CUgraph hGraph, CUuserObject object, unsigned int count) {
    LOWGRAPH_ENTRY(context);
    Graph* const graph = find_graph(hGraph);
    if (graph == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
    const auto is_it = [object](const std::shared_ptr<UserObject>& held) {
        return reinterpret_cast<CUuserObject>(held.get()) == object;
    };
    auto& held = graph->user_objects;
    const auto owned = static_cast<unsigned>(std::count_if(held.begin(), held.end(), is_it));
    // The real driver ends the process here.
    if (owned == 0) return CUDA_ERROR_INVALID_VALUE;
    // What the graph does not hold is taken from the caller's own references.
    if (count > owned) release_user_object(object, count - owned);
    for (count = std::min(count, owned); count != 0; --count) held.erase(std::find_if(held.begin(), held.end(), is_it));
    entry.lock().unlock();
    call_user_destructors();
    return CUDA_SUCCESS;
}
