#include "runtime/worker/batches_in_flight.h"

#include <ATen/ATen.h>

#include "trireme/error.h"

namespace trireme {

void MicroBatch::use_up(const Program& program, ValueId value) {
  const ValueId source = program.forward_alias[size_t(value)];
  if (--uses_left[size_t(source)] == 0) values[size_t(source)].reset();
}

void MicroBatch::add_gradient(const Program& program, ValueId value, const at::Tensor& gradient) {
  at::Tensor& sum = gradients[size_t(program.backward_alias[size_t(value)])];
  // Out of place: a layer may pass the same tensor to several inputs.
  sum = sum.defined() ? at::add(sum, gradient) : gradient;
}

Shape BatchInFlight::global_shape(NodeId node, const MicroBatch& part) const {
  Shape shape = model->node(node).sample_shape;
  shape.insert(shape.begin(), part.samples.size());
  return shape;
}

BatchInFlight& BatchesInFlight::add(const PreparedProgram& prepared, const StepInput& input) {
  const Program& program = *prepared.program;
  check_internal(!input.batch.model || input.batch.model->nodes().size() == model_.nodes().size(),
                 "a batch's model differs from the worker's in shapes only");
  BatchInFlight& batch = batches_.emplace_back();
  batch.number = trained_;
  batch.input = input;
  batch.model = batch.input.batch.model ? batch.input.batch.model.get() : &model_;
  batch.micro_batches.resize(size_t(program.micro_batches));
  for (int k = 0; k < program.micro_batches; ++k) {
    MicroBatch& part = batch.micro_batches[size_t(k)];
    part.index = k;
    part.samples = share_of(input.batch.samples, program.micro_batches, k);
    part.values.resize(program.values.size());
    part.gradients.resize(program.values.size());
    part.uses_left = prepared.uses[size_t(k)];
    part.calls.resize(program.ops.size());
  }
  return batch;
}

int64_t BatchesInFlight::begin_training(const PreparedProgram& prepared, const StepInput& input) {
  add(prepared, input).oldest_version = first_;
  return trained_++;
}

int64_t BatchesInFlight::begin_evaluation(const PreparedProgram& prepared, const StepInput& input) {
  add(prepared, input).oldest_version = trained_;
  return trained_;
}

BatchInFlight* BatchesInFlight::find(int64_t number) {
  if (batches_.empty()) return nullptr;
  const int64_t place = number - batches_.front().number;
  return place >= 0 && place < int64_t(batches_.size()) ? &batches_[size_t(place)] : nullptr;
}

void BatchesInFlight::retire(int64_t last) {
  while (!batches_.empty() && batches_.front().number <= last) batches_.pop_front();
}

}  // namespace trireme
