// What a zip archive says about the bytes of its entries. libtorch's reader does not compare them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace trireme {

/// CRC-32 of each entry of a zip archive by its path, as the directory at the archive's end has it (APPNOTE.TXT of
/// PKWARE, 4.3.12 and on; Zip64 too). Of what comes after a part of the directory that makes no sense there is none.
std::map<std::string, uint32_t> zip_checksums(const std::filesystem::path& path);

}  // namespace trireme
