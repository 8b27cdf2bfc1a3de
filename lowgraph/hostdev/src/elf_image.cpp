#include "elf_image.h"

#include <elf.h>

#include <algorithm>
#include <cstring>

namespace lowgraph {
namespace {

constexpr uint32_t fat_binary_magic = 0xBA55ED50, fat_wrapper_magic = 0x466243B1;
constexpr uint16_t machine_cuda = 190;  // EM_CUDA
constexpr char kernel_prefix[] = "lowgraph_kernel_";

const unsigned char* at(const void* image, uint64_t offset) {
    return static_cast<const unsigned char*>(image) + offset;
}

template <typename T>
const T* table(const void* image, uint64_t offset) {
    return reinterpret_cast<const T*>(at(image, offset));
}

bool is_ptx(const char* text) {
    constexpr int look = 4096;  // the directive comes first, after comments
    for (int i = 0; i < look && text[i] != '\0'; ++i)
        if (std::strncmp(text + i, ".version", 8) == 0) return true;
    return false;
}

CUresult judge_other(const void* image) {
    uint32_t magic = 0;
    std::memcpy(&magic, image, sizeof magic);
    if (magic == fat_binary_magic || magic == fat_wrapper_magic)
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    return is_ptx(static_cast<const char*>(image)) ? CUDA_ERROR_NO_BINARY_FOR_GPU
                                                   : CUDA_ERROR_INVALID_IMAGE;
}

}  // namespace

CUresult measure_image(const void* image, size_t* bytes) {
    if (std::strncmp(static_cast<const char*>(image), ELFMAG, SELFMAG) != 0)
        return judge_other(image);
    const auto* header = static_cast<const Elf64_Ehdr*>(image);
    if (header->e_machine == machine_cuda) return CUDA_ERROR_NO_BINARY_FOR_GPU;
    if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_type != ET_DYN)
        return CUDA_ERROR_INVALID_IMAGE;
    if (header->e_machine != EM_X86_64 && header->e_machine != EM_AARCH64)
        return CUDA_ERROR_INVALID_IMAGE;
    uint64_t end = header->e_shoff + uint64_t{header->e_shnum} * header->e_shentsize;
    const auto* segments = table<Elf64_Phdr>(image, header->e_phoff);
    for (int i = 0; i < header->e_phnum; ++i)
        end = std::max(end, segments[i].p_offset + segments[i].p_filesz);
    const auto* sections = table<Elf64_Shdr>(image, header->e_shoff);
    for (int i = 0; i < header->e_shnum; ++i)
        if (sections[i].sh_type != SHT_NOBITS)
            end = std::max(end, sections[i].sh_offset + sections[i].sh_size);
    *bytes = end;
    return CUDA_SUCCESS;
}

std::vector<std::string> exported_kernels(const void* image) {
    std::vector<std::string> names;
    const auto* header = static_cast<const Elf64_Ehdr*>(image);
    const auto* sections = table<Elf64_Shdr>(image, header->e_shoff);
    for (int i = 0; i < header->e_shnum; ++i) {
        const Elf64_Shdr& section = sections[i];
        if (section.sh_type != SHT_DYNSYM) continue;
        const auto* symbols = table<Elf64_Sym>(image, section.sh_offset);
        const auto* strings = table<char>(image, sections[section.sh_link].sh_offset);
        for (uint64_t n = 0; n < section.sh_size / sizeof(Elf64_Sym); ++n) {
            const char* name = strings + symbols[n].st_name;
            const bool kernel = std::strncmp(name, kernel_prefix, sizeof kernel_prefix - 1) == 0;
            if (kernel && symbols[n].st_shndx != SHN_UNDEF)
                names.emplace_back(name + sizeof kernel_prefix - 1);
        }
    }
    std::sort(names.begin(), names.end());
    return names;
}

}  // namespace lowgraph
