#include "cli/experiment_header.h"

#include <fmt/format.h>

#include <ctime>

#include "base/machine.h"
#include "base/text.h"
#include "forecast/predictions.h"

namespace trireme {

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  char text[sizeof "2026-01-31T23:59:59Z"];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  return text;
}

ExperimentResult experiment_header(const Experiment& experiment, const TaskData& data, const Model& model) {
  ExperimentResult result;
  result.experiment = experiment.name;
  result.model = experiment.model_name;
  result.data_source = data.source;
  result.generated_data = data.generated;
  result.precision = name_of(experiment.precision);
  result.batch = awaits_devices(experiment) ? 0 : experiment.batch;  // each row has its own
  if (experiment.batch_per_device > 0) result.batch_per_device = experiment.batch_per_device;
  result.seed = experiment.seed;
  result.machine = summary(inspect_machine(false));
  result.started = utc_now();
  describe_own_price(experiment, result);
  if (model.initial_values()) result.initial_values = lines_of(model.initial_values()->report);
  return result;
}

}  // namespace trireme
