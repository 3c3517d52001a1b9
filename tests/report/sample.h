// A made-up comparison with every kind of row: ok, over-subscribed, diverged, timed out.
#pragma once

#include <filesystem>

#include "metrics/result.h"

namespace trireme::test_support {

ExperimentResult sample_result();
/// The same of a segmentation: several metrics, of three classes too, and a share of time for loading that is worth
/// showing.
ExperimentResult segmentation_sample();

/// Two update policies on 1, 8 and 64 workers, on the modelled clock; those on 1 never found weights that others had
/// changed.
ExperimentResult policies_sample();

/// A fresh folder below the system's temporary one, removed with everything in it at the end.
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
