// A plan compiled: per rank, the list of instructions of one training step (or of one evaluation batch). The runtime
// executes it on tensors, the engine (engine.h) without: on paper for the checker, on a clock for the simulator.
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

/// An activation in one layout: a node's output as its layer gives it, or as some consumers need it.
struct Value {
  NodeId node = -1;
  Layout layout;
  Layout gradient;              ///< in which the consumers of this value give its gradient
  bool needs_gradient = false;  ///< some parameter lies upstream
  bool loaded = false;          ///< a model input: every worker loads its own share
};

/// A redistribution between two values of one node. Backward: the gradient of `to` moves from its layout to the one the
/// producer needs. `backward_moves` is false where no gradient is needed or it already lies right.
struct Redistribution {
  ValueId from = -1, to = -1;
  Layout gradient_from, gradient_to;
  bool crosses_stages = false;
  bool forward_moves = true;  ///< false: the same bits under another name (only the gradient has to move)
  bool backward_moves = true;
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
  bool communicates = false;    ///< forward and backward call a group themselves (global batch norm, split loss)
  bool has_buffers = false;
  bool splits_backward = false;  ///< has a backward_weight part under a schedule that splits backward
  int delay = 0;  ///< batch t is computed with version max(s, t - delay) of the weights, s the first batch after the
                  ///< pipeline was last empty
};

/// Layers of one stage that run without communication between them.
struct Segment {
  int stage = 0;
  std::vector<OpId> ops;
  bool recompute = false;        ///< forward keeps only the segment's inputs; `recompute` runs it again before backward
  bool splits_backward = false;  ///< some op does
};

/// A region of a parameter that the same workers hold: one entry for a replicated parameter, one per slice for a
/// sharded one.
struct ParameterShard {
  int parameter = -1;  ///< index into Program::parameters
  Box box;
  int64_t offset = 0;  ///< in elements, in its bucket
  int64_t size() const;
};

/// Parameter shards that the same workers hold and the same workers contribute gradients to: one flat buffer.
struct Bucket {
  std::vector<int> holders;       ///< world ranks, ascending; each updates its slice
  std::vector<int> contributors;  ///< subset whose gradients are summed; none: frozen, never updated
  bool full_precision = false;
  int versions = 1;  ///< of the weights that are alive at once: the greatest delay of its layers + 1
  std::vector<ParameterShard> shards;
  int64_t elements = 0;  ///< of the flat buffer: shards start at multiples of kBucketAlignment
  int64_t bytes(int64_t per_element) const { return elements * per_element; }
  Range slice_of(int holder) const;  ///< elements that this world rank reduces and updates
};
constexpr int64_t kBucketAlignment = 16;

struct Instruction {
  OpCode code;
  int index = -1;
  int micro_batch = -1;
  bool adjoint = false;
  int lag = 0;        ///< works on the batch of so many steps ago (schedules without flush); nothing before step `lag`
  bool keeps = true;  ///< forward: keeps what backward needs (false where it is computed again)
  bool last = true;   ///< reduce_gradients: of the batch
  friend bool operator==(const Instruction&, const Instruction&) = default;
};

/// A distinct parameter (tied ones once), in order of first use.
struct ProgramParameter {
  ParameterSpec spec;
  bool trainable = true;  ///< false: frozen, or the loss does not depend on it
};

/// Values that a recomputed segment reads once more, as often as it does so.
struct RecomputeReads {
  std::vector<ValueId> inside;  ///< made by the segment itself
  std::vector<ValueId> outside;
};

/// Immutable once compiled; shared by all workers.
struct Program {
  bool training = true;
  bool keeps_gradients = false;  ///< reduced gradients stay readable after the step (norms, verification)
  /// Each holder of a parameter has a copy in its own memory, as separate devices have; false: workers that share
  /// memory share one copy of the weights.
  bool private_replicas = false;
  OptimizerSharding optimizer_sharding = OptimizerSharding::none;
  Compression compression;
  int devices = 1;
  int micro_batches = 1;
  bool flushes = true;   ///< every batch is in the weights before the next begins
  int greatest_lag = 0;  ///< so many steps after its first forward a batch is through
  std::vector<Value> values;
  std::vector<Redistribution> redistributions;
  std::vector<Op> ops;
  std::vector<Segment> segments;
  std::vector<ProgramParameter> parameters;
  std::vector<Bucket> buckets;
  std::vector<std::vector<BucketId>> segment_buckets;  ///< by segment: buckets its layers read
  std::vector<std::vector<Instruction>> lists;         ///< the distinct instruction lists
  std::vector<int> list_of_rank;                       ///< by world rank: index into `lists`
  OpId loss = -1;
  bool agrees = false;  ///< steps begin and end with `agree`; ranks are those of one replica

  // What follows from the above, the same for all ranks: written by complete(), with which compile() ends.
  std::vector<ValueId>
      forward_alias;  ///< by value: which one to read instead (a move that moves nothing forward), else itself
  std::vector<ValueId> backward_alias;          ///< by value: which one the gradient belongs to, else itself
  std::vector<RecomputeReads> recompute_reads;  ///< by segment; in terms of forward_alias
  std::vector<Channel> channels;
  std::vector<Rendezvous> rendezvous;
  std::vector<ListSites> sites;  ///< by list

  const std::vector<Instruction>& instructions(int rank) const { return lists[size_t(list_of_rank[size_t(rank)])]; }

  /// "forward conv1..relu1", "redistribute fc1 (all_reduce)", for traces and messages.
  std::string describe(const Instruction& instruction, const Model& model) const;
};

/// Where a move (or its adjoint, of the gradient) comes from and goes to.
struct RedistributionEnds {
  Layout from, to;
};
RedistributionEnds ends_of(const Redistribution& move, const Program& program, bool adjoint);

/// Writes what follows from the rest of a program.
void complete(Program& program, const Model& model);

/// How often `rank` reads each value: by micro-batch, by value; in forward and, where a segment is recomputed, once
/// more from outside it.
std::vector<std::vector<int>> count_reads(const Program& program, int rank);
/// By stage: model inputs that `rank` reads.
std::map<int, std::vector<ValueId>> loaded_values(const Program& program, int rank);

}  // namespace trireme
