LOWGRAPH_MARK_REFUSED("an asynchronous copy or barrier (<cooperative_groups/memcpy_async.h>)")
