// Shuffle mode (LOWGRAPH_HOST_SHUFFLE=SEED): whatever CUDA leaves open is decided by dice. Which of
// the ready ops runs next and how late, the order of a graph's branches, of a launch's blocks and of
// a block's threads at every point where one of them may go on. A result that then changes, or a
// test that then fails, relied on an order that nobody promised.
// Every op, launch and block has dice of its own, thrown from the seed and its number, so that a
// seed means the same orders again. Left to the machine: which ops are ready when a thread of the
// executor comes free, and how blocks on different workers overlap.
#pragma once
#include <cstdint>

namespace lowgraph {

struct Shuffle {
    bool on = false;
    bool valid = true;  // false: the variable holds neither a seed nor "random"
    uint64_t seed = 0;
};
const Shuffle& shuffle();  // as the environment had it at the first call
// Whether the dice decide. The checker needs none to see what is not ordered: while checking all comes
// in one order, so that a finding is there in every run or in none.
bool shuffling();
void keep_order();  // from now on the dice do not decide

// Numbers that look random and follow from what they are thrown from.
class Dice {
public:
    explicit Dice(uint64_t from = 0) : state_(from) {}
    uint64_t next();
    uint32_t below(uint32_t n) { return static_cast<uint32_t>((next() >> 32) * n >> 32); }
    uint32_t lane_of(uint32_t lanes);  // one of the bits that are set; at least one is

private:
    uint64_t state_;
};
uint64_t mixed(uint64_t a, uint64_t b);

// The dice of the op that the calling thread of the executor runs.
Dice& op_dice();
void begin_op(uint64_t number);  // throws them anew
// Microseconds that the op is held back: half of them not at all, the others up to 2 ms.
uint32_t op_delay();

// An order of 0 .. count-1 in which every number comes once.
class Order {
public:
    Order() = default;
    Order(uint64_t count, Dice dice);
    uint64_t at(uint64_t place) const;

private:
    uint64_t count_, mask_, factor_[3], term_[3];
    int shift_;
};

}  // namespace lowgraph
