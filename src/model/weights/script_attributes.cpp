#include "model/weights/script_attributes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "model/weights/weights.h"
#include "trireme/error.h"

namespace trireme {
namespace {

using Kind = PickleValue::Kind;
using Names = std::set<std::string>;

// Limits far above any real model. A malicious file may contain one module twice, that one another twice, and so on.
constexpr int kDeepest = 200;  // nesting of modules
constexpr size_t kMostAttributes = 1'000'000;
constexpr size_t kLongestName = 1000;

/// Adds the names in a line `  __parameters__ = ["weight", "bias", ]`.
void add_listed(std::string_view line, Names* names) {
  for (size_t open = line.find('"'); open != std::string_view::npos;) {
    const size_t close = line.find('"', open + 1);
    if (close == std::string_view::npos) return;
    names->emplace(line.substr(open + 1, close - open - 1));
    open = line.find('"', close + 1);
  }
}

/// Returns the names that a class's code lists; nullopt if it has no such lists. `code`: lines "class C(Module):"
/// without indentation, each followed by the class's body.
std::optional<Names> listed_names(std::string_view code, std::string_view class_name) {
  const std::string heading = fmt::format("class {}(", class_name);
  std::optional<Names> names;
  bool within = false;
  while (!code.empty()) {
    const std::string_view line = code.substr(0, code.find('\n'));
    code.remove_prefix(std::min(code.size(), line.size() + 1));
    if (!line.empty() && line.front() != ' ') within = line.starts_with(heading);
    if (!within || !(line.starts_with("  __parameters__ = [") || line.starts_with("  __buffers__ = ["))) continue;
    if (!names) names.emplace();
    add_listed(line, &*names);
  }
  return names;
}

class AttributeCollector {
 public:
  AttributeCollector(TorchArchive& archive, const std::filesystem::path& path) : archive_(archive), path_(path) {}

  void visit(const PickleValue& module, const std::string& prefix, int depth) {
    if (!module.state || !module.state->is(Kind::dict)) return;
    const std::optional<Names>& names = names_of(module.callee_name());
    for (const auto& [key, value] : module.state->entries) {
      if (!key->is(Kind::text)) continue;
      if (depth == kDeepest || ++attributes_ > kMostAttributes || prefix.size() + key->text.size() > kLongestName)
        fail(prefix);
      const std::string name = prefix + key->text;
      if (value->callee_name().starts_with("__torch__.")) visit(*value, name + ".", depth + 1);
      else if (!names || names->contains(key->text)) found.push_back({name, value});
    }
  }

  std::vector<ScriptAttribute> found;

 private:
  [[noreturn]] void fail(const std::string& module) const {
    fail_user({.where = path_.string(),
               .what = fmt::format("module \"{}\"", printable(module)),
               .why = fmt::format(
                   "modules are nested deeper than {}, have names longer than {} or more than {} attributes together",
                   kDeepest, kLongestName, kMostAttributes),
               .next = "the file is damaged: get it again or save it anew"});
  }

  /// `type`: "__torch__.torch.nn.modules.linear.Linear".
  const std::optional<Names>& names_of(std::string_view type) {
    const auto [entry, added] = names_.try_emplace(std::string(type));
    if (!added) return entry->second;
    const size_t dot = type.rfind('.');
    std::string file = fmt::format("code/{}.py", type.substr(0, dot));
    std::replace(file.begin(), file.end() - 3, '.', '/');
    if (archive_.has(file)) entry->second = listed_names(archive_.text(file), type.substr(dot + 1));
    return entry->second;
  }

  TorchArchive& archive_;
  const std::filesystem::path& path_;
  size_t attributes_ = 0;
  std::map<std::string, std::optional<Names>> names_;
};

}  // namespace

std::vector<ScriptAttribute> script_attributes(const PickleValue& root, TorchArchive& archive,
                                               const std::filesystem::path& path) {
  AttributeCollector collector(archive, path);
  collector.visit(root, "", 0);
  return std::move(collector.found);
}

}  // namespace trireme
