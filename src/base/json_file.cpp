#include "base/json_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "trireme/error.h"

namespace trireme {

namespace fs = std::filesystem;

std::string read_file(const fs::path& path) {
  FileDescriptor file(path, O_RDONLY);
  if (!file.is_open()) fail_read(path, errno);
  std::string bytes;
  char buffer[1 << 16];
  while (true) {
    ssize_t count = ::read(file.get(), buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_read(path, errno);
    if (count == 0) return bytes;
    bytes.append(buffer, size_t(count));
  }
}

nlohmann::json read_json_file(const fs::path& path) {
  const std::string text = read_file(path);
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error ...": the part after the position
    std::string why = error.what();
    if (size_t place = why.find(": "); place != std::string::npos) why.erase(0, place + 2);
    if (error.byte > text.size())  // the parser's position is after the last byte
      fail_user({.where = path.string(),
                 .what = text.empty() ? "is empty" : fmt::format("ends too early, after byte {}", text.size()),
                 .why = "not valid JSON",
                 .next = "the file is damaged, perhaps cut off: repair it or write it again"});
    fail_user({.where = path.string(),
               .what = fmt::format("not valid JSON at byte {} of {}", error.byte, text.size()),
               .why = why,
               .next = "the file is damaged or was edited wrongly: repair it or write it again"});
  }
}

void write_file_atomically(const fs::path& path, std::string_view bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

void write_json_file(const fs::path& path, const nlohmann::json& value) {
  constexpr int kIndent = 2;
  write_file_atomically(path, value.dump(kIndent, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

nlohmann::json json_number(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr);
}

double number_from(const nlohmann::json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

}  // namespace trireme
