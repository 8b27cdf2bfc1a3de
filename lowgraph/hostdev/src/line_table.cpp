#include "line_table.h"

#include <algorithm>
#include <cstring>

namespace lowgraph {

struct LineHeader {
    uint8_t min_length = 1, line_range = 1, opcode_base = 1;
    int8_t line_base = 0;
    std::vector<uint8_t> operand_counts;  // of the standard opcodes, from 1
    int first_file = 0;                   // place in the table's files of the unit's file 1
};

namespace {

enum { copy = 1, advance_pc, advance_line, set_file, set_column, negate_statement, set_block,
       add_constant_pc, fixed_advance_pc };  // standard opcodes
enum { end_sequence = 1, set_address = 2 };  // extended opcodes

// Reads past the end give zeros: a torn section ends its program early and nothing worse.
class Reader {
public:
    explicit Reader(std::string_view text) : rest_(text) {}
    bool empty() const { return rest_.empty(); }
    std::string_view take(size_t count) {
        const std::string_view taken = rest_.substr(0, count);
        rest_.remove_prefix(taken.size());
        return taken;
    }
    template <typename T>
    T number() {
        const std::string_view taken = take(sizeof(T));
        T value{};
        std::memcpy(&value, taken.data(), taken.size());
        return value;
    }
    uint64_t uleb() {
        uint64_t value = 0;
        for (int shift = 0; shift < 64; shift += 7) {
            const auto byte = number<uint8_t>();
            value |= uint64_t{byte & 0x7Fu} << shift;
            if (!(byte & 0x80)) break;
        }
        return value;
    }
    int64_t sleb() {
        uint64_t value = 0;
        for (int shift = 0; shift < 64;) {
            const auto byte = number<uint8_t>();
            value |= uint64_t{byte & 0x7Fu} << shift;
            shift += 7;
            if (byte & 0x80) continue;
            if ((byte & 0x40) && shift < 64) value |= ~uint64_t{0} << shift;
            break;
        }
        return static_cast<int64_t>(value);
    }
    std::string_view text() {
        const size_t end = rest_.find('\0');
        const std::string_view found = take(end);
        take(1);
        return found;
    }

private:
    std::string_view rest_;
};

}  // namespace

bool is_foreign(const std::string& file) {
    return file.rfind("/usr/", 0) == 0 || file.find("/cuda_on_host") != std::string::npos ||
           file.find("/cooperative_groups.h") != std::string::npos ||
           file.find("/nvidia/") != std::string::npos;
}

LineTable::LineTable(std::string_view section) {
    Reader reader(section);
    while (!reader.empty()) {
        const auto length = reader.number<uint32_t>();
        if (length == 0 || length == UINT32_MAX) break;  // padding; the 64-bit format
        read_unit(reader.take(length));
    }
    std::stable_sort(rows_.begin(), rows_.end(),
                     [](const Row& a, const Row& b) { return a.address < b.address; });
    for (const std::string& file : files_) foreign_.push_back(is_foreign(file));
}

void LineTable::read_unit(std::string_view unit) {
    Reader reader(unit);
    const auto version = reader.number<uint16_t>();
    if (version < 2 || version > 4) return;
    const auto header_length = reader.number<uint32_t>();
    Reader fields(reader.take(header_length));
    LineHeader header;
    header.min_length = fields.number<uint8_t>();
    if (version == 4) fields.number<uint8_t>();  // operations of an instruction: 1 on this machine
    fields.number<uint8_t>();                    // is_stmt by default
    header.line_base = fields.number<int8_t>();
    header.line_range = std::max<uint8_t>(1, fields.number<uint8_t>());
    header.opcode_base = fields.number<uint8_t>();
    for (int i = 1; i < header.opcode_base; ++i)
        header.operand_counts.push_back(fields.number<uint8_t>());
    std::vector<std::string> folders{""};
    for (std::string_view name = fields.text(); !name.empty(); name = fields.text())
        folders.emplace_back(name);
    header.first_file = static_cast<int>(files_.size());
    for (std::string_view name = fields.text(); !name.empty(); name = fields.text()) {
        const uint64_t folder = fields.uleb();
        fields.uleb(), fields.uleb();  // time and size
        const bool relative = name[0] != '/' && folder < folders.size() && folder != 0;
        files_.push_back(relative ? folders[folder] + "/" + std::string(name) : std::string(name));
    }
    run_program(reader.take(unit.size()), header);
}

void LineTable::run_program(std::string_view program, const LineHeader& header) {
    Reader reader(program);
    const Row start{0, header.first_file, 1, false};
    Row row = start;
    const auto special = [&](int opcode) {
        row.address += static_cast<uint64_t>(opcode / header.line_range * header.min_length);
        return header.line_base + opcode % header.line_range;
    };
    const auto extended = [&] {
        const uint64_t length = reader.uleb();
        Reader operands(reader.take(length));
        const auto opcode = operands.number<uint8_t>();
        if (opcode == set_address) row.address = operands.number<uint64_t>();
        if (opcode != end_sequence) return;
        row.end = true;
        rows_.push_back(row);
        row = start;
    };
    const auto standard = [&](int opcode) {
        if (opcode == copy) rows_.push_back(row);
        else if (opcode == advance_pc) row.address += reader.uleb() * header.min_length;
        else if (opcode == advance_line) row.line += static_cast<int>(reader.sleb());
        else if (opcode == set_file)
            row.file = header.first_file + static_cast<int>(reader.uleb()) - 1;
        else if (opcode == add_constant_pc) special(255 - header.opcode_base);
        else if (opcode == fixed_advance_pc) row.address += reader.number<uint16_t>();
        else for (int i = 0; i < header.operand_counts[opcode - 1]; ++i) reader.uleb();
    };
    while (!reader.empty()) {
        const int opcode = reader.number<uint8_t>();
        if (opcode >= header.opcode_base) {
            row.line += special(opcode - header.opcode_base);
            rows_.push_back(row);
        } else if (opcode == 0) {
            extended();
        } else {
            standard(opcode);
        }
    }
}

std::vector<LineTable::Row>::const_iterator LineTable::behind(uint64_t address) const {
    const auto is_before = [](uint64_t wanted, const Row& row) { return wanted < row.address; };
    return std::upper_bound(rows_.begin(), rows_.end(), address, is_before);
}

bool LineTable::is_users(uint64_t address) const {
    const auto spot = behind(address);
    if (spot == rows_.begin()) return false;
    const Row& row = *std::prev(spot);
    const auto file = static_cast<size_t>(row.file);
    return !row.end && row.line != 0 && file < files_.size() && !foreign_[file];
}

SourceLine LineTable::find(uint64_t address) const {
    auto spot = behind(address);
    SourceLine first;
    while (spot != rows_.begin()) {
        const Row& row = *--spot;
        if (row.end) break;
        const auto file = static_cast<size_t>(row.file);
        if (file >= files_.size() || row.line == 0) continue;
        if (first.file.empty()) first = {files_[file], row.line};
        if (!foreign_[file]) return {files_[file], row.line};
    }
    return first;
}

}  // namespace lowgraph
