// A plan compiled: per rank, the list of instructions of one training step (or of one evaluation batch). The runtime executes
// it on tensors, a simulator on a clock, the checker on paper.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/model.h"
#include "plan/plan.h"
#include "tensor/placement.h"

namespace trireme {

using ValueId = int;
using MoveId = int;
using OpId = int;
using SegmentId = int;
using BucketId = int;

/// An activation in one layout: a node's output as its layer gives it, or as some consumers need it.
struct Value {
  NodeId node = -1;
  Layout layout;
  Layout gradient;             ///< in which the consumers of this value give its gradient
  bool needs_gradient = false; ///< some parameter lies upstream
  bool loaded = false;         ///< a model input: every worker loads its own share
};

/// A redistribution between two values of one node. Backward: the gradient of `to` moves from its layout to the one the producer
/// needs. `backward_moves` is false where no gradient is needed or it already lies right.
struct Move {
  ValueId from = -1, to = -1;
  Layout gradient_from, gradient_to;
  bool crosses_stages = false;
  bool forward_moves = true;   ///< false: the same bits under another name (only the gradient has to move)
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
  bool talks = false;           ///< forward and backward call a group themselves (global batch norm, split loss)
  bool has_buffers = false;
  bool splits_backward = false; ///< has a backward_weight part under a schedule that splits backward
  int delay = 0;                ///< batch t is computed with version max(s, t - delay) of the weights, s the first batch after the
                                ///< pipeline was last empty
};

/// Layers of one stage that run without communication between them.
struct Segment {
  int stage = 0;
  std::vector<OpId> ops;
  bool recompute = false;       ///< forward keeps only the segment's inputs; `recompute` runs it again before backward
  bool splits_backward = false; ///< some op does
};

/// A region of a parameter that the same workers hold: one entry for a replicated parameter, one per slice for a sharded one.
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
  int versions = 1;               ///< of the weights that are alive at once: the greatest delay of its layers + 1
  std::vector<ParameterShard> shards;
  int64_t elements = 0;           ///< of the flat buffer: shards start at multiples of kBucketAlignment
  int64_t bytes(int64_t per_element) const { return elements * per_element; }
  Range slice_of(int holder) const;  ///< elements that this world rank reduces and updates
};
constexpr int64_t kBucketAlignment = 16;

enum class OpCode {
  load_batch,           ///< this worker's share of the inputs of a micro-batch that stage `index` reads
  forward,              ///< segment `index`
  recompute,            ///< forward of segment `index` once more, for the backward that follows
  backward,             ///< segment `index`
  backward_input,       ///< segment `index`: gradients of the inputs, and of the parameters of layers that cannot split
  backward_weight,      ///< segment `index`: gradients of the remaining parameters
  redistribute,         ///< move `index` within a stage; `adjoint`: of the gradient
  send,                 ///< this worker's part of move `index` to another stage
  receive,
  prefetch_weights,     ///< bucket `index` (zero3): this worker's slice is on its way to the others; waits for nobody
  gather_weights,       ///< bucket `index` (zero3): all slices are here
  release_weights,      ///< bucket `index` (zero3): back to this worker's slice
  reduce_gradients,     ///< bucket `index`: this worker's gradient is complete (of the batch; under zero2 and zero3 of the
                        ///< micro-batch). Shared replicas: others may read it. Private ones: all holders reduce it together
  clip_gradients,       ///< all buckets reduced; norms taken: of the full gradient for clipping, of every parameter and its step for
                        ///< layer-wise optimizers
  optimizer_step,       ///< bucket `index`: update. Shared replicas: sum (unless clipped) and update this worker's slice in one
                        ///< pass. Private ones: under zero1 and zero2 the holders gather each other's slices
  synchronize_buffers,  ///< evaluation under local batch norm: running statistics of the data axis' first worker
  agree,                ///< the replica's part in the plan's agreement (update/policy.h): `index` 0 before the step, 1 after it. All ranks of
                        ///< the replica together; the first one exchanges with the other replicas for all
};
const char* name_of(OpCode code);
constexpr int kBeforeStep = 0, kAfterStep = 1;  ///< Instruction::index of `agree`

struct Instruction {
  OpCode code;
  int index = -1;
  int micro_batch = -1;
  bool adjoint = false;
  int lag = 0;           ///< works on the batch of so many steps ago (schedules without flush); nothing before step `lag`
  bool keeps = true;     ///< forward: keeps what backward needs (false where it is computed again)
  bool last = true;      ///< reduce_gradients: of the batch
  friend bool operator==(const Instruction&, const Instruction&) = default;
};

/// A distinct parameter (tied ones once), in order of first use.
struct ProgramParameter {
  ParameterSpec spec;
  bool trainable = true;  ///< false: frozen, or the loss does not depend on it
};

/// Immutable once compiled; shared by all workers.
struct Program {
  bool training = true;
  bool keeps_gradients = false;  ///< reduced gradients stay readable after the step (norms, verification)
  /// Each holder of a parameter has a copy in its own memory, as separate devices have; false: workers that share memory share
  /// one copy of the weights.
  bool private_replicas = false;
  OptimizerSharding optimizer_sharding = OptimizerSharding::none;
  Compression compression;
  int devices = 1;
  int micro_batches = 1;
  bool flushes = true;           ///< every batch is in the weights before the next begins
  int greatest_lag = 0;          ///< so many steps after its first forward a batch is through
  std::vector<Value> values;
  std::vector<Move> moves;
  std::vector<Op> ops;
  std::vector<Segment> segments;
  std::vector<ProgramParameter> parameters;
  std::vector<Bucket> buckets;
  std::vector<std::vector<BucketId>> segment_buckets;  ///< by segment: buckets its layers read
  std::vector<std::vector<Instruction>> lists;         ///< the distinct instruction lists
  std::vector<int> list_of_rank;                       ///< by world rank: index into `lists`
  OpId loss = -1;
  bool agrees = false;           ///< steps begin and end with `agree`; ranks are those of one replica

  const std::vector<Instruction>& instructions(int rank) const { return lists[size_t(list_of_rank[size_t(rank)])]; }

  /// "forward conv1..relu1", "redistribute fc1 (all_reduce)", for traces and messages.
  std::string describe(const Instruction& instruction, const Model& model) const;
};

/// Where a move (or its adjoint, of the gradient) comes from and goes to.
struct MoveEnds {
  Layout from, to;
};
MoveEnds ends_of(const Move& move, const Program& program, bool adjoint);

}  // namespace trireme
