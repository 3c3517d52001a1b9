// Files from the network: resumed after an interruption, checked against their SHA-256, renamed only when right.
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

/// The files with the address of each: `address` and its name.
std::vector<DownloadSource> published_at(const std::string& address, std::vector<DownloadSource> files);

struct DownloadProgress {
  std::string file;
  std::string url;       ///< where it comes from; empty when the file was there already
  int64_t received = 0;  ///< bytes of the file on disk, those of earlier attempts included
  int64_t total = 0;
  bool done = false;  ///< the file is complete and its checksum right
};
using ProgressCallback = std::function<void(const DownloadProgress&)>;

struct DownloadOptions {
  std::optional<std::string> base_url;  ///< replaces all mirrors: BASE_URL/FILE is fetched instead
  int max_attempts = 3;                 ///< per mirror, counted anew whenever an attempt brought bytes
  double timeout_seconds = 30;          ///< to connect, and without a byte received
  double pause_seconds = 1;             ///< before another attempt at the same mirror
};

/// Fetches what is not in `folder` yet, or is there with the wrong checksum, into FILE.part and renames it to FILE when
/// the checksum is right. A FILE.part that an earlier call left is continued with a Range request; a server that
/// ignores ranges makes it start again. Progress is called from the calling thread, at most about ten times a second
/// and at the end. Run errors, one line with addresses, file and next step: all mirrors failed (no network, 404, wrong
/// checksum, connection lost), the disk, or another process downloading the same file.
void download(const std::vector<DownloadSource>& sources, const std::filesystem::path& folder,
              const ProgressCallback& progress = {}, const DownloadOptions& options = {});

/// Lower-case hex digits. User error when the file cannot be read.
std::string sha256_of(const std::filesystem::path& file);

}  // namespace trireme
