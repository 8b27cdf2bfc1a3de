// Words in memory that streams write and wait for: memory operations, alone, in batches, as nodes.
// The codes are recorded rows of a real driver.
#pragma once
#include "model.h"

namespace lowgraph {

// Looks at kinds, flags and alignment, which a capture does too; not at what the addresses are.
CUresult read_words(const CUstreamBatchMemOpParams* operations, unsigned count, unsigned flags,
                    WordsWork* work);
// INVALID_VALUE: an address is no plain memory, neither the device's own nor pinned. Asked when the
// work or the graph's launch is issued; memory of a pool is none.
CUresult check_words(const WordsWork& work);
bool have_same_kinds(const WordsWork& now, const WordsWork& next);
// Whether operation `next` can be carried out now: it is no wait, or its value is there.
bool can_go_on(const WordsWork& work, size_t next);
// Carries out one after another from `*next`, up to a wait whose value is not there.
CUresult run_some(const WordsWork& work, size_t* next);
// All of them, on an executor thread; a wait lasts until somebody stores the value. image, place: of
// a node whose graph runs in the order of its image, or null.
CUresult run_words(const WordsWork& work, const ExecImage* image = nullptr, size_t place = 0);
// The wait `next` was overdue (wait_for_others): says so. In the check build a finding, and success: the
// wait counts as done. Else the context's error, which is returned.
CUresult end_wait(const WordsWork& work, size_t next, const ExecImage* image, size_t place);

}  // namespace lowgraph
