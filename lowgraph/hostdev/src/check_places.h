// What a kernel may touch, and what is wrong with an address that it may not.
#pragma once
#include <string>

#include "check.h"
#include "check_bits.h"

namespace lowgraph {

// A stretch of memory that a kernel may use, and what is kept about it.
struct Place {
    uint64_t start = 0, end = 0;
    WrittenBits written;      // bits null: always written
    bool watched = false;     // goes to the race detector
    Space space = Space::global;
};

// Why an access may not be made.
struct Wrong {
    const char* kind = nullptr;
    std::string text;   // what the address is, as a sentence goes on: "just past the end of ..."
    uint64_t owner = 0; // an address that names the allocation; 0: none
    std::string name;   // of what is no allocation ("tile")
    bool fatal = false; // the kernel cannot go on with it
};

// True: the access lies in `place`, all of it. Else `wrong` says what is the matter.
bool find_place(const Access& access, Place* place, Wrong* wrong);

// "tile" or "dynamic shared memory", of a place in Space::shared.
std::string shared_title(const Place& place);

// The name of a slice or an allocation, by an address in it, before or behind; "" for none.
std::string allocation_name(uint64_t address);
// What memory is called in findings: a slice's, an allocation's or a variable's name; "" for none.
std::string memory_name(uint64_t address);
// The same of what the running thread touches, shared memory too.
std::string touched_name(uint64_t address);

// Before each block: nobody has written its shared memory.
void reset_shared_bits();

// The launch is over: what was opened for wrong accesses to go on is closed.
void close_opened_pages();

}  // namespace lowgraph
