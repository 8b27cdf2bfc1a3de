#include "check.h"

#include "block.h"
#include "check_access.h"
#include "check_copies.h"
#include "check_findings.h"
#include "check_index.h"
#include "check_launch.h"
#include "check_places.h"
#include "check_shared.h"
#include "memory_tables.h"
#include "race.h"
#include "watchdog.h"

namespace lowgraph {

bool check_is_on = false;

namespace {

// Where an instruction's last access was: the next one is likely to be in the same stretch.
struct Remembered {
    uint64_t pc = 0, generation = 0;
    Place place;
};
constexpr size_t remembered_slots = 4096;
Remembered remembered[remembered_slots];

// What was remembered under another number is forgotten. The watchdog counts it up too.
std::atomic<uint64_t> generation{1};

// The stacks of the OS thread that runs the launch.
uint64_t stacks_start = 0, stacks_bytes = 0;

std::mutex& device_lock = *new std::mutex;  // held while anything runs on the device
std::atomic<uint64_t> launches{0};

size_t slot_of(uint64_t pc) { return (pc * 0x9E3779B97F4A7C15u) >> 52; }
static_assert(remembered_slots == size_t{1} << 12);

std::string bytes_text(uint64_t bytes) {
    return std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes");
}

Site site_of(const Access& access) {
    Site site = here(access.pc);
    site.access = verb(access);
    return site;
}

void report_wrong(const Access& access, const Wrong& wrong, const std::string& index) {
    const Site where = site_of(access);
    const std::string memory = wrong.owner != 0 ? allocation_name(wrong.owner) : wrong.name;
    if (count_again(wrong.kind, where, memory)) return;
    const std::string text = (index.empty() ? "" : index + ": ") + where.access + " of " +
                             bytes_text(access.bytes) + " " + wrong.text;
    report_named(wrong.kind, where, memory, text, nullptr, access.address);
}

// Where the running block's thread started the copy.
Site start_of(const AsyncCopy& copy, uint32_t thread) {
    Site site = here(copy.pc);
    const Extent& size = lowgraph_thread.block_size;
    site.thread[0] = thread % size.x;
    site.thread[1] = thread / size.x % size.y;
    site.thread[2] = thread / size.x / size.y;
    return site;
}

// Nobody writes the padding between a struct's members. What reads it with them is a copy mostly
// (check_copies.h); of what is none, nothing here tells padding from a member.
std::string note_on_padding(const Access& access, const Place& place) {
    uint32_t missing = 0;
    for (uint32_t i = 0; i < access.bytes; ++i)
        missing += place.written.unwritten(access.address + i, 1) != 0;
    if (missing == access.bytes || access.bytes < 8) return "";
    return "; " + bytes_text(missing) + " of it, the others are written: if a struct's padding, copy its "
           "members one by one or set the whole to 0 first";
}

__attribute__((noinline)) void report_unwritten(const Access& access, const Place& place,
                                                uint64_t address) {
    const Site where = site_of(access);
    const bool is_shared = place.space == Space::shared;
    const std::string name = is_shared ? shared_title(place) : memory_name(address);
    if (count_again(kind::uninitialised_read, where, name)) return;
    const std::string hint = note_on_padding(access, place);
    const std::string what =
        std::string(where.access) + " of " + bytes_text(access.bytes) + " that ";
    if (is_shared) {
        const std::string spot = bytes_text(address - place.start) + " into '" + name + "'";
        uint32_t thread = 0;
        const AsyncCopy* const copy = lowgraph_thread.runner->copies.find(address, &thread);
        if (copy == nullptr)
            return report_named(kind::uninitialised_read, where, name,
                                what + "no thread of the block has written: " + spot + hint);
        const Site started = start_of(*copy, thread);
        return report_named(kind::uninitialised_read, where, name,
                            what + "an asynchronous copy is still to bring, for its thread has not "
                                   "waited for it: " + spot,
                            &started);
    }
    char title[240];
    describe_address(address, title, sizeof title);
    report_named(kind::uninitialised_read, where, name,
                 what + "nobody has written: " + title + hint);
}

// An index outside one dimension of an array, at an address that is inside the whole of it.
void report_index(const Access& access, const Place& place, const std::string& index) {
    const Site where = site_of(access);
    const std::string name =
        place.space == Space::shared ? shared_title(place) : memory_name(access.address);
    if (count_again(kind::out_of_bounds, where, name)) return;
    // It may be another access: those of local variables are not seen.
    const std::string text = index + " is outside of it; next in the line: " +
                             where.access + " of " + bytes_text(access.bytes);
    report_named(kind::out_of_bounds, where, name, text, nullptr, access.address);
}

// The first byte that nobody has written, or 0.
__attribute__((noinline)) uint64_t first_unwritten(const Access& access, const Place& place) {
    for (uint32_t done = 0; done < access.bytes; done += 16) {
        const uint32_t part = access.bytes - done < 16 ? access.bytes - done : 16;
        const uint32_t missing = place.written.unwritten(access.address + done, part);
        if (missing != 0)
            return access.address + done + static_cast<uint32_t>(__builtin_ctz(missing));
    }
    return 0;
}

enum class Looked { found, told, end };  // told: it was wrong; end: and the block has to end

__attribute__((noinline)) Looked look_up(const Access& access, Remembered& slot) {
    if (is_overdue(*lowgraph_thread.runner->job)) {
        tell_overdue(access.pc);
        return Looked::end;
    }
    Wrong wrong;
    const std::string index = index_of(access);
    slot.place = Place();  // the slot may have been another instruction's, in shared memory
    if (find_place(access, &slot.place, &wrong)) {
        if (!index.empty()) report_index(access, slot.place, index);
        slot.pc = access.pc;
        slot.generation = generation.load(std::memory_order_relaxed);
        return Looked::found;
    }
    slot.pc = 0;
    if (!index.empty() && wrong.kind == kind::host_pointer) wrong.kind = kind::out_of_bounds;
    report_wrong(access, wrong, index);
    return wrong.fatal ? Looked::end : Looked::told;
}

}  // namespace

// Local variables that live in memory are a good part of all accesses, and nobody else's concern.
bool see(const Access& access, bool loads) {
    if (access.address - stacks_start < stacks_bytes) return true;
    Remembered& slot = remembered[slot_of(access.pc)];
    const Place& place = slot.place;
    const bool known = slot.pc == access.pc &&
                       slot.generation == generation.load(std::memory_order_relaxed) &&
                       access.address >= place.start && access.address + access.bytes <= place.end;
    if (__builtin_expect(!known, 0)) {
        const Looked looked = look_up(access, slot);
        if (looked != Looked::found) return looked == Looked::told;
    }
    if (place.written.bits != nullptr) {
        const bool small = access.bytes <= 16;
        if (loads && (!small || place.written.unwritten(access.address, access.bytes) != 0)) {
            const uint64_t missing = first_unwritten(access, place);
            if (missing != 0 && !copies_holes(access, place.written))
                report_unwritten(access, place, missing);
        }
        if (access.write) {
            place.written.set_all(access.address, access.bytes);
            if (access.bytes >= 8) note_wide_write(access, place.written);
        }
    }
    if (place.watched) race_access(access, place.space);
    return true;
}

namespace {

// Each of a copy's two accesses has a pc to be remembered by, both in the call that started it.
Access source_of(const AsyncCopy& copy) {
    return {reinterpret_cast<uint64_t>(copy.from), copy.read, false, false, copy.pc - 1, 0};
}
Access target_of(const AsyncCopy& copy) {
    return {reinterpret_cast<uint64_t>(copy.to), copy.bytes, true, false, copy.pc, 0};
}

}  // namespace

bool see_copy_start(AsyncCopy& copy) {
    copy.started = race_now();
    const Access source = source_of(copy), target = target_of(copy);
    if (copy.read != 0) {
        Access whole = source;
        whole.bytes = copy.bytes;
        look_at_alignment(whole);
        if (!see(source, true)) return false;
    }
    look_at_alignment(target);
    if (!see(target, false)) return false;
    const Place& place = remembered[slot_of(target.pc)].place;
    const bool inside = target.address >= place.start && target.address + target.bytes <= place.end;
    if (inside && place.written.bits != nullptr)
        place.written.fill(target.address, target.bytes, false);
    return true;
}

bool see_copy_arrive(const AsyncCopy& copy) {
    Access source = source_of(copy), target = target_of(copy);
    source.copy_since = target.copy_since = copy.started;
    return (copy.read == 0 || see(source, false)) && see(target, false);
}

void look_at_alignment(const Access& access) {
    if (access.bytes > 16 || (access.bytes & (access.bytes - 1)) != 0) return;
    if (access.address % access.bytes == 0) return;
    report_misaligned(site_of(access), access.bytes, access.address);
}

void report_misaligned(const Site& where, uint64_t alignment, uint64_t address) {
    const std::string memory = touched_name(address);
    if (count_again(kind::misaligned, where, memory)) return;
    char text[160];
    snprintf(text, sizeof text,
             "%s at 0x%llx, which is not a multiple of %llu: a GPU refuses it", where.access,
             static_cast<unsigned long long>(address), static_cast<unsigned long long>(alignment));
    report_named(kind::misaligned, where, memory, text, nullptr, address);
}

void note_stacks() {
    uint64_t end = 0;
    lowgraph_thread.runner->stacks.span(&stacks_start, &end);
    stacks_bytes = end - stacks_start;
}

void forget_places() { generation.fetch_add(1, std::memory_order_relaxed); }

LEAVES_BY_SWITCH void end_block() { lowgraph_thread.runner->abandon(); }

CheckedWork::CheckedWork(bool launch) : hold_(device_lock, std::defer_lock) {
    if (!checking()) return;
    hold_.lock();
    forget_places();
    if (launch) launches.fetch_add(1, std::memory_order_relaxed);
    before_ = findings_so_far();
}

CheckedWork::~CheckedWork() {
    if (!hold_.owns_lock()) return;
    tell_index();
    close_opened_pages();
}

bool CheckedWork::found_any() const { return findings_so_far() != before_; }

CheckedTransfer::CheckedTransfer(const char* what) {
    if (checking()) race_work_begin(what);
}

CheckedTransfer::~CheckedTransfer() {
    if (checking()) race_work_end();
}

uint64_t launches_checked() { return launches.load(std::memory_order_relaxed); }

}  // namespace lowgraph
