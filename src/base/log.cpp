#include "base/log.h"

#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "base/text.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr const char* kPatternOfFiles = "%Y-%m-%d %H:%M:%S %l: %v";
constexpr std::string_view kWarningInFiles = " warning: ";  // how that writes the level

spdlog::level::level_enum level_from_environment() {
  const char* name = std::getenv("TRIREME_LOG");
  if (name == nullptr || *name == '\0') return spdlog::level::info;
  static const std::vector<std::string> kNames = {"trace", "debug", "info", "warn", "error", "off"};
  for (const std::string& known : kNames)
    if (known == name) return spdlog::level::from_str(known);
  const std::string near = closest_match(name, kNames);
  fail_user({.where = "environment variable TRIREME_LOG",
             .what = fmt::format("\"{}\"", name),
             .why = "it must be one of " + join(kNames),
             .next = near.empty() ? "unset it or choose one of them" : fmt::format("did you mean \"{}\"?", near)});
}

}  // namespace

void set_up_logging() {
  const auto level = level_from_environment();
  auto logger = std::make_shared<spdlog::logger>("trireme", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  logger->set_level(level);
  logger->set_pattern(::isatty(STDERR_FILENO) != 0 ? "%^%l%$: %v" : kPatternOfFiles);
  logger->flush_on(spdlog::level::warn);
  spdlog::set_default_logger(std::move(logger));
}

std::optional<std::string_view> warning_in(std::string_view line) {
  const size_t begin = line.find(kWarningInFiles);
  return begin == line.npos ? std::nullopt : std::optional(line.substr(begin + kWarningInFiles.size()));
}

bool log_to_file(const std::filesystem::path& file) {
  try {
    std::filesystem::create_directories(file.parent_path());
    auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(file.string());
    sink->set_pattern(kPatternOfFiles);
    spdlog::default_logger()->sinks().push_back(std::move(sink));
    spdlog::default_logger()->flush_on(spdlog::level::info);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

void log_to_files_only(const std::string& lines) {
  if (!spdlog::default_logger()->should_log(spdlog::level::info)) return;
  const std::vector<spdlog::sink_ptr>& sinks = spdlog::default_logger()->sinks();
  std::istringstream text(lines);
  for (std::string line; std::getline(text, line);)
    for (size_t k = 1; k < sinks.size(); ++k) {
      sinks[k]->log(spdlog::details::log_msg("trireme", spdlog::level::info, line));
      sinks[k]->flush();
    }
}

void keep_console_quiet() { spdlog::default_logger()->sinks().front()->set_level(spdlog::level::warn); }

}  // namespace trireme
