// The loaded kernel images: which one a code address is in, its variables, and its source lines.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "line_table.h"

namespace lowgraph {

// A variable of an image: of its thread-local block (a __shared__ one) or of its data.
struct Variable {
    uint64_t value = 0, bytes = 0;  // an offset in the thread-local block, or an address
    std::string symbol;             // mangled
    std::string name() const;       // as the source has it, without scope
    // Declared in another kernel of the image: nothing of this one's.
    bool is_foreign(const char* kernel) const;
};

struct Image {
    uint64_t start = 0, end = 0;    // where it is loaded
    uint64_t bias = 0;              // what is added to the addresses in the file
    std::string bytes;              // the file
    std::vector<Variable> shared;   // sorted by value
    std::vector<Variable> data;     // sorted by value
    uint64_t shared_bytes = 0;      // of the thread-local block
    uint64_t probe = 0;             // offset there of lowgraph_shared_tail
    uint64_t hooks_start = 0, hooks_end = 0;  // code of the hooks, on no line of the user's
    std::unique_ptr<LineTable> lines;  // made when first asked for
};

// Known from load to unload. `library`: from dlopen.
void add_image(void* library, const void* file, size_t bytes);
void remove_image(void* library);

// The image that holds a code or data address; null: none. Stays valid until it is unloaded.
Image* image_of(uint64_t address);
// The source line that the code at pc was made from; an empty file: not known.
SourceLine source_line(uint64_t pc);

}  // namespace lowgraph
