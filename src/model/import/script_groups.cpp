// Groups operators without a layer of their own into ScriptLayers. Operators that cannot be split form groups as long
// as possible. Operators that can be split stay alone, or are grouped if this loses no way to split.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "model/import/draft.h"
#include "model/import/merge.h"
#include "model/import/script_layer.h"

namespace trireme::torchscript {
namespace {

/// Operators with one result that other layers read.
struct Group {
  std::set<int> operators;
  ValueId root = -1;
};

class Grouping {
 public:
  explicit Grouping(Draft& draft) : draft_(draft) {}

  void run() {
    check_all();
    for (int index = int(draft_.graph.operators.size()); index-- > 0;) {
      if (draft_.is_covered(index)) continue;
      const Operator& op = draft_.op(index);
      for (auto result = op.results.rbegin(); result != op.results.rend(); ++result) place(index, *result);
    }
    for (auto group = groups_.rbegin(); group != groups_.rend(); ++group) add_layer(*group);
  }

 private:
  /// Returns the groups with an operator that reads a value.
  std::set<size_t> groups_reading(ValueId id) const {
    std::set<size_t> found;
    for (int reader : draft_.readers(id))
      for (size_t g = 0; g < groups_.size(); ++g)
        if (groups_[g].operators.contains(reader)) found.insert(g);
    return found;
  }

  /// Adds an operator, and those before it whose results cannot pass between layers.
  void include(Group& group, int index) const {
    if (!group.operators.insert(index).second) return;
    for (const Argument& argument : draft_.op(index).arguments)
      for_each_value(argument, [&](ValueId id) {
        if (!draft_.form(id) && draft_.value(id).kind == Value::Kind::result) include(group, draft_.value(id).producer);
      });
  }

  Group group_of(int index, ValueId root) const {
    Group group{{}, root};
    include(group, index);
    return group;
  }

  bool is_read_by_layers(ValueId id) const {
    const auto& readers = draft_.readers(id);
    return id == draft_.graph.output ||
           std::any_of(readers.begin(), readers.end(), [&](int reader) { return draft_.is_covered(reader); });
  }

  void place(int index, ValueId result) {
    const std::set<size_t> readers = groups_reading(result);
    const bool is_boundary = draft_.form(result).has_value() && is_read_by_layers(result);
    if (!draft_.form(result)) {  // computed in each group that reads it
      for (size_t g : readers) include(groups_[g], index);
      return;
    }
    if (readers.empty() && !is_boundary) return;
    if (!is_boundary && readers.size() == 1 && fits(index, groups_[*readers.begin()])) {
      include(groups_[*readers.begin()], index);
      return;
    }
    groups_.push_back(group_of(index, result));
  }

  void check_all() const {
    for (int index = 0; index < int(draft_.graph.operators.size()); ++index)
      if (!draft_.is_covered(index))
        for (ValueId result : draft_.op(index).results)
          if (result == draft_.graph.output || !draft_.readers(result).empty()) check(index, result);
  }

  /// Throws a user error for operators that a ScriptLayer does not support.
  void check(int index, ValueId result) const {
    const Operator& op = draft_.op(index);
    const auto fail = [&](const char* why, const char* next) { fail_at(draft_.file.path, *op.node, why, next); };
    const Value& value = draft_.value(result);
    if (value.from_data && value.batch_dim < 0)
      fail("mixes the samples of a batch", "samples must not depend on each other (except through batch norm)");
    const bool drops = op.name.find("dropout") != std::string::npos || op.name == kDropSamples;
    if (drops && op.training_flag)
      fail("is a kind of dropout that no layer supports", "use nn.Dropout or nn.Dropout2d on activations");
    const Argument* mean = op.find("running_mean");
    if (mean != nullptr && op.training_flag)
      fail(
          "changes running statistics but is not a batch norm layer (one with weight and bias, over [n, c], "
          "[n, c, l] or [n, c, h, w], used once)",
          "write it as nn.BatchNorm1d or nn.BatchNorm2d with affine=True");
    const bool recurrent =
        op.name == "aten::lstm" || op.name == "aten::gru" || op.name == "aten::rnn_tanh" || op.name == "aten::rnn_relu";
    if (recurrent && op.training_flag && number_argument(op, "dropout").value_or(0) > 0)
      fail("has dropout between its layers", "write its layers one by one, with nn.Dropout between them");
  }

  /// True if an operator may join the group that is the only reader of its result: both cannot be split, or together
  /// they can be split in as many ways as the group alone.
  bool fits(int index, const Group& group) const {
    Group joined = group;
    include(joined, index);
    const Group alone = group_of(index, draft_.op(index).result());
    const auto both = layer_of(joined, "", ""), before = layer_of(group, "", ""), single = layer_of(alone, "", "");
    const bool opaque = before->unsplit() >= 0;
    if (opaque != (single->unsplit() >= 0)) return false;
    if (opaque) return true;
    return ways(*both) >= ways(*before) && ways(*both) >= ways(*single);
  }

  static size_t ways(const ScriptLayer& layer) {
    size_t count = 0;
    for (int degree : {2, 3}) count += layer.sharding_options({}, degree).size();
    return count;
  }

  std::unique_ptr<ScriptLayer> layer_of(const Group& group, std::string name, std::string kind,
                                        std::string opaque_because = "") const {
    Script script;
    script.dtype = draft_.file.dtype;
    script.opaque_because = std::move(opaque_because);
    std::set<ValueId> made;
    for (int index : group.operators) {
      const Operator& op = draft_.op(index);
      script.operators.push_back(op);
      script.operators.back().node = nullptr;  // the layer outlives the file's module
      for (ValueId result : op.results) {
        made.insert(result);
        script.values.emplace(result, draft_.value(result));
      }
    }
    std::set<ValueId> read;
    for (const Operator& op : script.operators)
      for (const Argument& argument : op.arguments)
        for_each_value(argument, [&](ValueId id) {
          if (!made.contains(id) && read.insert(id).second) add_port(script, id);
        });
    script.output = {group.root, *draft_.form(group.root)};
    return std::make_unique<ScriptLayer>(std::move(name), std::move(kind), std::move(script));
  }

  void add_port(Script& script, ValueId id) const {
    const Value& value = draft_.value(id);
    script.values.emplace(id, value);
    if (value.kind == Value::Kind::parameter) {
      script.parameter_values.push_back(id);
      script.parameters.push_back({value.name, value.sizes, init_like(draft_.file.parameters.at(value.name))});
      return;
    }
    check_internal(draft_.form(id).has_value() || value.producer >= 0, "the data can go from layer to layer");
    if (!draft_.form(id))
      fail_at(
          draft_.file.path, *draft_.op(value.producer).node,
          "returns what cannot pass between layers: a mask, complex numbers, or parameters repeated for every "
          "sample",
          "let broadcasting repeat parameters (x + weight), and use masks only where they are created (masked_fill)");
    script.inputs.push_back({id, *draft_.form(id)});
  }

  /// Distribution for weights that are drawn: mean and deviation of the file's.
  static Init init_like(const at::Tensor& values) {
    const at::Tensor numbers = values.to(at::kDouble);
    const double mean = numbers.numel() > 0 ? numbers.mean().item<double>() : 0;
    const double deviation = numbers.numel() > 1 ? numbers.std().item<double>() : 0;
    return deviation > 0 && std::isfinite(deviation) ? Init::normal(mean, deviation) : Init::constant(mean);
  }

  void add_layer(const Group& group) {
    const std::unique_ptr<ScriptLayer> unnamed = layer_of(group, "", "");
    const Operator& heaviest = unnamed->heaviest();
    const bool alone = group.operators.size() == 1, opaque = unnamed->unsplit() >= 0;
    const std::string because =
        opaque ? place_of(*draft_.op(*std::next(group.operators.begin(), unnamed->unsplit())).node) : "";
    const std::string what = heaviest.name == "aten::batch_norm" ? "fixed_batch_norm" : short_name(heaviest);
    Item item{.layer = layer_of(group, draft_.new_name(heaviest, what), opaque && !alone ? "script" : what, because),
              .inputs = {},
              .output = group.root,
              .operators = {group.operators.begin(), group.operators.end()}};
    for (const Port& port : unnamed->inputs()) item.inputs.push_back(port.value);
    draft_.items.push_back(std::move(item));
  }

  Draft& draft_;
  std::vector<Group> groups_;
};

}  // namespace

void add_script_layers(Draft& draft) { Grouping(draft).run(); }

}  // namespace trireme::torchscript
