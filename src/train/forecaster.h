// Forecasts for a run on this machine: layers as measured, workers and links at their present speed, on the simulator's
// clock. Candidates are named plans made for those speeds, and plans of the exact planner.
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
  /// `initial` and the experiment's strategies on as many workers are always candidates. Measures the layers in the
  /// constructor, before training begins, so that no outlook has to; this takes some seconds. The experiment and the
  /// model must outlive this object.
  PlanForecaster(const RunSpec& experiment, const Model& model, const Plan& initial);

  /// Returns the links and memory that the experiment states at first; all workers are equally fast.
  Conditions at_first() const;

  /// In addition to the constant candidates: the strategies' plans for these conditions and the exact planner's best
  /// plan, on all workers and, if some are slower than others, on the faster ones alone; if memory is limited, also
  /// plans that save memory. Plans are omitted if they do not suit the batch or the number of workers, or if their
  /// curve differs from that of one device (schedules without flush, compression).
  Outlook outlook(const Conditions& now, const std::string& current) override;
  const Plan& plan(const std::string& name) const override { return find(name).plan; }

 private:
  struct Candidate {
    std::string name;
    Plan plan;
    std::vector<int> workers;  ///< by rank: the worker of the run
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
