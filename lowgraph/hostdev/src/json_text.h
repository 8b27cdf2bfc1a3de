// Text for Python: JSON strings, and the way out of this library.
#pragma once
#include <algorithm>
#include <cstring>
#include <string>

namespace lowgraph {

inline std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        if (static_cast<unsigned char>(c) < 0x20) out += ' ';
        else out += c;
    }
    return out + '"';
}

inline std::string quoted_or_null(const std::string& text) {
    return text.empty() ? "null" : quoted(text);
}

// Copies as much as there is room for, with a NUL; returns the bytes that all of it needs.
inline size_t give_text(const std::string& text, char* out, size_t size) {
    if (out != nullptr && size != 0) {
        const size_t count = std::min(size - 1, text.size());
        std::memcpy(out, text.data(), count);
        out[count] = '\0';
    }
    return text.size() + 1;
}

}  // namespace lowgraph
