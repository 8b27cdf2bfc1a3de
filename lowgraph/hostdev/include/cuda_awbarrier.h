LOWGRAPH_MARK_REFUSED("an asynchronous copy or barrier (<cuda_awbarrier.h>)")
