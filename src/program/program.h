// A compiled plan: per rank, the list of instructions of one training step (or of one evaluation batch). The runtime
// executes it on tensors. The engine (engine.h) executes it without tensors: without costs it is the checker, with
// nominal times the drawing, with seconds the simulator, with bytes the memory prediction.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "program/channels.h"
#include "program/op_codes.h"
#include "trireme/model.h"
#include "trireme/placement.h"
#include "trireme/plan.h"

namespace trireme {

using ValueId = int;
using RedistributionId = int;
using OpId = int;
using SegmentId = int;
using BucketId = int;

/// An activation in one layout: a node's output in the layout that its layer produces, or in one that consumers need.
struct Value {
  NodeId node = -1;
  Layout layout;
  Layout gradient;              ///< layout in which the consumers of this value produce its gradient
  bool needs_gradient = false;  ///< some trainable parameter is upstream
  bool loaded = false;          ///< a model input: each worker loads its own share
};

/// A redistribution between two values of one node. In backward, the gradient of `to` is redistributed to the layout
/// that the producer needs. `redistributes_backward` is false if no gradient is needed or the layouts are equal.
struct Redistribution {
  ValueId from = -1, to = -1;
  Layout gradient_from, gradient_to;
  bool crosses_stages = false;
  bool redistributes_forward = true;  ///< false: an alias of the same tensor (only the gradient is redistributed)
  bool redistributes_backward = true;
};

/// One layer on the workers of its stage.
struct Op {
  NodeId node = -1;
  ShardingOption option;
  Mesh mesh;
  int stage = 0;
  std::vector<ValueId> inputs;
  ValueId output = -1;
  std::vector<int> parameters;  ///< indices into Program::parameters
  bool communicates = false;  ///< its forward and backward communicate inside the call (global batch norm, split loss)
  bool has_buffers = false;
  bool splits_backward = false;  ///< has a backward_weight part under a schedule that splits backward
  int delay = 0;  ///< batch t uses version max(s, t - delay) of the weights, where s is the first batch after the
                  ///< pipeline was last empty
};

/// Layers of one stage that run without communication between them.
struct Segment {
  int stage = 0;
  std::vector<OpId> ops;
  int run = -1;                  ///< the recomputed run to which it belongs; -1: forward retains what backward needs
  bool splits_backward = false;  ///< some op does so
};

/// A region of a parameter that the same workers hold: one entry for a replicated parameter, one per slice for a
/// sharded one.
struct ParameterShard {
  int parameter = -1;  ///< index into Program::parameters
  Box box;
  int64_t offset = 0;  ///< in elements, in its bucket
  int64_t size() const;
};

/// Parameter shards with the same holders and the same contributors, in one flat buffer.
///
/// With optimizer sharding the holders form runs: groups of `dividers` consecutive holders. The members of a run divide
/// the bucket; the runs hold copies of each other (Plan::sharding_group). By default there is one run, of all holders.
struct Bucket {
  std::vector<int> holders;       ///< ranks, ascending; each updates its slice
  std::vector<int> contributors;  ///< the holders whose gradients are summed; empty: frozen, never updated
  bool full_precision = false;
  int versions = 1;  ///< weight versions that exist at once: the greatest delay of its layers + 1
  std::vector<ParameterShard> shards;
  int64_t elements = 0;  ///< of the flat buffer: shards start at multiples of kBucketAlignment
  int dividers = 0;      ///< holders of a run; 0: all
  int64_t bytes(int64_t per_element) const { return elements * per_element; }
  Range slice_of(int holder) const;  ///< elements that this rank reduces and updates
  int slices() const { return dividers > 0 ? dividers : int(holders.size()); }
  int copies() const { return int(holders.size()) / slices(); }  ///< of each slice
  /// Returns the holders that divide the bucket with this one, itself included, ascending.
  std::vector<int> run_of(int holder) const;
  /// Returns the holders that have the same slice as this one, itself included, ascending.
  std::vector<int> copies_of(int holder) const;
  /// Returns the elements that belong to no shard, because shards are aligned. Ascending.
  std::vector<Range> padding() const;
  /// Returns all runs, in order.
  std::vector<std::vector<int>> runs() const;
};
constexpr int64_t kBucketAlignment = 16;

struct Instruction {
  OpCode code;
  int index = -1;
  int micro_batch = -1;
  bool adjoint = false;
  int lag = 0;  ///< the instruction works on the batch of `lag` steps ago (schedules without flush); it does nothing
                ///< before step `lag`
  bool keeps = true;  ///< forward: retains what backward needs (false if it is recomputed)
  bool last = true;   ///< reduce_gradients: the last one of the batch
  friend bool operator==(const Instruction&, const Instruction&) = default;
};

/// A distinct parameter, in order of first use. Tied parameters count once.
struct ProgramParameter {
  ParameterSpec spec;
  bool trainable = true;  ///< false: frozen, or the loss does not depend on it
};

/// Consecutive segments of a stage that run again together before their backward, with the redistributions between them
/// (Plan::recompute_communication). Forward retains only what they read from outside.
struct RecomputedRun {
  std::vector<SegmentId> segments;                ///< in forward order
  std::vector<RedistributionId> redistributions;  ///< in forward order
  /// Ops that are restored without computing (Layer::restores), because no op of the run reads their output. Ascending.
  std::vector<OpId> restored;

  // complete() writes these. One entry per read; indices after forward_alias.
  std::vector<ValueId> made;     ///< values that the run computes
  std::vector<ValueId> inside;   ///< reads of values that the run computes
  std::vector<ValueId> outside;  ///< reads of other values
};

/// Immutable once compiled; shared by all workers.
struct Program {
  bool training = true;
  bool keeps_gradients = false;  ///< reduced gradients remain readable after the step (norms, verification)
  /// True: each holder of a parameter has a copy in its own memory, as on separate devices. False: workers that share
  /// memory share one copy of the weights.
  bool private_replicas = false;
  OptimizerSharding optimizer_sharding = OptimizerSharding::none;
  int sharding_group = 0;  ///< of the plan
  Compression compression;
  int devices = 1;
  int micro_batches = 1;
  bool flushes = true;   ///< each batch has updated the weights before the next one starts
  int greatest_lag = 0;  ///< a batch has finished this many steps after the step of its first forward
  std::vector<Value> values;
  std::vector<Redistribution> redistributions;
  std::vector<Op> ops;
  std::vector<Segment> segments;
  std::vector<RecomputedRun> recomputed_runs;
  std::vector<ProgramParameter> parameters;
  std::vector<Bucket> buckets;
  std::vector<std::vector<BucketId>> segment_buckets;  ///< by segment: the buckets that its layers read
  std::vector<std::vector<Instruction>> lists;         ///< the distinct instruction lists
  std::vector<int> list_of_rank;                       ///< by rank: index into `lists`
  OpId loss = -1;
  bool agrees = false;  ///< steps start and end with `agree`; the ranks are those of one replica

  // Derived from the above and equal for all ranks. complete(), the last step of compile(), writes it.
  std::vector<ValueId> forward_alias;   ///< by value: the value to read instead (if the redistribution does nothing in
                                        ///< forward), or itself
  std::vector<ValueId> backward_alias;  ///< by value: the value to which the gradient belongs, or itself
  std::vector<Channel> channels;
  std::vector<Rendezvous> rendezvous;
  std::vector<ListSites> sites;  ///< by list

  /// The run that begins with this segment when it is recomputed; null: it belongs to none, or is not its first.
  const RecomputedRun* run_begun_by(SegmentId segment) const;
  /// True if a `recompute` of this segment restores the op without computing it.
  bool is_restored(SegmentId segment, OpId op) const;

  const std::vector<Instruction>& instructions(int rank) const { return lists[size_t(list_of_rank[size_t(rank)])]; }

  /// Text such as "forward conv1..relu1" or "redistribute fc1 (all_reduce)", for traces and messages.
  std::string describe(const Instruction& instruction, const Model& model) const;
};

/// The source and target layouts of a redistribution, or of its adjoint for the gradient.
struct RedistributionEnds {
  Layout from, to;
};
RedistributionEnds ends_of(const Redistribution& redistribution, const Program& program, bool adjoint);

/// Writes the derived members of a program.
void complete(Program& program, const Model& model);

/// How often `rank` reads each value, by micro-batch and value: reads in forward, and reads by a recomputed run of
/// values from outside it.
std::vector<std::vector<int>> count_reads(const Program& program, int rank);
/// By stage: the model inputs that `rank` reads.
std::map<int, std::vector<ValueId>> loaded_values(const Program& program, int rank);

}  // namespace trireme
