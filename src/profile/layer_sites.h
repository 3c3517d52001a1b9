// The context of each layer of a model in training: the kinds of its inputs, and which gradients it must compute. A
// measurement of a single layer needs these facts, and layers of equal cost are found by them.
#pragma once

#include <string>
#include <vector>

#include "profile/layer_site.h"
#include "trireme/model.h"

namespace trireme {

/// All layers of a model, which must outlive it. Immutable; thread-safe.
class LayerSites {
 public:
  LayerSites(const Model& model, SiteOptions options);

  const Model& model() const { return *model_; }
  const SiteOptions& options() const { return options_; }
  const LayerSite& site(NodeId node) const { return sites_[size_t(node)]; }
  const ValueKind& value(NodeId node) const { return values_[size_t(node)]; }  ///< of any node, model inputs included

  /// A key that is equal for calls with equal cost per sample. It contains the kind, attributes, shapes, kinds of
  /// inputs, needed gradients, option, degree and precision. An option under which each worker does the whole work
  /// counts as degree 1.
  std::string key(NodeId node, const ShardingOption& option, int tensor) const;

 private:
  void find_inputs();
  void find_values();
  ValueKind made_by(NodeId node) const;

  const Model* model_;
  SiteOptions options_;
  std::vector<LayerSite> sites_;    // by node
  std::vector<ValueKind> values_;   // by node
  std::vector<std::string> names_;  // by node: the key without option and degree
};

/// True if each worker computes the whole layer, as a single worker does.
bool is_whole(const ShardingOption& option);

}  // namespace trireme
