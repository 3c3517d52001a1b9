#include "cost/call_shapes.h"

namespace trireme {
namespace {

/// The shape of a worker's shard of a tensor with this placement on the tensor axis.
Shape local_shape(Shape shape, const Placement& placement, int degree) {
  if (placement.is_shard()) shape[size_t(placement.dim)] /= degree;
  return shape;
}

Shape with_batch(Shape sample, int64_t samples) {
  sample.insert(sample.begin(), samples);
  return sample;
}

}  // namespace

int64_t compute_size(Precision precision) { return int64_t(c10::elementSize(compute_type(precision))); }
int64_t master_size(Precision precision) { return int64_t(c10::elementSize(master_type(precision))); }

int64_t output_element(const Layer& layer, const std::vector<int64_t>& inputs, Precision precision) {
  switch (layer.output_type()) {
    case OutputType::compute: break;
    case OutputType::master: return master_size(precision);
    case OutputType::as_input: return inputs.at(0);
    case OutputType::byte: return 1;
  }
  return compute_size(precision);
}

CallShapes call_shapes(const Layer& layer, const CallInputs& inputs, const ShardingOption& option, int tensor,
                       int64_t samples, Precision precision) {
  CallShapes call{.layer = &layer,
                  .option = &option,
                  .tensor = tensor,
                  .data = 1,
                  .samples = samples,
                  .compute = compute_size(precision),
                  .master = master_size(precision),
                  .inputs = {},
                  .wanted = inputs.wanted,
                  .output = {},
                  .parameters = {}};
  for (size_t i = 0; i < inputs.shapes.size(); ++i)
    call.inputs.push_back(
        {local_shape(with_batch(inputs.shapes[i], samples), option.inputs[i], tensor), inputs.elements[i]});
  call.output = {local_shape(with_batch(layer.output_shape(inputs.shapes), samples), option.output, tensor),
                 output_element(layer, inputs.elements, precision)};
  const std::vector<ParameterSpec> parameters = layer.parameters();
  for (size_t i = 0; i < parameters.size(); ++i)
    call.parameters.push_back({local_shape(parameters[i].shape, option.parameters[i], tensor),
                               parameters[i].full_precision ? call.master : call.compute});
  return call;
}

LayerExchanges exchanges_of(const CallShapes& call) {
  const bool over_tensor = call.option->communicates_over_tensor_axis && call.tensor > 1;
  if (call.samples == 0 || (!over_tensor && call.data <= 1)) return {};
  return call.layer->exchanges(call);
}

}  // namespace trireme
