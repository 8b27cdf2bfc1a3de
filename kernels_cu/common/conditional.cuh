// The one call by which a kernel steers a conditional graph node. NVRTC knows its types and not the
// function, and the toolkit's header that declares it wants headers which NVRTC has not; the host
// device brings its own.
#pragma once

#ifndef LOWGRAPH_HOST
extern "C" __device__ __cudart_builtin__ void CUDARTAPI
cudaGraphSetConditional(cudaGraphConditionalHandle handle, unsigned int value);
#endif
