// A comparison made by hand with every kind of row: ok, over-subscribed, diverged, timed out.
#pragma once

#include <filesystem>

#include "metrics/result.h"

namespace trireme::test_support {

ExperimentResult sample_result();
/// The same for a segmentation: several metrics, also for each of three classes, and a visible share of time for
/// loading.
ExperimentResult segmentation_sample();

/// Two update policies on 1, 8 and 64 workers, on the modelled clock. A single worker has no staleness.
ExperimentResult policies_sample();

/// A new folder in the system's temporary folder; the destructor removes it with all its files.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::string read_text(const std::filesystem::path& path);

}  // namespace trireme::test_support
