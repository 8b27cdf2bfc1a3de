// Launch attributes of streams and of kernels. Priority, cooperative and cluster have fields of their
// own; the others change nothing on a CPU and are kept as values. All need big_lock.
#pragma once
#include <span>

#include "model.h"

namespace lowgraph {

// INVALID_VALUE: no attribute of streams, or a value that it does not take.
CUresult write_attribute(Stream& stream, CUlaunchAttributeID id, const CUlaunchAttributeValue& value);
CUresult read_attribute(const Stream& stream, CUlaunchAttributeID id, CUlaunchAttributeValue* value);
void copy_attributes(const Stream& from, Stream& to);
// What a kernel has of the stream that launches it, unless the launch says otherwise.
void inherit_attributes(const Stream& stream, KernelWork& work);

// What a launch names. INVALID_VALUE: no attribute of launches; NOT_SUPPORTED: a node for kernels to update;
// INVALID_CLUSTER_SIZE: none, or one preferred without one.
CUresult take_attributes(std::span<const CUlaunchAttribute> given, KernelWork& work);

CUresult write_attribute(KernelWork& work, CUlaunchAttributeID id, const CUlaunchAttributeValue& value);
CUresult read_attribute(const KernelWork& work, CUlaunchAttributeID id, CUlaunchAttributeValue* value);

}  // namespace lowgraph
