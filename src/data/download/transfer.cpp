#include "data/download/transfer.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <string_view>

#include "trireme/error.h"

namespace trireme {
namespace {

constexpr long kPartialContent = 206, kRangeNotSatisfiable = 416, kRequestTimeout = 408, kTooManyRequests = 429;
constexpr long kMaxRedirects = 10;

/// State that the callbacks of one request share.
struct Request {
  CURL* curl = nullptr;
  PartFile* part = nullptr;
  int64_t asked_from = 0;
  int64_t sent_from = -1;  ///< first byte that Content-Range announces
  int64_t expected = 0;
  bool started = false;
  bool too_long = false;
  bool other_range = false;
  std::exception_ptr error;  ///< exceptions must not cross libcurl's C frames
  const std::function<void(int64_t)>* received = nullptr;
};

size_t on_header(char* text, size_t, size_t count, void* user) {
  auto& request = *static_cast<Request*>(user);
  std::string line(text, count);
  std::transform(line.begin(), line.end(), line.begin(), [](unsigned char c) { return std::tolower(c); });
  constexpr std::string_view kRange = "content-range: bytes ";
  if (line.starts_with("http/")) request.sent_from = -1;  // ignores the headers of a redirect
  if (line.starts_with(kRange))
    std::from_chars(line.data() + kRange.size(), line.data() + line.size(), request.sent_from);
  return count;
}

/// Before the first byte: true if the body continues the part, or is the whole file.
bool body_fits(Request& request) {
  if (request.asked_from == 0) return true;
  long status = 0;
  curl_easy_getinfo(request.curl, CURLINFO_RESPONSE_CODE, &status);
  if (status != kPartialContent) request.part->clear();
  else if (request.sent_from != request.asked_from) request.other_range = true;
  return !request.other_range;
}

size_t on_body(char* bytes, size_t, size_t count, void* user) {
  auto& request = *static_cast<Request*>(user);
  try {
    if (!request.started && !body_fits(request)) return 0;
    request.started = true;
    if (request.part->size() + static_cast<int64_t>(count) > request.expected) {
      request.too_long = true;
      return 0;
    }
    request.part->append(bytes, count);
    if (*request.received) (*request.received)(request.part->size());
    return count;
  } catch (...) {
    request.error = std::current_exception();
    return 0;
  }
}

TransferResult judge(CURLcode code, Request& request, const char* detail) {
  if (request.error) std::rethrow_exception(request.error);
  long status = 0;
  curl_easy_getinfo(request.curl, CURLINFO_RESPONSE_CODE, &status);
  if (request.too_long || request.other_range) {
    request.part->clear();
    return {false, false,
            request.too_long ? fmt::format("sends more than the {} bytes of the published file", request.expected)
                             : "answers with another range than requested"};
  }
  if (code == CURLE_HTTP_RETURNED_ERROR) {
    if (status == kRangeNotSatisfiable) request.part->clear();  // the server's file is shorter than the part
    const bool again =
        status >= 500 || status == kRangeNotSatisfiable || status == kRequestTimeout || status == kTooManyRequests;
    return {false, !again, fmt::format("answers HTTP {}{}", status, status == 404 ? " (not found)" : "")};
  }
  if (code == CURLE_OK) return {true, false, ""};
  const bool permanent = code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_UNSUPPORTED_PROTOCOL ||
                         code == CURLE_URL_MALFORMAT || code == CURLE_COULDNT_RESOLVE_PROXY ||
                         code == CURLE_FILE_COULDNT_READ_FILE;
  return {false, permanent, *detail ? detail : curl_easy_strerror(code)};
}

}  // namespace

PartFile::PartFile(std::filesystem::path path) : path_(std::move(path)) {
  descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_APPEND, 0644);
  if (descriptor_ < 0) fail_disk("cannot be opened for writing");
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    ::close(descriptor_);
    fail_run({.where = path_.string(),
              .what = "locked",
              .why = "another process is downloading this file",
              .next = "wait for it to end"});
  }
  struct stat status {};
  if (::fstat(descriptor_, &status) == 0) size_ = status.st_size;
}

PartFile::~PartFile() { ::close(descriptor_); }

void PartFile::fail_disk(const char* operation) const {
  fail_run({.where = path_.string(),
            .what = operation,
            .why = std::strerror(errno),
            .next = "free space or make the folder writable, or name another one with --data-dir"});
}

void PartFile::append(const char* bytes, size_t count) {
  while (count > 0) {
    ssize_t written = ::write(descriptor_, bytes, count);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_disk("cannot be written");
    bytes += written;
    count -= static_cast<size_t>(written);
    size_ += written;
  }
}

void PartFile::clear() {
  if (::ftruncate(descriptor_, 0) != 0) fail_disk("cannot be cut");
  size_ = 0;
}

void PartFile::rename_to(const std::filesystem::path& target) {
  if (::fsync(descriptor_) != 0) fail_disk("cannot be flushed to disk");
  if (::rename(path_.c_str(), target.c_str()) != 0) fail_disk("cannot be renamed");
}

TransferResult transfer(const std::string& url, PartFile& part, int64_t expected, double timeout_seconds,
                        const std::function<void(int64_t)>& received) {
  static std::once_flag once;
  std::call_once(once, [] { check_internal(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK, "libcurl starts"); });
  std::unique_ptr<CURL, void (*)(CURL*)> handle(curl_easy_init(), curl_easy_cleanup);
  check_internal(handle != nullptr, "libcurl gives a handle");
  CURL* curl = handle.get();
  // A file: URL is always read whole: that is as fast, and its responses do not tell a part from the whole.
  if (url.starts_with("file:") && part.size() > 0) part.clear();
  Request request{.curl = curl,
                  .part = &part,
                  .asked_from = part.size(),
                  .expected = expected,
                  .error = nullptr,
                  .received = &received};
  char detail[CURL_ERROR_SIZE] = "";
  const long seconds = std::max(1L, std::lround(timeout_seconds));
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(curl, CURLOPT_MAXREDIRS, kMaxRedirects);
  // an encrypted address may not lead to one that is not
  if (url.starts_with("https:")) curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, "https");
  curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1L);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "trireme");
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, detail);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, seconds);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, seconds);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &request);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &request);
  // CURLOPT_RESUME_FROM is not used: with it, libcurl fails if a server ignores ranges, instead of taking the whole
  // file.
  const std::string range = fmt::format("{}-", request.asked_from);
  if (request.asked_from > 0) curl_easy_setopt(curl, CURLOPT_RANGE, range.c_str());
  const CURLcode code = curl_easy_perform(curl);
  return judge(code, request, detail);
}

}  // namespace trireme
