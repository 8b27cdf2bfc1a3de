// Between Work and the driver's parameter structs of graph nodes. Reading checks the parameters as a
// launch, copy or memset would: 1 INVALID_VALUE, 400 INVALID_HANDLE, 912 for the cluster of the kernel
// that `work` is before. All need big_lock.
#pragma once
#include "graph.h"

namespace lowgraph {

CUresult read_params(const CUDA_KERNEL_NODE_PARAMS& params, Work* work);
CUresult read_params(const CUDA_MEMCPY3D& params, Work* work);
CUresult read_params(const CUDA_MEMSET_NODE_PARAMS& params, Work* work);
CUresult read_params(const CUDA_HOST_NODE_PARAMS& params, Work* work);
CUresult read_record(CUevent event, Work* work);
CUresult read_wait(CUevent event, Work* work);
CUresult read_child(CUgraph graph, Work* work);
CUresult read_params(const CUDA_BATCH_MEM_OP_NODE_PARAMS& params, Work* work);
// A new allocation of the graph: `params.dptr` becomes its address.
CUresult read_params(CUDA_MEM_ALLOC_NODE_PARAMS& params, Work* work);
CUresult read_free(CUdeviceptr address, Work* work);
// The one struct for all kinds, of cuGraphAddNode and cuGraph[Exec]NodeSetParams.
CUresult read_params(CUgraphNodeParams& params, Work* work);

// The argument pointers handed out lead into the node and hold until it changes or goes.
// INVALID_HANDLE: the kernel's module was unloaded.
CUresult write_params(Node& node, CUDA_KERNEL_NODE_PARAMS* params);
void write_params(const CopyWork& work, CUDA_MEMCPY3D* params);
void write_params(const FillWork& work, CUDA_MEMSET_NODE_PARAMS* params);
void write_params(const AllocWork& work, CUDA_MEM_ALLOC_NODE_PARAMS* params);

// Launch attributes (attributes.h) are no parameters, nor is the context of a copy or a memset where the call gives none: new
// parameters leave them as they are.
void keep_attributes(const Work& now, Work& next);
// INVALID_VALUE between two contexts, and for a cluster that does not divide the other kernel's grid.
CUresult copy_attributes(const KernelWork& from, KernelWork& to);

}  // namespace lowgraph
