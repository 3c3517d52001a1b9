#include "base/devices/memory_speed.h"

#include <sys/mman.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/median.h"
#include "base/seconds.h"

namespace trireme {
namespace {

constexpr size_t kBytes = size_t{1} << 26;
constexpr size_t kSums = 32;    // independent ones, so that the sum waits for the memory and not for itself
constexpr size_t kReads = 256;  // of equal parts: another program that takes the core disturbs few of them

/// Own pages, so that nothing of a run's memory is moved or counted.
class Block {
 public:
  Block() : at_(::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (exists()) ::madvise(at_, kBytes, MADV_HUGEPAGE);  // fewer page faults; a refusal changes only the time it takes
  }
  ~Block() {
    if (exists()) ::munmap(at_, kBytes);
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  bool exists() const { return at_ != MAP_FAILED; }
  std::span<uint64_t> words() { return {static_cast<uint64_t*>(at_), kBytes / sizeof(uint64_t)}; }

 private:
  void* at_;
};

uint64_t sum_of(std::span<const uint64_t> words) {
  std::array<uint64_t, kSums> sums = {};
  for (size_t i = 0; i < words.size(); i += kSums)
    for (size_t j = 0; j < kSums; ++j) sums[j] += words[i + j];
  uint64_t sum = 0;
  for (const uint64_t one : sums) sum += one;
  return sum;
}

}  // namespace

std::optional<double> memory_speed() {
  Block block;
  if (!block.exists()) return std::nullopt;
  for (uint64_t& word : block.words()) word = 1;
  std::vector<double> seconds(kReads);
  const size_t length = block.words().size() / kReads;
  double end = steady_seconds();
  for (size_t part = 0; part < kReads; ++part) {
    const double begin = end;
    [[maybe_unused]] volatile const uint64_t sum = sum_of(block.words().subspan(part * length, length));
    end = steady_seconds();
    seconds[part] = end - begin;
  }
  const double usual = median(seconds);
  return usual > 0 ? std::optional(double(kBytes) / double(kReads) / usual) : std::nullopt;
}

}  // namespace trireme
