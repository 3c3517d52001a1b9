#include "cli/predict_subject.h"

#include <fmt/format.h>

#include <iostream>
#include <utility>

#include "data/open.h"
#include "experiment/batches.h"
#include "train/trainer.h"

namespace trireme {

TaskData data_to_predict(const DataSpec& spec, Progress* progress) {
  TaskData data = in_phase(progress, "reading the data", [&] { return open_data_or_shape(spec); });
  if (!has_samples(*data.train))
    std::cerr << fmt::format("trireme: data: {}; loading is predicted to take no time\n", data.source);
  return data;
}

namespace {

TaskData data_of(const RunSpec& experiment, Progress& progress) {
  TaskData data = data_to_predict(experiment.data, &progress);
  check_batch(experiment, data);
  return data;
}

}  // namespace

PredictSubject::PredictSubject(RunSpec of, const CostSourceOptions& costs, Progress& progress)
    : experiment(std::move(of)),
      data(data_of(experiment, progress)),
      model(in_phase(&progress, "building the model", [&] { return build_model(experiment, data); })),
      predictions(in_phase(&progress, "measuring links and layers",
                           [&] { return Predictions(experiment, model, data, costs); })) {}

}  // namespace trireme
