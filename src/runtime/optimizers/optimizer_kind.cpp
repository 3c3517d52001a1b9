#include "runtime/optimizers/optimizer_kind.h"

#include <fmt/format.h>

#include "base/text.h"
#include "trireme/error.h"

namespace trireme {

const std::vector<const OptimizerKind*>& optimizer_kinds() {
  static const std::vector<const OptimizerKind*> kinds{&kSgd, &kAdam, &kAdamW, &kAdagrad, &kRmsprop, &kLars, &kLamb};
  return kinds;
}

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const OptimizerKind* kind : optimizer_kinds()) names.emplace_back(kind->name);
  return names;
}

const OptimizerKind* parse_optimizer(std::string_view text, std::string_view key) {
  for (const OptimizerKind* kind : optimizer_kinds())
    if (text == kind->name) return kind;
  fail_user({std::string(key), fmt::format("\"{}\"", text), "is not an optimizer",
             fmt::format("use {}", join(optimizer_names()))});
}

}  // namespace trireme
