// A user's own table of seconds of layers, blocks or stages (docs/simulation.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace trireme {

/// Seconds of computing of one call, on one device. Messages are not part of it.
struct OwnTime {
  std::string where;  ///< "times.csv:3:1", for messages
  /// A layer's name, or the beginning of its name up to a dot: all layers of a block. "*" stands for any one part
  /// between dots, and each block that it matches takes this time. Empty for a stage.
  std::string layers;
  int stage = -1;       ///< index into the plan's stages; -1: `layers` counts
  int64_t samples = 1;  ///< of the device's share of a micro-batch
  int tensor = 1;       ///< degree of the tensor axis
  double forward = 0;
  double backward = 0;                         ///< the whole backward
  std::optional<double> backward_weight = {};  ///< the part of `backward` for the gradients of weights, if known
};

struct OwnTimes {
  std::filesystem::path file;
  std::vector<OwnTime> rows;
  bool of_stages = false;  ///< of every row or of none
};

/// Reads a CSV file with a header. Columns: `layer` or `stage`; `samples`; `tensor` (optional, 1); `forward`;
/// `backward`, or `backward_input` and `backward_weight`. Times are seconds, or have a unit: "1.5 ms". Lines that begin
/// with "#" are comments. Errors (user), with file:line:column: unknown, missing or surplus columns; numbers out of
/// range; the same layers or stage twice for equal samples and tensor degree; no rows; those of read_csv.
OwnTimes read_own_times(const std::filesystem::path& file);

}  // namespace trireme
