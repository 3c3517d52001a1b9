#include "runtime/migrate/migrate.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "base/error.h"
#include "base/memory.h"
#include "runtime/replicas/flat_shard.h"
#include "runtime/worker_state.h"

namespace trireme {
namespace {

int64_t bytes_in(const TensorMap& tensors) {
  int64_t bytes = 0;
  for (const auto& entry : tensors) bytes += int64_t(entry.second.nbytes());
  return bytes;
}

/// Rows and, on a tensor axis, features of a layer's state that `rank` has of micro-batch `samples` of a global batch.
Box carried_box(const Op& op, size_t index, int rank, const Range& samples, Shape shape) {
  shape.insert(shape.begin(), samples.size());
  Box box = Layout{op.mesh, Placement::shard(0), op.option.states[index]}.box_of(rank, shape);
  box[0] = {box[0].begin + samples.begin, box[0].end + samples.begin};
  return box;
}

std::string carried_name(const Model& model, const Op& op, const StateSpec& spec) { return model.node(op.node).name + "/" + spec.name; }

bool holds(const Bucket& bucket, int rank) { return std::binary_search(bucket.holders.begin(), bucket.holders.end(), rank); }

/// Elements of the region that `rank` has no copy of.
int64_t lacking(const Program& program, int rank, const std::string& name, const ParameterShard& wanted) {
  int64_t held = 0;
  for (const Bucket& bucket : program.buckets)
    for (const ParameterShard& shard : bucket.shards) {
      if (!holds(bucket, rank) || program.parameters[size_t(shard.parameter)].spec.name != name) continue;
      int64_t common = 1;
      for (size_t d = 0; d < wanted.box.size(); ++d)
        common *= std::max<int64_t>(0, std::min(wanted.box[d].end, shard.box[d].end) - std::max(wanted.box[d].begin, shard.box[d].begin));
      held = std::max(held, common);
    }
  return wanted.size() - held;
}

}  // namespace

int64_t bytes_to_move(const Program& from, const Program& to, int states, int64_t bytes_per_value, const std::vector<int>& was) {
  const bool divided = from.optimizer_sharding != OptimizerSharding::none || to.optimizer_sharding != OptimizerSharding::none;
  const bool sliced = from.optimizer_sharding == OptimizerSharding::zero3 || to.optimizer_sharding == OptimizerSharding::zero3;
  int64_t most = 0;
  for (int rank = 0; rank < to.devices; ++rank) {
    const int before = was.empty() ? rank : was[size_t(rank)];
    int64_t values = 0;
    for (const Bucket& bucket : to.buckets) {
      if (!holds(bucket, rank)) continue;
      const bool has_state = !bucket.contributors.empty();
      for (const ParameterShard& shard : bucket.shards) {
        const int64_t lacks = lacking(from, before, to.parameters[size_t(shard.parameter)].spec.name, shard);
        values += sliced ? 0 : lacks;
        if (has_state && !divided) values += lacks * states;
      }
      const int64_t own = to.optimizer_sharding == OptimizerSharding::none ? bucket.elements : bucket.slice_of(rank).size();
      if (sliced) values += to.optimizer_sharding == OptimizerSharding::zero3 ? own : bucket.elements;
      if (has_state && divided) values += own * states;
    }
    most = std::max(most, values * bytes_per_value);
  }
  return most;
}

int64_t TrainingState::bytes() const {
  int64_t bytes = bytes_in(weights) + bytes_in(buffers) + bytes_in(averaged_buffers) + bytes_in(carried) + bytes_in(agreement);
  for (const auto& entry : optimizer)
    for (const at::Tensor& tensor : entry.second) bytes += int64_t(tensor.nbytes());
  return bytes;
}

void check_migrates(const Program& program) {
  if (program.compression.kind != Compression::Kind::powersgd) return;
  fail_run({"change of plan", "compression = powersgd", "it keeps what each worker has not sent yet, which no other plan has a place for",
            "use compression = bf16 or none, or leave the plan as it is"});
}

void StateGatherer::reuse(TrainingState old) {
  state_ = {};
  state_.weights = std::move(old.weights);      // these are all written again;
  state_.optimizer = std::move(old.optimizer);  // of what layers keep there may be less the next time
}

void StateGatherer::gather(int rank, Worker& worker, const ParameterStore& store) {
  check_migrates(program_);
  DeviceScope nobody(kNoDevice);
  worker.settle();
  worker.barrier();
  if (rank == 0) state_.updates = worker.updates();
  worker.barrier();
  for (BucketId b = rank; b < BucketId(program_.buckets.size()); b += program_.devices) add_bucket(b, store);
  add(worker.held());
  worker.barrier();
}

void StateGatherer::add_bucket(BucketId id, const ParameterStore& store) {
  const Bucket& bucket = program_.buckets[size_t(id)];
  std::vector<at::Tensor> flats{store.whole_bucket(id, [](const ReplicaPiece& piece) { return piece.master; })};
  check_internal(flats[0].defined(), "the holders of a bucket have all its weights");
  for (size_t k = 0; has_state(bucket); ++k) {
    flats.push_back(store.whole_bucket(
        id, [k](const ReplicaPiece& piece) { return k < piece.state.size() ? piece.state[k] : at::Tensor(); }));
    if (flats.back().defined()) continue;
    flats.pop_back();
    break;
  }
  add_shards(bucket, flats);
}

void StateGatherer::gather_alone(Worker& worker) {
  const DeviceScope nobody(kNoDevice);
  state_.updates = worker.updates();
  for (BucketId b = 0; b < BucketId(program_.buckets.size()); ++b) {
    const Bucket& bucket = program_.buckets[size_t(b)];
    const std::vector<ReplicaPiece> pieces = worker.replicas().pieces(b);
    check_internal(pieces.size() == 1 && pieces[0].range.size() == bucket.elements, "a worker that goes on alone has whole buckets");
    std::vector<at::Tensor> flats{pieces[0].master};
    if (has_state(bucket)) flats.insert(flats.end(), pieces[0].state.begin(), pieces[0].state.end());
    add_shards(bucket, flats);
  }
  add(worker.held());
}

/// `flats`: weights, then the optimizer's state.
void StateGatherer::add_shards(const Bucket& bucket, const std::vector<at::Tensor>& flats) {
  for (const ParameterShard& shard : bucket.shards) {
    const ParameterSpec& spec = program_.parameters[size_t(shard.parameter)].spec;
    std::vector<at::Tensor> full;
    {
      std::lock_guard lock(mutex_);
      full.push_back(tensor_of(state_.weights[spec.name], spec.shape, flats[0]));
      if (flats.size() > 1) {
        std::vector<at::Tensor>& states = state_.optimizer[spec.name];
        states.resize(flats.size() - 1);
        for (at::Tensor& tensor : states) full.push_back(tensor_of(tensor, spec.shape, flats[0]));
      }
    }
    for (size_t k = 0; k < full.size(); ++k) part_of(full[k], shard.box).copy_(view_of_shard(flats[k], shard));
  }
}

at::Tensor& StateGatherer::tensor_of(at::Tensor& full, const Shape& shape, const at::Tensor& like) {
  if (!full.defined()) full = at::empty(shape, at::TensorOptions().dtype(like.scalar_type()));
  return full;
}

void StateGatherer::add(const HeldParts& held) {
  add(held.buffers, state_.buffers);
  add(held.averaged_buffers, state_.averaged_buffers);
  add(held.carried, state_.carried);
}

void StateGatherer::add(const std::vector<HeldPart>& parts, TensorMap& tensors) {
  for (const HeldPart& part : parts) {
    std::lock_guard lock(mutex_);
    part_of(tensor_of(tensors[part.name], part.shape, part.values), part.box).copy_(part.values);
  }
}

void give_state(const Program& program, int rank, const TrainingState& state, Replicas& replicas) {
  for (BucketId b = 0; b < BucketId(program.buckets.size()); ++b) {
    const Bucket& bucket = program.buckets[size_t(b)];
    if (!holds(bucket, rank)) continue;
    const std::vector<ReplicaPiece> pieces = replicas.pieces(b);
    for (size_t s = 0; s < bucket.shards.size(); ++s) {
      const ParameterShard& shard = bucket.shards[s];
      const std::string& name = program.parameters[size_t(shard.parameter)].spec.name;
      const auto weights = state.weights.find(name);
      check_internal(weights != state.weights.end(), "a run goes on with the weights of all parameters");
      if (program.private_replicas || bucket.holders[s % bucket.holders.size()] == rank) {
        const at::Tensor flat = flat_shard(weights->second, shard);
        for (const ReplicaPiece& piece : pieces) {
          copy_overlap(flat, shard.offset, piece.range, piece.master);
          copy_overlap(flat, shard.offset, piece.range, piece.compute);
        }
      }
      const auto states = state.optimizer.find(name);
      for (size_t k = 0; states != state.optimizer.end() && k < states->second.size(); ++k) {
        const at::Tensor flat = flat_shard(states->second[k], shard);
        for (const ReplicaPiece& piece : pieces)
          if (!piece.state.empty()) copy_overlap(flat, shard.offset, piece.range, piece.state.at(k));
      }
    }
  }
}

// ------------------------------------------------------------------------------------------------ what a worker holds

int64_t Worker::updates() const { return state_->earlier_batches + state_->batches; }

HeldParts Worker::held() const {
  const State& s = *state_;
  HeldParts held;
  check_internal(s.training.program != nullptr, "a run that goes on trains");
  for (const Op& op : s.training.program->ops) {
    if (op.mesh.index_of(s.rank) < 0) continue;
    const Layer& layer = *s.model.node(op.node).layer;
    if (op.mesh.data_index(s.rank) == 0) {
      const auto specs = layer.buffers();
      const auto averages = s.averaged_buffers.find(op.node);
      for (size_t i = 0; i < specs.size(); ++i) {
        const Box box = Layout{op.mesh, Placement::replicate(), op.option.buffers[i]}.box_of(s.rank, specs[i].shape);
        held.buffers.push_back({specs[i].name, specs[i].shape, box, s.buffers.at(op.node)[i]});
        if (averages != s.averaged_buffers.end())
          held.averaged_buffers.push_back({specs[i].name, specs[i].shape, box, averages->second[i]});
      }
    }
    const auto specs = layer.states();
    for (int k = 0; k < s.training.program->micro_batches && !specs.empty(); ++k) {
      const auto carried = s.training.states.find({op.node, k});
      if (carried == s.training.states.end()) continue;
      const Range samples = share_of(s.carried_rows, s.training.program->micro_batches, k);
      for (size_t i = 0; i < specs.size() && i < carried->second.size(); ++i) {
        Shape shape = specs[i].sample_shape;
        shape.insert(shape.begin(), s.carried_rows);
        held.carried.push_back({carried_name(s.model, op, specs[i]), shape, carried_box(op, i, s.rank, samples, specs[i].sample_shape),
                                carried->second[i]});
      }
    }
  }
  return held;
}

/// Takes this worker's part of what the run's earlier workers left; running statistics were taken when they were made.
void Worker::State::resume(const Program& program, const TrainingState& from) {
  check_migrates(program);
  earlier_batches = from.updates;
  replicas->resume(from.updates);
  communicator->barrier();
  give_state(program, rank, from, *replicas);
  for (const Op& op : training.program ? training.program->ops : std::vector<Op>{}) {
    if (op.mesh.index_of(rank) < 0) continue;
    resume_averages(op, from);
    resume_carried(op, from);
  }
  communicator->barrier();
}

void Worker::State::resume_averages(const Op& op, const TrainingState& from) {
  const auto specs = model.node(op.node).layer->buffers();
  if (specs.empty() || from.averaged_buffers.empty()) return;
  MemoryScope scope(MemoryCategory::optimizer);
  std::vector<at::Tensor>& averages = averaged_buffers[op.node];
  averages.clear();
  for (size_t i = 0; i < specs.size(); ++i) {
    const Box box = Layout{op.mesh, Placement::replicate(), op.option.buffers[i]}.box_of(rank, specs[i].shape);
    averages.push_back(part_of(from.averaged_buffers.at(specs[i].name), box).clone(at::MemoryFormat::Contiguous));
  }
}

void Worker::State::resume_carried(const Op& op, const TrainingState& from) {
  const auto specs = model.node(op.node).layer->states();
  for (int k = 0; k < training.program->micro_batches && !specs.empty(); ++k) {
    std::vector<at::Tensor> mine;
    for (size_t i = 0; i < specs.size(); ++i) {
      const auto full = from.carried.find(carried_name(model, op, specs[i]));
      if (full == from.carried.end()) break;
      carried_rows = full->second.size(0);
      const Range samples = share_of(carried_rows, training.program->micro_batches, k);
      const Box box = carried_box(op, i, rank, samples, specs[i].sample_shape);
      mine.push_back(part_of(full->second, box).clone(at::MemoryFormat::Contiguous));
    }
    if (mine.size() == specs.size()) training.states[{op.node, k}] = std::move(mine);
  }
}

}  // namespace trireme
