// Messages about what the program does, for people: spdlog on stderr. Results go to stdout and are not log lines.
// Rooms call spdlog::info(...) and its kin themselves.
#pragma once

#include <filesystem>
#include <string>

namespace trireme {

/// "info: text", coloured, on a terminal; "2024-01-31 12:00:00 info: text" where stderr is a file. The level comes from
/// TRIREME_LOG (trace, debug, info, warn, error, off; default info); another value is a user error. Call it once,
/// early.
void set_up_logging();

/// After set_up_logging: messages go to the end of this file too, with their time; its folder is created. False where
/// it cannot be written.
bool log_to_file(const std::filesystem::path& file);
/// To the files of log_to_file() alone, line by line: what the console is told otherwise.
void log_to_files_only(const std::string& lines);
/// Only warnings and errors go to stderr from here on: where another process of the same run speaks for all.
void keep_console_quiet();

}  // namespace trireme
