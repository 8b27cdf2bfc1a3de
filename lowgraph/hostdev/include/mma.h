LOWGRAPH_MARK_REFUSED("tensor cores (<mma.h>)")
