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
#include "checkpoint/checkpoint_weights.h"
#include "cli/commands.h"
#include "cli/launch_hosts.h"
#include "experiment/initial_weights.h"
#include "model/export/onnx.h"
#include "model/export/torchscript.h"
#include "model/weights/match.h"
#include "model/weights/read_weights.h"
#include "model/weights/safetensors.h"
#include "runtime/replicas/replicas.h"
#include "train/trained_weights.h"
#include "trireme/error.h"
#include "zoo/imported.h"
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
  fs::path file = {};                            ///< in which the weights were; empty: they were not in one
};

/// Where the weights to export are, if no model is named.
struct WeightsPlace {
  fs::path file;
  std::string name;  ///< of what is exported
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

/// Returns the dtype in which the model of these weights is exported.
at::ScalarType dtype_of(const TensorMap& weights) {
  const bool is_double = std::any_of(weights.begin(), weights.end(),
                                     [](const auto& entry) { return entry.second.scalar_type() == at::kDouble; });
  return is_double ? at::kDouble : at::kFloat;
}

Exported from_experiment(const ExportOptions& options) {
  RunSpec experiment{options.experiment.read_for_devices()};
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

/// Imports the user's own model of a run again, and gives it the run's weights. `path`: the file of weights.
/// Errors (user): the model's file is gone or is another one; no --trust.
Exported from_script(const ExportOptions& options, const fs::path& path, const Weights& file,
                     const std::string& origin_text) {
  const ScriptOrigin origin = script_origin_from(origin_text, path.string());
  const std::string instead = fmt::format(
      "put it back, or name the experiment with the model's new place: trireme export EXPERIMENT.toml "
      "--trust --set model.weights={}",
      options.experiment.experiment.string());
  std::error_code ignored;
  if (!fs::exists(origin.file, ignored))
    fail_user({origin.file.string(), "there is no such file", fmt::format("the model of {} is in it", path.string()),
               instead});
  options.experiment.check_trust(origin.file);
  ImportedModel imported = import_model(origin.file, origin.spec);
  if (imported.model.fingerprint() != origin.fingerprint)
    fail_user({origin.file.string(), "is another model than the run's",
               fmt::format("it has changed since {} was written", path.string()), instead});
  TensorMap weights = std::move(imported.initial_values);
  for (auto& [name, tensor] : match_weights(imported.model, file.tensors, {}, path.string()).tensors)
    weights.insert_or_assign(name, tensor);
  return {.name = origin.file.stem().string(),
          .script = origin.file,
          .model = std::move(imported.model),
          .weights = converted(std::move(weights), dtype_of(file.tensors)),
          .inputs = inputs_in(file, path.string())};
}

/// A folder without a file of weights is a killed run's or a checkpoint: the newest checkpoint has weights too. Errors
/// (user): there are no weights; those of checkpoint_weights.
WeightsPlace place_of_weights(const fs::path& path) {
  const auto found = checkpoint_weights(path, "resume the run to its end, and export its folder");
  if (!found) {
    const fs::path file = weights_file(path);
    return {file, file.stem().string()};
  }
  std::cout << found->note << '\n';
  return {found->file, found->model.empty() ? "model" : found->model};
}

/// `format`: weights alone need no model.
Exported from_weights(const ExportOptions& options, const std::string& format) {
  if (!options.experiment.set.empty())
    fail_user({"--set", options.experiment.set.front(), "there is no experiment whose key it could override",
               "name an experiment file"});
  const auto [path, name] = place_of_weights(options.experiment.experiment);
  Weights file = read_weights(path);
  const auto description = file.metadata.find(kModelKey), script = file.metadata.find(kScriptKey);
  if (script != file.metadata.end() && format != kSafetensors) return from_script(options, path, file, script->second);
  std::shared_ptr<const InputForm> inputs = inputs_in(file, path.string());
  if (description == file.metadata.end())
    return {.name = name, .weights = std::move(file.tensors), .inputs = std::move(inputs), .file = path};
  const ModelSpec spec = spec_from_text(description->second, path.string());
  Model model = make_model(spec);
  TensorMap weights = converted(match_weights(model, file.tensors, {}, path.string()).tensors, dtype_of(file.tensors));
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
               fmt::format("name an experiment of that model: trireme export EXPERIMENT.toml --set model.weights={}",
                           shell_quoted(fs::absolute(exported.file).string()))});
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
  const Exported exported = source.extension() == ".toml" ? from_experiment(options) : from_weights(options, format);
  const fs::path path = chosen_path(options, format, exported.name);
  if (options.raw) check_raw(exported, format, source.string());
  write(exported, format, path, source.string(), options.raw);
  std::cout << fmt::format("{}: {} of {}: {}\n", path.string(), format, exported.name,
                           in_words(exported, format, options.raw));
  return 0;
}

}  // namespace trireme
