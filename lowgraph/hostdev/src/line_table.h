// From code addresses to source lines: the line program of an image's debug information.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lowgraph {

struct SourceLine {
    std::string file;  // empty: not known
    int line = 0;
};

// Of the host device, of CUDA or of the system: no file of the user's.
bool is_foreign(const std::string& file);

class LineTable {
public:
    // section: .debug_line, DWARF 2 to 4 (images are compiled with -gdwarf-4).
    explicit LineTable(std::string_view section);

    // The line of the code at a file address. Code inlined from a header of the host device or of
    // CUDA has the line of the source before it.
    SourceLine find(uint64_t address) const;
    // Whether the code at a file address itself is on a line of the user's.
    bool is_users(uint64_t address) const;

private:
    struct Row {
        uint64_t address;
        int file;  // in files_
        int line;
        bool end;  // first address behind a sequence
    };
    std::vector<Row>::const_iterator behind(uint64_t address) const;  // the first row after it
    void read_unit(std::string_view unit);
    void run_program(std::string_view program, const struct LineHeader& header);

    std::vector<std::string> files_;
    std::vector<bool> foreign_;  // by file: a header that is not the user's
    std::vector<Row> rows_;      // sorted by address
};

}  // namespace lowgraph
