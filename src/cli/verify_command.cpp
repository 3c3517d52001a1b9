#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "base/counted.h"
#include "base/memory.h"
#include "cli/commands.h"
#include "cli/described_devices.h"
#include "cli/plan_choice.h"
#include "experiment/batches.h"
#include "experiment/run_spec.h"
#include "plan/strategy.h"
#include "report/width.h"
#include "train/verify.h"
#include "trireme/error.h"

namespace trireme {
namespace {

/// `read`: of the experiment with its --set. Errors (user): an unknown precision; one in --set and one in --precision.
Precision precision_of(const VerifyOptions& options, Precision read) {
  const std::vector<std::string>& set = options.experiment.set;
  const bool is_set =
      std::any_of(set.begin(), set.end(), [](const std::string& s) { return s.starts_with("precision="); });
  if (is_set && !options.precision.empty())
    fail_user({"--precision", options.precision, "--set gives a precision too", "leave one of the two out"});
  if (is_set) return read;
  return options.precision.empty() ? Precision::fp64 : parse_precision(options.precision, "--precision");
}

/// `by_step`: the tolerance depends on the step and is shown.
std::string differences_in_words(const VerifyResult& result, bool by_step) {
  const std::string title = by_step ? "difference, and what is allowed" : "largest relative difference";
  size_t width = title.size();
  for (const VerifyRow& row : result.rows) width = std::max(width, row.parameter.size());
  const auto cell = [&](const VerifyDifference& difference) {
    return fmt::format("  {:>12.2e}", difference.value) +
           (by_step ? fmt::format("  {:>8.1e}", difference.allowed) : std::string());
  };
  const std::string gap = by_step ? std::string(10, ' ') : "";
  std::string text = fmt::format("{:<{}}  {:>12}{}  {:>12}\n", title, width, "value", gap, "gradient");
  for (const VerifyRow& row : result.rows)
    text += fmt::format("{:<{}}", row.parameter, width) + cell(row.weights) + cell(row.gradient) + "\n";
  text += fmt::format("{:<{}}", "loss", width) + cell(result.loss) + "\n";
  const char* more = by_step ? ", or 3 times what bf16 changes on one device" : "";
  return text + fmt::format("{} (tolerance {:.0e}{})\n", result.ok() ? "equal" : "DIFFERENT", result.tolerance, more);
}

}  // namespace

int run_verify(const VerifyOptions& options) {
  RunSpec experiment{options.experiment.read_for_devices()};
  refuse_policy(options.plan, "--plan");
  experiment = of_row(experiment, options.plan, experiment.devices.front());
  experiment.precision = precision_of(options, experiment.precision);
  const TaskData data = open_data(experiment.data);
  check_batch(experiment, data);
  const Model model = with_initial_weights(experiment, build_model(experiment, data));
  install_memory_accounting();
  const Plan plan = choose_plan(options.plan, options.experiment.devices, experiment, model);
  const VerifyResult result = verify(experiment, model, data, plan, options.steps);

  std::string text = fmt::format("{} against one device: {} on {}, {}, {}\n", plan.in_short(model), model.name(),
                                 data.source, counted(result.steps, "step"), name_of(experiment.precision));
  if (const std::string batch = batch_in_words(experiment); !batch.empty()) text += "batch: " + batch + "\n";
  for (const std::string& note : experiment.model_findings.notes) text += experiment.model_name + ": " + note + "\n";
  if (model.initial_values()) text += model.initial_values()->report;
  if (!result.note.empty()) text += result.note + "\n";
  std::cout << wrap_lines(text, columns_of_output(STDOUT_FILENO, 0));
  std::cout << differences_in_words(result, experiment.precision == Precision::bf16);
  return result.ok() ? 0 : 1;
}

}  // namespace trireme
