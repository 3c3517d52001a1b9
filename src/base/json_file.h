// Files read and written whole, with errors that name the path and the reason; numbers in JSON.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace trireme {

/// The bytes of a file. A user error where it cannot be read.
std::string read_file(const std::filesystem::path& path);

/// A user error where the file is missing or is not JSON; that one names the byte.
nlohmann::json read_json_file(const std::filesystem::path& path);

/// Writes beside the target, syncs to disk and renames: a reader, or a machine that crashed, finds the old file or the
/// new one, never half of it. The folder must exist. Blames the user where the path is at fault, the run where the disk
/// is.
void write_file_atomically(const std::filesystem::path& path, std::string_view bytes);

/// write_file_atomically of the indented text with a newline at its end. Bytes that are not UTF-8 become U+FFFD.
void write_json_file(const std::filesystem::path& path, const nlohmann::json& value);

/// JSON has no infinities and no NaN: they are written as null, which is read as NaN.
nlohmann::json json_number(double value);
double number_from(const nlohmann::json& value);

}  // namespace trireme
