// Where each layer of a model stands in training: what its inputs hold, and which gradients are asked of it. What a
// measurement of the layer by itself must know, and by which layers that cost the same are told to be equal.
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
  const ValueKind& value(NodeId node) const { return values_[size_t(node)]; }  ///< of any node, inputs too

  /// Equal for calls that cost the same per sample: kind, attributes, shapes, what the inputs hold, which gradients are
  /// asked, option, degree, precision. An option under which every worker does the whole work alone counts as degree 1.
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

/// Every worker computes everything by itself, as one that is alone does.
bool is_whole(const ShardingOption& option);

}  // namespace trireme
