#include <algorithm>
#include <set>

#include "program/graph.h"

namespace trireme {
namespace {

class SegmentBuilder {
 public:
  SegmentBuilder(const CompileOptions& options, Program& program) : options_(options), program_(program) { find_completing_ops(); }

  std::vector<StageItem> run(int stage) {
    items_.clear();
    open_ = -1;
    std::set<MoveId> done;
    for (OpId id = 0; id < OpId(program_.ops.size()); ++id) {
      const Op& op = program_.ops[size_t(id)];
      if (op.stage != stage) continue;
      for (ValueId input : op.inputs) bring_in(input, done);
      if (options_.segment_per_layer || completes_bucket_[size_t(id)]) open_ = -1;
      append(id);
      send_out(op.output);
    }
    return items_;
  }

 private:
  /// The op whose backward is the last of its stage to touch a bucket: the first in forward order.
  void find_completing_ops() {
    completes_bucket_.assign(program_.ops.size(), false);
    if (!program_.training) return;
    for (const Bucket& bucket : program_.buckets) {
      if (bucket.holders.size() == 1) continue;
      std::set<int> stages_seen;
      for (OpId id = 0; id < OpId(program_.ops.size()); ++id) {
        const Op& op = program_.ops[size_t(id)];
        bool touches = std::any_of(bucket.shards.begin(), bucket.shards.end(), [&](const ParameterShard& shard) {
          return std::find(op.parameters.begin(), op.parameters.end(), shard.parameter) != op.parameters.end();
        });
        if (touches && stages_seen.insert(op.stage).second) completes_bucket_[size_t(id)] = true;
      }
    }
  }

  void bring_in(ValueId input, std::set<MoveId>& done) {
    for (MoveId m = 0; m < MoveId(program_.moves.size()); ++m) {
      const Move& move = program_.moves[size_t(m)];
      if (move.to != input || !done.insert(m).second) continue;
      items_.push_back({move.crosses_stages ? StageItem::Kind::receive : StageItem::Kind::move, m});
      open_ = -1;
    }
  }

  void append(OpId id) {
    if (open_ < 0) {
      open_ = SegmentId(program_.segments.size());
      program_.segments.push_back({program_.ops[size_t(id)].stage, {}});
      items_.push_back({StageItem::Kind::segment, open_});
    }
    program_.segments[size_t(open_)].ops.push_back(id);
  }

  void send_out(ValueId output) {
    for (MoveId m = 0; m < MoveId(program_.moves.size()); ++m) {
      if (program_.moves[size_t(m)].from != output || !program_.moves[size_t(m)].crosses_stages) continue;
      items_.push_back({StageItem::Kind::send, m});
      open_ = -1;
    }
  }

  const CompileOptions& options_;
  Program& program_;
  std::vector<bool> completes_bucket_;
  std::vector<StageItem> items_;
  SegmentId open_ = -1;
};

}  // namespace

std::vector<std::vector<StageItem>> build_segments(const Plan& plan, const CompileOptions& options, Program& program) {
  SegmentBuilder builder(options, program);
  std::vector<std::vector<StageItem>> stages;
  for (size_t s = 0; s < plan.stages.size(); ++s) stages.push_back(builder.run(int(s)));
  program.segment_buckets.resize(program.segments.size());
  for (size_t s = 0; s < program.segments.size(); ++s)
    for (BucketId b = 0; b < BucketId(program.buckets.size()); ++b)
      for (const ParameterShard& shard : program.buckets[size_t(b)].shards) {
        auto uses = [&](OpId id) {
          const auto& used = program.ops[size_t(id)].parameters;
          return std::find(used.begin(), used.end(), shard.parameter) != used.end();
        };
        if (std::none_of(program.segments[s].ops.begin(), program.segments[s].ops.end(), uses)) continue;
        program.segment_buckets[s].push_back(b);
        break;
      }
  return stages;
}

}  // namespace trireme
