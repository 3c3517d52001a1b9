#include "update/hub/hub_counts.h"

#include <fmt/format.h>

#include "base/whole.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr size_t kBeforeStaleness = 7;

}  // namespace

std::vector<double> numbers_of(const HubCounts& counts) {
  std::vector<double> numbers = {double(counts.bytes_sent), double(counts.bytes_received), double(counts.collectives),
                                 double(counts.visits),     counts.compute_seconds,        counts.idle_seconds,
                                 counts.exchange_seconds};
  numbers.insert(numbers.end(), counts.staleness.begin(), counts.staleness.end());
  return numbers;
}

HubCounts counts_from(const std::vector<double>& numbers) {
  if (numbers.size() < kBeforeStaleness)
    fail_run({"a replica's counts", fmt::format("{} numbers", numbers.size()), "there must be more", ""});
  for (const double number : numbers)
    if (!(number >= 0 && number <= kLargestWhole))
      fail_run({"a replica's counts", fmt::format("{}", number), "is not a count", ""});
  HubCounts counts;
  counts.bytes_sent = int64_t(numbers[0]);
  counts.bytes_received = int64_t(numbers[1]);
  counts.collectives = int64_t(numbers[2]);
  counts.visits = int64_t(numbers[3]);
  counts.compute_seconds = numbers[4];
  counts.idle_seconds = numbers[5];
  counts.exchange_seconds = numbers[6];
  for (size_t i = kBeforeStaleness; i < numbers.size(); ++i) counts.staleness.push_back(int64_t(numbers[i]));
  return counts;
}

}  // namespace trireme
