// Forecasts for a run of this machine: layers as measured, workers and links at their present speed, on the simulator's
// clock. Candidates are named plans made for those speeds, and those that the exact planner finds.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiment/run_spec.h"
#include "forecast/predict.h"
#include "program/program.h"
#include "train/adapter.h"

namespace trireme {

class PlanForecaster final : public Forecaster {
 public:
  /// Candidates are always `initial` and the experiment's strategies on as many workers. Measures what layers take now,
  /// before anybody trains, so that no outlook has to: some seconds. The experiment and the model outlive it.
  PlanForecaster(const RunSpec& experiment, const Model& model, const Plan& initial);

  /// What the experiment says of links and memory at first; workers are alike.
  Conditions at_first() const;

  /// Besides the constant candidates: for these conditions the strategies' plans and the exact planner's best, on all
  /// workers and, where some are slower than others, on the faster ones alone; where memory is limited also plans that
  /// save it. Left out are plans that suit neither batch nor number of workers, and those whose curve is not that of
  /// one device (schedules without flush, compression).
  Outlook outlook(const Conditions& now, const std::string& current) override;
  const Plan& plan(const std::string& name) const override { return find(name).plan; }

 private:
  struct Candidate {
    std::string name;
    Plan plan;
    std::vector<int> workers;  ///< of the run, by rank
    Program program;
    bool is_constant = false;
  };
  const Candidate& find(const std::string& name) const;
  void add(const std::string& name, const Plan& plan, const std::vector<int>& workers, bool is_constant);
  void add_strategies(const std::vector<std::string>& strategies, const CostSource& source,
                      const std::vector<int>& workers, bool is_constant);
  void add_planned(const Conditions& now, const std::vector<int>& order, double seconds);
  void find_candidates(const Conditions& now, const std::string& current, double seconds);
  CostSource source_for(const Conditions& now, const std::vector<int>& workers) const;
  Forecast forecast(const Candidate& candidate, const Conditions& now, const Candidate& current) const;

  const RunSpec& experiment_;
  const Model& model_;
  int devices_ = 1;
  int cores_ = 1;
  CostSource source_;  ///< of all workers
  std::vector<Candidate> candidates_;
};

}  // namespace trireme
