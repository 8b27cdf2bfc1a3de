// Building and checking copies and fills from the driver's arguments. Need big_lock.
#pragma once
#include "entry.h"

namespace lowgraph {

// INVALID_VALUE unless every device address lies in live memory, all of it, and no host one is
// null.
CUresult check_copy(const CopyWork& work);
CUresult check_fill(const FillWork& work);

// Offers an asynchronous copy. A pageable source is read now and a pageable target is waited for,
// as on a GPU, unless a capture records the copy: then the host address itself is what replays use.
CUresult copy_async(Entry& entry, CUstream stream, CopyWork&& work);
// The synchronous forms run on the legacy stream, are never recorded, and return when they are
// done.
CUresult copy_now(Entry& entry, CopyWork&& work);

}  // namespace lowgraph
