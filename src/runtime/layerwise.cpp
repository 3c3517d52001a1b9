#include "runtime/layerwise.h"

#include <algorithm>

#include "trireme/error.h"

namespace trireme {
namespace {

/// Calls `visit(parameter's index, piece)` for each parameter's piece of the part. Gaps between shards belong to no
/// parameter.
template <class Visit>
void each_piece(const Program& program, const Bucket& bucket, int64_t begin, const SliceUpdate& work, Visit&& visit) {
  const int64_t end = begin + work.slice.size();
  for (const ParameterShard& shard : bucket.shards) {
    const Range range{std::max(begin, shard.offset), std::min(end, shard.offset + shard.size())};
    if (range.empty()) continue;
    const int64_t skipped = range.begin - begin;
    SliceUpdate piece = work;
    piece.slice = {work.slice.begin + skipped, work.slice.begin + skipped + range.size()};
    piece.gradient_offset += skipped;
    piece.state_offset += skipped;
    piece.decays = is_adapted(program.parameters[size_t(shard.parameter)].spec);
    visit(size_t(shard.parameter), piece);
  }
}

}  // namespace

bool is_adapted(const ParameterSpec& parameter) { return parameter.shape.size() >= 2; }

void update_part(const OptimizerConfig& config, const Program& program, const Bucket& bucket, int64_t begin,
                 const SliceUpdate& work, std::span<const double> trust) {
  if (!config.is_layerwise()) return update_slice(config, work);
  check_internal(trust.size() == program.parameters.size(), "a layer-wise optimizer updates after it has measured");
  each_piece(program, bucket, begin, work, [&](size_t parameter, SliceUpdate& piece) {
    piece.trust = trust[parameter];
    update_slice(config, piece);
  });
}

void measure_part(const OptimizerConfig& config, const Program& program, const Bucket& bucket, int64_t begin,
                  const SliceUpdate& work, std::span<SquareSums> sums) {
  each_piece(program, bucket, begin, work, [&](size_t parameter, const SliceUpdate& piece) {
    const SquareSums part = measure_slice(config, piece);
    sums[parameter].weights += part.weights;
    sums[parameter].step += part.step;
  });
}

std::vector<double> trust_ratios(const OptimizerConfig& config, const Program& program,
                                 std::span<const SquareSums> sums) {
  std::vector<double> ratios;
  for (size_t p = 0; p < sums.size(); ++p)
    ratios.push_back(is_adapted(program.parameters[p].spec) ? trust_ratio(config, sums[p]) : 1);
  return ratios;
}

}  // namespace trireme
