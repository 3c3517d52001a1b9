// Messages for people about what the program does: spdlog on stderr. Results go to stdout and are not log lines.
// Other code calls spdlog::info(...), spdlog::warn(...) etc. directly.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace trireme {

/// Sets the format: "info: text", coloured, on a terminal; "2024-01-31 12:00:00 info: text" if stderr is a file. The
/// level comes from TRIREME_LOG (trace, debug, info, warn, error, off; default info); another value is a user error.
/// Call it once, early.
void set_up_logging();

/// Returns the text of a warning, given its line in the form for files; nullopt if the line is not a warning. The line
/// may have a prefix.
std::optional<std::string_view> warning_in(std::string_view line);

/// Also appends messages, with their time, to this file. Creates its folder. Call it after set_up_logging(). Returns
/// false if the file cannot be written.
bool log_to_file(const std::filesystem::path& file);
/// Writes the lines only to the files of log_to_file(), at level info. For text that the console shows in another form.
void log_to_files_only(const std::string& lines);
/// From now on only warnings and errors go to stderr. For processes of a run in which another process reports.
void keep_console_quiet();

}  // namespace trireme
