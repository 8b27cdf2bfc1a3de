// Setting the variable of a conditional graph node from a kernel.
#pragma once

typedef unsigned long long cudaGraphConditionalHandle;

#define cudaGraphSetConditional(handle, value) \
    lowgraph_set_conditional(handle, value, __FILE__, __LINE__)
