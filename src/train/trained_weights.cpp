#include "train/trained_weights.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/memory.h"
#include "base/text.h"
#include "model/weights/file_shapes.h"
#include "runtime/migrate/collect.h"
#include "runtime/replicas/flat_shard.h"
#include "trireme/error.h"
#include "zoo/spec_text.h"

namespace trireme {

void TrainedWeights::add_parameters(const ParameterStore& store) {
  MutexLock lock(mutex_);
  for (int p = 0; p < int(program_.parameters.size()); ++p)
    tensors_[program_.parameters[size_t(p)].spec.name] = store.full_parameter(p);
}

void TrainedWeights::add_buffers(int rank, const Worker& worker) {
  MutexLock lock(mutex_);
  for (OpId id = 0; id < OpId(program_.ops.size()); ++id) {
    const Op& op = program_.ops[size_t(id)];
    if (op.mesh.index_of(rank) < 0 || op.mesh.data_index(rank) != 0) continue;
    const std::vector<at::Tensor>* held = worker.buffers(id);
    const auto specs = model_.node(op.node).layer->buffers();
    for (size_t i = 0; held && i < specs.size(); ++i) {
      at::Tensor& full = tensors_[specs[i].name];
      if (!full.defined()) full = at::empty(specs[i].shape, (*held)[i].scalar_type());
      const Box box = Layout{op.mesh, Placement::replicate(), op.option.buffers[i]}.box_of(rank, specs[i].shape);
      at::Tensor part = full;
      for (size_t d = 0; d < box.size(); ++d) part = part.narrow(int64_t(d), box[d].begin, box[d].size());
      part.copy_((*held)[i]);
    }
  }
}

void TrainedWeights::gather(int rank, Worker& worker, const ParameterStore& store) {
  DeviceScope uncharged(kNoDevice);
  worker.settle(/*averaged=*/true);
  worker.barrier();
  try {
    if (rank == 0) add_parameters(store);
    add_buffers(rank, worker);
  } catch (const std::exception& error) {
    MutexLock lock(mutex_);
    failure_ = first_line(error);
  }
  worker.barrier();
  if (rank != 0) return;
  MutexLock lock(mutex_);
  is_whole_ = failure_.empty();
  if (!is_whole_) tensors_.clear();
}

void TrainedWeights::gather(Worker& worker, Communicator& world, Precision precision) {
  const DeviceScope uncharged(kNoDevice);
  worker.settle(/*averaged=*/true);
  worker.barrier();
  MutexLock lock(mutex_);
  for (BucketId b = 0; b < BucketId(program_.buckets.size()); ++b) collect_parameters(b, worker, world, precision);
  collect_buffers(worker, world);
  worker.barrier();  // no rank writes to values that others may still be reading
  is_whole_ = world.rank() == 0;
}

TensorMap TrainedWeights::take() {
  MutexLock lock(mutex_);
  is_whole_ = false;
  failure_.clear();
  return std::exchange(tensors_, {});
}

void TrainedWeights::collect_parameters(BucketId id, Worker& worker, Communicator& world, Precision precision) {
  const at::ScalarType master = master_type(precision);
  const std::vector<at::Tensor> flats =
      collect_bucket(program_, id, worker.replicas(), world, 1, master,
                     [](const ReplicaPiece& piece) { return std::vector<at::Tensor>{piece.master}; });
  if (flats.empty()) return;
  for (const ParameterShard& shard : program_.buckets[size_t(id)].shards) {
    const ParameterSpec& spec = program_.parameters[size_t(shard.parameter)].spec;
    at::Tensor& full = tensors_[spec.name];
    if (!full.defined()) full = at::empty(spec.shape, at::TensorOptions().dtype(master));
    part_of(full, shard.box).copy_(view_of_shard(flats[0], shard));
  }
}

void TrainedWeights::collect_buffers(Worker& worker, Communicator& world) {
  for (OpId id = 0; id < OpId(program_.ops.size()); ++id) {
    const Op& op = program_.ops[size_t(id)];
    const auto specs = model_.node(op.node).layer->buffers();
    for (int holder = 0; holder < world.size() && !specs.empty(); ++holder) {
      if (op.mesh.index_of(holder) < 0 || op.mesh.data_index(holder) != 0) continue;
      if (holder != world.rank() && world.rank() != 0) continue;
      for (size_t i = 0; i < specs.size(); ++i) {
        const at::Tensor held = holder == world.rank() ? worker.buffers(id)->at(i) : world.receive(holder, id);
        if (world.rank() != 0) {
          world.send(held.clone(), 0, id);
          continue;
        }
        at::Tensor& full = tensors_[specs[i].name];
        if (!full.defined()) full = at::empty(specs[i].shape, held.scalar_type());
        part_of(full, Layout{op.mesh, Placement::replicate(), op.option.buffers[i]}.box_of(holder, specs[i].shape))
            .copy_(held);
      }
    }
  }
}

int64_t bytes_of_weights(const Model& model, Precision precision) {
  int64_t values = model.parameter_count();
  for (const BufferSpec& spec : model.buffers()) values += element_count(spec.shape);
  return values * int64_t(c10::elementSize(master_type(precision)));
}

std::string text_of(const ScriptOrigin& origin) {
  return nlohmann::json{
      {"file", origin.file.string()}, {"fingerprint", origin.fingerprint}, {"model", to_text(origin.spec)}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

ScriptOrigin script_origin_from(const std::string& text, const std::string& where) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto string_of = [&](const char* key) {
    if (json.is_object() && json.contains(key) && json.at(key).is_string()) return json.at(key).get<std::string>();
    fail_user({where, fmt::format("{} cannot be read", kScriptKey), fmt::format("it lacks \"{}\"", key),
               "use an experiment whose model.weights is this file"});
  };
  const std::string file = string_of("file"), fingerprint = string_of("fingerprint");
  return {file, fingerprint, spec_from_text(string_of("model"), where)};
}

Weights weights_for_file(const std::optional<ModelSpec>& spec, const Model& model, const TensorMap& weights,
                         const InputForm* inputs) {
  // Hugging Face's loaders require the format: "pt" means PyTorch's shapes.
  Weights file{.tensors = in_file_shapes(model, weights), .metadata = {{"format", "pt"}}};
  if (spec) file.metadata[kModelKey] = to_text(*spec);
  if (inputs) file.metadata[kInputsKey] = to_json(*inputs).dump();
  return file;
}

}  // namespace trireme
