// Forecasts for a run with emulated links: layers as measured on this machine, transfers at the links' present speed, on the simulator's
// clock.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "train/adapter.h"
#include "train/experiment.h"
#include "train/predict.h"

namespace trireme {

class LinkForecaster final : public Forecaster {
 public:
  /// Candidates are `initial` and the experiment's strategies on as many workers, but for those that do not fit, and those whose curve is not
  /// that of one device (schedules without flush, compression). Measures what layers take now, before anybody trains: some seconds. The
  /// experiment and the model outlive it. Errors (user): the experiment has no links.
  LinkForecaster(const Experiment& experiment, const Model& model, const Plan& initial);

  /// What the experiment says of the links at first.
  LinkEstimate first_links() const;
  /// Names of the candidates, `initial` first.
  std::vector<std::string> candidates() const;

  std::vector<Forecast> forecasts(const LinkEstimate& links, const std::string& current) override;
  const Plan& plan(const std::string& name) const override { return candidates_.at(index_of(name)).plan; }

 private:
  struct Candidate {
    std::string name;
    Plan plan;
    Program program;
  };
  size_t index_of(const std::string& name) const;
  void add(const std::string& name, const Plan& plan);
  void add_strategy(const std::string& name);

  const Experiment& experiment_;
  const Model& model_;
  CostSource source_;
  int cores_ = 1;
  std::vector<Candidate> candidates_;
};

}  // namespace trireme
