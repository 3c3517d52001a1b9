// Whole PyTorch archives: libtorch's zip reader and our reader of its records. Checksums are cleared, so that mutated
// records are read.
#include <algorithm>
#include <string>

#include "fuzz_input.h"
#include "model/weights/state_dict.h"

namespace {

constexpr size_t kChecksum = 16, kChecksumSize = 4;  // offset and size in a directory entry

void clear_checksums(std::string& zip) {
  const std::string entry("PK\x01\x02");
  for (size_t at = zip.find(entry); at != std::string::npos; at = zip.find(entry, at + 1)) {
    const size_t begin = std::min(at + kChecksum, zip.size());
    std::fill_n(zip.begin() + std::ptrdiff_t(begin), std::min(kChecksumSize, zip.size() - begin), '\0');
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static trireme::fuzz::InputFile file;
  std::string zip(reinterpret_cast<const char*>(data), size);
  clear_checksums(zip);
  trireme::fuzz::expect_success_or_user_error(
      [&] { trireme::read_state_dict(file.write(reinterpret_cast<const uint8_t*>(zip.data()), zip.size())); });
  return 0;
}
