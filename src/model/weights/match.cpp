#include "model/weights/match.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "base/units.h"
#include "model/weights/weights.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr size_t kUnmatchedNamesShown = 5;

/// A tensor that a model needs from a file.
struct Wanted {
  std::string name;
  Shape shape;
  Shape file_shape = {};                  ///< see ParameterSpec
  std::vector<std::string> aliases = {};  ///< other names of a tied parameter
};

/// "lm_head.weight" for the parameter "wte.weight" of the layer "lm_head".
std::string own_name(const std::string& layer, const std::string& parameter) {
  return fmt::format("{}.{}", layer, parameter.substr(parameter.rfind('.') + 1));  // npos + 1 is 0
}

/// Returns parameters in the order of their first use, then buffers.
std::vector<Wanted> wanted_tensors(const Model& model) {
  std::map<std::string, std::vector<std::string>> layers;  // layers of each parameter
  for (const Node& node : model.nodes())
    if (node.layer)
      for (const ParameterSpec& spec : node.layer->parameters()) layers[spec.name].push_back(node.name);
  std::vector<Wanted> wanted;
  for (const ParameterSpec& spec : model.parameters()) {
    Wanted& entry = wanted.emplace_back(Wanted{spec.name, spec.shape, spec.file_shape});
    const auto& holders = layers.at(spec.name);
    for (const std::string& layer : holders) {
      const std::string own = own_name(layer, spec.name);
      if (holders.size() > 1 && !layers.contains(own)) entry.aliases.push_back(own);
    }
  }
  for (const BufferSpec& spec : model.buffers()) wanted.push_back({spec.name, spec.shape});
  return wanted;
}

int64_t product(const Shape& shape, size_t first, size_t count) {
  const auto from = shape.begin() + std::ptrdiff_t(first);
  return std::accumulate(from, from + std::ptrdiff_t(count), int64_t{1}, std::multiplies<>());
}

/// True if `merged` is `split` with its leading dims merged into one: [4 * hidden, in] and [4, hidden, in].
bool is_leading_merge(const Shape& split, const Shape& merged) {
  if (merged.empty() || split.size() <= merged.size()) return false;
  const size_t leading = split.size() - merged.size() + 1;
  return product(split, 0, leading) == merged[0] &&
         std::equal(split.begin() + std::ptrdiff_t(leading), split.end(), merged.begin() + 1);
}

bool fits(const Wanted& wanted, const Shape& found) {
  return wanted.shape == found || (!wanted.file_shape.empty() && wanted.file_shape == found) ||
         is_leading_merge(wanted.shape, found) || is_leading_merge(found, wanted.shape);
}

/// True if a tensor that the model does not need is one that a module of PyTorch or Hugging Face derives from its own
/// shape: batch norm's counter, the positions 0, 1, 2, ..., GPT-2's causal mask [1, 1, positions, positions] and the
/// mask's value, Llama's frequencies of the rotary positions.
bool is_derived(std::string_view name, const at::Tensor& tensor) {
  const auto ends = [&](std::string_view word) { return name == word || name.ends_with(fmt::format(".{}", word)); };
  return ends("num_batches_tracked") || ends("position_ids") || (ends("attn.bias") && tensor.dim() == 4) ||
         (ends("attn.masked_bias") && tensor.dim() == 0) || (ends("rotary_emb.inv_freq") && tensor.dim() == 1);
}

/// Names of a norm's parameters in files that were converted from TensorFlow, as the published ones of BERT, and
/// PyTorch's.
constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kOlderWords{
    {{".gamma", ".weight"}, {".beta", ".bias"}}};

std::string in_newer_words(const std::string& name) {
  for (const auto& [older, newer] : kOlderWords)
    if (name.ends_with(older)) return name.substr(0, name.size() - older.size()).append(newer);
  return name;
}

/// Finds the model's names for those of a file.
class FileNames {
 public:
  FileNames(const std::vector<Wanted>& wanted, const TensorMap& file, const std::string& prefix)
      : file_(file), prefix_(prefix) {
    for (const Wanted& entry : wanted) {
      names_.insert(entry.name);
      names_.insert(entry.aliases.begin(), entry.aliases.end());
    }
    first_ = left_out_component(wanted);
  }

  /// `name`: without the prefix. Returns it unchanged if the model has no such tensor.
  std::string in_model(const std::string& name) const {
    if (names_.contains(name)) return name;
    const std::string newer = in_newer_words(name);
    std::vector<std::string> candidates{first_ + name};
    if (!has(newer)) candidates = {newer, first_ + name, first_ + newer};
    for (const std::string& candidate : candidates)
      if (names_.contains(candidate) && !has(candidate)) return candidate;
    return name;
  }

 private:
  bool has(const std::string& name) const { return file_.contains(prefix_ + name); }

  /// Files of the inner module of a Hugging Face model, as the published ones of GPT-2, lack the first component of the
  /// names ("transformer."). Returns it if more than half of the model's tensors are in the file under names without
  /// it; else "".
  std::string left_out_component(const std::vector<Wanted>& wanted) const {
    std::map<std::string, size_t> found;
    for (const Wanted& entry : wanted) {
      const size_t dot = entry.name.find('.');
      if (dot == entry.name.npos || has(entry.name)) continue;
      const std::string rest = entry.name.substr(dot + 1);
      if (names_.contains(rest)) continue;
      bool is_in_file = has(rest);
      for (const auto& [older, newer] : kOlderWords)
        if (rest.ends_with(newer))
          is_in_file = is_in_file || has(rest.substr(0, rest.size() - newer.size()).append(older));
      if (is_in_file) ++found[entry.name.substr(0, dot + 1)];
    }
    for (const auto& [component, count] : found)
      if (2 * count > wanted.size()) return component;
    return "";
  }

  const TensorMap& file_;
  const std::string& prefix_;
  std::set<std::string> names_;  ///< of the model's tensors
  std::string first_;            ///< "transformer.", or ""
};

class Matcher {
 public:
  Matcher(const std::vector<Wanted>& wanted, const TensorMap& file, const MatchOptions& options,
          const std::string& source)
      : options_(options), source_(source) {
    const FileNames names(wanted, file, options.prefix);
    for (const auto& [name, tensor] : file) {
      if (!name.starts_with(options.prefix)) {
        result.unexpected.push_back(name);
        continue;
      }
      const std::string own = name.substr(options.prefix.size()), in_model = names.in_model(own);
      if (!left_.emplace(in_model, &tensor).second) result.unexpected.push_back(name);
      else if (in_model != own) result.renamed.push_back(fmt::format("{} as {}", name, in_model));
    }
  }

  void match(const Wanted& wanted) {
    std::vector<std::pair<std::string, const at::Tensor*>> found;
    take(wanted.name, &found);
    for (const std::string& alias : wanted.aliases) take(alias, &found);
    const auto is_prefix = [&](const std::string& prefix) { return wanted.name.starts_with(prefix); };
    if (std::any_of(options_.skip.begin(), options_.skip.end(), is_prefix)) {
      result.skipped.push_back(wanted.name);
      return;
    }
    if (found.empty() && is_no_tensor(wanted)) {
      result.mismatched.push_back({wanted.name, "no tensor", to_string(wanted.shape)});
      return;
    }
    if (found.empty()) {
      result.missing.push_back(wanted.name);
      return;
    }
    const at::Tensor& tensor = *found.front().second;
    const Shape shape = tensor.sizes().vec();
    for (const auto& [name, copy] : found) check_equal(found.front().first, tensor, name, *copy);
    if (!at::isFloatingType(tensor.scalar_type()))
      result.mismatched.push_back({wanted.name,
                                   fmt::format("{} {}", at::toString(tensor.scalar_type()), to_string(shape)),
                                   fmt::format("floating {}", to_string(wanted.shape))});
    else if (!fits(wanted, shape))
      result.mismatched.push_back({wanted.name, to_string(shape), to_string(wanted.shape)});
    else result.tensors.emplace(wanted.name, shape == wanted.shape ? tensor : tensor.reshape(wanted.shape));
  }

  /// Call once, after the last match().
  void finish() {
    for (const auto& [name, tensor] : left_)
      (is_derived(name, *tensor) ? result.derived : result.unexpected).push_back(options_.prefix + name);
  }

  WeightsMatch result;

 private:
  bool is_no_tensor(const Wanted& wanted) const {
    const auto& names = options_.not_tensors;
    const auto listed = [&](const std::string& name) {
      return std::find(names.begin(), names.end(), options_.prefix + name) != names.end();
    };
    return listed(wanted.name) || std::any_of(wanted.aliases.begin(), wanted.aliases.end(), listed);
  }

  void take(const std::string& name, std::vector<std::pair<std::string, const at::Tensor*>>* found) {
    const auto entry = left_.find(name);
    if (entry == left_.end()) return;
    found->emplace_back(name, entry->second);
    left_.erase(entry);
  }

  void check_equal(const std::string& first, const at::Tensor& a, const std::string& second,
                   const at::Tensor& b) const {
    if (&a == &b || (a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() && at::equal(a, b))) return;
    fail_user({.where = source_,
               .what = fmt::format("tensors \"{}\" and \"{}\" differ", printable(first), printable(second)),
               .why = "the model has one parameter for both",
               .next = "use a model that does not tie them, or a file where they are equal"});
  }

  const MatchOptions& options_;
  const std::string& source_;
  /// file tensors that are not matched yet: by the model's names, or by the file's without the prefix
  std::map<std::string, const at::Tensor*> left_;
};

std::vector<std::string> describe(const std::vector<Mismatch>& mismatched) {
  std::vector<std::string> lines;
  for (const Mismatch& entry : mismatched)
    lines.push_back(fmt::format("{} is {}, not {}", entry.name, entry.in_file, entry.in_model));
  return lines;
}

/// Returns the first of the names with their count; "" if there are none.
std::string summary(std::string_view what, const std::vector<std::string>& names) {
  if (names.empty()) return "";
  const std::vector<std::string> first(names.begin(),
                                       names.begin() + std::ptrdiff_t(std::min(kUnmatchedNamesShown, names.size())));
  std::vector<std::string> shown;
  for (const std::string& name : first) shown.push_back(printable(name));
  return fmt::format("{} {} ({}{})", names.size(), what, join(shown), names.size() > first.size() ? ", ..." : "");
}

void check_skip(const std::vector<Wanted>& wanted, const Model& model, const std::vector<std::string>& skip) {
  for (const std::string& prefix : skip) {
    if (std::any_of(wanted.begin(), wanted.end(), [&](const Wanted& entry) { return entry.name.starts_with(prefix); }))
      continue;
    std::vector<std::string> names;
    for (const Wanted& entry : wanted) names.push_back(entry.name);
    fail_user({.where = "weights_skip",
               .what = fmt::format("\"{}\"", printable(prefix)),
               .why = fmt::format("no name of model \"{}\" begins with it", model.name()),
               .next = fmt::format("its names are {}", list_names(names, kUnmatchedNamesShown))});
  }
}

/// If the file's names are the model's with a prefix, returns that prefix, for example "module."; else "".
std::string hidden_prefix(const std::vector<Wanted>& wanted, const TensorMap& file) {
  for (const auto& [name, tensor] : file)
    for (const Wanted& entry : wanted)
      if (name.size() > entry.name.size() && name.ends_with(entry.name) &&
          name[name.size() - entry.name.size() - 1] == '.')
        return name.substr(0, name.size() - entry.name.size());
  return "";
}

/// Throws the error of a file that must not be loaded under the rule, if any.
void check(const WeightsMatch& match, const Model& model, const std::vector<Wanted>& wanted, const TensorMap& file,
           const MatchOptions& options, const std::string& source) {
  const bool strict = options.rule == MatchOptions::Rule::strict;
  const bool nothing = match.tensors.empty() && match.skipped.size() < wanted.size();
  if (!nothing && (!strict || match.is_complete())) return;
  std::vector<std::string> faults;
  for (const std::string& fault :
       {summary("missing", match.missing), summary("of another shape or dtype", describe(match.mismatched)),
        summary("unexpected", match.unexpected)})
    if (!fault.empty()) faults.push_back(fault);
  const std::string prefix = nothing && options.prefix.empty() ? hidden_prefix(wanted, file) : "";
  std::string next = "use the model that the file belongs to, or load it in part (weights_match = \"partial\")";
  if (nothing) next = "check that the file belongs to this model";
  if (!prefix.empty())
    next = fmt::format("the file's names seem to be the model's with a prefix: set weights_prefix = \"{}\"",
                       printable(prefix));
  fail_user({.where = source,
             .what = fmt::format("{} fits model \"{}\"", nothing ? "nothing" : "not everything", model.name()),
             .why = join(faults),
             .next = std::move(next)});
}

}  // namespace

WeightsMatch match_weights(const Model& model, const TensorMap& file, const MatchOptions& options,
                           const std::string& source) {
  const std::vector<Wanted> wanted = wanted_tensors(model);
  check_skip(wanted, model, options.skip);
  Matcher matcher(wanted, file, options, source);
  for (const Wanted& entry : wanted) matcher.match(entry);
  matcher.finish();
  check(matcher.result, model, wanted, file, options, source);
  return std::move(matcher.result);
}

std::string render(const WeightsMatch& match, const Model& model, const std::string& source) {
  double values = 0;
  for (const auto& [name, tensor] : match.tensors) values += double(tensor.numel());
  const size_t all = match.tensors.size() + match.missing.size() + match.mismatched.size() + match.skipped.size();
  std::string text = fmt::format("{}: {} of {} tensors of model \"{}\" ({} values)\n", source, match.tensors.size(),
                                 all, model.name(), format_count(values));
  for (const std::string& line :
       {summary("left at their initial values, of another shape in the file", describe(match.mismatched)),
        summary("left at their initial values, missing in the file", match.missing),
        summary("left at their initial values, as requested", match.skipped),
        summary("read under another name", match.renamed), summary("in the file only", match.unexpected),
        summary("in the file and not needed", match.derived)})
    if (!line.empty()) text += fmt::format("  {}\n", line);
  return text;
}

}  // namespace trireme
