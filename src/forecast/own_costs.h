// Layer costs in which a user's own times replace predicted or measured ones.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "base/mutex.h"
#include "cost/layer_costs.h"
#include "forecast/own_times_file.h"
#include "trireme/plan.h"

namespace trireme {

/// The seconds of a row are divided among its layers in proportion to their predicted seconds. So with the row's
/// samples and tensor degree, the sum over the layers is exactly the row's. For other numbers of samples the predicted
/// seconds are multiplied by the same factor (own over predicted seconds); between two rows with different samples, by
/// a factor that is interpolated linearly. A tensor degree without rows uses the factors of the nearest degree. A row
/// holds for every kind of device. Layers without a row, memory and updates stay as predicted. Own times contain all
/// launches.
class OwnCosts final : public LayerCosts {
 public:
  /// The model must outlive this object. `plan`: its stages are those of the rows, and its splits share a block's
  /// seconds among its layers; null: each layer has the first split that divides its work, and `times` are not of
  /// stages. Errors (user), with the row's line: no layer or stage of that name; a layer that two rows cover.
  OwnCosts(const Model& model, std::shared_ptr<const LayerCosts> predicted, const OwnTimes& times, const Plan* plan);

  LayerCost seconds(NodeId node, const ShardingOption& option, int tensor, int64_t samples,
                    int kind = -1) const override;
  LayerMemory memory(NodeId node, const ShardingOption& option, int tensor, int64_t samples) const override;
  double update_seconds(int64_t elements, int contributors, int kind = -1) const override;
  double update_crowding(int contributors) const override;
  int cost_class(NodeId node) const override;

 private:
  /// Layers that share the seconds of a row.
  struct Group {
    std::vector<NodeId> layers;
    std::vector<const OwnTime*> rows;  ///< of the same layers, ascending by tensor degree, then by samples
    int cost_class = 0;                ///< groups of the same number have equal rows and equal layers
  };
  /// Own seconds over predicted ones; where nothing is predicted, seconds per sample that a layer takes.
  struct Factor {
    double scale = 1, per_sample = 0;
    double of(double predicted, int64_t samples) const { return scale * predicted + per_sample * double(samples); }
    static Factor between(const Factor& a, const Factor& b, double at);
  };
  struct Factors {
    Factor forward, backward, input, weight;
    static Factors between(const Factors& a, const Factors& b, double at);
  };
  /// The factors that a row gives for its group's calls.
  struct RowFactors {
    int64_t samples = 1;
    Factors factors;
  };

  void add_stages(const Plan& plan);
  void add_blocks();
  void add_row(const OwnTime& row, const std::vector<NodeId>& layers);
  [[noreturn]] void fail_twice(const OwnTime& row, const OwnTime& other, NodeId layer) const;
  void number_classes();
  ShardingOption option_of(NodeId node, const std::string& split, int tensor) const;
  const std::vector<RowFactors>& factors_of(int group, NodeId node, const ShardingOption& option, int tensor,
                                            int kind) const TRIREME_EXCLUDES(mutex_);
  Factors factors_of_row(const Group& group, const OwnTime& row, NodeId node, const std::string& split, int kind) const;

  const Model& model_;
  const std::shared_ptr<const LayerCosts> predicted_;
  const std::vector<OwnTime> rows_;
  std::vector<LayerPlan> plan_;  ///< by node; empty: no plan
  std::vector<Group> groups_;
  std::vector<int> group_of_;                                  ///< by node; -1: as predicted
  using Key = std::tuple<int, NodeId, std::string, int, int>;  // group, node, option, tensor, kind
  mutable Mutex mutex_;
  mutable std::map<Key, std::vector<RowFactors>> known_ TRIREME_GUARDED_BY(mutex_);
};

}  // namespace trireme
