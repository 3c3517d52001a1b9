#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "base/counted.h"
#include "base/memory.h"
#include "cli/commands.h"
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

}  // namespace

int run_verify(const VerifyOptions& options) {
  RunSpec experiment{options.experiment.read()};
  experiment.precision = precision_of(options, experiment.precision);
  const TaskData data = open_data(experiment.data);
  check_batch(experiment, data);
  const Model model = with_initial_weights(experiment, build_model(experiment, data));
  install_memory_accounting();
  refuse_policy(options.plan, "--plan");
  const Plan plan = choose_plan(options.plan, options.experiment.devices, experiment, model);
  const VerifyResult result = verify(experiment, model, data, plan, options.steps);

  size_t width = std::string("parameter").size();
  for (const VerifyRow& row : result.rows) width = std::max(width, row.parameter.size());
  std::string text = fmt::format("{} against one device: {} on {}, {}, {}\n", plan.in_short(model), model.name(),
                                 data.source, counted(result.steps, "step"), name_of(experiment.precision));
  for (const std::string& note : experiment.model_findings.notes) text += experiment.model_name + ": " + note + "\n";
  if (model.initial_values()) text += model.initial_values()->report;
  if (!result.note.empty()) text += result.note + "\n";
  std::cout << wrap_lines(text, columns_of_output(STDOUT_FILENO, 0));
  std::cout << fmt::format("{:<{}}  {:>12}  {:>12}\n", "largest relative difference", std::max(width, size_t(27)),
                           "value", "gradient");
  for (const VerifyRow& row : result.rows)
    std::cout << fmt::format("{:<{}}  {:>12.2e}  {:>12.2e}\n", row.parameter, std::max(width, size_t(27)),
                             row.parameter_difference, row.gradient_difference);
  std::cout << fmt::format("{:<{}}  {:>12.2e}\n", "loss", std::max(width, size_t(27)), result.loss_difference);
  std::cout << fmt::format("{} (tolerance {:.0e})\n", result.ok() ? "equal" : "DIFFERENT", result.tolerance);
  return result.ok() ? 0 : 1;
}

}  // namespace trireme
