#include "cli/show_layers.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "base/units.h"
#include "cli/predict_subject.h"
#include "cli/text_table.h"
#include "cli/usual_models.h"
#include "experiment/read_experiment.h"
#include "experiment/run_spec.h"
#include "model/import/describe.h"
#include "report/width.h"
#include "trireme/error.h"
#include "zoo/imported.h"

namespace trireme {
namespace {

constexpr int kDefaultDegree = 2;
const std::vector<size_t> kNumbers{3, 4, 5};  // columns

ImportedModel model_for_experiment(const PlanShowOptions& options) {
  RunSpec experiment{
      read_experiment(options.experiment.experiment, options.experiment.overrides())};  // its own model is not opened
  const bool in_file = names_script_file(options.plan);
  if (in_file) options.experiment.check_trust(options.plan);
  experiment.model_file = in_file ? options.plan : "";
  experiment.model_name = in_file ? experiment.model_file.filename().string() : options.plan;
  experiment.model_options.clear();
  experiment.model_where = "plan show";
  Model model = build_model(experiment, data_to_predict(experiment.data));
  return {.model = std::move(model), .notes = experiment.model_findings.notes};
}

std::string count(double value) { return value == 0 ? "" : format_count(value); }

std::string layers_in_words(const ImportedModel& imported, int degree) {
  const Model& model = imported.model;
  std::vector<std::vector<std::string>> cells;
  double flops = 0;
  int64_t bytes = 0;
  int opaque = 0;
  const std::vector<LayerRow> rows = describe_layers(model, degree);
  for (const LayerRow& row : rows) {
    cells.push_back({row.name, row.kind, to_string(row.output), count(double(row.parameters)), count(row.forward_flops),
                     format_bytes(row.activation_bytes), row.splits});
    flops += row.forward_flops;
    bytes += row.activation_bytes;
    opaque += row.opaque;
  }
  std::string text = fmt::format(
      "{}: {} layers{}, {} parameters, {} FLOP forward and {} of outputs for a sample of {}\n", model.name(),
      rows.size(), opaque > 0 ? fmt::format(" ({} opaque)", opaque) : "", format_count(double(model.parameter_count())),
      format_count(flops), format_bytes(bytes), to_string(model.node(0).sample_shape));
  for (const std::string& note : imported.notes) text += "note: " + note + "\n";
  return wrap_lines(text, columns_of_output(STDOUT_FILENO, 0)) +
         text_table(
             {"layer", "kind", "output", "parameters", "FLOP", "bytes", fmt::format("on a tensor axis of {}", degree)},
             cells, kNumbers);
}

}  // namespace

bool names_model(const std::string& word) {
  if (names_script_file(word)) return true;
  const auto names = model_names();
  return std::find(names.begin(), names.end(), word) != names.end();
}

int show_layers(const PlanShowOptions& options) {
  if (options.program || options.worker >= 0 || !options.json.empty())
    fail_user({"plan show", options.plan, "a model has no schedule: --program, --worker and --json are for plans",
               fmt::format("name a plan: trireme plan show data --model {}", options.plan)});
  const std::vector<int>& devices = options.experiment.devices;
  const int degree = devices.empty() ? kDefaultDegree : std::max(devices.front(), kDefaultDegree);
  const bool alone = options.experiment.experiment.empty();
  std::cout << layers_in_words(alone ? model_of_options(options, options.plan) : model_for_experiment(options), degree);
  return 0;
}

}  // namespace trireme
