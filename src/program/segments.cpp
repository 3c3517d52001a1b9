#include <algorithm>
#include <set>

#include "program/graph.h"

namespace trireme {
namespace {

class SegmentBuilder {
 public:
  SegmentBuilder(const Plan& plan, const CompileOptions& options, Program& program)
      : plan_(plan), options_(options), program_(program) {
    ops_of_parameter_.resize(program.parameters.size());
    for (OpId id = 0; id < OpId(program.ops.size()); ++id)
      for (int parameter : program.ops[size_t(id)].parameters) ops_of_parameter_[size_t(parameter)].push_back(id);
    redistributions_to_.resize(program.values.size());
    redistributions_from_.resize(program.values.size());
    for (RedistributionId m = 0; m < RedistributionId(program.redistributions.size()); ++m) {
      redistributions_to_[size_t(program.redistributions[size_t(m)].to)].push_back(m);
      redistributions_from_[size_t(program.redistributions[size_t(m)].from)].push_back(m);
    }
    find_completing_ops();
  }

  std::vector<std::vector<StageItem>> run() {
    std::vector<std::vector<StageItem>> stages;
    segment_of_.assign(program_.ops.size(), -1);
    for (size_t s = 0; s < plan_.stages.size(); ++s) stages.push_back(run_stage(int(s)));
    find_segment_buckets();
    return stages;
  }

 private:
  std::vector<StageItem> run_stage(int stage) {
    items_.clear();
    open_ = -1;
    std::set<RedistributionId> done;
    for (OpId id = 0; id < OpId(program_.ops.size()); ++id) {
      const Op& op = program_.ops[size_t(id)];
      if (op.stage != stage) continue;
      for (ValueId input : op.inputs) bring_in(input, done);
      append(id);
      send_out(op.output);
    }
    return items_;
  }

  /// The op whose backward is the last of its stage to add to a bucket. This is the first op in forward order.
  void find_completing_ops() {
    completes_bucket_.assign(program_.ops.size(), false);
    if (!program_.training) return;
    for (const Bucket& bucket : program_.buckets) {
      if (bucket.holders.size() == 1) continue;
      std::map<int, OpId> first_of_stage;
      for (const ParameterShard& shard : bucket.shards)
        for (OpId id : ops_of_parameter_[size_t(shard.parameter)]) {
          auto [it, fresh] = first_of_stage.emplace(program_.ops[size_t(id)].stage, id);
          it->second = std::min(it->second, id);
        }
      for (const auto& [stage, id] : first_of_stage) completes_bucket_[size_t(id)] = true;
    }
  }

  void bring_in(ValueId input, std::set<RedistributionId>& done) {
    for (RedistributionId m : redistributions_to_[size_t(input)]) {
      if (!done.insert(m).second) continue;
      items_.push_back({program_.redistributions[size_t(m)].crosses_stages ? StageItem::Kind::receive
                                                                           : StageItem::Kind::redistribution,
                        m});
      open_ = -1;
    }
  }

  const std::string& recompute_label(OpId id) const {
    static const std::string kNone;
    return program_.training ? plan_.layers[size_t(program_.ops[size_t(id)].node)].recompute : kNone;
  }

  void append(OpId id) {
    const std::string& label = recompute_label(id);
    // A recomputed run is not cut: its parts would have to retain the values that pass between them.
    const bool completes = completes_bucket_[size_t(id)] && label.empty();
    if (options_.segment_per_layer || completes || (open_ >= 0 && label != open_label_)) open_ = -1;
    if (open_ < 0) {
      open_ = SegmentId(program_.segments.size());
      open_label_ = label;
      program_.segments.push_back({program_.ops[size_t(id)].stage, {}, !label.empty(), false});
      items_.push_back({StageItem::Kind::segment, open_});
    }
    Segment& segment = program_.segments[size_t(open_)];
    segment.ops.push_back(id);
    segment.splits_backward = segment.splits_backward || program_.ops[size_t(id)].splits_backward;
    segment_of_[size_t(id)] = open_;
  }

  void send_out(ValueId output) {
    for (RedistributionId m : redistributions_from_[size_t(output)]) {
      if (!program_.redistributions[size_t(m)].crosses_stages) continue;
      items_.push_back({StageItem::Kind::send, m});
      open_ = -1;
    }
  }

  void find_segment_buckets() {
    std::vector<std::set<BucketId>> found(program_.segments.size());
    for (BucketId b = 0; b < BucketId(program_.buckets.size()); ++b)
      for (const ParameterShard& shard : program_.buckets[size_t(b)].shards)
        for (OpId id : ops_of_parameter_[size_t(shard.parameter)]) found[size_t(segment_of_[size_t(id)])].insert(b);
    for (const auto& buckets : found) program_.segment_buckets.emplace_back(buckets.begin(), buckets.end());
  }

  const Plan& plan_;
  const CompileOptions& options_;
  Program& program_;
  std::vector<std::vector<OpId>> ops_of_parameter_;
  std::vector<std::vector<RedistributionId>> redistributions_to_, redistributions_from_;  // by value
  std::vector<bool> completes_bucket_;
  std::vector<SegmentId> segment_of_;  // by op
  std::vector<StageItem> items_;
  SegmentId open_ = -1;
  std::string open_label_;
};

}  // namespace

std::vector<std::vector<StageItem>> build_segments(const Plan& plan, const CompileOptions& options, Program& program) {
  return SegmentBuilder(plan, options, program).run();
}

}  // namespace trireme
