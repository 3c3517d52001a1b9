#include "model/import/import.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "model/import/check.h"
#include "model/import/draft.h"
#include "model/import/interpreter.h"
#include "model/import/merge.h"
#include "model/import/script_file.h"
#include "model/weights/weights.h"
#include "trireme/error.h"

namespace trireme {
namespace torchscript {
namespace {

constexpr uint64_t kProbeSeed = 4;
constexpr size_t kModuleNamesShown = 3;

/// Returns samples to run the module with. The first samples are equal for any number of samples.
at::Tensor probe_data(const ImportOptions& options, at::ScalarType dtype) {
  Shape sizes = options.sample_shape;
  sizes.insert(sizes.begin(), kOtherBatch);
  const at::Generator generator = at::detail::createCPUGenerator(kProbeSeed);
  if (options.vocabulary > 0)
    return at::randint(options.vocabulary, sizes, generator, at::TensorOptions().dtype(at::kLong));
  return at::randn(sizes, generator, at::TensorOptions().dtype(dtype));
}

struct InterpretedModes {
  Graph graph;
  at::Tensor data, output;  ///< kProbeBatch samples in evaluation
  std::string output_note;
  std::vector<std::string> switched_off, fixed_to_training;
};

InterpretedModes interpret_modes(const ScriptFile& file, const ImportOptions& options) {
  const at::Tensor data = probe_data(options, file.dtype);
  const auto samples = [&](int64_t count) { return data.narrow(0, 0, count).clone(); };
  Paths paths;
  const Tape evaluation = interpret(file, paths, false, samples(kProbeBatch));
  const Graph in_evaluation = compare_batches(file, evaluation, interpret(file, paths, false, samples(kOtherBatch)));
  const Tape training = interpret(file, paths, true, samples(kProbeBatch));
  Graph in_training = compare_batches(file, training, interpret(file, paths, true, samples(kOtherBatch)));
  return {without_idle_operators(unfold_inner_batches(file, merge_modes(file, std::move(in_training), in_evaluation))),
          samples(kProbeBatch),
          evaluation.output,
          training.output_note,
          training.switched_off,
          evaluation.fixed_to_training};
}

/// Finds a layer for every operator.
void recognise(Draft& draft) {
  const auto each = [&](bool (*recogniser)(Draft&, int)) {
    for (int index = 0; index < int(draft.graph.operators.size()); ++index)
      if (!draft.is_covered(index)) recogniser(draft, index);
  };
  each(recognise_attention);
  each([](Draft& d, int i) {
    return recognise_convolution(d, i) || recognise_norm(d, i) || recognise_linear(d, i) || recognise_pool(d, i) ||
           recognise_embedding(d, i) || recognise_lstm(d, i) || recognise_activation(d, i) || recognise_dropout(d, i) ||
           recognise_elementwise(d, i) || recognise_rearrangement(d, i) || recognise_part(d, i);
  });
  add_script_layers(draft);
  // a layer has the place of its last operator
  std::stable_sort(draft.items.begin(), draft.items.end(), [](const Item& a, const Item& b) {
    return *std::max_element(a.operators.begin(), a.operators.end()) <
           *std::max_element(b.operators.begin(), b.operators.end());
  });
}

Model build(const Draft& draft, const ImportOptions& options, const LossForOutput& loss) {
  ModelBuilder builder(draft.file.path.filename().string());
  std::map<ValueId, NodeId> nodes;
  const auto& output_form = draft.form(draft.graph.output);
  check_internal(output_form.has_value(), "the output goes to the loss");
  const NodeId data = builder.input("data", options.sample_shape),
               target = builder.input("target", loss.target_shape(output_form->sample));
  for (size_t v = 0; v < draft.graph.values.size(); ++v)
    if (draft.graph.values[v].kind == Value::Kind::input) nodes[ValueId(v)] = data;
  for (const Item& item : draft.items) {
    std::vector<NodeId> inputs;
    for (ValueId id : item.inputs) {
      const auto node = nodes.find(draft.resolve(id));
      check_internal(node != nodes.end(),
                     fmt::format("the layers that \"{}\" reads come before it", item.layer->name()));
      inputs.push_back(node->second);
    }
    nodes[item.output] = builder.add(item.layer, std::move(inputs));
  }
  const auto output = nodes.find(draft.resolve(draft.graph.output));
  check_internal(output != nodes.end(), "some layer gives the output");
  return builder.finish(output->second, loss.add(builder, output->second, target));
}

/// "a", "b", "c" and 12 more; each name once. The module itself has no name and appears as "forward".
std::string names(std::vector<std::string> all) {
  std::set<std::string> seen;
  std::replace(all.begin(), all.end(), std::string(), std::string("forward"));
  std::erase_if(all, [&](const std::string& name) { return !seen.insert(name).second; });
  return list_names(all, kModuleNamesShown);
}

TensorMap values_for(const Model& model, const ScriptFile& file) {
  TensorMap values;
  for (const ParameterSpec& spec : model.parameters())
    values[spec.name] = file.parameters.at(spec.name).reshape(spec.shape);
  for (const Node& node : model.nodes())
    if (node.layer)
      for (const BufferSpec& spec : node.layer->buffers())
        values[spec.name] = file.buffers.at(spec.name).reshape(spec.shape);
  return values;
}

std::vector<std::string> notes_of(const Draft& draft, const InterpretedModes& modes, const ImportedModel& imported) {
  std::vector<std::string> notes;
  if (!modes.output_note.empty())
    notes.push_back(fmt::format("forward returns several values: its output{} is trained, the others are ignored",
                                modes.output_note));
  std::vector<std::string> fixed, left_out;
  for (const Operator& op : draft.graph.operators)
    if (op.name == "aten::batch_norm" && !op.training_flag && op.find("running_mean") != nullptr)
      fixed.push_back(op.module);
  if (!fixed.empty())
    notes.push_back(
        fmt::format("{} batch norms are fixed to evaluation mode, as the module was when it was traced: they use the "
                    "file's running "
                    "statistics in training too ({}); trace it in training mode, or script it, to train them",
                    fixed.size(), names(fixed)));
  if (!modes.switched_off.empty())
    notes.push_back(fmt::format("dropout is disabled in training too, as it was when the module was traced ({})",
                                names(modes.switched_off)));
  if (!modes.fixed_to_training.empty())
    notes.push_back(
        fmt::format("{} batch norms and dropouts are fixed to training mode, as the module was when it was traced "
                    "({}): in Trireme an evaluation "
                    "uses running statistics and drops nothing",
                    modes.fixed_to_training.size(), names(modes.fixed_to_training)));
  for (const std::string& name : draft.file.order)
    if (!imported.initial_values.contains(name)) left_out.push_back(name);
  if (!left_out.empty())
    notes.push_back(fmt::format("{} parameters are left out: the output does not depend on them ({})", left_out.size(),
                                names(left_out)));
  return notes;
}

ImportedModel import_module(const std::filesystem::path& path, const ImportOptions& options,
                            const LossForOutput& loss) {
  const c10::InferenceMode ordinary(false);
  const at::NoGradGuard no_grad;
  const ScriptFile file = load_script(path);
  const InterpretedModes modes = interpret_modes(file, options);
  Draft draft(file, modes.graph);
  recognise(draft);
  ImportedModel imported{.model = build(draft, options, loss)};
  imported.initial_values = values_for(imported.model, file);
  for (const std::string& name : file.frozen)
    if (imported.initial_values.contains(name)) imported.frozen.push_back(name);
  imported.notes = notes_of(draft, modes, imported);
  const Form& form = *draft.form(draft.graph.output);
  check_model(imported.model, imported.initial_values, modes.data,
              as_layer_tensor(modes.output, form, form.extents, kProbeBatch), path.string());
  return imported;
}

}  // namespace
}  // namespace torchscript

ImportedModel import_torchscript(const std::filesystem::path& path, const ImportOptions& options,
                                 const LossForOutput& loss) {
  return torchscript::import_module(path, options, loss);
}

}  // namespace trireme
