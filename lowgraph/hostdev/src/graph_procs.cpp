// The capture and graph calls, by name and the CUDA version that brought the ABI (cudaTypedefs.h).
#include <cuda.h>

#include "proc_entry.h"

// Names stand for themselves here, not for their newest version.
#undef cuGraphInstantiate
#undef cuStreamGetCaptureInfo

// CUDA 10 and 11's, which cuda.h no longer declares; in entry_exec.cpp.
extern "C" CUresult cuGraphInstantiate_v2(CUgraphExec*, CUgraph, CUgraphNode*, char*, size_t);

namespace lowgraph {
namespace {

template <typename Function>
void* at(Function* function) {
    return reinterpret_cast<void*>(function);
}

}  // namespace

std::span<const ProcEntry> capture_procs() {
    static const ProcEntry rows[] = {
        {"cuStreamBeginCapture", 10010, at(cuStreamBeginCapture_v2)},
        {"cuStreamBeginCaptureToGraph", 12030, at(cuStreamBeginCaptureToGraph)},
        {"cuStreamEndCapture", 10000, at(cuStreamEndCapture)},
        {"cuStreamIsCapturing", 10000, at(cuStreamIsCapturing)},
        {"cuStreamGetCaptureInfo", 11030, at(cuStreamGetCaptureInfo_v2)},
        {"cuStreamGetCaptureInfo", 12030, at(cuStreamGetCaptureInfo_v3)},
        {"cuStreamUpdateCaptureDependencies", 11030, at(cuStreamUpdateCaptureDependencies)},
        {"cuStreamUpdateCaptureDependencies", 12030, at(cuStreamUpdateCaptureDependencies_v2)},
        {"cuThreadExchangeStreamCaptureMode", 10010, at(cuThreadExchangeStreamCaptureMode)},
    };
    return rows;
}

std::span<const ProcEntry> graph_procs() {
    static const ProcEntry rows[] = {
        {"cuGraphCreate", 10000, at(cuGraphCreate)},
        {"cuGraphDestroy", 10000, at(cuGraphDestroy)},
        {"cuGraphClone", 10000, at(cuGraphClone)},
        {"cuGraphNodeFindInClone", 10000, at(cuGraphNodeFindInClone)},
        {"cuGraphNodeGetType", 10000, at(cuGraphNodeGetType)},
        {"cuGraphGetNodes", 10000, at(cuGraphGetNodes)},
        {"cuGraphGetRootNodes", 10000, at(cuGraphGetRootNodes)},
        {"cuGraphGetEdges", 10000, at(cuGraphGetEdges)},
        {"cuGraphGetEdges", 12030, at(cuGraphGetEdges_v2)},
        {"cuGraphNodeGetDependencies", 10000, at(cuGraphNodeGetDependencies)},
        {"cuGraphNodeGetDependencies", 12030, at(cuGraphNodeGetDependencies_v2)},
        {"cuGraphNodeGetDependentNodes", 10000, at(cuGraphNodeGetDependentNodes)},
        {"cuGraphNodeGetDependentNodes", 12030, at(cuGraphNodeGetDependentNodes_v2)},
        {"cuGraphAddDependencies", 10000, at(cuGraphAddDependencies)},
        {"cuGraphAddDependencies", 12030, at(cuGraphAddDependencies_v2)},
        {"cuGraphRemoveDependencies", 10000, at(cuGraphRemoveDependencies)},
        {"cuGraphRemoveDependencies", 12030, at(cuGraphRemoveDependencies_v2)},
        {"cuGraphDestroyNode", 10000, at(cuGraphDestroyNode)},
        {"cuGraphDebugDotPrint", 11030, at(cuGraphDebugDotPrint)},
        // Nodes
        {"cuGraphAddKernelNode", 12000, at(cuGraphAddKernelNode_v2)},
        {"cuGraphKernelNodeGetParams", 12000, at(cuGraphKernelNodeGetParams_v2)},
        {"cuGraphKernelNodeSetParams", 12000, at(cuGraphKernelNodeSetParams_v2)},
        {"cuGraphKernelNodeGetAttribute", 11000, at(cuGraphKernelNodeGetAttribute)},
        {"cuGraphKernelNodeSetAttribute", 11000, at(cuGraphKernelNodeSetAttribute)},
        {"cuGraphKernelNodeCopyAttributes", 11000, at(cuGraphKernelNodeCopyAttributes)},
        {"cuGraphAddMemcpyNode", 10000, at(cuGraphAddMemcpyNode)},
        {"cuGraphMemcpyNodeGetParams", 10000, at(cuGraphMemcpyNodeGetParams)},
        {"cuGraphMemcpyNodeSetParams", 10000, at(cuGraphMemcpyNodeSetParams)},
        {"cuGraphAddMemsetNode", 10000, at(cuGraphAddMemsetNode)},
        {"cuGraphMemsetNodeGetParams", 10000, at(cuGraphMemsetNodeGetParams)},
        {"cuGraphMemsetNodeSetParams", 10000, at(cuGraphMemsetNodeSetParams)},
        {"cuGraphAddHostNode", 10000, at(cuGraphAddHostNode)},
        {"cuGraphHostNodeGetParams", 10000, at(cuGraphHostNodeGetParams)},
        {"cuGraphHostNodeSetParams", 10000, at(cuGraphHostNodeSetParams)},
        {"cuGraphAddEmptyNode", 10000, at(cuGraphAddEmptyNode)},
        {"cuGraphAddChildGraphNode", 10000, at(cuGraphAddChildGraphNode)},
        {"cuGraphChildGraphNodeGetGraph", 10000, at(cuGraphChildGraphNodeGetGraph)},
        {"cuGraphAddEventRecordNode", 11010, at(cuGraphAddEventRecordNode)},
        {"cuGraphEventRecordNodeGetEvent", 11010, at(cuGraphEventRecordNodeGetEvent)},
        {"cuGraphEventRecordNodeSetEvent", 11010, at(cuGraphEventRecordNodeSetEvent)},
        {"cuGraphAddEventWaitNode", 11010, at(cuGraphAddEventWaitNode)},
        {"cuGraphEventWaitNodeGetEvent", 11010, at(cuGraphEventWaitNodeGetEvent)},
        {"cuGraphEventWaitNodeSetEvent", 11010, at(cuGraphEventWaitNodeSetEvent)},
        {"cuGraphAddMemAllocNode", 11040, at(cuGraphAddMemAllocNode)},
        {"cuGraphMemAllocNodeGetParams", 11040, at(cuGraphMemAllocNodeGetParams)},
        {"cuGraphAddMemFreeNode", 11040, at(cuGraphAddMemFreeNode)},
        {"cuGraphMemFreeNodeGetParams", 11040, at(cuGraphMemFreeNodeGetParams)},
        {"cuGraphAddBatchMemOpNode", 11070, at(cuGraphAddBatchMemOpNode)},
        {"cuGraphBatchMemOpNodeGetParams", 11070, at(cuGraphBatchMemOpNodeGetParams)},
        {"cuGraphBatchMemOpNodeSetParams", 11070, at(cuGraphBatchMemOpNodeSetParams)},
        {"cuGraphAddNode", 12020, at(cuGraphAddNode)},
        {"cuGraphAddNode", 12030, at(cuGraphAddNode_v2)},
        {"cuGraphNodeSetParams", 12020, at(cuGraphNodeSetParams)},
        {"cuGraphConditionalHandleCreate", 12030, at(cuGraphConditionalHandleCreate)},
        // Executables
        {"cuGraphInstantiate", 10000, at(cuGraphInstantiate_v2)},
        {"cuGraphInstantiate", 12000, at(cuGraphInstantiateWithFlags)},
        {"cuGraphInstantiateWithFlags", 11040, at(cuGraphInstantiateWithFlags)},
        {"cuGraphInstantiateWithParams", 12000, at(cuGraphInstantiateWithParams)},
        {"cuGraphExecGetFlags", 12000, at(cuGraphExecGetFlags)},
        {"cuGraphExecDestroy", 10000, at(cuGraphExecDestroy)},
        {"cuGraphUpload", 11010, at(cuGraphUpload)},
        {"cuGraphLaunch", 10000, at(cuGraphLaunch)},
        {"cuGraphExecUpdate", 12000, at(cuGraphExecUpdate_v2)},
        {"cuGraphExecKernelNodeSetParams", 12000, at(cuGraphExecKernelNodeSetParams_v2)},
        {"cuGraphExecMemcpyNodeSetParams", 10020, at(cuGraphExecMemcpyNodeSetParams)},
        {"cuGraphExecMemsetNodeSetParams", 10020, at(cuGraphExecMemsetNodeSetParams)},
        {"cuGraphExecHostNodeSetParams", 10020, at(cuGraphExecHostNodeSetParams)},
        {"cuGraphExecBatchMemOpNodeSetParams", 11070, at(cuGraphExecBatchMemOpNodeSetParams)},
        {"cuGraphExecEventRecordNodeSetEvent", 11010, at(cuGraphExecEventRecordNodeSetEvent)},
        {"cuGraphExecEventWaitNodeSetEvent", 11010, at(cuGraphExecEventWaitNodeSetEvent)},
        {"cuGraphExecChildGraphNodeSetParams", 11010, at(cuGraphExecChildGraphNodeSetParams)},
        {"cuGraphExecNodeSetParams", 12020, at(cuGraphExecNodeSetParams)},
        {"cuGraphNodeSetEnabled", 11060, at(cuGraphNodeSetEnabled)},
        {"cuGraphNodeGetEnabled", 11060, at(cuGraphNodeGetEnabled)},
        // User objects
        {"cuUserObjectCreate", 11030, at(cuUserObjectCreate)},
        {"cuUserObjectRetain", 11030, at(cuUserObjectRetain)},
        {"cuUserObjectRelease", 11030, at(cuUserObjectRelease)},
        {"cuGraphRetainUserObject", 11030, at(cuGraphRetainUserObject)},
        {"cuGraphReleaseUserObject", 11030, at(cuGraphReleaseUserObject)},
    };
    return rows;
}

}  // namespace lowgraph
