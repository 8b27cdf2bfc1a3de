"""Managed memory, pools of other kinds, many copies in one call, and addresses that are reserved
and mapped: outside, in captures, and under graphs."""

from __future__ import annotations

from tests.traces.placing import placed
from tests.traces.scenario import EVERY_MODE, Scenario

_MANAGED = "managed_alloc p"
_MAPPED = "reserve r; physical h; map_to r h; access r"
_RUN = "instantiate g x; graph_launch x s; sync s"

_CALLS = (
    ("cuMemAllocManaged", "", "managed_alloc q"),
    ("cuMemFree of managed memory", _MANAGED, "free p"),
    ("cuMemPrefetchAsync", _MANAGED, "prefetch p device {}"),
    ("cuMemPrefetchAsync to the host", _MANAGED, "prefetch p host {}"),
    ("cuMemPrefetchBatchAsync", _MANAGED, "prefetch_batch {} device p"),
    ("cuMemAdvise", _MANAGED, "advise p read_mostly"),
    ("cuMemRangeGetAttribute", _MANAGED, "advised p READ_MOSTLY"),
    ("cuStreamAttachMemAsync", _MANAGED, "attach {} p 1"),
    ("cuMemsetD8Async of managed memory", _MANAGED, "fill_of {} p 3"),
    ("cuMemcpyAsync of managed memory", _MANAGED, "copy_of {} p buffer"),
    ("cuMemcpyAsync to pageable from managed memory", _MANAGED, "copy_of {} pageable p"),
    ("cuPointerSetAttribute", "", "memops_set buffer 1; memops_set buffer 0"),
    ("cuMemPoolCreate", "", "pool_make n 1 device; pool_end n"),
    ("cuMemAllocFromPoolAsync, own pool", "pool_make n 1 device", "alloc_from n q {}"),
    ("cuMemAllocFromPoolAsync, host pool", "pool_make n 1 host", "alloc_from n q {}"),
    ("cuMemAllocFromPoolAsync, managed pool", "pool_make n 2 device", "alloc_from n q {}"),
    ("cuMemcpyBatchAsync", "", "copies {} other<buffer"),
    ("cuMemcpyBatchAsync of two", "", "copies {} other<buffer,pinned<buffer"),
    ("cuMemcpyBatchAsync from pageable memory", "", "copies {} buffer<pageable"),
    ("cuMemcpyBatchAsync from pageable memory, during the call", "",
     "copies {} buffer<pageable call"),
    ("cuMemAddressReserve", "", "reserve q; unreserve q"),
    ("cuMemCreate", "", "physical q; let_physical_go q"),
    ("cuMemMap", "reserve r; physical h", "map_to r h"),
    ("cuMemSetAccess", "reserve r; physical h; map_to r h", "access r"),
    ("cuMemGetAccess", _MAPPED, "access_of r"),
    ("cuMemUnmap", _MAPPED, "unmap r"),
    ("cuMemAddressFree", "reserve r", "unreserve r"),
    ("cuMemRelease", _MAPPED, "let_physical_go h"),
    ("cuMemGetAllocationGranularity", "", "granularity"),
    ("cuMemRetainAllocationHandle", _MAPPED, "physical_of r h"),
    ("cuMemsetD8Async of mapped memory", _MAPPED, "fill_of {} r 3"),
)  # fmt: skip

_MANAGED_ALONE = (
    ("seen from both sides", f"{_MANAGED}; store p 9; look p; fill_of s p 3; sync s; look p; "
     "store p 4; fetch p; copy_of s buffer p; sync s; fetch buffer"),
    ("flags", "managed_alloc p 0; managed_alloc p 2; managed_alloc q 3; managed_alloc r 4; "
     "managed_alloc u 1 0; look p"),
    ("for the host, used by the device", "managed_alloc p 2; fill_of s p 3; sync s; look p"),
    ("for the host, attached", "managed_alloc p 2; attach s p 4; fill_of s p 3; sync s; look p; "
     "attach s p 1; attach t p 2; sync s; sync t"),
    ("advised", f"{_MANAGED}; " + "; ".join(
        f"advise p {what}; advised p {which}" for what, which in (
            ("read_mostly", "READ_MOSTLY"), ("not_read_mostly", "READ_MOSTLY"),
            ("preferred", "PREFERRED_LOCATION"), ("not_preferred", "PREFERRED_LOCATION"),
            ("preferred host", "PREFERRED_LOCATION"), ("accessed", "PREFERRED_LOCATION"),
            ("not_accessed", "READ_MOSTLY")))),
    ("advised wrongly", f"{_MANAGED}; advise p unknown; advise buffer read_mostly; "
     "advise p preferred no_device; advise p preferred nowhere; advise pageable read_mostly; "
     "advise pinned read_mostly"),
    ("prefetched", f"{_MANAGED}; advised p LAST_PREFETCH_LOCATION; prefetch p device s; sync s; "
     "advised p LAST_PREFETCH_LOCATION; prefetch p host s; sync s; "
     "advised p LAST_PREFETCH_LOCATION; prefetch_old p 0 s; prefetch_old p -1 s; sync s"),
    ("prefetched wrongly", f"{_MANAGED}; prefetch p no_device s; prefetch p nowhere s; "
     "prefetch buffer device s; prefetch pageable device s; prefetch p device s 0; "
     "prefetch p device s 1000000; prefetch_old p 99 s; prefetch p numa s; "
     "prefetch p current_numa s; sync s"),
    ("prefetched, many", f"{_MANAGED}; managed_alloc q; prefetch_batch s device p q; sync s; "
     "prefetch_batch s host p; prefetch_batch s device; prefetch_batch s device buffer; sync s"),
    ("what it tells", f"{_MANAGED}; pointers p; pointer_ctx p; range_of p; device_pointer p; "
     + "; ".join(f"pointer {name} p" for name in ("MEMORY_TYPE", "IS_MANAGED", "HOST_POINTER",
                                                  "DEVICE_POINTER", "MAPPED", "DEVICE_ORDINAL"))),
    ("freed on a stream", f"{_MANAGED}; free_async p s; sync s"),
    ("freed twice", f"{_MANAGED}; managed_alloc q; free p; free q"),
    ("copies captured", f"{_MANAGED}; begin s; copy_of s p buffer; copy_of s buffer p; "
     f"copy_of s p pinned; copy_of s pageable p; fill_of s p 3; end s g; node_get memcpy g 0; "
     f"node_get memcpy g 1; node_get memcpy g 2; node_get memcpy g 3; {_RUN}; look p"),
    ("copies updated, managed for device", f"{_MANAGED}; begin s; copy_of s other buffer; end s g; "
     "instantiate g x; begin s; copy_of s p buffer; end s h; update x h; graph_launch x s; "
     "sync s"),
    ("copies updated, managed for pinned", f"{_MANAGED}; begin s; copy_of s buffer pinned; "
     "end s g; instantiate g x; begin s; copy_of s buffer p; end s h; update x h; "
     "graph_launch x s; sync s"),
    ("memset nodes", f"{_MANAGED}; graph_create g; add_fill_of a g p home; {_RUN}; look p"),
    ("memcpy nodes", f"{_MANAGED}; graph_create g; add_copy_of a g p buffer home; "
     f"add_copy_of b g p p home a; node_get memcpy g 0; {_RUN}"),
    ("freed under a graph", f"{_MANAGED}; begin s; fill_of s p 3; end s g; instantiate g x; "
     "free p; update x g"),
)  # fmt: skip

_POOLS = (
    *((f"a pool of kind {kind}, {place}", f"pool_make n {kind} {place}; alloc_from n p s; sync s; "
       "pointers p; pointer_ctx p; pointer MEMORY_TYPE p; fill_of s p 3; sync s; free_async p s; "
       "sync s; pool_end n")
      for kind in ("1", "2", "0", "9")
      for place in ("device", "host", "numa", "current_numa", "nowhere", "no_device")),
    ("host memory, seen by the host", "pool_make n 1 host; alloc_from n p s; sync s; store p 5; "
     "look p; fill_of s p 3; sync s; look p; fetch p; free p"),
    ("managed memory, seen by the host", "pool_make n 2 device; alloc_from n p s; sync s; "
     "store p 5; look p; fill_of s p 3; sync s; look p; free p"),
    ("destroyed with memory in use", "pool_make n 1 device; alloc_from n p s; pool_end n; "
     "fill_of s p 3; sync s; free_async p s; sync s"),
    ("destroyed, then allocated from a clone's capture", "pool_make n 1 device; begin s; "
     "alloc_from n p s; launch s; free_async p s; end s g; pool_end n; instantiate g x; "
     "graph_launch x s; sync s"),
    ("captured, what the node tells", "pool_make n 1 device; begin s; alloc_from n p s; end s g; "
     "node_get mem_alloc g 0"),
)  # fmt: skip

_COPIES = (
    ("one", "fill_of s buffer 7; copies s other<buffer; sync s; fetch other"),
    ("three", "fill_of s buffer 7; copies s other<buffer,pinned<buffer,inside<pinned; sync s; "
     "look pinned"),
    ("in each order", "copies s other<buffer stream; copies s other<buffer call; "
     "copies s other<buffer any; copies s other<buffer none; copies s buffer<pageable any; "
     "copies s pageable<buffer stream; sync s"),
    ("none", "copies s nothing; copies s nothing stream 64 0; launch s; sync s"),
    ("of no bytes", "copies s other<buffer stream 0; launch s; sync s"),
    ("without attributes", "copies s other<buffer stream 64 0; launch s; sync s"),
    ("more attributes than copies", "copies s other<buffer stream 64 2; launch s; sync s"),
    ("two attributes", "copies s other<buffer,inside<pinned stream 64 2; sync s"),
    ("flags", "copies s other<buffer stream 64 1 1; copies s other<buffer stream 64 1 2; sync s"),
    ("of no address", "copies s null<buffer; copies s other<null; launch s; sync s"),
    ("beyond the memory", "copies s other<buffer stream 8192; launch s; sync s"),
    ("on the legacy stream", "copies legacy other<buffer; ctx_sync"),
    ("on the per-thread stream", "copies per_thread other<buffer; sync per_thread"),
    ("captured", f"begin s; copies s other<buffer,pinned<buffer; end s g; {_RUN}"),
)  # fmt: skip

_MAY_FAULT = ("of no address", "beyond the memory")

_VIRTUAL = (
    ("a whole life", f"granularity; {_MAPPED}; access_of r; physical_of r h; physical_told h; "
     "fill_of s r 3; sync s; fetch r; pointer MEMORY_TYPE r; pointer_ctx r; range_of r; unmap r; "
     "let_physical_go h; unreserve r"),
    ("half a piece", "reserve r 0.5; physical h 0.5; reserve q 1; physical k 1; map_to q k 0.5 1; "
     "map_to q k 0 0.5"),
    ("nothing", "reserve r 0; physical h 0"),
    ("an alignment", "reserve r 1 4194304; reserve q 1 4096; reserve u 1 3"),
    ("of no device", "physical h 1 99"),
    ("mapped twice", "reserve r; physical h; map_to r h; map_to r h; access r; unmap r; unmap r"),
    ("one memory at two places", "reserve r; reserve q; physical h; map_to r h; map_to q h; "
     "access r; access q; fill_of s r 5; sync s; fetch q; unmap r; unmap q"),
    ("part of memory", "reserve r 4; physical h 2; map_to r h 0 1; map_to r h 1 1 1; "
     "map_to r h 2 2; access r 3 0 4; fill_of s r 6; sync s; fetch r; unmap r 0 4"),
    ("more than there is", "reserve r 2; physical h 1; map_to r h 0 2; map_to r h 0 1 1"),
    ("unmapped in parts", "reserve r; physical h; physical k; map_to r h 0 1; map_to r k 1 1; "
     "access r 3 0 2; unmap r 0 2"),
    ("unmapped by half", f"{_MAPPED}; unmap r 0 1; unmap r 0 2"),
    ("access without a mapping", "reserve r; access r; access_of r"),
    ("access of half", f"{_MAPPED}; access r 0 0 1; access r 1 0 2; access_of r"),
    ("used without access", "reserve r; physical h; map_to r h; fill_of s r 3; sync s; fetch r"),
    ("used without a mapping", "reserve r; fill_of s r 3; sync s; fetch r"),
    ("memory let go while it is mapped", f"{_MAPPED}; let_physical_go h; fill_of s r 4; sync s; "
     "fetch r; unmap r"),
    ("addresses freed while they are mapped", f"{_MAPPED}; unreserve r; unmap r; unreserve r"),
    ("addresses freed in part", "reserve r; unreserve r 1; unreserve r"),
    ("freed by cuMemFree", f"{_MAPPED}; free_range r"),
    ("a captured memset, another memory behind the addresses", f"{_MAPPED}; begin s; "
     "fill_of s r 3; end s g; instantiate g x; graph_launch x s; sync s; fetch r; unmap r; "
     "physical k; map_to r k; access r; graph_launch x s; sync s; fetch r"),
    ("a memset node, no memory behind the addresses", "reserve r; graph_create g; "
     "add_fill_of a g r home; shape g"),
    ("a captured memset, no memory behind the addresses", "reserve r; begin s; fill_of s r 3; "
     "end s g"),
    ("a captured copy, grown after", "reserve r 4; physical h; map_to r h; access r; begin s; "
     "copy_of s r buffer; end s g; instantiate g x; physical k; map_to r k 2 2; access r 3 2 2; "
     "graph_launch x s; sync s; update x g"),
)  # fmt: skip

SCENARIOS = (
    *(run for name, before, call in _CALLS for run in placed(name, before, call)),
    *(Scenario(f"managed memory: {name}", text) for name, text in _MANAGED_ALONE),
    *(Scenario(f"pool: {name}", text) for name, text in _POOLS),
    *(Scenario(f"batch of copies: {name}", text, apart=name in _MAY_FAULT)
      for name, text in _COPIES),
    *(Scenario(f"mapped memory: {name}", text, EVERY_MODE if "captured" in name else (
        "THREAD_LOCAL",), apart="without" in name) for name, text in _VIRTUAL),
)  # fmt: skip
