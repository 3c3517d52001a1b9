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
};

/// Layers of one stage that run without communication between them.
struct Segment {
  int stage = 0;
  std::vector<OpId> ops;
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
  std::vector<int> contributors;  ///< subset whose gradients are summed
  bool full_precision = false;
  std::vector<ParameterShard> shards;
  int64_t elements = 0;           ///< of the flat buffer: shards start at multiples of kBucketAlignment
  int64_t bytes(int64_t per_element) const { return elements * per_element; }
  Range slice_of(int holder) const;  ///< elements that this world rank reduces and updates
};
constexpr int64_t kBucketAlignment = 16;

enum class OpCode {
  load_batch,           ///< this worker's share of the inputs of a micro-batch
  forward,              ///< segment `index`
  backward,             ///< segment `index`
  redistribute,         ///< move `index` within a stage; `adjoint`: of the gradient
  send,                 ///< this worker's part of move `index` to another stage
  receive,
  reduce_gradients,     ///< bucket `index` is complete on this worker: others may read it
  clip_gradients,       ///< all buckets reduced, norm taken over the full gradient
  optimizer_step,       ///< bucket `index`: reduce (unless clipped) and update this worker's slice in one pass
  synchronize_buffers,  ///< evaluation under local batch norm: running statistics of the data axis' first worker
};
const char* name_of(OpCode code);

struct Instruction {
  OpCode code;
  int index = -1;
  int micro_batch = -1;
  bool adjoint = false;
};

/// A distinct parameter (tied ones once), in order of first use.
struct ProgramParameter {
  ParameterSpec spec;
};

/// Immutable once compiled; shared by all workers.
struct Program {
  bool training = true;
  bool keeps_gradients = false;  ///< reduced gradients stay readable after the step (clipping, verification)
  int devices = 1;
  int micro_batches = 1;
  std::vector<Value> values;
  std::vector<Move> moves;
  std::vector<Op> ops;
  std::vector<Segment> segments;
  std::vector<ProgramParameter> parameters;
  std::vector<Bucket> buckets;
  std::vector<std::vector<BucketId>> segment_buckets;  ///< by segment: buckets its layers read
  std::vector<std::vector<Instruction>> ranks;         ///< by world rank
  OpId loss = -1;

  /// "forward conv1..relu1", "redistribute fc1 (all_reduce)", for traces and messages.
  std::string describe(const Instruction& instruction, const Model& model) const;
};

/// Where a move (or its adjoint, of the gradient) comes from and goes to.
struct MoveEnds {
  Layout from, to;
};
MoveEnds ends_of(const Move& move, const Program& program, bool adjoint);

}  // namespace trireme
