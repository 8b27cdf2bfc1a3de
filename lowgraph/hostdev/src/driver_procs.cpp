// The calls of this library's core, by name and the CUDA version that brought the ABI. Each row's
// type is held to the one that cudaTypedefs.h gives for that pair.
#include <cudaTypedefs.h>

#include <type_traits>

#include "proc_entry.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // old programs ask for old calls

// Names stand for themselves here, not for their newest version.
#undef cuCtxGetDevice
#undef cuCtxSynchronize
#undef cuDeviceGetUuid
#undef cuEventElapsedTime
#undef cuGetProcAddress
#undef cuStreamGetCtx

extern "C" {
CUresult cuDeviceGetUuid(CUuuid*, CUdevice);
CUresult cuCtxGetDevice_v2(CUdevice*, CUcontext);
CUresult cuCtxSynchronize_v2(CUcontext);
CUresult cuMemGetDefaultMemPool(CUmemoryPool*, CUmemLocation*, CUmemAllocationType);
CUresult cuMemGetMemPool(CUmemoryPool*, CUmemLocation*, CUmemAllocationType);
CUresult cuMemSetMemPool(CUmemLocation*, CUmemAllocationType, CUmemoryPool);
CUresult cuMemcpyBatchAsync_v2(CUdeviceptr*, CUdeviceptr*, size_t*, size_t, CUmemcpyAttributes*, size_t*, size_t,
                               CUstream);
CUresult cuMemPrefetchBatchAsync(CUdeviceptr*, size_t*, size_t, CUmemLocation*, size_t*, size_t, unsigned long long,
                                 CUstream);
CUresult cuEventElapsedTime(float*, CUevent, CUevent);
CUresult cuGetProcAddress(const char*, void**, int, cuuint64_t);
CUresult cuStreamGetCtx(CUstream, CUcontext*);
CUresult cuProfilerStart();
CUresult cuProfilerStop();
}

namespace lowgraph {
namespace {

template <typename Wanted, typename Given>
void* checked(Given* function) {
    static_assert(std::is_same_v<Wanted, Given*>);
    return reinterpret_cast<void*>(function);
}

// The parameters stay unexpanded: cuda.h defines most public names as macros.
#define PROC(name, version, symbol) {#name, version, checked<PFN_##name##_v##version>(symbol)}
#define UNTYPED(name, version) {#name, version, reinterpret_cast<void*>(name)}
// Of CUDA 13: the headers of 12.9 have no type for these.
#define LATER(name, version, symbol) {#name, version, reinterpret_cast<void*>(symbol)}

}  // namespace

// The device, contexts, errors.
std::span<const ProcEntry> device_procs() {
    static const ProcEntry rows[] = {
        PROC(cuCtxCreate, 3020, cuCtxCreate_v2),
        PROC(cuCtxCreate, 11040, cuCtxCreate_v3),
        PROC(cuCtxCreate, 12050, cuCtxCreate_v4),
        PROC(cuCtxDestroy, 4000, cuCtxDestroy_v2),
        PROC(cuCtxGetApiVersion, 3020, cuCtxGetApiVersion),
        PROC(cuCtxGetCacheConfig, 3020, cuCtxGetCacheConfig),
        PROC(cuCtxGetCurrent, 4000, cuCtxGetCurrent),
        PROC(cuCtxGetDevice, 2000, cuCtxGetDevice),
        LATER(cuCtxGetDevice, 13000, cuCtxGetDevice_v2),
        PROC(cuCtxGetFlags, 7000, cuCtxGetFlags),
        PROC(cuCtxGetId, 12000, cuCtxGetId),
        PROC(cuCtxGetLimit, 3010, cuCtxGetLimit),
        PROC(cuCtxGetStreamPriorityRange, 5050, cuCtxGetStreamPriorityRange),
        PROC(cuCtxEnablePeerAccess, 4000, cuCtxEnablePeerAccess),
        PROC(cuCtxDisablePeerAccess, 4000, cuCtxDisablePeerAccess),
        PROC(cuCtxPopCurrent, 4000, cuCtxPopCurrent_v2),
        PROC(cuCtxPushCurrent, 4000, cuCtxPushCurrent_v2),
        PROC(cuCtxSetCacheConfig, 3020, cuCtxSetCacheConfig),
        PROC(cuCtxSetCurrent, 4000, cuCtxSetCurrent),
        PROC(cuCtxSetFlags, 12010, cuCtxSetFlags),
        PROC(cuCtxSetLimit, 3010, cuCtxSetLimit),
        PROC(cuCtxSynchronize, 2000, cuCtxSynchronize),
        LATER(cuCtxSynchronize, 13000, cuCtxSynchronize_v2),
        PROC(cuDeviceCanAccessPeer, 4000, cuDeviceCanAccessPeer),
        PROC(cuDeviceComputeCapability, 2000, cuDeviceComputeCapability),
        PROC(cuDeviceGet, 2000, cuDeviceGet),
        PROC(cuDeviceGetAttribute, 2000, cuDeviceGetAttribute),
        PROC(cuDeviceGetByPCIBusId, 4010, cuDeviceGetByPCIBusId),
        PROC(cuDeviceGetCount, 2000, cuDeviceGetCount),
        PROC(cuDeviceGetDefaultMemPool, 11020, cuDeviceGetDefaultMemPool),
        PROC(cuDeviceGetGraphMemAttribute, 11040, cuDeviceGetGraphMemAttribute),
        PROC(cuDeviceGetMemPool, 11020, cuDeviceGetMemPool),
        PROC(cuDeviceGetName, 2000, cuDeviceGetName),
        PROC(cuDeviceGetPCIBusId, 4010, cuDeviceGetPCIBusId),
        PROC(cuDeviceGetUuid, 9020, cuDeviceGetUuid),
        PROC(cuDeviceGetUuid, 11040, cuDeviceGetUuid_v2),
        PROC(cuDeviceGraphMemTrim, 11040, cuDeviceGraphMemTrim),
        PROC(cuDevicePrimaryCtxGetState, 7000, cuDevicePrimaryCtxGetState),
        PROC(cuDevicePrimaryCtxRelease, 11000, cuDevicePrimaryCtxRelease_v2),
        PROC(cuDevicePrimaryCtxReset, 11000, cuDevicePrimaryCtxReset_v2),
        PROC(cuDevicePrimaryCtxRetain, 7000, cuDevicePrimaryCtxRetain),
        PROC(cuDevicePrimaryCtxSetFlags, 11000, cuDevicePrimaryCtxSetFlags_v2),
        PROC(cuDeviceSetGraphMemAttribute, 11040, cuDeviceSetGraphMemAttribute),
        PROC(cuDeviceSetMemPool, 11020, cuDeviceSetMemPool),
        PROC(cuDeviceTotalMem, 3020, cuDeviceTotalMem_v2),
        PROC(cuDriverGetVersion, 2020, cuDriverGetVersion),
        PROC(cuGetErrorName, 6000, cuGetErrorName),
        PROC(cuGetErrorString, 6000, cuGetErrorString),
        UNTYPED(cuGetExportTable, 3000),
        PROC(cuGetProcAddress, 11030, cuGetProcAddress),
        PROC(cuGetProcAddress, 12000, cuGetProcAddress_v2),
        PROC(cuInit, 2000, cuInit),
        UNTYPED(cuProfilerStart, 4000),
        UNTYPED(cuProfilerStop, 4000),
    };
    return rows;
}

// Addresses and the memory that is mapped to them.
std::span<const ProcEntry> mapped_procs() {
    static const ProcEntry rows[] = {
        PROC(cuMemAddressFree, 10020, cuMemAddressFree),
        PROC(cuMemAddressReserve, 10020, cuMemAddressReserve),
        PROC(cuMemCreate, 10020, cuMemCreate),
        PROC(cuMemGetAccess, 10020, cuMemGetAccess),
        PROC(cuMemGetAllocationGranularity, 10020, cuMemGetAllocationGranularity),
        PROC(cuMemGetAllocationPropertiesFromHandle, 10020, cuMemGetAllocationPropertiesFromHandle),
        PROC(cuMemMap, 10020, cuMemMap),
        PROC(cuMemRelease, 10020, cuMemRelease),
        PROC(cuMemRetainAllocationHandle, 11000, cuMemRetainAllocationHandle),
        PROC(cuMemSetAccess, 10020, cuMemSetAccess),
        PROC(cuMemUnmap, 10020, cuMemUnmap),
    };
    return rows;
}

// Memory, copies, memsets.
std::span<const ProcEntry> memory_procs() {
    static const ProcEntry rows[] = {
        PROC(cuMemAlloc, 3020, cuMemAlloc_v2),
        PROC(cuMemAllocAsync, 11020, cuMemAllocAsync),
        PROC(cuMemAllocFromPoolAsync, 11020, cuMemAllocFromPoolAsync),
        PROC(cuMemAllocHost, 3020, cuMemAllocHost_v2),
        PROC(cuMemAdvise, 8000, cuMemAdvise),
        PROC(cuMemAdvise, 12020, cuMemAdvise_v2),
        PROC(cuMemAllocManaged, 6000, cuMemAllocManaged),
        PROC(cuMemAllocPitch, 3020, cuMemAllocPitch_v2),
        PROC(cuMemFree, 3020, cuMemFree_v2),
        PROC(cuMemFreeAsync, 11020, cuMemFreeAsync),
        PROC(cuMemFreeHost, 2000, cuMemFreeHost),
        PROC(cuMemGetAddressRange, 3020, cuMemGetAddressRange_v2),
        LATER(cuMemGetDefaultMemPool, 13000, cuMemGetDefaultMemPool),
        PROC(cuMemGetInfo, 3020, cuMemGetInfo_v2),
        LATER(cuMemGetMemPool, 13000, cuMemGetMemPool),
        PROC(cuMemHostAlloc, 2020, cuMemHostAlloc),
        PROC(cuMemHostGetDevicePointer, 3020, cuMemHostGetDevicePointer_v2),
        PROC(cuMemHostGetFlags, 2030, cuMemHostGetFlags),
        PROC(cuMemHostRegister, 6050, cuMemHostRegister_v2),
        PROC(cuMemHostUnregister, 4000, cuMemHostUnregister),
        PROC(cuMemPrefetchAsync, 8000, cuMemPrefetchAsync),
        PROC(cuMemPrefetchAsync, 12020, cuMemPrefetchAsync_v2),
        LATER(cuMemPrefetchBatchAsync, 13000, cuMemPrefetchBatchAsync),
        PROC(cuMemRangeGetAttribute, 8000, cuMemRangeGetAttribute),
        PROC(cuMemcpyBatchAsync, 12080, cuMemcpyBatchAsync),
        LATER(cuMemcpyBatchAsync, 13000, cuMemcpyBatchAsync_v2),
        PROC(cuPointerSetAttribute, 6000, cuPointerSetAttribute),
        PROC(cuStreamAttachMemAsync, 6000, cuStreamAttachMemAsync),
        PROC(cuMemPoolCreate, 11020, cuMemPoolCreate),
        PROC(cuMemPoolDestroy, 11020, cuMemPoolDestroy),
        PROC(cuMemPoolGetAccess, 11020, cuMemPoolGetAccess),
        PROC(cuMemPoolGetAttribute, 11020, cuMemPoolGetAttribute),
        PROC(cuMemPoolSetAccess, 11020, cuMemPoolSetAccess),
        PROC(cuMemPoolSetAttribute, 11020, cuMemPoolSetAttribute),
        PROC(cuMemPoolTrimTo, 11020, cuMemPoolTrimTo),
        LATER(cuMemSetMemPool, 13000, cuMemSetMemPool),
        PROC(cuMemcpy, 4000, cuMemcpy),
        PROC(cuMemcpy2D, 3020, cuMemcpy2D_v2),
        PROC(cuMemcpy2DAsync, 3020, cuMemcpy2DAsync_v2),
        PROC(cuMemcpy2DUnaligned, 3020, cuMemcpy2DUnaligned_v2),
        PROC(cuMemcpy3D, 3020, cuMemcpy3D_v2),
        PROC(cuMemcpy3DAsync, 3020, cuMemcpy3DAsync_v2),
        PROC(cuMemcpyAsync, 4000, cuMemcpyAsync),
        PROC(cuMemcpyDtoD, 3020, cuMemcpyDtoD_v2),
        PROC(cuMemcpyDtoDAsync, 3020, cuMemcpyDtoDAsync_v2),
        PROC(cuMemcpyDtoH, 3020, cuMemcpyDtoH_v2),
        PROC(cuMemcpyDtoHAsync, 3020, cuMemcpyDtoHAsync_v2),
        PROC(cuMemcpyHtoD, 3020, cuMemcpyHtoD_v2),
        PROC(cuMemcpyHtoDAsync, 3020, cuMemcpyHtoDAsync_v2),
        PROC(cuMemcpyPeer, 4000, cuMemcpyPeer),
        PROC(cuMemcpyPeerAsync, 4000, cuMemcpyPeerAsync),
        PROC(cuMemsetD16, 3020, cuMemsetD16_v2),
        PROC(cuMemsetD16Async, 3020, cuMemsetD16Async),
        PROC(cuMemsetD2D16, 3020, cuMemsetD2D16_v2),
        PROC(cuMemsetD2D16Async, 3020, cuMemsetD2D16Async),
        PROC(cuMemsetD2D32, 3020, cuMemsetD2D32_v2),
        PROC(cuMemsetD2D32Async, 3020, cuMemsetD2D32Async),
        PROC(cuMemsetD2D8, 3020, cuMemsetD2D8_v2),
        PROC(cuMemsetD2D8Async, 3020, cuMemsetD2D8Async),
        PROC(cuMemsetD32, 3020, cuMemsetD32_v2),
        PROC(cuMemsetD32Async, 3020, cuMemsetD32Async),
        PROC(cuMemsetD8, 3020, cuMemsetD8_v2),
        PROC(cuMemsetD8Async, 3020, cuMemsetD8Async),
        PROC(cuPointerGetAttribute, 4000, cuPointerGetAttribute),
        PROC(cuPointerGetAttributes, 7000, cuPointerGetAttributes),
    };
    return rows;
}

// Streams, events, modules, launches.
std::span<const ProcEntry> work_procs() {
    static const ProcEntry rows[] = {
        PROC(cuEventCreate, 2000, cuEventCreate),
        PROC(cuEventDestroy, 4000, cuEventDestroy_v2),
        PROC(cuEventElapsedTime, 2000, cuEventElapsedTime),
        PROC(cuEventElapsedTime, 12080, cuEventElapsedTime_v2),
        PROC(cuEventQuery, 2000, cuEventQuery),
        PROC(cuEventRecord, 2000, cuEventRecord),
        PROC(cuEventRecordWithFlags, 11010, cuEventRecordWithFlags),
        PROC(cuEventSynchronize, 2000, cuEventSynchronize),
        PROC(cuFuncGetAttribute, 2020, cuFuncGetAttribute),
        PROC(cuFuncGetModule, 11000, cuFuncGetModule),
        PROC(cuFuncGetName, 12030, cuFuncGetName),
        PROC(cuFuncGetParamInfo, 12040, cuFuncGetParamInfo),
        PROC(cuFuncIsLoaded, 12040, cuFuncIsLoaded),
        PROC(cuFuncLoad, 12040, cuFuncLoad),
        PROC(cuFuncSetAttribute, 9000, cuFuncSetAttribute),
        PROC(cuFuncSetCacheConfig, 3000, cuFuncSetCacheConfig),
        PROC(cuLaunchCooperativeKernel, 9000, cuLaunchCooperativeKernel),
        PROC(cuLaunchHostFunc, 10000, cuLaunchHostFunc),
        PROC(cuStreamAddCallback, 5000, cuStreamAddCallback),
        PROC(cuStreamWriteValue32, 11070, cuStreamWriteValue32_v2),
        PROC(cuStreamWriteValue64, 11070, cuStreamWriteValue64_v2),
        PROC(cuStreamWaitValue32, 11070, cuStreamWaitValue32_v2),
        PROC(cuStreamWaitValue64, 11070, cuStreamWaitValue64_v2),
        PROC(cuStreamBatchMemOp, 11070, cuStreamBatchMemOp_v2),
        PROC(cuLaunchKernel, 4000, cuLaunchKernel),
        PROC(cuLaunchKernelEx, 11060, cuLaunchKernelEx),
        UNTYPED(cuModuleEnumerateFunctions, 12040),
        PROC(cuModuleGetFunction, 2000, cuModuleGetFunction),
        UNTYPED(cuModuleGetFunctionCount, 12040),
        PROC(cuModuleGetGlobal, 3020, cuModuleGetGlobal_v2),
        PROC(cuModuleGetLoadingMode, 11070, cuModuleGetLoadingMode),
        PROC(cuModuleLoad, 2000, cuModuleLoad),
        PROC(cuModuleLoadData, 2000, cuModuleLoadData),
        PROC(cuModuleLoadDataEx, 2010, cuModuleLoadDataEx),
        PROC(cuModuleLoadFatBinary, 2000, cuModuleLoadFatBinary),
        PROC(cuModuleUnload, 2000, cuModuleUnload),
        PROC(cuOccupancyAvailableDynamicSMemPerBlock, 10020,
             cuOccupancyAvailableDynamicSMemPerBlock),
        PROC(cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050,
             cuOccupancyMaxActiveBlocksPerMultiprocessor),
        PROC(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, 7000,
             cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags),
        PROC(cuOccupancyMaxActiveClusters, 11070, cuOccupancyMaxActiveClusters),
        PROC(cuOccupancyMaxPotentialBlockSize, 6050, cuOccupancyMaxPotentialBlockSize),
        PROC(cuOccupancyMaxPotentialBlockSizeWithFlags, 7000,
             cuOccupancyMaxPotentialBlockSizeWithFlags),
        PROC(cuOccupancyMaxPotentialClusterSize, 11070, cuOccupancyMaxPotentialClusterSize),
        PROC(cuStreamCreate, 2000, cuStreamCreate),
        PROC(cuStreamCreateWithPriority, 5050, cuStreamCreateWithPriority),
        PROC(cuStreamDestroy, 4000, cuStreamDestroy_v2),
        PROC(cuStreamGetCtx, 9020, cuStreamGetCtx),
        PROC(cuStreamGetCtx, 12050, cuStreamGetCtx_v2),
        PROC(cuStreamGetDevice, 12080, cuStreamGetDevice),
        PROC(cuStreamGetFlags, 5050, cuStreamGetFlags),
        PROC(cuStreamGetId, 12000, cuStreamGetId),
        PROC(cuStreamGetPriority, 5050, cuStreamGetPriority),
        PROC(cuStreamCopyAttributes, 11000, cuStreamCopyAttributes),
        PROC(cuStreamGetAttribute, 11000, cuStreamGetAttribute),
        PROC(cuStreamQuery, 2000, cuStreamQuery),
        PROC(cuStreamSetAttribute, 11000, cuStreamSetAttribute),
        PROC(cuStreamSynchronize, 2000, cuStreamSynchronize),
        PROC(cuStreamWaitEvent, 3020, cuStreamWaitEvent),
    };
    return rows;
}

}  // namespace lowgraph
