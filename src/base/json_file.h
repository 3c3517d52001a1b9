// Files read and written as a whole, with errors that name the path and the reason. Numbers in JSON.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace trireme {

/// Returns the bytes of a file. Throws a user error if it cannot be read.
std::string read_file(const std::filesystem::path& path);

/// Throws a user error if the file is missing or is not JSON. The latter names the byte.
nlohmann::json read_json_file(const std::filesystem::path& path);

/// Writes a temporary file beside the target, syncs it to disk and renames it. So a reader, or a machine after a crash,
/// finds the old file or the new one, never a partial one. The folder must exist. Errors blame the user if the path is
/// at fault, and the run if the disk is.
void write_file_atomically(const std::filesystem::path& path, std::string_view bytes);

/// Writes the indented text and a final newline with write_file_atomically. Bytes that are not UTF-8 become U+FFFD.
void write_json_file(const std::filesystem::path& path, const nlohmann::json& value);

/// JSON has neither infinity nor NaN: both are written as null, which is read as NaN.
nlohmann::json json_number(double value);
double number_from(const nlohmann::json& value);

}  // namespace trireme
