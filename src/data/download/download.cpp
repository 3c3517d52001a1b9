#include "data/download/download.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <memory>
#include <thread>

#include "data/download/transfer.h"
#include "trireme/error.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kBetweenReports = std::chrono::milliseconds(100);

bool is_right(const std::filesystem::path& file, const DownloadSource& source) {
  std::error_code missing;
  auto size = std::filesystem::file_size(file, missing);
  return !missing && static_cast<int64_t>(size) == source.size && sha256_of(file) == source.sha256;
}

std::string checksum_problem(const DownloadSource& source, const std::string& actual) {
  return fmt::format("sends a file with the wrong checksum (expected SHA-256 {}, actual {})", source.sha256, actual);
}

/// Tries one mirror until the part is complete and its checksum is right. Returns the problem in words; empty on
/// success.
std::string fetch_from(const std::string& url, const DownloadSource& source, PartFile& part,
                       const std::function<void(int64_t)>& received, const DownloadOptions& options) {
  std::string problem;
  int64_t longest = part.size();
  for (int attempt = 1; attempt <= options.max_attempts;) {
    const bool resumed = part.size() > 0;
    TransferResult result = transfer(url, part, source.size, options.timeout_seconds, received);
    if (result.complete && part.size() == source.size) {
      std::string actual = sha256_of(part.path());
      if (actual == source.sha256) return "";
      part.clear();
      problem = checksum_problem(source, actual);
      if (!resumed) return problem;  // all bytes came from this mirror; it would send the same bytes again
      longest = 0;
      ++attempt;  // the wrong bytes may be those of an earlier attempt
      continue;
    }
    problem = result.complete ? fmt::format("sends {} of {} bytes", part.size(), source.size) : result.problem;
    if (result.permanent) return problem;
    const bool grew = part.size() > longest;
    longest = std::max(longest, part.size());
    attempt = grew ? 1 : attempt + 1;
    if (attempt <= options.max_attempts)
      std::this_thread::sleep_for(std::chrono::duration<double>(options.pause_seconds));
  }
  return problem;
}

void fetch(const DownloadSource& source, const std::filesystem::path& folder, const ProgressCallback& progress,
           const DownloadOptions& options) {
  const auto target = folder / source.file;
  auto report = [&](const std::string& url, int64_t received, bool done) {
    if (progress) progress({source.file, url, received, source.size, done});
  };
  if (is_right(target, source)) return report("", source.size, true);

  PartFile part(folder / (source.file + ".part"));
  if (part.size() > source.size) part.clear();
  if (part.size() == source.size && sha256_of(part.path()) == source.sha256) {
    part.rename_to(target);
    return report("", source.size, true);
  }
  if (part.size() == source.size) part.clear();

  std::vector<std::string> urls = source.urls;
  if (options.base_url) {
    const bool slash = options.base_url->ends_with('/');
    urls = {*options.base_url + (slash ? "" : "/") + source.file};
  }
  std::string problems;
  for (const std::string& url : urls) {
    auto last = Clock::now();
    report(url, part.size(), false);
    auto received = [&](int64_t bytes) {
      if (Clock::now() - last < kBetweenReports) return;
      last = Clock::now();
      report(url, bytes, false);
    };
    std::string problem = fetch_from(url, source, part, received, options);
    if (problem.empty()) {
      part.rename_to(target);
      return report(url, source.size, true);
    }
    problems += fmt::format("{}{} {}", problems.empty() ? "" : "; ", url, problem);
  }
  const int64_t kept = part.size();
  if (kept == 0) std::filesystem::remove(part.path());
  fail_run({.where = target.string(),
            .what = "could not be downloaded",
            .why = problems,
            .next = fmt::format(
                "{}check the network, set TRIREME_MIRROR to an address that serves a copy, or put {} into {} "
                "by hand",
                kept > 0 ? fmt::format("{} bytes are kept, and the next attempt continues after them: ", kept) : "",
                source.file, folder.string())});
}

}  // namespace

std::string sha256_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in)
    fail_user(
        {.where = file.string(), .what = "cannot be read", .why = std::strerror(errno), .next = "check the file"});
  std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  check_internal(context && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1, "OpenSSL offers SHA-256");
  std::vector<char> buffer(size_t{1} << 20);
  while (in.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) || in.gcount() > 0)
    EVP_DigestUpdate(context.get(), buffer.data(), static_cast<size_t>(in.gcount()));
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  EVP_DigestFinal_ex(context.get(), digest, &length);
  std::string hex;
  for (unsigned int i = 0; i < length; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

std::vector<DownloadSource> published_at(const std::string& address, std::vector<DownloadSource> files) {
  for (DownloadSource& file : files) file.urls = {address + file.file};
  return files;
}

void download(const std::vector<DownloadSource>& sources, const std::filesystem::path& folder,
              const ProgressCallback& progress, const DownloadOptions& options) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    fail_run({.where = folder.string(),
              .what = "cannot be created",
              .why = error.message(),
              .next = "make its parent writable, or name another folder with --data-dir"});
  for (const DownloadSource& source : sources) fetch(source, folder, progress, options);
}

}  // namespace trireme
