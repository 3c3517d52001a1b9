// Downloads files: resumes them after an interruption, checks their SHA-256, and renames them only when it is right.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace trireme {

/// A published file. `urls` are whole addresses of equal copies, best first.
struct DownloadSource {
  std::string file;    ///< its name in the target folder
  std::string sha256;  ///< 64 lower-case hex digits
  int64_t size = 0;    ///< bytes
  std::vector<std::string> urls = {};
};

/// Returns the files with their addresses: `address` followed by the file's name.
std::vector<DownloadSource> published_at(const std::string& address, std::vector<DownloadSource> files);

struct DownloadProgress {
  std::string file;
  std::string url;       ///< source address; empty when the file was there already
  int64_t received = 0;  ///< bytes of the file on disk, those of earlier attempts included
  int64_t total = 0;
  bool done = false;  ///< true: the file is complete and its checksum is right
};
using ProgressCallback = std::function<void(const DownloadProgress&)>;

struct DownloadOptions {
  std::optional<std::string> base_url;  ///< replaces all mirrors by BASE_URL/FILE
  int max_attempts = 3;                 ///< per mirror; the count restarts when an attempt received bytes
  double timeout_seconds = 30;          ///< time to connect, and longest time without a byte received
  double pause_seconds = 1;             ///< pause before another attempt at the same mirror
};

/// Downloads the files that `folder` lacks, or has with a wrong checksum, into FILE.part, and renames each to FILE when
/// its checksum is right. A FILE.part of an earlier call is continued with a Range request; if the server ignores
/// ranges, the download starts again. Progress is called from the calling thread, at most about ten times a second and
/// at the end. Run errors, one line with addresses, file and next step: all mirrors failed (no network, 404, wrong
/// checksum, connection lost); the disk; another process is downloading the same file.
void download(const std::vector<DownloadSource>& sources, const std::filesystem::path& folder,
              const ProgressCallback& progress = {}, const DownloadOptions& options = {});

/// Returns lower-case hex digits. User error when the file cannot be read.
std::string sha256_of(const std::filesystem::path& file);

}  // namespace trireme
