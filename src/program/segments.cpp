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
    open_ = open_run_ = -1;
    waiting_.clear();
    for (OpId id = 0; id < OpId(program_.ops.size()); ++id) {
      const Op& op = program_.ops[size_t(id)];
      if (op.stage != stage) continue;
      for (ValueId input : op.inputs) bring_in(input);
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

  void bring_in(ValueId input) {
    for (RedistributionId m : redistributions_to_[size_t(input)]) {
      if (!done_.insert(m).second) continue;
      const bool receives = program_.redistributions[size_t(m)].crosses_stages;
      if (!receives) bring_in(program_.redistributions[size_t(m)].from);  // the slices of a message, which m gathers
      items_.push_back({receives ? StageItem::Kind::receive : StageItem::Kind::redistribution, m});
      open_ = -1;
      if (receives) open_run_ = -1;
      else waiting_.push_back(items_.size() - 1);
    }
  }

  const std::string& recompute_label(OpId id) const {
    static const std::string kNone;
    return program_.training ? plan_.layers[size_t(program_.ops[size_t(id)].node)].recompute : kNone;
  }

  /// A gather right before a run joins the run if only the first op of the run reads its result. The run then keeps the
  /// input of the gather, which is smaller than the result.
  void take_gathers(OpId first) {
    for (const size_t item : waiting_) {
      const RedistributionId id = items_[item].index;
      const Redistribution& redistribution = program_.redistributions[size_t(id)];
      const Layout &from = program_.values[size_t(redistribution.from)].layout,
                   &to = program_.values[size_t(redistribution.to)].layout;
      const bool gathers = from.mesh == to.mesh && from.tensor.is_shard() && to.tensor.is_replicate();
      if (!gathers || readers(redistribution.to) != std::vector{first}) continue;
      items_[item].run = open_run_;
      program_.recomputed_runs[size_t(open_run_)].redistributions.push_back(id);
    }
  }

  std::vector<OpId> readers(ValueId value) const {
    std::vector<OpId> ops;
    for (OpId id = 0; id < OpId(program_.ops.size()); ++id) {
      const std::vector<ValueId>& inputs = program_.ops[size_t(id)].inputs;
      if (std::find(inputs.begin(), inputs.end(), value) != inputs.end()) ops.push_back(id);
    }
    return ops;
  }

  /// Finds the recomputed run of a segment that begins here with this label. If that run has begun with an earlier
  /// segment, the redistributions since then belong to it too.
  void find_run(const std::string& label, OpId first) {
    const bool goes_on = plan_.recompute_communication && open_run_ >= 0 && label == label_of_run_;
    label_of_run_ = label;
    if (label.empty()) {
      open_run_ = -1;
    } else if (goes_on) {
      for (const size_t item : waiting_) {
        items_[item].run = open_run_;
        program_.recomputed_runs[size_t(open_run_)].redistributions.push_back(items_[item].index);
      }
    } else {
      open_run_ = int(program_.recomputed_runs.size());
      program_.recomputed_runs.emplace_back();
      if (plan_.recompute_communication) take_gathers(first);
    }
  }

  void append(OpId id) {
    const std::string& label = recompute_label(id);
    // A recomputed run is not cut: its parts would have to retain the values that pass between them.
    const bool completes = completes_bucket_[size_t(id)] && label.empty();
    if (options_.segment_per_layer || completes || (open_ >= 0 && label != open_label_)) open_ = -1;
    if (open_ < 0) {
      open_ = SegmentId(program_.segments.size());
      open_label_ = label;
      find_run(label, id);
      program_.segments.push_back({program_.ops[size_t(id)].stage, {}, open_run_, false});
      items_.push_back({StageItem::Kind::segment, open_, open_run_});
      if (open_run_ >= 0) program_.recomputed_runs[size_t(open_run_)].segments.push_back(open_);
    }
    waiting_.clear();
    Segment& segment = program_.segments[size_t(open_)];
    segment.ops.push_back(id);
    segment.splits_backward = segment.splits_backward || program_.ops[size_t(id)].splits_backward;
    segment_of_[size_t(id)] = open_;
  }

  void send_out(ValueId output) {
    for (RedistributionId m : redistributions_from_[size_t(output)]) {
      const Redistribution& redistribution = program_.redistributions[size_t(m)];
      if (!redistribution.crosses_stages) {
        if (!is_sent(redistribution.to)) continue;
        if (done_.insert(m).second) {  // slices a message
          items_.push_back({StageItem::Kind::redistribution, m});
          open_ = open_run_ = -1;
        }
        send_out(redistribution.to);
        continue;
      }
      items_.push_back({StageItem::Kind::send, m});
      open_ = open_run_ = -1;
    }
  }

  bool is_sent(ValueId value) const {
    const auto& from = redistributions_from_[size_t(value)];
    return std::any_of(from.begin(), from.end(),
                       [&](RedistributionId m) { return program_.redistributions[size_t(m)].crosses_stages; });
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
  /// Redistributions that have an item. Stages on the same workers share what one of them receives or redistributes.
  std::set<RedistributionId> done_;
  SegmentId open_ = -1;
  std::string open_label_;
  int open_run_ = -1;
  std::string label_of_run_;
  std::vector<size_t> waiting_;  // items: redistributions since the last layer
};

}  // namespace

std::vector<std::vector<StageItem>> build_segments(const Plan& plan, const CompileOptions& options, Program& program) {
  return SegmentBuilder(plan, options, program).run();
}

}  // namespace trireme
