#include "shuffle.h"

#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <random>

namespace lowgraph {
namespace {

Shuffle read_environment() {
    Shuffle read;
    const char* text = std::getenv("LOWGRAPH_HOST_SHUFFLE");
    if (text == nullptr || *text == '\0') return read;
    read.on = true;
    if (std::strcmp(text, "random") == 0) {
        read.seed = std::random_device()() % 1000000;  // short: people copy it from the output
        return read;
    }
    char* end = nullptr;
    errno = 0;
    read.seed = std::strtoull(text, &end, 10);
    read.valid = std::isdigit(static_cast<unsigned char>(*text)) && *end == '\0' && errno == 0;
    return read;
}

bool order_is_kept = false;  // set before anything runs

}  // namespace

bool shuffling() { return shuffle().on && !order_is_kept; }

void keep_order() { order_is_kept = true; }

const Shuffle& shuffle() {
    static const Shuffle read = read_environment();
    return read;
}

// splitmix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014).
uint64_t Dice::next() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

uint32_t Dice::lane_of(uint32_t lanes) {
    uint32_t skip = below(static_cast<uint32_t>(__builtin_popcount(lanes)));
    for (; skip != 0; --skip) lanes &= lanes - 1;
    return static_cast<uint32_t>(__builtin_ctz(lanes));
}

uint64_t mixed(uint64_t a, uint64_t b) { return Dice(Dice(a).next() + b).next(); }

Dice& op_dice() {
    static thread_local Dice dice;
    return dice;
}

void begin_op(uint64_t number) { op_dice() = Dice(mixed(shuffle().seed, number)); }

uint32_t op_delay() {
    const uint32_t power = op_dice().below(24);
    return power < 12 ? 1u << power : 0;
}

// Numbers below the next power of two are stirred by steps that each can be undone; what lands at
// or above `count` is stirred again until it is below.
Order::Order(uint64_t count, Dice dice) : count_(count) {
    int bits = 1;
    while (bits < 63 && uint64_t{1} << bits < count) ++bits;
    mask_ = (uint64_t{1} << bits) - 1;
    shift_ = (bits + 1) / 2;
    for (int i = 0; i < 3; ++i) {
        factor_[i] = dice.next() | 1;
        term_[i] = dice.next();
    }
}

uint64_t Order::at(uint64_t place) const {
    do {
        for (int i = 0; i < 3; ++i) {
            place = (place * factor_[i] + term_[i]) & mask_;
            place ^= place >> shift_;
        }
    } while (place >= count_);
    return place;
}

}  // namespace lowgraph
