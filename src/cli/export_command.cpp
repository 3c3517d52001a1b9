// `trireme export`: weights and models for other programs.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/text.h"
#include "base/units.h"
#include "cli/commands.h"
#include "experiment/initial_weights.h"
#include "model/export/onnx.h"
#include "model/export/torchscript.h"
#include "model/weights/match.h"
#include "model/weights/read_weights.h"
#include "model/weights/safetensors.h"
#include "runtime/replicas/replicas.h"
#include "train/trained_weights.h"
#include "trireme/error.h"
#include "zoo/spec_text.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSafetensors = "safetensors";
constexpr const char* kTorchScript = "torchscript";
constexpr const char* kOnnx = "onnx";

const std::vector<std::pair<std::string, std::string>> kExtensions{
    {kSafetensors, ".safetensors"}, {kTorchScript, ".pt"}, {kOnnx, ".onnx"}};

/// The data to write: a model with all its weights, or weights of an unknown model.
struct Exported {
  std::string name;
  std::optional<ModelSpec> spec = {};
  fs::path script = {};  ///< the file from which the model was imported; empty: it was not imported
  std::optional<Model> model = {};
  TensorMap weights = {};                        ///< in the model's shapes, if there is a model
  std::shared_ptr<const InputForm> inputs = {};  ///< how raw values become the model's data; null: not known
};

/// Returns the model's initial values; values that it does not have are drawn.
TensorMap initial_weights(const Model& model, uint64_t seed) {
  TensorMap weights;
  if (model.initial_values()) weights = model.initial_values()->tensors;
  for (const ParameterSpec& spec : model.parameters())
    if (!weights.contains(spec.name)) weights[spec.name] = drawn_parameter(spec, seed);
  for (const BufferSpec& spec : model.buffers())
    if (!weights.contains(spec.name)) weights[spec.name] = at::full(spec.shape, spec.initial, at::kFloat);
  return weights;
}

/// Files of weights may have any dtype and mix dtypes; the exported model has one.
TensorMap converted(TensorMap weights, at::ScalarType type) {
  for (auto& [name, tensor] : weights)
    if (tensor.is_floating_point()) tensor = tensor.to(type);
  return weights;
}

Exported from_experiment(const ExportOptions& options) {
  RunSpec experiment{options.experiment.read()};
  const TaskData data = open_data(experiment.data);
  Model model = with_initial_weights(experiment, build_model(experiment, data));
  if (model.initial_values()) std::cout << model.initial_values()->report;
  TensorMap weights = converted(initial_weights(model, experiment.seed), master_type(experiment.precision));
  return {fs::path(experiment.model_name).stem(),
          zoo_spec(experiment, data),
          experiment.model_file,
          std::move(model),
          std::move(weights),
          data.inputs};
}

/// Returns what the file of weights says about inputs; null: nothing.
std::shared_ptr<const InputForm> inputs_in(const Weights& file, const std::string& where) {
  const auto text = file.metadata.find(kInputsKey);
  if (text == file.metadata.end()) return nullptr;
  const nlohmann::json json = nlohmann::json::parse(text->second, nullptr, /*allow_exceptions=*/false);
  return std::make_shared<const InputForm>(input_form_from(json, fmt::format("{}: {}", where, kInputsKey)));
}

Exported from_weights(const ExportOptions& options) {
  if (!options.experiment.set.empty())
    fail_user({"--set", options.experiment.set.front(), "there is no experiment whose key it could override",
               "name an experiment file"});
  const fs::path path = weights_file(options.experiment.experiment);
  Weights file = read_weights(path);
  const auto description = file.metadata.find(kModelKey);
  std::shared_ptr<const InputForm> inputs = inputs_in(file, path.string());
  if (description == file.metadata.end())
    return {.name = path.stem().string(), .weights = std::move(file.tensors), .inputs = std::move(inputs)};
  const ModelSpec spec = spec_from_text(description->second, path.string());
  Model model = make_model(spec);
  const bool is_double = std::any_of(file.tensors.begin(), file.tensors.end(),
                                     [](const auto& entry) { return entry.second.scalar_type() == at::kDouble; });
  TensorMap weights =
      converted(match_weights(model, file.tensors, {}, path.string()).tensors, is_double ? at::kDouble : at::kFloat);
  return {spec.name, spec, {}, std::move(model), std::move(weights), std::move(inputs)};
}

std::string chosen_format(const ExportOptions& options) {
  if (!options.format.empty()) return options.format;
  for (const auto& [format, extension] : kExtensions)
    if (options.out.extension() == extension) return format;
  if (options.out.empty()) return kSafetensors;
  fail_user({"--output", options.out.string(), "its name does not show the format",
             "add --format safetensors, torchscript or onnx"});
}

/// A default name never replaces a file; a name that the user gave does.
fs::path chosen_path(const ExportOptions& options, const std::string& format, const std::string& name) {
  if (!options.out.empty()) return options.out;
  const auto extension =
      std::find_if(kExtensions.begin(), kExtensions.end(), [&](const auto& entry) { return entry.first == format; });
  const fs::path path = name + extension->second;
  std::error_code ignored;
  if (fs::exists(path, ignored))
    fail_user({path.string(), "exists already", "a default name never replaces a file", "name one with -o"});
  return path;
}

/// Errors (user): raw inputs are asked for, and the file cannot take them.
void check_raw(const Exported& exported, const std::string& format, const std::string& source) {
  if (format == kSafetensors)
    fail_user({"--inputs raw", format, "it holds weights, no computation", "export as torchscript or onnx"});
  if (!exported.inputs)
    fail_user({"--inputs raw", source,
               "the data's raw values are not known, or are what the model reads (text, arrays)",
               "leave it out, or name the experiment: trireme export EXPERIMENT.toml --set model.weights=RUN"});
}

void write(const Exported& exported, const std::string& format, const fs::path& path, const std::string& source,
           bool raw) {
  const InputForm* inputs = exported.inputs.get();
  if (format == kSafetensors) {
    if (!exported.model) {
      std::map<std::string, std::string> metadata{{"format", "pt"}};
      if (inputs) metadata[kInputsKey] = to_json(*inputs).dump();
      return write_safetensors(path, exported.weights, metadata);
    }
    const Weights file = weights_for_file(exported.spec, *exported.model, exported.weights, inputs);
    return write_safetensors(path, file.tensors, file.metadata);
  }
  if (!exported.model)
    fail_user({source, fmt::format("cannot become {}", format), "the file holds weights and does not name their model",
               "name an experiment of that model: trireme export EXPERIMENT.toml --set model.weights=FILE"});
  if (format == kTorchScript && !exported.script.empty())
    write_torchscript(path, exported.script, *exported.model, exported.weights, inputs, raw);
  else if (format == kTorchScript) write_torchscript(path, *exported.model, exported.weights, inputs, raw);
  else write_onnx(path, *exported.model, exported.weights, inputs, raw);
}

std::string in_words(const Exported& exported, const std::string& format, bool raw) {
  double values = 0;
  for (const auto& [name, tensor] : exported.weights) values += double(tensor.numel());
  std::string text = fmt::format("{} tensors, {} values", exported.weights.size(), format_count(values));
  if (!exported.model || format == kSafetensors) return text;
  const Shape& sample = exported.model->node(0).sample_shape;
  if (raw) return text + fmt::format(", for raw samples {}", to_string(raw_shape(*exported.inputs, sample)));
  return text + fmt::format(", for samples {}{}", to_string(sample), exported.inputs ? ", normalised" : "");
}

}  // namespace

int run_export(const ExportOptions& options) {
  const fs::path& source = options.experiment.experiment;
  const std::string format = chosen_format(options);
  const Exported exported = source.extension() == ".toml" ? from_experiment(options) : from_weights(options);
  const fs::path path = chosen_path(options, format, exported.name);
  if (options.raw) check_raw(exported, format, source.string());
  write(exported, format, path, source.string(), options.raw);
  std::cout << fmt::format("{}: {} of {}: {}\n", path.string(), format, exported.name,
                           in_words(exported, format, options.raw));
  return 0;
}

}  // namespace trireme
